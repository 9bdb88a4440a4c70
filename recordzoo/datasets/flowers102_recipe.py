"""How Oxford 102 Flowers becomes records: photographs by number, labels and splits from MATLAB files."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists
from recordzoo.recipes.recipe import Table

_SPLITS = {"train": "trnid", "val": "valid", "test": "tstid"}


class Flowers102(ListedRecipe):
    """Photograph n is ``image_<n>.jpg``; its label is number n in ``imagelabels.mat``, minus 1."""

    lists = ("imagelabels.mat", "setid.mat")
    files = {"image": ("jpg/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        labels = np.atleast_1d(lists.mat("imagelabels.mat")["labels"]).astype(np.int64) - 1
        names = [f"image_{number:05d}.jpg" for number in range(1, len(labels) + 1)]
        ids = lists.mat("setid.mat")
        splits = {split: np.atleast_1d(ids[name]).astype(np.int64) - 1 for split, name in _SPLITS.items()}
        return Table(names=names, arrays={"target": labels}, splits=splits, classes=self.entry.classes)


RECIPES = {"flowers102": Flowers102}
