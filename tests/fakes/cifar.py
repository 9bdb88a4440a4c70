"""CIFAR-10 and CIFAR-100 by code: the real names, and batches pickled as Python 2 did in 2009; small and seeded."""

import io
import pickle
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from tests.fakes.fake import Case, Fake, fake, md5, tar
from tests.fakes.mutations import ARRAYS
from tests.fakes.scale import scaled

FOLDER = "cifar-10-batches-py"
ARCHIVE = "cifar-10-python.tar.gz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class _Python2Pickler(pickle._Pickler):  # type: ignore[misc,name-defined]  # the Python one: its steps can be replaced
    """Writes text as Python 2's byte strings, which only ``encoding="latin1"`` reads as text again."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_text(self, obj: str | bytes) -> None:
        data = obj if isinstance(obj, bytes) else obj.encode("latin1")
        self.write(b"T" + len(data).to_bytes(4, "little") + data)
        self.memoize(obj)

    dispatch[bytes] = save_text
    dispatch[str] = save_text


def python2_pickle(value: object) -> bytes:
    file = io.BytesIO()
    _Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def batches(images_per_batch: int = 7, seed: int = 0) -> dict[str, bytes]:
    """Make the files below ``cifar-10-batches-py/``."""
    images_per_batch, rng = scaled(images_per_batch), np.random.default_rng(seed)
    files = {}
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        files[name] = python2_pickle(
            {
                "batch_label": f"{name} of a fake",
                "labels": rng.integers(0, 10, images_per_batch).tolist(),
                "data": rng.integers(0, 256, (images_per_batch, 3072), dtype=np.uint8),
                "filenames": [f"{name}_{k:06d}.png" for k in range(images_per_batch)],
            }
        )
    files["batches.meta"] = python2_pickle(
        {"num_cases_per_batch": images_per_batch, "label_names": list(CLASSES), "num_vis": 3072}
    )
    files["readme.html"] = b"<html></html>"
    return files


# Any: lists and tables, as torchvision has them.
def lists(files: Mapping[str, bytes], key: str = "label_names") -> dict[str, Any]:
    """Return the class attributes that make torchvision's class accept these batches; `key` has the names of labels."""
    (meta,) = (name for name in files if name.endswith("meta"))
    return {
        "train_list": [[name, md5(data)] for name, data in files.items() if name.startswith(("data_batch", "train"))],
        "test_list": [[name, md5(data)] for name, data in files.items() if name.startswith("test")],
        "meta": {"filename": meta, "key": key, "md5": md5(files[meta])},
    }


def packed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Pack batches, to the same bytes each time."""
    return {ARCHIVE: tar({f"{FOLDER}/{name}": data for name, data in files.items()})}


def build(images_per_batch: int = 7, seed: int = 0) -> Fake:
    """Make CIFAR-10 of so many images a batch."""
    return Fake("cifar10", packed(batches(images_per_batch, seed)), ())


def _cifar100() -> dict[str, bytes]:
    rng = np.random.default_rng(1)
    files = {}
    for name, count in (("train", scaled(23)), ("test", scaled(11))):
        batch = {
            "filenames": [f"picture_s_{k:06d}.png" for k in range(count)],
            "batch_label": f"{name} of a fake",
            "fine_labels": rng.integers(0, 100, count).tolist(),
            "coarse_labels": rng.integers(0, 20, count).tolist(),
            "data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
        }
        files[name] = python2_pickle(batch)
    names = {
        "fine_label_names": [f"kind {k}" for k in range(100)],
        "coarse_label_names": [f"group {k}" for k in range(20)],
    }
    files["meta"] = python2_pickle(names)
    return files


def _case(name: str, attributes: Any) -> Case:
    return Case(name, ({}, {"train": False}), mutations=ARRAYS, attributes=attributes)


@fake("cifar10", _case("CIFAR10Record", lambda _: lists(batches())))
def cifar10(_: Generator) -> dict[str, bytes]:
    """The archive of Python batches."""
    return packed(batches())


@fake("cifar100", _case("CIFAR100Record", lambda _: lists(_cifar100(), "fine_label_names")))
def cifar100(_: Generator) -> dict[str, bytes]:
    """As CIFAR-10, with two kinds of labels."""
    return {"cifar-100-python.tar.gz": tar({f"cifar-100-python/{name}": data for name, data in _cifar100().items()})}
