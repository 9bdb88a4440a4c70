"""How DTD becomes records: class folders, and ten partitions of them as lists."""

from collections.abc import Mapping, Sequence

from typing_extensions import override

from recordzoo.recipes.declared import ListedRecipe, Lists, class_labels
from recordzoo.recipes.recipe import Table

SPLITS = [f"{split}{partition}" for partition in range(1, 11) for split in ("train", "val", "test")]


class DTD(ListedRecipe):
    """Splits are called as the lists: "train1", "val1", "test1", "train2", ..."""

    lists = tuple(f"dtd/labels/{split}.txt" for split in SPLITS)
    files = {"image": ("dtd/images/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        splits = {name.rpartition("/")[2].removesuffix(".txt"): lists.lines(name) for name in lists.contents}
        names = sorted({*keys["image"], *(name for listed in splits.values() for name in listed)})
        classes, target = class_labels(names)
        return Table(names=names, arrays={"target": target}, splits=splits, classes=classes)


RECIPES = {"dtd": DTD}
