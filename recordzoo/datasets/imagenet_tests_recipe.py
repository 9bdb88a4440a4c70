"""How ImageNetV2 becomes records: one folder for each label, below one that the archive names."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
from typing_extensions import override

from recordzoo.raw.member import Member
from recordzoo.recipes.base import Blob, Sidecar, Stored, Table
from recordzoo.recipes.class_folders import ClassFolderRecipe

NUM_LABELS = 1000


class NumberedFolders(ClassFolderRecipe):
    """Class folders are named by their labels, 0 to 999. The order is ImageFolder's: 0, 1, 10, 100, ..."""

    @property
    @override
    def top(self) -> str:
        return self.raw_files[0].name.removesuffix(".tar.gz") + "-format-val/"

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if _label(member.name.removeprefix(self.top)) is not None:
            yield from super().extract(member)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        labels = np.array([_label(name) for name in table.names], np.int64)
        return dataclasses.replace(table, arrays={"target": labels}, classes=list(map(str, range(NUM_LABELS))))


def _label(name: str) -> int | None:
    """Return the label of ``<label>/<file>``; None if the folder is not a label."""
    folder = name.partition("/")[0]
    is_label = folder.isascii() and folder.isdecimal() and len(folder) <= 3 and str(int(folder)) == folder
    return int(folder) if is_label else None


RECIPES = {"imagenet_v2": NumberedFolders}
