"""How SVHN becomes records: one MATLAB file for each part, with images on the last axis."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits, seekable


class SVHN(ArraysRecipe):
    """Digits; the label of the digit 0 is 10 in the file and 0 here, as in torchvision."""

    image_shape = (32, 32, 3)

    @property
    @override
    def splits(self) -> Splits:
        return {self.part: [f"{self.part}_32x32.mat"]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        from scipy.io import loadmat

        with seekable(file) as whole:
            content = loadmat(whole)  # type: ignore[arg-type]  # files, too
        labels = content["y"].astype(np.int64).reshape(-1)  # [n, 1] in the authors' files; any shape with n numbers
        yield {"image": content["X"].transpose(3, 0, 1, 2), "target": np.where(labels == 10, 0, labels)}


RECIPES = {"svhn": SVHN}
