"""How CIFAR-10-C, CIFAR-100-C and CIFAR-10.1 become records: images and labels in .npy files."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits, read_npy

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
    splits: Splits = {name.replace("_", "-"): [(f"{name}.npy", "labels.npy")] for name in CORRUPTIONS}

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

    @property
    @override
    def splits(self) -> Splits:  # type: ignore[override]  # a constant of CIFAR-10-C
        return {"test": [(f"cifar10.1_{self.part}_data.npy", f"cifar10.1_{self.part}_labels.npy")]}


RECIPES = {"cifar10_c": CIFAR10C, "cifar100_c": CIFAR100C, "cifar10_1": CIFAR10_1}
