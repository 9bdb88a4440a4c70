"""MNIST and its relatives by code: IDX files, each compressed on its own; EMNIST's all in one zip."""

import gzip
import lzma
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets.utils import extract_archive

from tests.fakes.fake import Case, Fake, md5, zipped
from tests.fakes.mutations import TENSORS
from tests.fakes.scale import scaled

TYPES = {np.dtype(np.uint8): 8, np.dtype(np.int32): 12}
BOTH = ({}, {"train": False})


# Any: of either dtype.
def idx(array: NDArray[Any]) -> bytes:
    """Write an array as http://yann.lecun.com/exdb/mnist/ describes: magic number, dimensions, numbers, big-endian."""
    header = struct.pack(f">{1 + array.ndim}I", TYPES[array.dtype] << 8 | array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _digits(rng: np.random.Generator, count: int, classes: int = 10, first: int = 0) -> tuple[bytes, bytes]:
    images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = rng.integers(first, first + classes, count).astype(np.uint8)
    return idx(images), idx(labels)


def _mnist(dataset: str, name: str, seed: int) -> Fake:
    rng = np.random.default_rng(seed)
    files = {}
    for split, count in (("train", 13), ("t10k", 7)):
        images, labels = _digits(rng, scaled(count))
        files[f"{split}-images-idx3-ubyte.gz"] = packed(images)
        files[f"{split}-labels-idx1-ubyte.gz"] = packed(labels)
    return Fake(dataset, files, [Case(name, BOTH, mutations=TENSORS)])


def _emnist() -> Fake:
    rng = np.random.default_rng(4)
    classes = {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10}
    members = {"gzip/emnist-letters-mapping.txt": "".join(f"{i} {64 + i} {96 + i}\n" for i in range(1, 27)).encode()}
    for split, number in classes.items():
        for part, count in (("train", 9), ("test", 5)):
            images, labels = _digits(rng, scaled(count), number, first=split == "letters")
            members[f"gzip/emnist-{split}-{part}-images-idx3-ubyte.gz"] = packed(images)
            members[f"gzip/emnist-{split}-{part}-labels-idx1-ubyte.gz"] = packed(labels)
    arguments = [{"split": split, "train": train} for split in classes for train in (True, False)]
    bad = ({"split": "capitals"}, {"split": None})
    return Fake(
        "emnist", {"gzip.zip": zipped(members)}, [Case("EMNISTRecord", arguments, bad, TENSORS)], _unpack_emnist
    )


def _unpack_emnist(folder: Path) -> None:
    extract_archive(folder / "gzip.zip", folder)
    for path in (folder / "gzip").glob("*.gz"):
        extract_archive(path, folder)
    shutil.rmtree(folder / "gzip")


def _qmnist() -> Fake:
    rng = np.random.default_rng(5)
    files: dict[str, bytes] = {}
    # test10k is the first 10,000 of the test digits: a fake of fewer has all of them there, and none in test50k.
    for name, count, pack, ending in (
        ("qmnist-train", scaled(11), packed, "gz"),
        ("qmnist-test", 10_003, packed, "gz"),
        ("xnist", scaled(6), lzma.compress, "xz"),
    ):
        pixels = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        pixels[8:] = pixels[:1]  # compresses well
        labels = rng.integers(0, 10, (count, 8)).astype(np.int32)
        files[f"{name}-images-idx3-ubyte.{ending}"] = pack(idx(pixels))
        files[f"{name}-labels-idx2-int.{ending}"] = pack(idx(labels))
    arguments: list[Mapping[str, Any]] = [
        {},
        {"train": False, "what": "nist"},
        {"what": "nist", "compat": False},
        {"compat": False},
        {"what": "test50k"},
    ]
    case = Case("QMNISTRecord", arguments, [{"what": "all"}, {"what": 3}], TENSORS)
    return Fake("qmnist", files, [case])


FAKES = (
    _mnist("mnist", "MNISTRecord", 0),
    _mnist("fashion_mnist", "FashionMNISTRecord", 1),
    _mnist("kmnist", "KMNISTRecord", 2),
    _emnist(),
    _qmnist(),
)
__all__ = ["FAKES", "idx", "md5"]
