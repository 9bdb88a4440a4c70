"""MedMNIST by code, and a plain reading of it."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from torchvision.datasets import CIFAR10

from recordzoo.datasets.medmnist_recipe import CLASSES, SPLITS
from tests.fakes import reading
from tests.fakes.fake import Case, by, fake
from tests.fakes.mutations import ARRAYS
from tests.fakes.scale import scaled


class MedMNIST(reading.Reading, CIFAR10, name=tuple(CLASSES), split=SPLITS):  # type: ignore[misc]  # torchvision is untyped
    """What the authors' package reads, with samples as CIFAR10 has them."""

    def read(self, root: Path, name: str = "pathmnist", split: str = "train", size: int = 28) -> list[str]:
        if size not in (28, 64, 128, 224):
            raise ValueError(f"size must be 28, 64, 128 or 224; it is {size!r}.")
        with np.load(root / (f"{name}.npz" if size == 28 else f"{name}_{size}.npz")) as arrays:
            self.data, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"].astype(np.int64)
        self.targets = labels if labels.shape[1] > 1 else labels[:, 0].tolist()
        return list(CLASSES[name])

    def extra_repr(self) -> str:
        return f"Name: {self.name}\nSplit: {self.split}\nSize: {self.size}"


@fake(
    "medmnist",
    Case(
        "MedMNISTRecord",
        (
            {},
            {"name": "chestmnist", "split": "val"},
            {"name": "bloodmnist", "split": "test", "size": 64},
        ),
        (*by("name", "mnist", None), {"split": "valid"}, *by("size", 32, "28")),
        ARRAYS,
        sources=("archive",),
        theirs=MedMNIST,
    ),
    is_tree=True,  # numpy reads the raw files
)
def medmnist(rng: Generator) -> dict[str, bytes]:
    """A set in colour, one with several labels for each image, and one in a larger size; one is not compressed."""
    files = {}
    for name, shape, num_labels, write in (
        ("pathmnist", (28, 28, 3), 1, np.savez_compressed),
        ("chestmnist", (28, 28), 14, np.savez_compressed),
        ("bloodmnist_64", (64, 64, 3), 1, np.savez),
    ):
        arrays: dict[str, Any] = {}  # Any: arrays, as numpy's stub has them
        for split, count in (("train", 8), ("val", 5), ("test", 6)):
            most = 2 if num_labels > 1 else len(CLASSES[name.partition("_")[0]])
            arrays[f"{split}_images"] = rng.integers(0, 256, (scaled(count), *shape), dtype=np.uint8)
            arrays[f"{split}_labels"] = rng.integers(0, most, (scaled(count), num_labels), dtype=np.uint8)
        file = io.BytesIO()
        write(file, **arrays)
        files[f"{name}.npz"] = file.getvalue()
    return files
