"""How FGVC-Aircraft becomes records: numbered photographs, and lists of their classes on three levels."""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.recipes.base import Table
from recordzoo.recipes.listed import ListedRecipe, Lists

DATA = "fgvc-aircraft-2013b/data"
LEVELS = {"variant": "variants", "family": "families", "manufacturer": "manufacturers"}
SPLITS = ("train", "val", "trainval", "test")


class FGVCAircraft(ListedRecipe):
    """An array of labels for each level. Splits have the order of the lists, which is the same on all levels."""

    lists = (f"{DATA}/*.txt",)
    files = {"image": (f"{DATA}/images/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted(keys["image"])
        place_of = {name: place for place, name in enumerate(names)}
        arrays = {level: np.full(len(names), -1) for level in LEVELS}
        classes, splits = {}, {}
        for level, plural in LEVELS.items():
            classes[level] = lists.lines(f"{DATA}/{plural}.txt")
            label_of = {name: label for label, name in enumerate(classes[level])}
            for split in SPLITS:
                rows = [line.split(" ", 1) for line in lists.lines(f"{DATA}/images_{level}_{split}.txt")]
                splits[split] = [f"{number}.jpg" for number, _ in rows]
                for number, name in rows:
                    arrays[level][place_of[f"{number}.jpg"]] = label_of[name]
        return Table(names, arrays=arrays, splits=splits, classes=classes["variant"], metadata={"classes": classes})


RECIPES = {"fgvc_aircraft": FGVCAircraft}
