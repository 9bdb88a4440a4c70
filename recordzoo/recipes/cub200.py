"""How CUB-200-2011 becomes records: the photographs with their annotations, and the masks at the same positions.

Every annotation file is optional: one that is absent leaves its array out, and with it the target that needs it. One
that is there must be whole, because a silent zero would be a wrong label.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recordzoo.errors import ArgumentError, SourceError
from recordzoo.recipes import cub200_annotations as annotations
from recordzoo.recipes.base import ABSENT, Arrangement, Blob, BlobField, Recipe, Side, Stored
from recordzoo.recipes.class_folders import IMAGE_ENDINGS, class_folder_order, class_labels, is_class_image
from recordzoo.recipes.raw_files import files_of_part
from recordzoo.sources.archive import ArchiveSource
from recordzoo.sources.download import RemoteFile
from recordzoo.sources.member import Member, Source
from recordzoo.sources.tree import TreeSource

FOLDER = "CUB_200_2011"
IMAGES = f"{FOLDER}/images/"
MASKS = "segmentations/"


def recipe(
    part: str = "", raw_files: tuple[RemoteFile, ...] | None = None, names: Sequence[str] | None = None
) -> Recipe:
    """Return the recipe of the images, or of the masks.

    Args:
        part: "" or "segmentations".
        raw_files: Where the archives come from (those of other parts are passed over); the catalogue's by default.
        names: For the masks: the names of the images' record set, whose positions the masks follow. Without them there
            must be a mask for every image, and the positions are the same then.
    """
    if part not in ("", "segmentations"):
        raise ArgumentError(f"Unknown value {part!r} for argument part. Valid values are '' and 'segmentations'.")
    files = files_of_part("cub200", part, raw_files)
    return CUB200Segmentations(files, None if names is None else tuple(names)) if part else CUB200(files)


@dataclass(frozen=True)
class CUB200(Recipe):
    """The images with their boxes, parts and attributes, in ImageFolder's order over ``CUB_200_2011/images``."""

    raw_files: tuple[RemoteFile, ...]

    dataset = "cub200"
    part = ""
    fields = {"image": BlobField("image")}  # noqa: RUF012 - declared by Recipe, never changed

    def find(self, root: Path) -> Source | None:
        """See `Recipe`."""
        if (root / IMAGES).is_dir():
            sides = [name for name in annotations.FILES if (root / name).is_file()]
            return TreeSource(root, [*_files_under(root, IMAGES, IMAGE_ENDINGS), *sides])
        return _archive(root, self.raw_files)

    def looked_for(self, root: Path) -> list[str]:
        """See `Recipe`."""
        return [IMAGES, *(file.name for file in self.raw_files)]

    def extract(self, member: Member) -> Iterator[Blob | Side]:
        """See `Recipe`."""
        name = member.name.removeprefix(IMAGES)
        if name != member.name:
            if is_class_image(name):
                yield Blob("image", name, member.read())
        elif name in annotations.FILES:
            yield Side(name, member.read())

    def arrange(self, stored: Stored, sides: Mapping[str, bytes]) -> Arrangement:
        """See `Recipe`."""
        keys = stored.keys.get("image", ())
        if not keys:
            raise SourceError(f"CUB-200-2011: there is no image under {IMAGES} in the raw data.")
        order = class_folder_order(keys)
        names = [keys[index] for index in order]
        classes, target = class_labels(names)
        parsed = annotations.parse(names, sides, stored.skipped)
        return Arrangement(
            names=names,
            blobs={"image": order},
            arrays={"target": target, **parsed.arrays},
            splits=parsed.splits,
            classes=classes,
            metadata=parsed.metadata,
        )


@dataclass(frozen=True)
class CUB200Segmentations(Recipe):
    """The masks, at the positions of the images; an image without a mask has none here either."""

    raw_files: tuple[RemoteFile, ...]
    names: tuple[str, ...] | None = None

    dataset = "cub200"
    part = "segmentations"
    expansion = 1.5  # masks of 3.3 KB on average take a page or two each
    fields = {"mask": BlobField("image")}  # noqa: RUF012 - declared by Recipe, never changed

    # Any: JSON, declared so by Recipe.
    @property
    def options(self) -> Mapping[str, Any]:
        """See `Recipe`."""
        return {} if self.names is None else {"images": names_digest(self.names)}

    def find(self, root: Path) -> Source | None:
        """See `Recipe`."""
        if (root / MASKS).is_dir():
            return TreeSource(root, _files_under(root, MASKS, (".png",)))
        return _archive(root, self.raw_files)

    def looked_for(self, root: Path) -> list[str]:
        """See `Recipe`."""
        return [MASKS, *(file.name for file in self.raw_files)]

    def extract(self, member: Member) -> Iterator[Blob | Side]:
        """See `Recipe`."""
        name = member.name.removeprefix(MASKS)
        if name != member.name and name.lower().endswith(".png"):
            yield Blob("mask", name, member.read())

    def arrange(self, stored: Stored, sides: Mapping[str, bytes]) -> Arrangement:
        """See `Recipe`."""
        keys = stored.keys.get("mask", ())
        names = self.names
        if names is None:
            names = tuple(f"{_stem(keys[slot])}.jpg" for slot in class_folder_order(keys))
        slot_of = {_stem(key): slot for slot, key in enumerate(keys)}
        slots = [slot_of.get(_stem(name), ABSENT) for name in names]
        if all(slot == ABSENT for slot in slots):
            raise SourceError(
                f"CUB-200-2011: none of the {len(keys)} masks under {MASKS} belongs to any of the {len(names)} images; "
                f"a mask is named {MASKS}<class>/<image's name>.png."
            )
        return Arrangement(
            names=names,
            blobs={"mask": np.array(slots, dtype=np.int64)},
            metadata={"images": names_digest(names)},
        )


def names_digest(names: Sequence[str]) -> str:
    """Digest the names of the images' record set, which the masks' record set keeps to tell whose positions it has."""
    text = "\n".join(names).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _archive(root: Path, raw_files: tuple[RemoteFile, ...]) -> Source | None:
    path = root / raw_files[0].name
    return ArchiveSource(path) if path.is_file() else None


def _files_under(root: Path, folder: str, endings: tuple[str, ...]) -> list[str]:
    found = sorted(os.walk(root / folder, followlinks=True))
    return [
        (Path(path) / file).relative_to(root).as_posix()
        for path, _, files in found
        for file in sorted(files)
        if file.lower().endswith(endings)
    ]
