"""Datasets of arrays by code, in every format of theirs; and MedMNIST, with a plain reading of it."""

import bz2
import functools
import gzip
import io
import lzma
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from torchvision.datasets import CIFAR10
from torchvision.datasets.utils import extract_archive

from recordzoo import catalogue
from recordzoo.datasets.arrays_recipe import MEDMNIST_SPLITS
from tests.fakes import reading
from tests.fakes.fake import Case, by, fake, md5, tar, text, zipped
from tests.fakes.matlab import mat
from tests.fakes.mutations import ARRAYS, FILE_SAMPLES, LABELLED_ARRAYS, TENSORS, change, change_item
from tests.fakes.scale import scaled

Files = dict[str, bytes]

MEDMNIST = catalogue.entry("medmnist")


# Any: uint8 or int32.
def idx(array: NDArray[Any]) -> bytes:
    """Write an array as http://yann.lecun.com/exdb/mnist/ describes: magic number, dimensions, numbers, big-endian."""
    kind = {"uint8": 8, "int32": 12}[array.dtype.name]
    header = struct.pack(f">{1 + array.ndim}I", kind << 8 | array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


_packed = functools.partial(gzip.compress, mtime=0)


def _digits(rng: Generator, start: str, count: int, classes: int = 10, first: int = 0) -> Files:
    images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = rng.integers(first, first + classes, count).astype(np.uint8)
    return {
        f"{start}-images-idx3-ubyte.gz": _packed(idx(images)),
        f"{start}-labels-idx1-ubyte.gz": _packed(idx(labels)),
    }


def _mnist(rng: Generator) -> Files:
    return {**_digits(rng, "train", scaled(13)), **_digits(rng, "t10k", scaled(7))}


def _digits_case(name: str) -> Case:
    return Case(name, ({}, {"train": False}), mutations=TENSORS)


mnist = fake("mnist", _digits_case("MNISTRecord"))(_mnist)
fashion_mnist = fake("fashion_mnist", _digits_case("FashionMNISTRecord"), seed=1)(_mnist)
kmnist = fake("kmnist", _digits_case("KMNISTRecord"), seed=2)(_mnist)

_EMNIST = {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10}


def _unpack_emnist(folder: Path) -> None:
    extract_archive(folder / "gzip.zip", folder)
    for path in (folder / "gzip").glob("*.gz"):
        extract_archive(path, folder)
    shutil.rmtree(folder / "gzip")


@fake(
    "emnist",
    Case(
        "EMNISTRecord",
        [{"split": split, "train": train} for split in _EMNIST for train in (True, False)],
        by("split", "capitals", None),
        TENSORS,
    ),
    seed=4,
    unpack=_unpack_emnist,
)
def emnist(rng: Generator) -> Files:
    """All files of all splits in one zip."""
    members = {"gzip/emnist-letters-mapping.txt": text(f"{i} {64 + i} {96 + i}" for i in range(1, 27))}
    for split, number in _EMNIST.items():
        for part, count in (("train", 9), ("test", 5)):
            start = f"gzip/emnist-{split}-{part}"
            members |= _digits(rng, start, scaled(count), number, first=split == "letters")
    return {"gzip.zip": zipped(members)}


_QMNIST_CASES = (
    {},
    {"train": False, "what": "nist"},
    {"what": "nist", "compat": False},
    {"compat": False},
    {"what": "test50k"},
)


@fake("qmnist", Case("QMNISTRecord", _QMNIST_CASES, by("what", "all", 3), TENSORS), seed=5)
def qmnist(rng: Generator) -> Files:
    """test10k is the first 10,000 of the test digits: a fake of fewer has all of them there, and none in test50k."""
    files: Files = {}
    for name, count, pack, ending in (
        ("qmnist-train", scaled(11), _packed, "gz"),
        ("qmnist-test", 10_003, _packed, "gz"),
        ("xnist", scaled(6), lzma.compress, "xz"),
    ):
        pixels = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        pixels[8:] = pixels[:1]  # compresses well
        labels = rng.integers(0, 10, (count, 8)).astype(np.int32)
        files[f"{name}-images-idx3-ubyte.{ending}"] = pack(idx(pixels))
        files[f"{name}-labels-idx2-int.{ending}"] = pack(idx(labels))
    return files


def _svhn_lists(files: Mapping[str, bytes]) -> Mapping[str, Any]:
    return {"split_list": {name.partition("_")[0]: ["", name, md5(data)] for name, data in files.items()}}


@fake(
    "svhn",
    Case(
        "SVHNRecord",
        ({}, *by("split", "test", "extra")),
        by("split", "all", 1),
        LABELLED_ARRAYS,
        _svhn_lists,
        sources=("tree",),  # the raw files are no archives
    ),
)
def svhn(rng: Generator) -> Files:
    """The number of the image is on the last axis, and 10 is the digit 0."""
    files = {}
    for split, count in (("train", 12), ("test", 8), ("extra", 5)):
        images = rng.integers(0, 256, (32, 32, 3, scaled(count)), dtype=np.uint8)
        labels = rng.integers(1, 11, (scaled(count), 1)).astype(np.uint8)
        labels[0] = 10
        files[f"{split}_32x32.mat"] = mat(X=images, y=labels)
    return files


def _stl10_lists(_: Mapping[str, bytes]) -> Mapping[str, Any]:
    hashes = {name: md5(data) for name, data in _stl10_files().items()}
    return {
        "train_list": [[name, hashes[name]] for name in ("train_X.bin", "train_y.bin", "unlabeled_X.bin")],
        "test_list": [[name, hashes[name]] for name in ("test_X.bin", "test_y.bin")],
    }


def _stl10_files() -> Files:
    rng = np.random.default_rng(0)
    files: Files = {}
    for split, count in (("train", scaled(12)), ("test", scaled(6)), ("unlabeled", scaled(5))):
        # Few colours, so that the archive stays small.
        pixels = np.repeat(rng.integers(0, 256, (count, 3, 96, 12), dtype=np.uint8), 8, axis=3)
        files[f"{split}_X.bin"] = pixels.tobytes()
        if split != "unlabeled":
            files[f"{split}_y.bin"] = rng.integers(1, 11, count).astype(np.uint8).tobytes()
    folds = [sorted(rng.permutation(scaled(12))[: scaled(4)].tolist()) for _ in range(10)]
    files["fold_indices.txt"] = text(" ".join(map(str, fold)) + " " for fold in folds)
    files["class_names.txt"] = text(
        ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]
    )
    return files


