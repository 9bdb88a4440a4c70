"""How datasets of arrays of many kinds become records: HDF5, .mat, .npy, text, and images in a grid of factors."""

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.recipes.arrays import ArraysRecipe, Chunk, read_npy, read_rows, seekable
from recordzoo.recipes.recipe import NO_TARGET, Stored, Table
from recordzoo.records.arrays import MAX_HEADER_BYTES, header_of
from recordzoo.records.manifest import BlobSpec, FieldKind, FieldSpec

_CHUNK = 1024
_FACES = {"train": ("Training",), "test": ("PublicTest", "PrivateTest")}


class FER2013(ArraysRecipe):
    """Faces of a part, from the first existing one of three files; faces without a label have -1."""

    unpacked = "fer2013/"
    image_shape = (48, 48)
    splits = {part: ["fer2013.csv", "icml_face_data.csv", f"{part}.csv"] for part in _FACES}

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        there = [self.unpacked + file for file in self.files if (base / self.unpacked / file).is_file()]
        return there[:1] or None

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        text = io.TextIOWrapper(io.BufferedReader(file), newline="")  # type: ignore[type-var]  # it reads as raw ones do
        rows = csv.DictReader(text)
        rows.fieldnames = [column.strip() for column in rows.fieldnames or ()]  # " pixels", quoted or not
        faces = (row for row in rows if "Usage" not in row or row["Usage"] in _FACES[self.part])
        while chunk := list(islice(faces, _CHUNK)):
            pixels = np.array([np.fromstring(row["pixels"], np.int64, sep=" ") for row in chunk])
            if pixels.min() < 0 or pixels.max() > 255:
                raise ValueError("a pixel is not from 0 to 255")
            labels = [NO_TARGET if name == "test.csv" else int(row["emotion"]) for row in chunk]
            yield {"image": pixels.astype(np.uint8).reshape(-1, 48, 48), "target": np.array(labels, np.int64)}


_VIDEOS = 64
_FRAME_BYTES = 64 * 64


