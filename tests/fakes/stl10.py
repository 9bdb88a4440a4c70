"""STL-10 by code: raw bytes in column-major order, labels from 1, folds and class names as text."""

import numpy as np

from tests.fakes.fake import Case, Fake, md5, tar
from tests.fakes.mutations import LABELLED_ARRAYS
from tests.fakes.scale import scaled

CLASSES = ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files: dict[str, bytes] = {}
    for split, count in (("train", scaled(12)), ("test", scaled(6)), ("unlabeled", scaled(5))):
        # Few colours, so that the archive stays small.
        files[f"{split}_X.bin"] = np.repeat(
            rng.integers(0, 256, (count, 3, 96, 12), dtype=np.uint8), 8, axis=3
        ).tobytes()
        if split != "unlabeled":
            files[f"{split}_y.bin"] = rng.integers(1, 11, count).astype(np.uint8).tobytes()
    folds = [sorted(rng.permutation(scaled(12))[: scaled(4)].tolist()) for _ in range(10)]
    files["fold_indices.txt"] = "".join(" ".join(map(str, fold)) + " \n" for fold in folds).encode()
    files["class_names.txt"] = "".join(f"{name}\n" for name in CLASSES).encode()
    hashes = {name: md5(data) for name, data in files.items()}
    attributes = {
        "train_list": [[name, hashes[name]] for name in ("train_X.bin", "train_y.bin", "unlabeled_X.bin")],
        "test_list": [[name, hashes[name]] for name in ("test_X.bin", "test_y.bin")],
    }
    arguments = (
        {},
        {"folds": 3},
        {"split": "train+unlabeled"},
        {"split": "train+unlabeled", "folds": 9},
        {"split": "unlabeled"},
        {"split": "test"},
    )
    bad = ({"split": "val"}, {"split": None}, {"folds": 10}, {"folds": "1"})
    case = Case("STL10Record", arguments, bad, LABELLED_ARRAYS, attributes)
    archive = tar({f"stl10_binary/{name}": data for name, data in files.items()})
    return Fake("stl10", {"stl10_binary.tar.gz": archive}, [case])


FAKES = (_build(),)
