"""How CIFAR-10-C and CIFAR-10.1 become records: images and labels in .npy files."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits
from recordzoo.system.npy import array_of, header_of

_HEADER = 1 << 10
_CHUNK = 1024
_IMAGE = 32 * 32 * 3

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
        start = file.read(_HEADER)
        header = header_of(start)
        if len(header.shape) == 1:
            yield {"target": array_of(start + file.read(), header).astype(np.int64)}
            return
        if header.is_fortran or header.dtype != np.uint8:
            raise ValueError(f"it is an array {header.dtype} {header.shape}, not uint8 (n, 32, 32, 3)")
        count, left = 0, start[header.size_bytes :]
        while data := left + file.read(_CHUNK * _IMAGE - len(left)):
            images = np.frombuffer(data, np.uint8).reshape(-1, *header.shape[1:])
            count, left = count + len(images), b""
            yield {"image": images}
        if count != header.shape[0]:
            raise ValueError(f"it has {count:,} of {header.shape[0]:,} images")


class CIFAR10_1(CIFAR10C):
    """A pair of files for each version, which is a part."""

    unpacked = ""

    @property
    @override
    def splits(self) -> Splits:  # type: ignore[override]  # a constant of CIFAR-10-C
        return {"test": [(f"cifar10.1_{self.part}_data.npy", f"cifar10.1_{self.part}_labels.npy")]}


RECIPES = {"cifar10_c": CIFAR10C, "cifar10_1": CIFAR10_1}