class MovingMNIST(ArraysRecipe):
    """Videos; a record has all frames of one."""

    image_shape = (20, 64, 64)
    splits = {"all": ["mnist_test_seq.npy"]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        with seekable(file) as whole:
            version, shape, is_fortran, dtype, start = header_of(whole.read(MAX_HEADER_BYTES))
            if version != (1, 0):
                raise ValueError(f"it is .npy of version {version}, not (1, 0)")
            if is_fortran or dtype != np.uint8 or shape[:1] + shape[2:] != self.image_shape:
                raise ValueError(f"it is an array {dtype} {shape}, not uint8 (20, n, 64, 64)")
            count = shape[1]
            for first in range(0, count, _VIDEOS):
                videos = np.empty((min(_VIDEOS, count - first), *self.image_shape), np.uint8)
                for frame in range(len(videos[0])):
                    whole.seek(start + (frame * count + first) * _FRAME_BYTES)
                    data = whole.read(len(videos) * _FRAME_BYTES)
                    videos[:, frame] = np.frombuffer(data, np.uint8).reshape(-1, 64, 64)
                yield {"image": videos}


class PCAM(ArraysRecipe):
    """Patches; label 1 means a metastasis in the centre."""

    package = "h5py"
    image_shape = (96, 96, 3)
    splits = {
        part: [(f"camelyonpatch_level_2_split_{name}_x.h5", f"camelyonpatch_level_2_split_{name}_y.h5")]
        for part, name in (("train", "train"), ("val", "valid"), ("test", "test"))
    }

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        import h5py

        with seekable(file) as whole, h5py.File(whole, "r") as container:
            if name.endswith("_y.h5"):
                yield {"target": container["y"][:, 0, 0, 0].astype(np.int64)}
                return
            for start in range(0, len(container["x"]), _CHUNK):
                yield {"image": container["x"][start : start + _CHUNK]}


class SEMEION(ArraysRecipe):
    """Digits; a line has 256 pixels (1 is ink) and a one-hot label of ten numbers."""

    image_shape = (16, 16)
    splits = {"all": ["semeion.data"]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        rows = np.loadtxt(file.read().decode("ascii").splitlines(), ndmin=2)
        images = (rows[:, :256] * 255).astype(np.uint8).reshape(-1, 16, 16)  # rounded as torchvision does
        yield {"image": images, "target": np.nonzero(rows[:, 256:])[1].astype(np.int64)}


_STL10_BYTES = 3 * 96 * 96


class STL10(ArraysRecipe):
    """Labelled and unlabelled photographs; -1 is the label of the latter. Folds of "train" are splits, too."""

    unpacked = "stl10_binary/"
    image_shape = (96, 96, 3)
    splits = {
        "train": [("train_X.bin", "train_y.bin")],
        "unlabeled": ["unlabeled_X.bin"],
        "test": [("test_X.bin", "test_y.bin")],
    }
    texts = ("class_names.txt", "fold_indices.txt")

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        if name.endswith("_y.bin"):
            yield {"target": np.frombuffer(file.read(), np.uint8).astype(np.int64) - 1}
            return
        while data := file.read(_CHUNK * _STL10_BYTES):
            images = np.frombuffer(data, np.uint8).reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)
            yield {"image": images, **({"target": np.full(len(images), -1)} if name.startswith("unl") else {})}

    @override
    def classes(self, texts: Mapping[str, bytes]) -> list[str] | None:
        names = texts.get("class_names.txt")
        return None if names is None else text_of(names, "stl10: class_names.txt").splitlines()

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        folds = text_of(sidecars.get("fold_indices.txt", b""), "stl10: fold_indices.txt").splitlines()
        positions = {f"fold{number}": np.array(fold.split(), np.int64) for number, fold in enumerate(folds)}
        return table.with_splits(positions)  # "train" begins at position 0


class SVHN(ArraysRecipe):
    """Digits; the label of the digit 0 is 10 in the file and 0 here, as in torchvision."""

    image_shape = (32, 32, 3)
    splits = {part: [f"{part}_32x32.mat"] for part in ("train", "test", "extra")}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        from scipy.io import loadmat

        with seekable(file) as whole:
            content = loadmat(whole)  # type: ignore[arg-type,unused-ignore]  # files, too
        labels = content["y"].astype(np.int64).reshape(-1)  # [n, 1] in the authors' files; any shape with n numbers
        yield {"image": content["X"].transpose(3, 0, 1, 2), "target": np.where(labels == 10, 0, labels)}


class USPS(ArraysRecipe):
    """Digits; a line is a label from 1 to 10 and 256 pairs ``index:value`` with values from -1 to 1."""

    image_shape = (16, 16)
    splits = {"train": ["usps"], "test": ["usps.t"]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        lines = file.read().decode().splitlines()
        for start in range(0, len(lines), _CHUNK):
            rows = [line.split() for line in lines[start : start + _CHUNK]]
            values = np.asarray([[pair.split(":")[-1] for pair in row[1:]] for row in rows], np.float32)
            images = ((values + 1) / 2 * 255).astype(np.uint8).reshape(-1, 16, 16)  # rounded as torchvision does
            yield {"image": images, "target": np.array([int(row[0]) - 1 for row in rows], np.int64)}


MEDMNIST_SIZES = (28, 64, 128, 224)
MEDMNIST_SPLITS = ("train", "val", "test")

_IN_COLOUR = ("pathmnist", "dermamnist", "retinamnist", "bloodmnist")


def medmnist_part(name: str, size: int) -> str:
    """Name the part of a set in a size: "pathmnist", "pathmnist-64"."""
    return name if size == MEDMNIST_SIZES[0] else f"{name}-{size}"


class MedMNIST(ArraysRecipe):
    """One set in one size. A label is a number, of ChestMNIST 14 numbers: which findings there are."""

    splits = {split: [(f"{split}_images.npy", f"{split}_labels.npy")] for split in MEDMNIST_SPLITS}

    @property
    @override
    def image_shape(self) -> tuple[int, ...]:  # type: ignore[override]  # a constant of other recipes
        name, _, size = self.part.partition("-")
        side = int(size or MEDMNIST_SIZES[0])
        return (side, side, 3) if name in _IN_COLOUR else (side, side)

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        for values in read_npy(file):
            if "_images" in name:
                yield {"image": values}
            else:
                yield {"target": (values[:, 0] if values.shape[1] == 1 else values).astype(np.int64)}

    @override
    def classes(self, texts: Mapping[str, bytes]) -> Sequence[str]:
        return self.entry.part(self.part.partition("-")[0]).classes

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        if table.arrays["target"].ndim == 1:
            return table
        return dataclasses.replace(
            table, classes=None, fields={"target": FieldSpec(FieldKind.MULTILABEL, tuple(table.classes or ()))}
        )


_DTYPES = {0x1E3D4C55: "<u1", 0x1E3D4C54: "<i4"}


class FactorsRecipe(ArraysRecipe):
    """Images with several labels. The class names in the catalogue are those of the first factor.

    Attributes:
        factors: Their names, as in the class.
    """

    factors: ClassVar[tuple[str, ...]]

    @override
    def classes(self, texts: Mapping[str, bytes]) -> None:
        """Return no class names: the catalogue's belong to one factor only."""

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        main = self.factors[0]
        names = FieldSpec(FieldKind.CLASS, self.entry.classes)
        return dataclasses.replace(super().build_table(stored, sidecars), fields={main: names}, default_target=main)


class DSprites(FactorsRecipe):
    """Sprites as PNG files of about 150 bytes: as pixels, each would take two pages of 4 KiB, and all of them 6 GB."""

    package = "h5py"
    image_shape = (64, 64)
    factors = ("shape", "scale", "orientation", "x", "y")
    fields = {"image": BlobSpec("image")}
    splits = {"all": ["dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5"]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        import h5py

        with seekable(file) as whole, h5py.File(whole, "r") as container:
            images, numbers = container["imgs"], container["latents"]["classes"]
            for start in range(0, len(images), _CHUNK):
                chosen = numbers[start : start + _CHUNK].astype(np.int64)
                columns = {factor: chosen[:, place] for place, factor in enumerate(self.factors, 1)}  # 0: the colour
                yield {"image": images[start : start + _CHUNK] * np.uint8(255), **columns}

    @override
    def encode(self, image: NDArray[np.uint8]) -> bytes:
        file = BytesIO()
        Image.fromarray(image).save(file, "PNG")
        return file.getvalue()


class SmallNORB(FactorsRecipe):
    """Pairs of images, the left camera's first: "train" has the left ones, "train-right" the others."""

    image_shape = (96, 96)
    factors = ("category", "instance", "elevation", "azimuth", "lighting")
    splits = {
        part: [tuple(f"smallnorb-5x{name}-{kind}.mat" for kind in ("dat", "cat", "info"))]
        for part, name in (("train", "46789x9x18x6x2x96x96-training"), ("test", "01235x9x18x6x2x96x96-testing"))
    }

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        for values in read_matrix(file):
            if name.endswith("-dat.mat"):
                yield {"image": values.reshape(-1, *self.image_shape)}
                continue
            numbers = np.repeat(values.astype(np.int64), 2, axis=0)  # of both images of a pair
            if name.endswith("-cat.mat"):
                yield {"category": numbers}
                continue
            instance, elevation, azimuth, lighting = numbers.T
            # The azimuth is in tens of degrees there: 0, 2, ..., 34.
            yield {"instance": instance, "elevation": elevation, "azimuth": azimuth // 2, "lighting": lighting}

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        places = np.arange(len(table.names), dtype=np.int64)
        splits = {self.part: places[::2], f"{self.part}-right": places[1::2]}
        return dataclasses.replace(table, splits=splits)


# Any: of either dtype.
def read_matrix(file: BinaryIO) -> Iterator[NDArray[Any]]:
    """Read a file in the binary matrix format of NORB in chunks of rows.

    The format: a magic number, the number of dimensions, at least three lengths, and the numbers, all little-endian
    (https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/).
    """
    magic, dimensions = np.frombuffer(file.read(8), "<i4").tolist()
    if magic not in _DTYPES or not 1 <= dimensions <= 4:
        raise ValueError("it is not a binary matrix of bytes or 32-bit integers")
    lengths = np.frombuffer(file.read(4 * max(3, dimensions)), "<i4").tolist()
    return read_rows(file, _DTYPES[magic], lengths[:dimensions])
