"""What class-per-folder datasets share: which members are images, and torchvision's order of them."""

import bisect
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""torchvision.datasets.folder.IMG_EXTENSIONS, which cannot be imported here without torch (a test compares them)."""

SPLIT_NAMES = frozenset(
    ("train", "training", "trainval", "val", "valid", "validation", "dev", "test", "testing", "eval", "evaluation")
)
"""Folders with these names, in any case, hold splits and are no classes."""


def is_image(name: str) -> bool:
    """Whether a file's name ends as that of an image."""
    return name.lower().endswith(IMAGE_ENDINGS)


def is_class_image(name: str) -> bool:
    """Whether ImageFolder would take ``name`` ("class/file.jpg", from the tree's root) as a sample."""
    return "/" in name and is_image(name)


def are_splits(folders: Sequence[str]) -> bool:
    """Whether all folders of a tree are called like splits; hidden ones do not count."""
    visible = [name for name in folders if not name.startswith(".")]
    return bool(visible) and all(name.lower() in SPLIT_NAMES for name in visible)


def class_folder_order(names: Sequence[str]) -> NDArray[np.int64]:
    """Find torchvision's order of names ``class/[folders/]file``: indices into `names`."""
    return np.array(sorted(range(len(names)), key=lambda index: name_key(names[index])), dtype=np.int64)


def name_key(name: str) -> str:
    """Return what ImageFolder's order sorts by: the class, the whole folder as one string, the file."""
    folder, _, file = name.rpartition("/")
    # One string and not a tuple of three: half the memory at 1.28 million names. No name contains a NUL.
    return f"{folder.partition('/')[0]}\0{folder}\0{file}"


def find_name(names: Sequence[str], name: str) -> int | None:
    """Find the position of a name among names in ImageFolder's order; None if it is not there."""
    position = bisect.bisect_left(names, name_key(name), key=name_key)
    return position if position < len(names) and names[position] == name else None


def class_labels(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the sorted first folders of `names`, and for each name the position of its own among them."""
    classes = sorted({name.partition("/")[0] for name in names})
    label_of = {name: label for label, name in enumerate(classes)}
    labels = (label_of[name.partition("/")[0]] for name in names)
    return classes, np.fromiter(labels, dtype=np.int64, count=len(names))