_STL10_CASES = (
    {},
    {"folds": 3},
    {"split": "train+unlabeled"},
    {"split": "train+unlabeled", "folds": 9},
    *by("split", "unlabeled", "test"),
)
_STL10_BAD = (*by("split", "val", None), *by("folds", 10, "1"))


@fake("stl10", Case("STL10Record", _STL10_CASES, _STL10_BAD, LABELLED_ARRAYS, _stl10_lists))
def stl10(_: Generator) -> Files:
    """Raw bytes in column-major order, labels from 1, folds and class names as text."""
    return {"stl10_binary.tar.gz": tar({f"stl10_binary/{name}": data for name, data in _stl10_files().items()})}


def _libsvm(rng: Generator, count: int) -> bytes:
    lines = []
    for label in [4, 1, 10, *rng.integers(1, 11, count - 3).tolist()]:
        values = [-1.0, 1.0, *rng.uniform(-1, 1, 254).round(6).tolist()]
        pairs = " ".join(f"{index}:{value:g}" for index, value in enumerate(values, 1))
        lines.append(f"{label} {pairs} ")  # a space at the end of a line, as torchvision describes the format
    return bz2.compress(text(lines))


@fake("usps", Case("USPSRecord", ({}, {"train": False}), mutations=ARRAYS, sources=("archive",)), is_tree=True)
def usps(rng: Generator) -> Files:
    """torchvision reads the compressed files."""
    return {"usps.bz2": _libsvm(rng, scaled(12)), "usps.t.bz2": _libsvm(rng, scaled(7))}


@fake(
    "semeion",
    Case(
        "SEMEIONRecord",
        ({"download": False}, {}),  # by default torchvision would download what is missing
        mutations=LABELLED_ARRAYS,
        attributes=lambda files: {"md5_checksum": md5(files["semeion.data"])},
        sources=("tree",),  # the raw file is no archive
    ),
)
def semeion(rng: Generator) -> Files:
    """A row of 1,814 bytes for each digit."""
    rows = []
    for label in [7, *rng.integers(0, 10, scaled(12) - 1).tolist()]:
        pixels = "".join(f"{pixel:.4f} " for pixel in rng.integers(0, 2, 256))
        rows.append(pixels + "".join(f"{int(digit == label)} " for digit in range(10)) + "\r")
    return {"semeion.data": text(rows)}


