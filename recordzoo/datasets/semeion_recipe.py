"""How SEMEION becomes records: one text file, one digit per line."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk


class SEMEION(ArraysRecipe):
    """Digits; a line has 256 pixels (1 is ink) and a one-hot label of ten numbers."""

    image_shape = (16, 16)
    splits = {"all": ["semeion.data"]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        rows = np.loadtxt(file.read().decode("ascii").splitlines(), ndmin=2)
        images = (rows[:, :256] * 255).astype(np.uint8).reshape(-1, 16, 16)  # rounded as torchvision does
        yield {"image": images, "target": np.nonzero(rows[:, 256:])[1].astype(np.int64)}


RECIPES = {"semeion": SEMEION}
