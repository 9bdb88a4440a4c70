"""How PatchCamelyon becomes records: the images and labels of HDF5 files."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.recipes.arrays import ArraysRecipe, Chunk, Splits, seekable

_CHUNK = 1024
_NAMES = {"train": "train", "val": "valid", "test": "test"}


class PCAM(ArraysRecipe):
    """Patches; label 1 means a metastasis in the centre."""

    package = "h5py"
    image_shape = (96, 96, 3)

    @property
    @override
    def splits(self) -> Splits:
        name = f"camelyonpatch_level_2_split_{_NAMES[self.part]}"
        return {self.part: [(f"{name}_x.h5", f"{name}_y.h5")]}

    @override
    def decode(self, name: str, file: BinaryIO) -> Iterator[Chunk]:
        import h5py

        with seekable(file) as whole, h5py.File(whole, "r") as container:
            if name.endswith("_y.h5"):
                yield {"target": container["y"][:, 0, 0, 0].astype(np.int64)}
                return
            for start in range(0, len(container["x"]), _CHUNK):
                yield {"image": container["x"][start : start + _CHUNK]}


RECIPES = {"pcam": PCAM}
