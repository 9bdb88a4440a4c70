"""Recipe for a directory of images without class folders: all images, no classes, target -1."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.base.program import command
from recordzoo.errors import FolderError
from recordzoo.net.download import RemoteFile
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.base import NO_TARGET, Blob, BlobField, Recipe, Stored, Table
from recordzoo.recipes.class_folders import IMAGE_ENDINGS, is_image
from recordzoo.recipes.folder import records_beside
from recordzoo.records.kinds import SetKind


def recipe() -> "FlatRecipe":
    """Return the recipe."""
    return FlatRecipe()


class FlatRecipe(Recipe):
    """The images in a directory and below it, in the order of ``sorted(os.walk(directory))``."""

    kind = dataset = SetKind.FLAT
    part = ""
    fields = {"image": BlobField("image")}  # noqa: RUF012 - declared by Recipe, never changed
    raw_files: tuple[RemoteFile, ...] = ()

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the directory."""
        return records_beside(root)

    @override
    def title(self, root: Path) -> str:
        return root.resolve().name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", root, "--from", "flat")

    def find(self, root: Path) -> Source | None:
        """List the images.

        Raises:
            FolderError: There is no such directory, or no image in it.
        """
        source = TreeSource(root.resolve(), wanted=is_image)
        if not len(source.files().sizes):
            raise FolderError(f"There are no images in {root} ({', '.join(IMAGE_ENDINGS)}).", path=os.fspath(root))
        return source

    @override
    def looked_for(self, root: Path) -> list[str]:
        return ["images"]

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        yield Blob("image", member.name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = list(stored.keys["image"])
        return Table(
            names=keys,
            arrays={"target": np.full(len(keys), NO_TARGET, np.int64)},
        )
