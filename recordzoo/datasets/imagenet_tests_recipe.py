"""How ImageNetV2, ImageNet-C and ImageNet-ReaL become records: other class folders, and other labels."""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import ClassFolderRecipe, DeclaredRecipe, files_under
from recordzoo.recipes.recipe import INCOMPLETE, Blob, BlobField, Sidecar, Stored, Table

NUM_LABELS = 1000
LABELS = "real.json"


class NumberedFolders(ClassFolderRecipe):
    """Class folders are named by their labels, 0 to 999. The order is ImageFolder's: 0, 1, 10, 100, ..."""

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


class CorruptedFolders(ClassFolderRecipe):
    """Folders ``<corruption>/<severity>/<class>``; severities are 1 to 5."""

    @override
    def class_path(self, name: str) -> str:
        severity, _, inner = super().class_path(name).partition("/")
        return inner if severity in ("1", "2", "3", "4", "5") else ""

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        severity = np.array([int(name.split("/")[1]) for name in table.names], np.int64)
        # by severity, then in ImageFolder's order: the order of the names
        splits = {split: np.sort(np.asarray(places)) for split, places in table.splits.items()}
        return dataclasses.replace(table, arrays={**table.arrays, "severity": severity}, splits=splits)


class ReassessedLabels(DeclaredRecipe):
    """Validation images in the order of their numbers; a list has the labels of each, also a list.

    The tree has the images in val/, in folders or not: torchvision sorts them into one for each class.
    """

    fields = {"image": BlobField("image"), "target": BlobField("json")}
    tree_marks = ("val/",)

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        is_there = (base / "val").is_dir() and (base / LABELS).is_file()
        return [*files_under(base, "val", (".jpeg",)), LABELS] if is_there else None

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        file = member.name.rpartition("/")[2]
        if member.name == LABELS:
            for number, labels in enumerate(_label_lists(member.read()), 1):
                yield Blob("target", f"ILSVRC2012_val_{number:08d}.JPEG", json.dumps(labels).encode())
        elif re.fullmatch(r"ILSVRC2012_val_[0-9]{8}\.JPEG", file):
            yield Blob("image", file, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        names = sorted(stored.keys.get("image", ()))
        if not names or not set(names).issubset(stored.keys.get("target", ())):
            raise SourceError(f"{self.set_name}: there are no images, or not all of them have labels. {INCOMPLETE}")
        return Table(names, keys={"target": names}, splits={"val": names})


def _label_lists(data: bytes) -> list[list[int]]:
    """Read the labels of each image.

    Raises:
        SourceError: It is not a list of lists of ImageNet's labels.
    """
    try:
        lists: list[list[int]] = json.loads(data)
        is_right = all(type(label) is int and 0 <= label < NUM_LABELS for labels in lists for label in labels)
    except (ValueError, TypeError, RecursionError):
        is_right = False
    if not is_right:
        raise SourceError(f"{LABELS} is not a list of lists of labels from 0 to {NUM_LABELS - 1}. Get it again.")
    return lists
