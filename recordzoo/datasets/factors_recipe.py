"""How dSprites and smallNORB become records: images in a grid of factors, with a label for each factor."""

import dataclasses
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits, seekable
from recordzoo.recipes.recipe import BlobField, Stored, Table
from recordzoo.records.manifest import FieldKind, FieldSpec

_CHUNK = 1024
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
    fields = {"image": BlobField("image")}
    splits: Splits = {"all": ["dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5"]}

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

    @property
    @override
    def splits(self) -> Splits:
        start = {"train": "5x46789x9x18x6x2x96x96-training", "test": "5x01235x9x18x6x2x96x96-testing"}[self.part]
        return {self.part: [tuple(f"smallnorb-{start}-{kind}.mat" for kind in ("dat", "cat", "info"))]}

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
    count, *shape = np.frombuffer(file.read(4 * max(3, dimensions)), "<i4").tolist()[:dimensions]
    for start in range(0, count, _CHUNK):
        length = min(_CHUNK, count - start)
        size = length * int(np.prod(shape)) * np.dtype(_DTYPES[magic]).itemsize
        yield np.frombuffer(file.read(size), _DTYPES[magic]).reshape(length, *shape)
