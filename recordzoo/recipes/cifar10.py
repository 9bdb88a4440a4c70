"""How CIFAR-10 becomes records: the pixels of its pickled batches, `cifar10.records`, training images first."""

import hashlib
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import ArgumentError, SourceError
from recordzoo.recipes.base import Arrangement, Blob, BlobField, Recipe, Side, Stored
from recordzoo.recipes.raw_files import files_of_part
from recordzoo.recipes.unpickle import PickledArray, unpickle
from recordzoo.sources.archive import ArchiveSource
from recordzoo.sources.download import RemoteFile
from recordzoo.sources.member import Member, Source
from recordzoo.sources.tree import TreeSource

FOLDER = "cifar-10-batches-py"
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)
META = "batches.meta"
MD5S = {  # torchvision.datasets.CIFAR10: train_list, test_list, meta
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
}


def recipe(
    part: str = "", raw_files: tuple[RemoteFile, ...] | None = None, md5s: Mapping[str, str] | None = None
) -> "CIFAR10":
    """Return the recipe.

    Args:
        part: "", the only one.
        raw_files: Where the archive comes from; the catalogue's by default.
        md5s: The MD5 of each batch; the original's by default.
    """
    if part:
        raise ArgumentError(f"Unknown value {part!r} for argument part. The only valid value is ''.")
    return CIFAR10(files_of_part("cifar10", part, raw_files), tuple((md5s or MD5S).items()))


@dataclass(frozen=True)
class CIFAR10(Recipe):
    """60,000 images of 32 by 32 pixels; positions 0..49,999 are for training."""

    raw_files: tuple[RemoteFile, ...]
    md5s: tuple[tuple[str, str], ...]

    dataset = "cifar10"
    part = ""
    fields = {"image": BlobField("raw", (32, 32, 3), "|u1")}  # noqa: RUF012 - declared by Recipe, never changed
    expansion = 1.46  # 60,000 images of 4,120 bytes in a shard, from an archive of 170,498,071 bytes

    def find(self, root: Path) -> Source | None:
        """See `Recipe`."""
        names = [f"{FOLDER}/{name}" for name in (*TRAIN, *TEST, META)]
        if all((root / name).is_file() for name in names):
            return TreeSource(root, names)
        path = root / self.raw_files[0].name
        return ArchiveSource(path) if path.is_file() else None

    def looked_for(self, root: Path) -> list[str]:
        """See `Recipe`."""
        return [f"{FOLDER}/", self.raw_files[0].name]

    def extract(self, member: Member) -> Iterator[Blob | Side]:
        """See `Recipe`.

        Raises:
            SourceError: A batch is not the original one, or not a batch.
        """
        name = member.name.removeprefix(f"{FOLDER}/")
        if name not in (*TRAIN, *TEST, META):
            return
        data = member.read()
        expected = dict(self.md5s).get(name)
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if expected and found != expected:
            raise SourceError(f"{member.name} is damaged: its MD5 is {found}, not {expected}. Get it again.")
        content = load_pickle(data, member.name)
        if name == META:
            yield Side("classes", json.dumps(_texts(content.get("label_names"), member.name)).encode())
            return
        pixels = _pixels(content.get("data"), member.name)
        labels = _labels(content.get("labels"), len(pixels), member.name)
        yield Side(f"labels/{name}", json.dumps(labels).encode())
        for index, image in enumerate(pixels):
            yield Blob("image", f"{name}/{index:05d}", image.tobytes())

    def arrange(self, stored: Stored, sides: Mapping[str, bytes]) -> Arrangement:
        """See `Recipe`."""
        slot_of = {key: slot for slot, key in enumerate(stored.keys.get("image", ()))}
        names: list[str] = []
        target: list[int] = []
        for batch in (*TRAIN, *TEST):
            labels = json.loads(_side(sides, f"labels/{batch}"))
            names += [f"{batch}/{index:05d}" for index in range(len(labels))]
            target += labels
        num_train = sum(not name.startswith(TEST) for name in names)
        positions = np.arange(len(names), dtype=np.int64)
        return Arrangement(
            names=names,
            blobs={"image": np.array([slot_of[name] for name in names], np.int64)},
            arrays={"target": np.array(target, np.int64)},
            splits={"train": positions[:num_train], "test": positions[num_train:]},
            classes=json.loads(_side(sides, "classes")),
        )


# Any: what a batch holds is looked at by the callers.
def load_pickle(data: bytes, name: str) -> dict[str, Any]:
    """Unpickle a batch, allowing only dicts, lists, strings, numbers and arrays.

    Raises:
        SourceError: It is no pickle of a dict, or asks for anything else; the message says for what.
    """
    try:
        content = unpickle(data, dicts=True, text=True)
    except pickle.UnpicklingError as err:
        raise SourceError(f"{name} is not a batch of CIFAR: {err}.") from err
    if not isinstance(content, dict):
        raise SourceError(f"{name} is not a batch of CIFAR: it holds a {type(content).__name__}, not a dict.")
    return {key: value.values if isinstance(value, PickledArray) else value for key, value in content.items()}


def _pixels(data: object, name: str) -> NDArray[np.uint8]:
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072:
        raise SourceError(f"{name}: 'data' is not an array of uint8 [n, 3072].")
    # Planes of red, green, blue, as the batches have them -> rows of pixels.
    return np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _labels(labels: object, count: int, name: str) -> list[int]:
    if not isinstance(labels, list) or len(labels) != count or not all(isinstance(label, int) for label in labels):
        raise SourceError(f"{name}: 'labels' is not a list of {count} numbers.")
    return labels


def _texts(texts: object, name: str) -> list[str]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise SourceError(f"{name}: 'label_names' is not a list of names.")
    return texts


def _side(sides: Mapping[str, bytes], name: str) -> bytes:
    if name not in sides:
        missing = name.removeprefix("labels/") if name != "classes" else META
        raise SourceError(f"CIFAR-10: {FOLDER}/{missing} is missing in the raw data.")
    return sides[name]


def md5s_of(lists: Sequence[Sequence[str]], meta: Mapping[str, str]) -> dict[str, str]:
    """Read torchvision's ``train_list + test_list`` and ``meta`` as the MD5 of each batch."""
    return {**{entry[0]: entry[1] for entry in lists}, meta["filename"]: meta["md5"]}
