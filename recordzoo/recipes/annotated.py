"""Datasets of one folder of images and annotation files that the class reads whole: COCO, Flickr30k.

Each annotation file is a separate, unchanged record after the images: it belongs to all images, and reading an image
never reads it.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.base import INCOMPLETE, Blob, BlobField, Sidecar, Stored, Table, present
from recordzoo.recipes.class_folders import IMAGE_ENDINGS, files_under, is_image, name_key
from recordzoo.recipes.declared import DeclaredRecipe
from recordzoo.recipes.listed import is_apple_double, matching

ANNOTATIONS = "annotations"
"""The blob field of annotation files, and the first folder in their records' names."""


class AnnotatedRecipe(DeclaredRecipe):
    """A recipe of images and annotation files at the places in the facts (`Layout`). A tree may lack the latter.

    The record set is beside the folder of the images and has its name (``set_name`` in the facts), so that the root of
    torchvision's class finds it. Names of images are relative to that folder.
    """

    fields = {"image": BlobField("image"), ANNOTATIONS: BlobField("bytes")}  # noqa: RUF012 - never changed

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        if not (base / self.layout.top).is_dir():
            return None
        found = [name for pattern in self.layout.annotations for name in matching(base, pattern)]
        return [*files_under(base, self.layout.top, IMAGE_ENDINGS), *dict.fromkeys(found)]

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [self.layout.top]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        last = member.name.rpartition("/")[2]
        if is_apple_double(member.name):
            return
        if member.name.startswith(self.layout.top) and is_image(last):
            yield Blob("image", member.name.removeprefix(self.layout.top), member.read())
        elif any(fnmatchcase(member.name, pattern) for pattern in self.layout.annotations):
            yield Blob(ANNOTATIONS, last, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        images = set(stored.keys["image"])
        if not images:
            raise SourceError(
                f"{self.entry.title}: there is no image under {self.layout.top} in the raw data. {INCOMPLETE}"
            )
        files = {f"{ANNOTATIONS}/{key}": key for key in stored.keys[ANNOTATIONS]}
        names = sorted(images.union(files), key=name_key)
        return Table(
            names=names,
            keys={
                "image": present(names, images),
                ANNOTATIONS: [None if name in images else files[name] for name in names],
            },
            splits={self.part or "all": np.flatnonzero([name in images for name in names])},
        )
