"""How FGVC-Aircraft becomes records: numbered photographs, and lists of their classes on three levels."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.recipes.declared import ListedRecipe, Lists
from recordzoo.recipes.recipe import NO_TARGET, Table
from recordzoo.records.kinds import FieldKind, FieldSpec

DATA = "fgvc-aircraft-2013b/data"
LEVELS = {"variant": "variants", "family": "families", "manufacturer": "manufacturers"}
SPLITS = ("train", "val", "trainval", "test")


class FGVCAircraft(ListedRecipe):
    """An array of labels for each level; -1 if no list of the level names the image.

    A split has the order of its lists, which is the same on all levels.
    """

    lists = (f"{DATA}/*.txt",)
    files = {"image": (f"{DATA}/images/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits: dict[str, list[str]] = {}
        classes: dict[str, list[str]] = {}
        labels: dict[str, dict[str, int]] = {}
        for level, plural in LEVELS.items():
            list_of = {split: f"{DATA}/images_{level}_{split}.txt" for split in SPLITS}
            rows = {split: lists.rows(name, " ", columns=2, cuts=1) for split, name in list_of.items() if name in lists}
            classes[level] = lists.lines(f"{DATA}/{plural}.txt") if rows else []
            label_of = {name: label for label, name in enumerate(classes[level])}
            labels[level] = {}
            for split, listed in rows.items():
                images = [f"{number}.jpg" for number, _ in listed]
                if splits.setdefault(split, images) != images:
                    raise SourceError(
                        f"{self.dataset}: {list_of[split]} has other images than the lists of other levels."
                    )
                for image, (_, name) in zip(images, listed, strict=True):
                    if name not in label_of:
                        raise SourceError(f"{self.dataset}: {list_of[split]}: {name!r} is not in {plural}.txt.")
                    labels[level][image] = label_of[name]
        names = sorted({*keys["image"], *itertools.chain(*splits.values())})
        arrays = {level: np.array([labels[level].get(name, NO_TARGET) for name in names], np.int64) for level in LEVELS}
        fields = {level: FieldSpec(FieldKind.CLASS, tuple(found) or None) for level, found in classes.items()}
        return Table(names, arrays=arrays, splits=splits, fields=fields, default_target="variant")


RECIPES = {"fgvc_aircraft": FGVCAircraft}
