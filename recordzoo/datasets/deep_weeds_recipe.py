"""How DeepWeeds becomes records: a zip of photographs without folders, and lists of labels and of five folds."""

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import ListedRecipe, Lists, integer, name_key, names_by_label
from recordzoo.recipes.recipe import Blob, Sidecar, Table

FOLDER = "images/"
FOLDS = 5
SPLITS = ("train", "val", "test")
_FOLD = {f"{split}_subset{fold}.csv": f"{split}{fold}" for fold in range(FOLDS) for split in SPLITS}


class DeepWeeds(ListedRecipe):
    """The images of labels.csv, sorted by name. "all" has the order of that list, "train0" and so on that of their own.

    The tree has the images in `FOLDER`, where the authors' script extracts the zip.
    """

    lists = ("labels.csv", *_FOLD)
    files = {"image": (FOLDER, (".jpg",))}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if "/" not in member.name and member.name.endswith(".jpg"):
            member = dataclasses.replace(member, name=FOLDER + member.name)
        yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        label_of: dict[str, int] = {}
        species_of: dict[int, str] = {}
        for row in _rows(lists, "labels.csv"):
            label = integer(row["Label"], "deep_weeds: labels.csv", len(label_of) + 2)
            label_of[row["Filename"]], species_of[label] = label, row["Species"]
        names = sorted(label_of, key=name_key)
        folds = {
            split: [row["Filename"] for row in _rows(lists, name)] for name, split in _FOLD.items() if name in lists
        }
        return Table(
            names=names,
            arrays={"target": np.array([label_of[name] for name in names], np.int64)},
            splits={"all": list(label_of), **folds},
            classes=names_by_label(species_of),
        )


def _rows(lists: Lists, name: str) -> Iterator[dict[str, str]]:
    return iter(csv.DictReader(io.StringIO(text_of(lists[name], f"deep_weeds: {name}"))))


RECIPES = {"deep_weeds": DeepWeeds}
