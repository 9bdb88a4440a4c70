"""How Caltech 101 and 256, iNaturalist and Omniglot become records: folders whose images or categories are numbered."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.archive import inner_members
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import ClassFolderRecipe, ListedRecipe, Lists, files_under, is_apple_double, name_key
from recordzoo.recipes.recipe import Blob, Sidecar, Stored, Table, present
from recordzoo.records.manifest import FieldKind, FieldSpec

BACKGROUND = "BACKGROUND_Google"
"""A folder of Caltech 101 that is no class."""

ANNOTATIONS = {
    "Faces": "Faces_2",
    "Faces_easy": "Faces_3",
    "Motorbikes": "Motorbikes_16",
    "airplanes": "Airplanes_Side_2",
}
"""The folders of contours whose names differ from their class."""


class Caltech256(ListedRecipe):
    """The images of a class are numbered by their count in the folder, as in torchvision.

    Attributes:
        image_name: The name of an image within its class folder.
    """

    files = {"image": ("256_ObjectCategories/", (".jpg",))}
    image_name: ClassVar[str] = "{label:03d}_{number:04d}.jpg"

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        counts = Counter(
            name.partition("/")[0] for name in keys["image"] if name.count("/") == 1 and name.endswith(".jpg")
        )
        if not counts:
            raise self.no_image(self.files["image"][0])
        classes = sorted(counts)
        rows = [(place, number) for place, name in enumerate(classes) for number in range(1, counts[name] + 1)]
        target, numbers = np.array(rows, np.int64).T
        return Table(
            names=[image_name(self.image_name, classes, *row) for row in rows],
            arrays={"target": target, "number": numbers},
            classes=classes,
        )


class Caltech101(Caltech256):
    """Each image has a contour. The archive is a zip of a tar.gz (images) and a tar (contours)."""

    files = {"image": ("101_ObjectCategories/", (".jpg",)), "annotation": ("Annotations/", (".mat",))}
    image_name = "image_{number:04d}.jpg"

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if is_apple_double(member.name):
            return
        if member.name.endswith((".tar", ".tar.gz")):
            for inner in inner_members(member):
                yield from self.extract(inner)
        elif f"/{BACKGROUND}/" not in member.name:
            yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        table = super().table(keys, lists)
        numbers = table.arrays["number"].tolist()
        names = [annotation_name(image.partition("/")[0], n) for image, n in zip(table.names, numbers, strict=True)]
        return dataclasses.replace(table, keys={"annotation": present(names, keys["annotation"])})


def image_name(pattern: str, classes: Sequence[str], place: int, number: int) -> str:
    """Name an image by its label (from 0) and its number (from 1): "001.ak47/001_0001.jpg"."""
    return f"{classes[place]}/{pattern.format(label=place + 1, number=number)}"


def annotation_name(category: str, number: int) -> str:
    """Name the file of a contour: "Faces_2/annotation_0001.mat"."""
    return f"{ANNOTATIONS.get(category, category)}/annotation_{number:04d}.mat"


LEVELS = ("kingdom", "phylum", "class", "order", "family", "genus")
"""The taxonomic levels of a category of 2021, which its name has between number and epithet."""

# The folder in the archive. torchvision calls it like the version when it has extracted it.
_FOLDERS = {
    "2017": "train_val_images",
    "2018": "train_val2018",
    "2019": "train_val2019",
    "2021_train": "train",
    "2021_train_mini": "train_mini",
    "2021_valid": "val",
}

Taxonomy = tuple[dict[str, dict[str, int]], list[dict[str, int]]]
"""torchvision's `categories_index` and `categories_map`: numbers by level and name, and those of each category."""


class INaturalist(ClassFolderRecipe):
    """All images in ImageFolder's order. The one split has them by category, as torchvision numbers categories."""

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        """See `DeclaredRecipe`: also of a tree that was unpacked by hand, whose folder may be called "train"."""
        if (names := super().tree_names(base)) is not None:
            return names
        folder = _FOLDERS[self.part]
        is_there = (base / folder).is_dir() and (not _is_2021(self.part) or any((base / folder).glob("00000_*_*")))
        return files_under(base, folder, self.endings) if is_there else None

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        folder, _, name = member.name.partition("/")
        if folder in (self.part, _FOLDERS[self.part]) and name.count("/") == (1 if _is_2021(self.part) else 2):
            yield Blob("image", name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        names = sorted(stored.keys["image"], key=name_key)
        if not names:
            raise self.no_image(self.top)
        folders = [name.rpartition("/")[0] for name in names]
        categories = _by_label(self.part, list(dict.fromkeys(folders)))
        label_of = {category: label for label, category in enumerate(categories)}
        target = np.fromiter((label_of[folder] for folder in folders), np.int64, len(folders))
        index, numbers = taxonomy(self.part, categories)
        levels = {level: np.array([each[level] for each in numbers], np.uint16)[target] for level in index}
        split = next(iter(split.name for split in self.entry.splits if split.part == self.part))
        return Table(
            names=names,
            arrays={"target": target, **levels},
            splits={split: np.argsort(target, kind="stable")},
            classes=categories,
            fields={level: FieldSpec(FieldKind.CLASS, tuple(found)) for level, found in index.items()},
        )


def taxonomy(version: str, categories: Sequence[str]) -> Taxonomy:
    """Number the taxa of all levels as torchvision does: of 2021 by first appearance, before in sorted order."""
    if not _is_2021(version):
        names = sorted({category.partition("/")[0] for category in categories})
        index = {"super": {name: number for number, name in enumerate(names)}}
        return index, [{"super": index["super"][category.partition("/")[0]]} for category in categories]
    index = {level: {} for level in LEVELS}
    numbers = []
    for category in categories:
        pairs = zip(LEVELS, category.split("_")[1:7], strict=True)
        numbers.append({level: index[level].setdefault(name, len(index[level])) for level, name in pairs})
    return index, numbers


def _is_2021(version: str) -> bool:
    return version.startswith("2021")


def _by_label(version: str, folders: Sequence[str]) -> list[str]:
    """Put the folders of categories into the order of their labels, with which their names begin (2021) or end."""
    if version == "2017":
        return list(folders)
    is_2021 = _is_2021(version)
    numbers = [folder.partition("_")[0] if is_2021 else folder.rpartition("/")[2] for folder in folders]
    found = sorted((int(number), folder) for number, folder in zip(numbers, folders, strict=True) if number.isdecimal())
    wrong = next((folder for label, (number, folder) in enumerate(found) if number != label), None)
    odd = next((folder for folder in folders if is_2021 and folder.count("_") != len(LEVELS) + 1), wrong)
    if odd is not None or len(found) < len(folders):
        raise SourceError(
            f"iNaturalist {version}: the folders of its {len(folders):,} categories are not numbered from 0 on, one "
            f"each, or are named otherwise{f': {odd}' if odd else ''}. Unpack the archive again."
        )
    return [folder for _, folder in found]


class Omniglot(ClassFolderRecipe):
    """Drawn characters; a class is a character of an alphabet."""

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        # torchvision reads only the folders of characters, and only this spelling of the suffix.
        if member.name.removeprefix(self.top).count("/") == 2 and member.name.endswith(self.endings):
            yield from super().extract(member)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        folders = [name.rpartition("/")[0] for name in table.names]
        classes = sorted(set(folders), key=lambda folder: folder.split("/"))
        label_of = {folder: label for label, folder in enumerate(classes)}
        target = np.array([label_of[folder] for folder in folders], np.int64)
        return Table(table.names, arrays={"target": target}, classes=classes)
