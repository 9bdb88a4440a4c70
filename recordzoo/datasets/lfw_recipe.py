"""How Labeled Faces in the Wild becomes records: a folder for each person, and lists of people and of pairs."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.recipes.declared import Files, ListedRecipe, Lists, Row, class_folder_order, class_labels
from recordzoo.recipes.recipe import Stored, Table

FOLDERS = {"original": "lfw", "funneled": "lfw_funneled", "deepfunneled": "lfw-deepfunneled"}
NAMES = "lfw-names.txt"
SECOND = "-second"
"""Suffix of the split with the second image of each pair; the split without it has the first images."""

_LISTS = {"10fold": "", "train": "DevTrain", "test": "DevTest"}


def list_name(view: str, split: str) -> str:
    """Name the list of a split: "people.txt", "pairsDevTrain.txt"."""
    return f"{view}{_LISTS[split]}.txt"


class LFW(ListedRecipe):
    """All images of an image set in ImageFolder's order; both classes show them.

    The splits are called "people-10fold", "pairs-train", ... Those whose list is missing are left out. Labels count the
    names of ``lfw-names.txt``, or the folders, which are the same.
    """

    lists = (*(list_name(view, split) for view in ("people", "pairs") for split in _LISTS), NAMES)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"{FOLDERS[self.part]}/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = [keys["image"][place] for place in class_folder_order(keys["image"])]
        classes, target = class_labels(names)
        if NAMES in lists:
            listed = [row[0] for row in lists.rows(NAMES)]
            label_of = {name: label for label, name in enumerate(listed)}
            target = np.array([label_of.get(name, -1) for name in classes], np.int64)[target]
            classes = listed
        splits: dict[str, Sequence[str] | NDArray[np.int64]] = {}
        for split in _LISTS:
            if (name := list_name("people", split)) in lists:
                splits[f"people-{split}"] = list(_people(lists.rows(name)))
            if (name := list_name("pairs", split)) in lists:
                pairs = list(_pairs(name, lists.rows(name)))
                splits[f"pairs-{split}"] = [first for first, _ in pairs]
                splits[f"pairs-{split}{SECOND}"] = [second for _, second in pairs]
        return Table(names=names, arrays={"target": target}, splits=splits, classes=classes)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`. If a broken image is left out, the other image of its pair is left out, too."""
        table = super().build_table(stored, sidecars)
        skipped = stored.skipped.get("image", frozenset())
        splits = dict(table.splits)
        for second in [name for name in splits if name.endswith(SECOND)]:
            first = second.removesuffix(SECOND)
            pairs = [pair for pair in zip(splits[first], splits[second], strict=True) if skipped.isdisjoint(pair)]
            splits[first], splits[second] = ([pair[side] for pair in pairs] for side in range(2))
        return table.with_splits(splits)


def _image(person: str, number: int) -> str:
    return f"{person}/{person}_{number:04d}.jpg"


def _people(rows: Sequence[Row]) -> Iterator[str]:
    """List all images of the people of a list. Rows are a name and a number of images, or a number of rows."""
    for row in rows:
        for number in range(1, row.integer(1) + 1 if len(row) > 1 else 1):
            yield _image(row[0], number)


def _pairs(name: str, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """List the pairs of a list: in each fold first those of one person, then as many of two."""
    head, *body = rows
    in_fold = head.integer(-1)
    for number, row in enumerate(body):
        is_same = number % (2 * in_fold) < in_fold
        if len(row) != (3 if is_same else 4) or (not is_same and row[0] == row[2]):
            people = "one person" if is_same else "two people"
            raise SourceError(f"LFW: {name} has {' '.join(row)!r} where a pair of {people} should be.")
        yield _image(row[0], row.integer(1)), _image(row[-2] if len(row) == 4 else row[0], row.integer(-1))


RECIPES = {"lfw": LFW}
