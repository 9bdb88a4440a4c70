"""How MNIST, CIFAR and their relatives become records: IDX files, pickled batches, and .npy files."""

import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, read_npy, read_rows
from recordzoo.recipes.pickles import PickledArray, unpickle
from recordzoo.recipes.recipe import Stored, Table

_DTYPES = {0x08: ">u1", 0x0C: ">i4"}


# Any: of either dtype.
def read_idx(file: BinaryIO) -> Iterator[NDArray[Any]]:
    """Read an IDX file in chunks of samples (format: http://yann.lecun.com/exdb/mnist/)."""
    zero, dtype, dimensions = int.from_bytes(file.read(2)), *file.read(2)
    if zero or dtype not in _DTYPES:
        raise ValueError("it is not an IDX file of bytes or 32-bit integers")
    return read_rows(file, _DTYPES[dtype], np.frombuffer(file.read(4 * dimensions), ">u4").tolist())


class MNIST(ArraysRecipe):
    """A file of images and a file of labels for each split."""

    image_shape = (28, 28)
    splits = {
        split: [(f"{name}-images-idx3-ubyte", f"{name}-labels-idx1-ubyte")]
        for split, name in (("train", "train"), ("test", "t10k"))
    }

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        for values in read_idx(file):
            yield {"image": values} if "-images-" in name else {"target": values.astype(np.int64)}


class EMNIST(MNIST):
    """A part for each selection; all of them are in one zip. A tree may have one split only, as in torchvision."""

    splits = {
        split: [tuple(f"emnist-{{part}}-{split}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1"))]
        for split in ("train", "test")
    }
    required: Collection[str] = ()  # of such a tree; without them it is not the tree that is wanted

    @override
    def require(self, names: Collection[str]) -> None:
        self.required = names

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        whole = [group for (group,) in self.groups.values() if all((base / file).is_file() for file in group)]
        there = [file for group in whole for file in group]
        return there if there and set(there).issuperset(self.required) else None


class QMNIST(MNIST):
    """Labels are 8 numbers: the digit, the place of writing, and the writer."""

    splits = {
        part: [(f"{name}-images-idx3-ubyte", f"{name}-labels-idx2-int")]
        for part, name in (("train", "qmnist-train"), ("test", "qmnist-test"), ("nist", "xnist"))
    }

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        if self.part != "test":
            return table
        positions = np.arange(len(table.names), dtype=np.int64)
        return table.with_splits({"test10k": positions[:10_000], "test50k": positions[10_000:]})


# Any: lists of numbers or text, arrays.
def load_batch(data: bytes) -> dict[str, Any]:
    """Read a pickled dict of lists, text, numbers and arrays; nothing in it is executed.

    Raises:
        ValueError: It is no pickle of a dict, or asks for a class or function that no array needs.
    """
    try:
        content = unpickle(data, text=True)
    except pickle.UnpicklingError as err:
        raise ValueError(f"it cannot be unpickled ({err})"[:300]) from err
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not a dict")
    return {key: value.values if isinstance(value, PickledArray) else value for key, value in content.items()}


class CIFAR10(ArraysRecipe):
    """Batches of 10,000 images, each a pickled dict."""

    unpacked = "cifar-10-batches-py/"
    splits = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
    texts = ("batches.meta",)
    image_shape = (32, 32, 3)
    labels: ClassVar[str] = "labels"
    names: ClassVar[str] = "label_names"

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        batch = load_batch(file.read())
        planes = batch["data"].reshape(-1, 3, 32, 32)  # red, green, blue
        yield {"image": planes.transpose(0, 2, 3, 1), "target": np.array(batch[self.labels], np.int64)}

    @override
    def classes(self, texts: Mapping[str, bytes]) -> list[str]:
        return list(load_batch(texts[self.texts[0]])[self.names])


class CIFAR100(CIFAR10):
    """One batch a split; the labels are the fine ones."""

    unpacked = "cifar-100-python/"
    splits = {"train": ["train"], "test": ["test"]}
    texts = ("meta",)
    labels = "fine_labels"
    names = "fine_label_names"


CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    *("gaussian_blur", "saturate", "spatter", "speckle_noise"),
)
"""The 15 of the benchmark, then 4 more that its authors add for validation. A split has a "-" for each "_"."""


class CIFAR10C(ArraysRecipe):
    """A file of images for each corruption, five severities one after another, and one file of labels for all."""

    unpacked = "CIFAR-10-C/"
    image_shape = (32, 32, 3)
    splits = {name.replace("_", "-"): [(f"{name}.npy", "labels.npy")] for name in CORRUPTIONS}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        for values in read_npy(file):
            yield {"image": values} if values.ndim > 1 else {"target": values.astype(np.int64)}


class CIFAR100C(CIFAR10C):
    """The same files in another folder."""

    unpacked = "CIFAR-100-C/"


class CIFAR10_1(CIFAR10C):
    """A pair of files for each version, which is a part."""

    unpacked = ""
    splits = {"test": [("cifar10.1_{part}_data.npy", "cifar10.1_{part}_labels.npy")]}
