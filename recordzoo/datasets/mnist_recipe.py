"""How MNIST and its relatives become records: images and labels of IDX files."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits
from recordzoo.recipes.recipe import Stored, Table

_DTYPES = {0x08: ">u1", 0x0C: ">i4"}
_CHUNK = 4096


# Any: of either dtype.
def read_idx(file: BinaryIO) -> Iterator[NDArray[Any]]:
    """Read an IDX file in chunks of samples (format: http://yann.lecun.com/exdb/mnist/)."""
    zero, dtype, dimensions = int.from_bytes(file.read(2)), *file.read(2)
    if zero or dtype not in _DTYPES:
        raise ValueError("it is not an IDX file of bytes or 32-bit integers")
    count, *shape = np.frombuffer(file.read(4 * dimensions), ">u4").tolist()
    for start in range(0, count, _CHUNK):
        length = min(_CHUNK, count - start)
        size = length * int(np.prod(shape)) * np.dtype(_DTYPES[dtype]).itemsize
        yield np.frombuffer(file.read(size), _DTYPES[dtype]).reshape(length, *shape)


class MNIST(ArraysRecipe):
    """A file of images and a file of labels for each split."""

    image_shape = (28, 28)

    @property
    @override
    def splits(self) -> Splits:
        names = {"train": "train", "test": "t10k"}
        return {split: [(f"{name}-images-idx3-ubyte", f"{name}-labels-idx1-ubyte")] for split, name in names.items()}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        for values in read_idx(file):
            yield {"image": values} if "-images-" in name else {"target": values.astype(np.int64)}


class EMNIST(MNIST):
    """A part for each selection; all of them are in one zip. A tree may have one split only, as in torchvision."""

    required: Collection[str] = ()  # of such a tree; without them it is not the tree that is wanted

    @override
    def require(self, names: Collection[str]) -> None:
        self.required = names

    @property
    @override
    def splits(self) -> Splits:
        return {
            split: [tuple(f"emnist-{self.part}-{split}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1"))]
            for split in ("train", "test")
        }

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        whole = [group for (group,) in self.splits.values() if all((base / file).is_file() for file in group)]
        there = [file for group in whole for file in group]
        return there if there and set(there).issuperset(self.required) else None


class QMNIST(MNIST):
    """Labels are 8 numbers: the digit, the place of writing, and the writer."""

    @property
    @override
    def splits(self) -> Splits:
        name = "xnist" if self.part == "nist" else f"qmnist-{self.part}"
        return {self.part: [(f"{name}-images-idx3-ubyte", f"{name}-labels-idx2-int")]}

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        if self.part != "test":
            return table
        positions = np.arange(len(table.names), dtype=np.int64)
        return table.with_splits({"test10k": positions[:10_000], "test50k": positions[10_000:]})
