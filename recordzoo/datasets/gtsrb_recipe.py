"""How GTSRB becomes records: class folders for training; for the test one folder, and a list with the labels."""

import csv
from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.net.url import RemoteFile
from recordzoo.recipes.declared import ClassFolderRecipe, DeclaredRecipe, ListedRecipe, Lists, integer, name_key
from recordzoo.recipes.recipe import Table

FOLDERS = {"train": "GTSRB/Training/", "test": "GTSRB/Final_Test/Images/"}
"""The folder that the names of each part's records are relative to."""

_LIST = "GT-final_test.csv"


class _Training(ClassFolderRecipe):
    """Photographs in a folder for each class, in tracks of 30 of the same sign."""

    top = FOLDERS["train"]
    endings = (".ppm",)


class _Test(ListedRecipe):
    """Photographs in one folder, in the order of the list."""

    lists = (_LIST,)
    files = {"image": (FOLDERS["test"], (".ppm",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        rows, lines = [], text_of(lists[_LIST], where := f"{self.set_name}: {_LIST}").splitlines()
        reader, labels = csv.DictReader(lines, delimiter=";", skipinitialspace=True), {}
        try:
            for row in reader:
                rows.append(row)
                labels[row["Filename"]] = integer(row["ClassId"], where, reader.line_num)
        except (KeyError, TypeError) as err:
            raise SourceError(f"{where} is no list of files and their classes ({err!r}).") from err
        names = sorted(labels, key=name_key)
        return Table(
            names=names,
            arrays={"target": np.array([labels[name] for name in names], np.int64)},
            splits={"test": [row["Filename"] for row in rows]},
            classes=[f"{label:05d}" for label in range(self.entry.num_classes or 0)],  # as the folders for training
        )


def _recipe(dataset: str, part: str = "", raw_files: tuple[RemoteFile, ...] | None = None) -> DeclaredRecipe:
    """Return the recipe of a part."""
    return (_Test if part == "test" else _Training)(dataset, part, raw_files)


RECIPES = {"gtsrb": _recipe}
