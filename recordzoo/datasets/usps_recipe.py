"""How USPS becomes records: one LIBSVM text file for each part, one digit per line."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits

_CHUNK = 1024


class USPS(ArraysRecipe):
    """Digits; a line is a label from 1 to 10 and 256 pairs ``index:value`` with values from -1 to 1."""

    image_shape = (16, 16)

    @property
    @override
    def splits(self) -> Splits:
        return {self.part: ["usps" if self.part == "train" else "usps.t"]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        lines = file.read().decode().splitlines()
        for start in range(0, len(lines), _CHUNK):
            rows = [line.split() for line in lines[start : start + _CHUNK]]
            values = np.asarray([[pair.split(":")[-1] for pair in row[1:]] for row in rows], np.float32)
            images = ((values + 1) / 2 * 255).astype(np.uint8).reshape(-1, 16, 16)  # rounded as torchvision does
            yield {"image": images, "target": np.array([int(row[0]) - 1 for row in rows], np.int64)}


RECIPES = {"usps": USPS}
