"""Kaggle's form of ImageNet (imagenet-object-localization-challenge): images and lists, extracted or in its archive.

``val`` is one folder without classes. ``LOC_val_solution.csv`` says which class each image has, and so does the XML
file that each has under ``Annotations``; ``LOC_synset_mapping.txt`` has the names of the classes.
"""

import csv
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path

from recordzoo.errors import SourceError
from recordzoo.raw.archive import ArchivedSource, ArchiveSource
from recordzoo.raw.member import Member
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.recipe import Sidecar

DOWNLOAD = "imagenet-object-localization-challenge.zip"
INNER = "imagenet_object_localization_patched2019.tar.gz"
"""The inner archive of older downloads, with the images and XML files but without the lists."""

IMAGES = "ILSVRC/Data/CLS-LOC"
ANNOTATIONS = "ILSVRC/Annotations/CLS-LOC/val/"
SOLUTION = "LOC_val_solution.csv"
SYNSETS = "LOC_synset_mapping.txt"

_TOP = "ILSVRC/"
_WNID = re.compile(r"n[0-9]{8}")
_NAME = re.compile(rb"<name>\s*(n[0-9]{8})\s*</name>")


def archive_source(root: Path) -> ArchivedSource | None:
    """Find an archive under `root`."""
    return next((ArchiveSource(root / name) for name in (INNER, DOWNLOAD) if (root / name).is_file()), None)


def lists_source(root: Path, part: str) -> TreeSource | None:
    """Find the lists that a part needs under `root`; XML files only if the list of solutions is not there."""
    names = [SYNSETS] if (root / SYNSETS).is_file() else []
    if part == "val" and (root / SOLUTION).is_file():
        names.append(SOLUTION)
    elif part == "val" and (root / ANNOTATIONS).is_dir():
        names += sorted(ANNOTATIONS + name for name in os.listdir(root / ANNOTATIONS) if name.endswith(".xml"))
    return TreeSource(root, names) if names else None


def has_labels(lists: TreeSource | None) -> bool:
    """Whether lists say which class a validation image has."""
    return lists is not None and any(name != SYNSETS for name in lists.names or ())


def image_name(name: str, part: str) -> str:
    """Return a member's name without the folders above those of a part's images; "" if it is not below these."""
    start = f"{IMAGES}/{part}/"
    return name.removeprefix(start) if name.startswith(start) or not name.startswith(_TOP) else ""


def sidecar(member: Member, part: str) -> Sidecar | None:
    """Reduce a list to the part that the recipe needs; None for other members.

    Raises:
        SourceError: The member is an inner archive.
    """
    if member.name == INNER:
        raise SourceError(
            f"ImageNet: in {DOWNLOAD} the images are in another archive, {INNER}. Unzip {DOWNLOAD}, leave the other "
            "archive as it is, and run the same again."
        )
    if member.name == SYNSETS or (member.name == SOLUTION and part == "val"):
        return Sidecar(member.name, member.read())
    if part == "val" and member.name.startswith(ANNOTATIONS) and member.name.endswith(".xml"):
        found = _NAME.search(member.read())  # all objects of an image are of its class
        return Sidecar(member.name, found[1]) if found else None
    return None


def val_wnids(sidecars: Mapping[str, bytes]) -> dict[str, str]:
    """Return the WNID of each validation image, by its file's name without the ending.

    Raises:
        SourceError: The list of solutions is broken.
    """
    if SOLUTION not in sidecars:
        return {
            name.removeprefix(ANNOTATIONS).removesuffix(".xml"): data.decode()
            for name, data in sidecars.items()
            if name.startswith(ANNOTATIONS)
        }
    found = {}
    rows = csv.reader(io.StringIO(sidecars[SOLUTION].decode("utf-8", "replace")))
    for number, row in enumerate(rows, 1):
        wnid = row[1].partition(" ")[0] if len(row) == 2 else ""
        if _WNID.fullmatch(wnid):
            found[row[0]] = wnid
        elif row and row[0] != "ImageId":
            raise SourceError(f"{SOLUTION}, line {number}: not an image, a comma, and a WNID with boxes: {row!r:.200}.")
    return found


def synonyms(sidecars: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    """Return the names of each WNID: both in ``n01440764 tench, Tinca tinca``."""
    lines = sidecars.get(SYNSETS, b"").decode("utf-8", "replace").splitlines()
    pairs = [line.strip().partition(" ") for line in lines if line.strip()]
    return {wnid: tuple(names.split(", ")) for wnid, _, names in pairs}
