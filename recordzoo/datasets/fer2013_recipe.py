"""How FER2013 becomes records: a .csv file, one face per row."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits
from recordzoo.recipes.recipe import NO_TARGET, Stored, Table

_CHUNK = 1024
_USAGE = {"train": ("Training",), "test": ("PublicTest", "PrivateTest")}


class FER2013(ArraysRecipe):
    """Faces of a part, from the first existing one of three files; faces without a label have -1."""

    unpacked = "fer2013/"
    image_shape = (48, 48)

    @property
    @override
    def splits(self) -> Splits:
        return {self.part: ["fer2013.csv", "icml_face_data.csv", f"{self.part}.csv"]}

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        there = [self.unpacked + file for file in self.files if (base / self.unpacked / file).is_file()]
        return there[:1] or None

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        text = io.TextIOWrapper(io.BufferedReader(file), newline="")  # type: ignore[type-var]  # it reads as raw ones do
        rows = csv.DictReader(text)
        rows.fieldnames = [column.strip() for column in rows.fieldnames or ()]  # " pixels", quoted or not
        faces = (row for row in rows if "Usage" not in row or row["Usage"] in _USAGE[self.part])
        while chunk := list(islice(faces, _CHUNK)):
            pixels = np.array([np.fromstring(row["pixels"], np.int64, sep=" ") for row in chunk])
            if pixels.min() < 0 or pixels.max() > 255:
                raise ValueError("a pixel is not from 0 to 255")
            labels = [NO_TARGET if name == "test.csv" else int(row["emotion"]) for row in chunk]
            yield {"image": pixels.astype(np.uint8).reshape(-1, 48, 48), "target": np.array(labels, np.int64)}

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        if not stored.keys["image"]:
            raise SourceError(f"{self.set_name}: there is no face in the raw data, in none of {', '.join(self.files)}.")
        return super().build_table(stored, sidecars)


RECIPES = {"fer2013": FER2013}
