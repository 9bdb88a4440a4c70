"""Match files of `images/` with files of a parallel folder: equal paths except for folder and extension."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.text import name_first
from recordzoo.recipes.annotations import Annotations, Problems, is_split, split_name
from recordzoo.recipes.class_folders import IMAGE_ENDINGS, class_folder_order, files_under

MASKS = "masks"
"""The name of the format and of its folder."""
_NUM_SHOWN = 5


class Pairs:
    """The files of `images/` and of a parallel folder, in a directory or in its folders named like splits.

    Args:
        root: The directory.
        folder: The other folder.
        endings: Extensions of its files.

    Attributes:
        images: The images, relative to the directory, in ImageFolder's order.
        others: The files of the other folder by their stems: "train/cat/1" for train/images/cat/1.jpg.
    """

    def __init__(self, root: Path, folder: str, endings: tuple[str, ...] = IMAGE_ENDINGS) -> None:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        tops = ["", *(f"{name}/" for name in names if is_split(name))]
        tops = [top for top in tops if (root / f"{top}images").is_dir() and (root / f"{top}{folder}").is_dir()]
        images = [name for top in tops for name in files_under(root, f"{top}images", IMAGE_ENDINGS)]
        self.images = [images[place] for place in class_folder_order(images).tolist()]
        self._stems = _by_stem(self.images, "images")
        self.others = _by_stem([name for top in tops for name in files_under(root, f"{top}{folder}", endings)], folder)
        self._folder = folder

    @property
    def are_equal(self) -> bool:
        """Whether images and files of the other folder match one to one."""
        pairs = [*self._stems.values(), *self.others.values()]
        return bool(pairs) and self._stems.keys() == self.others.keys() and all(len(each) == 1 for each in pairs)

    def of(self, image: str) -> str | None:
        """Return the other folder's file for an image; None if there is none."""
        return self.others.get(_stem(image, "images"), [None])[0]

    def check(self, problems: Problems, *, is_optional: bool = False) -> None:
        """Report files without image, files that share a stem and, unless `is_optional`, images without file."""
        if not self.images:
            problems.add(f"it has no images in images/ beside {self._folder}/")
        alone = {"image": [file for stem, files in self.others.items() if stem not in self._stems for file in files]}
        if not is_optional:
            alone[self._folder] = [files[0] for stem, files in self._stems.items() if stem not in self.others]
        for missing, files in alone.items():
            if files:
                problems.add(f"{len(files):,} files have no {missing}: {name_first(files, _NUM_SHOWN)}")
        for files in (*self._stems.values(), *self.others.values()):
            if len(files) > 1:
                problems.add(f"{' and '.join(files)} have one stem")

    def splits(self) -> dict[str, NDArray[np.int64]]:
        """Return the splits by the folder above `images`, or the first one below it, if all are named like splits."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.images):
            first, second, *rest = name.split("/")
            folder = first if first != "images" else second if rest else ""
            found.setdefault(folder, []).append(position)
        if not all(map(is_split, found)):
            return {}
        return {split_name(folder): np.array(positions, np.int64) for folder, positions in found.items()}


def _stem(name: str, folder: str) -> str:
    parts = list(PurePosixPath(name).with_suffix("").parts)
    parts.remove(folder)  # only the first match: it is the first or second part
    return "/".join(parts)


def _by_stem(names: Sequence[str], folder: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(_stem(name, folder), []).append(name)
    return found


def has_masks(root: Path) -> bool:
    """Whether a directory has `images/` and `masks/` with equal stems on both sides."""
    return Pairs(root, MASKS).are_equal


def read_masks(root: Path) -> Annotations:
    """Read `images/` and `masks/`.

    Raises:
        SourceError: An image has no mask, a mask has no image, or two files share a stem.
    """
    problems, pairs = Problems(root), Pairs(root, MASKS)
    pairs.check(problems)
    problems.raise_if_any()
    return Annotations(MASKS, [], pairs.images, pairs.splits(), masks=[pairs.of(name) or "" for name in pairs.images])