def _hdf5(name: str, values: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w", track_order=False) as container:
        container.create_dataset(name, data=values, chunks=(min(len(values), 4), *values.shape[1:]), track_times=False)
    return _packed(file.getvalue())


_H5PY = r"^Selection can't process|^Indexing with None|^Field names only|^Cannot handle this data type"
_NO_H5PY = (_H5PY, "cannot be interpreted as an integer", "h5py may not be installed where records are read")


@fake("pcam", Case("PCAMRecord", ({}, *by("split", "val", "test")), by("split", "valid", None), differences=[_NO_H5PY]))
def pcam(rng: Generator) -> Files:
    """HDF5 files, each compressed with gzip on its own."""
    files = {}
    for split, count in (("train", 11), ("valid", 6), ("test", 5)):
        images = np.repeat(rng.integers(0, 256, (scaled(count), 12, 96, 3), dtype=np.uint8), 8, axis=1)
        labels = rng.integers(0, 2, (scaled(count), 1, 1, 1)).astype(np.uint8)
        files[f"camelyonpatch_level_2_split_{split}_x.h5.gz"] = _hdf5("x", images)
        files[f"camelyonpatch_level_2_split_{split}_y.h5.gz"] = _hdf5("y", labels)
    return files


def npy(videos: NDArray[np.uint8]) -> bytes:
    """Write a .npy file with a header of 96 bytes, as the real one's size says that it has; NumPy 2 writes 128."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {videos.shape}, }}".ljust(85) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + videos.tobytes()


_VIDEOS = {
    "data flipped": change("data", lambda data: data.flip(0)),
    "data shortened": change("data", lambda data: data[:3]),
    "a video replaced": change_item("data", 0, lambda data: data[2]),
    "data as an array": change("data", np.asarray),
}
_MOVING_MNIST_CASES = (
    {"split": "train"},
    {},
    {"split": "test"},
    {"split": "train", "split_ratio": 19},
    {"split": "test", "split_ratio": 19},
    {"split": "test", "split_ratio": 1},
    {"split_ratio": 3},
    {"split": "train", "split_ratio": True},  # an int to torchvision
)
_MOVING_MNIST_BAD = (*by("split", "val", 1), *by("split_ratio", 0, 20, 2.0))


@fake("moving_mnist", Case("MovingMNISTRecord", _MOVING_MNIST_CASES, _MOVING_MNIST_BAD, _VIDEOS, sources=("tree",)))
def moving_mnist(rng: Generator) -> Files:
    """20 frames of some videos, the frames first; the raw file is no archive."""
    return {
        "mnist_test_seq.npy": npy(np.repeat(rng.integers(0, 256, (20, scaled(5), 64, 1), dtype=np.uint8), 64, axis=3))
    }


_USAGES = scaled(1) * (["Training"] * 6 + ["PublicTest", "PrivateTest", "Training", "PublicTest"])


@functools.cache
def faces() -> Files:
    """Return FER2013's .csv files by name: the same faces in each form that torchvision knows."""
    rng = np.random.default_rng(0)
    heads = ("emotion,pixels,Usage", "emotion, Usage, pixels", '"emotion","pixels"', '"pixels"')
    fer, icml, train, test = ([head] for head in heads)
    for usage in _USAGES:
        face = np.repeat(rng.integers(0, 256, 48), 48)
        pixels, label = " ".join(map(str, face.tolist())), int(rng.integers(7))
        fer.append(f"{label},{pixels},{usage}")
        icml.append(f"{label},{usage},{pixels}")
        if usage == "Training":
            train.append(f'"{label}","{pixels}"')
        else:
            test.append(f'"{pixels}"')
    rows = {"fer2013.csv": fer, "icml_face_data.csv": icml, "train.csv": train, "test.csv": test}
    return {name: text(f"{line}\r" for line in lines) for name, lines in rows.items()}


_FACE_FILES = {"train": "train.csv", "test": "test.csv", "fer": "fer2013.csv", "icml": "icml_face_data.csv"}
_NO_FACES = (
    r"^train\.csv not found in \S+ or corrupted",
    r"^[\w.]+: no records and no raw data in .*looked for",
    "torchvision does not know of records, or of the archive",
)


@fake(
    "fer2013",
    Case(
        "FER2013Record",
        ({}, {"split": "test"}),
        by("split", "val", None),
        FILE_SAMPLES,
        lambda _: {"_RESOURCES": {kind: (name, md5(faces()[name])) for kind, name in _FACE_FILES.items()}},
        differences=[_NO_FACES],
    ),
)
def fer2013(_: Generator) -> Files:
    """The archive has one of the .csv files."""
    names = ("README", "fer2013.bib", "fer2013.csv")
    return {"fer2013.tar.gz": tar({f"fer2013/{name}": faces().get(name, b"about") for name in names})}


class MedMNIST(reading.Reading, CIFAR10, name=tuple(MEDMNIST.default_parts), split=MEDMNIST_SPLITS):  # type: ignore[misc]  # torchvision is untyped
    """What the authors' package reads, with samples as CIFAR10 has them."""

    def read(self, root: Path, name: str = "pathmnist", split: str = "train", size: int = 28) -> list[str]:
        if size not in (28, 64, 128, 224):
            raise ValueError(f"size must be 28, 64, 128 or 224; it is {size!r}.")
        with np.load(root / (f"{name}.npz" if size == 28 else f"{name}_{size}.npz")) as arrays:
            self.data, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"].astype(np.int64)
        self.targets = labels if labels.shape[1] > 1 else labels[:, 0].tolist()
        return list(MEDMNIST.part(name).classes)

    def extra_repr(self) -> str:
        return f"Name: {self.name}\nSplit: {self.split}\nSize: {self.size}"


@fake(
    "medmnist",
    Case(
        "MedMNISTRecord",
        ({}, {"name": "chestmnist", "split": "val"}, {"name": "bloodmnist", "split": "test", "size": 64}),
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
            most = 2 if num_labels > 1 else len(MEDMNIST.part(name.partition("_")[0]).classes)
            arrays[f"{split}_images"] = rng.integers(0, 256, (scaled(count), *shape), dtype=np.uint8)
            arrays[f"{split}_labels"] = rng.integers(0, most, (scaled(count), num_labels), dtype=np.uint8)
        file = io.BytesIO()
        write(file, **arrays)
        files[f"{name}.npz"] = file.getvalue()
    return files
