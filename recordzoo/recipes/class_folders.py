"""Datasets with one folder per class: their images, in torchvision's order."""

import bisect
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.base import INCOMPLETE, Blob, Sidecar, Stored, Table
from recordzoo.recipes.declared import DeclaredRecipe

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""A copy of torchvision.datasets.folder.IMG_EXTENSIONS, whose import needs torch; a test compares them."""

SPLIT_NAMES = frozenset(
    ("train", "training", "trainval", "val", "valid", "validation", "dev", "test", "testing", "eval", "evaluation")
)
"""Folders with these names, in any case, are splits, not classes."""


def is_image(name: str) -> bool:
    """Whether a file has an image's extension."""
    return name.lower().endswith(IMAGE_ENDINGS)


def is_class_image(name: str) -> bool:
    """Whether ImageFolder would take ``name`` ("class/file.jpg", from the tree's root) as a sample."""
    return "/" in name and is_image(name)


def are_splits(folders: Sequence[str]) -> bool:
    """Whether all folders of a tree are named like splits; hidden folders are ignored."""
    visible = [name for name in folders if not name.startswith(".")]
    return bool(visible) and all(name.lower() in SPLIT_NAMES for name in visible)


def class_folder_order(names: Sequence[str]) -> NDArray[np.int64]:
    """Return torchvision's order of names ``class/[folders/]file`` as indices into `names`."""
    # Most names are already in this order; sorting would take 100 bytes per name.
    if all(first <= second for first, second in itertools.pairwise(map(name_key, names))):
        return np.arange(len(names))
    return np.array(sorted(range(len(names)), key=lambda index: name_key(names[index])), dtype=np.int64)


def name_key(name: str) -> str:
    """Return the sort key of ImageFolder's order: the class, the whole folder as one string, the file."""
    folder, _, file = name.rpartition("/")
    # One string, not a tuple of three: half the memory at 1.28 million names. Names contain no NUL.
    return f"{folder.partition('/')[0]}\0{folder}\0{file}"


def find_name(names: Sequence[str], name: str) -> int | None:
    """Return the position of a name among names in ImageFolder's order; None if it is missing."""
    position = bisect.bisect_left(names, name_key(name), key=name_key)
    return position if position < len(names) and names[position] == name else None


def class_labels(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the sorted first folders of `names`, and each name's position among them."""
    classes = sorted({name.partition("/")[0] for name in names})
    label_of = {name: label for label, name in enumerate(classes)}
    labels = (label_of[name.partition("/")[0]] for name in names)
    return classes, np.fromiter(labels, dtype=np.int64, count=len(names))


def files_under(base: Path, folder: str, endings: tuple[str, ...]) -> list[str]:
    """List the files below a folder with one of the extensions, relative to `base`, like ``sorted(os.walk(...))``."""
    found = []
    for path, _, names in sorted(os.walk(base / folder, followlinks=True)):
        start = Path(path).relative_to(base).as_posix()
        found += [f"{start}/{name}" for name in sorted(names) if name.lower().endswith(endings)]
    return found


class ClassFolderRecipe(DeclaredRecipe):
    """A recipe of class folders at the places in the facts (`Layout`) or in a subclass."""

    @property
    def top(self) -> str:
        """The folder above all class folders, with a final "/"; names are relative to it. "" needs `folders`."""
        return self.layout.top

    @property
    def folders(self) -> Mapping[str, str]:
        """The folder of each split below `top`, "train" or "amazon/images"; empty if `top` has the class folders.

        Then a part whose name is a split's is that split.
        """
        return self.layout.folders

    @property
    def endings(self) -> tuple[str, ...]:
        """The extensions of images, in lower case."""
        return self.layout.endings or IMAGE_ENDINGS

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        places = [self.top] if self.top else self.folders.values()
        found = [place for place in places if (base / place).is_dir()]
        return [name for place in found for name in files_under(base, place, self.endings)] if found else None

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [self.top]

    def class_path(self, name: str) -> str:
        """Return ``class/[folders/]file`` of a name, which has the folder of a split before it."""
        if not self.folders:
            return name
        inner = (name[len(folder) + 1 :] for folder in self.folders.values() if name.startswith(f"{folder}/"))
        return next(inner, name.partition("/")[2])

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        name = member.name.removeprefix(self.top)
        is_below = member.name.startswith(self.top) and "/" in self.class_path(name)
        if is_below and name.lower().endswith(self.endings):
            yield Blob("image", name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = stored.keys["image"]
        names = [keys[index] for index in class_folder_order(keys)]
        if not names:
            raise SourceError(f"{self.entry.title}: there is no image under {self.top} in the raw data. {INCOMPLETE}")
        if not self.folders:
            classes, target = class_labels(names)
            splits: dict[str, NDArray[np.int64]] = (
                {self.part: np.arange(len(names))} if self.part in SPLIT_NAMES else {}
            )
            return Table(names, arrays={"target": target}, splits=splits, classes=classes)
        inner = list(map(self.class_path, names))
        classes, target = class_labels(inner)
        splits = {}
        for split, folder in self.folders.items():
            places = np.flatnonzero([name.startswith(f"{folder}/") for name in names])
            splits[split] = places[class_folder_order([inner[place] for place in places.tolist()])]
        return Table(names, arrays={"target": target}, splits=splits, classes=classes)
