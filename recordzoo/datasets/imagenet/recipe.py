"""How ImageNet (ILSVRC2012) becomes records: `imagenet.train.records` and `imagenet.val.records`.

Training needs nothing but the images: the inner archives, or the folders, are named by their WNIDs. Validation images
get theirs from the development kit (or torchvision's ``meta.bin``), unless a tree has them sorted already.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from recordzoo.aliases import JSON
from recordzoo.datasets.imagenet.meta import DEVKIT, META_BIN, SIDECARS, Meta, meta_source, parse_meta
from recordzoo.errors import SourceError
from recordzoo.recipes.base import Blob, Sidecar, Stored, Table
from recordzoo.recipes.class_folders import class_folder_order, class_labels, is_class_image, is_image
from recordzoo.recipes.declared import DeclaredRecipe
from recordzoo.sources.archive import ArchivedSource, ArchiveSource, ChainSource, NestedTarSource
from recordzoo.sources.member import Member, Source
from recordzoo.sources.tree import TreeSource

DOWNLOAD_PAGE = "https://image-net.org/challenges/LSVRC/2012/2012-downloads.php"

logger = logging.getLogger("recordzoo")


class ImageNet(DeclaredRecipe):
    """One split; labels are places in the sorted WNIDs, the order is ImageFolder's over ``<part>/<wnid>/``."""

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [f"{self.part}/<wnid>/"]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        return None  # `find` looks for it: the tree's lists come from another place

    @override
    def find(self, root: Path) -> Source | None:
        tree, archive, meta = root / self.part, root / self.raw_files[0].name, meta_source(root)
        found, _ = _look(tree)
        is_usable = meta is not None or self.part == "train"  # archive and flat folder do not tell the labels of "val"
        images: ArchivedSource
        if found == "sorted" or (found == "flat" and self.part == "val" and is_usable):
            images = TreeSource(tree, wanted=None if found == "flat" else is_class_image)
        elif archive.is_file() and is_usable:
            images = NestedTarSource(archive) if self.part == "train" else ArchiveSource(archive)
        else:
            return None
        return images if meta is None else ChainSource([images, meta])

    @override
    def looked_for(self, root: Path) -> list[str]:
        archive = self.raw_files[0].name
        found, loose = _look(root / self.part)
        note = f" (not sorted to the end: {loose} is still in {self.part}/)" if found == "broken" else ""
        if self.part == "train":
            return [f"train/<wnid>/{note}", archive]
        has_images = found == "flat" or (root / archive).is_file()
        return [
            f"val/<wnid>/{note}",
            f"{archive} (the images are there)" if has_images else archive,
            f"{DEVKIT} or torchvision's {META_BIN}"
            + (f" (missing: only they say which class an image has; see {DOWNLOAD_PAGE})" if has_images else ""),
        ]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if member.name in SIDECARS:
            yield Sidecar(member.name, member.read())
        elif is_image(member.name) and ("/" in member.name or self.part == "val"):
            yield Blob("image", member.name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = stored.keys.get("image", ())
        if not keys:
            raise SourceError(f"ImageNet: there is no image of the split {self.part!r} in the raw data.")
        meta = parse_meta(sidecars)
        placed = keys if self.part == "train" else _sort_into_wnids(keys, meta)
        order = class_folder_order(placed)
        names = [placed[index] for index in order]
        wnids, target = class_labels(names)
        self._compare_counts(len(wnids), len(names))
        return Table(
            names=names,
            keys={"image": [keys[index] for index in order]},
            arrays={"target": target},
            classes=wnids,
            metadata=synonyms_metadata(wnids, meta),
        )

    def _compare_counts(self, num_classes: int, num_images: int) -> None:
        """Say that images are missing: an interrupted extraction leaves a tree that looks whole."""
        expected = next(split.count for split in self.entry.splits if split.name == self.part)
        if num_classes == self.entry.num_classes and num_images != expected:
            logger.warning("ImageNet's split %r has %s images, not %s.", self.part, f"{num_images:,}", f"{expected:,}")


def synonyms_metadata(wnids: Sequence[str], meta: Meta | None) -> dict[str, JSON]:
    """Give what the record set keeps: the synonyms of each class, if they are known of every class."""
    if meta is None or not meta.synonyms.keys() >= set(wnids):
        return {}
    return {"synonyms": [list(meta.synonyms[wnid]) for wnid in wnids]}


def _sort_into_wnids(keys: Sequence[str], meta: Meta | None) -> Sequence[str]:
    """Name validation images ``<wnid>/<file>``, as torchvision sorts them: the sorted names beside the ground truth."""
    flat = sorted(key for key in keys if "/" not in key)
    if not flat:
        return keys
    if len(flat) < len(keys):
        raise SourceError(
            f"ImageNet: {len(flat)} validation images lie outside of a <wnid> folder (the first is {flat[0]}) and "
            f"{len(keys) - len(flat)} inside: sorting them was interrupted. Remove the folder val/ and start from "
            "ILSVRC2012_img_val.tar."
        )
    if meta is None:
        raise SourceError(
            f"ImageNet: the validation images are not sorted into <wnid> folders, and neither {DEVKIT} nor {META_BIN}, "
            f"which say which class each image has, is there. Get {DEVKIT} from {DOWNLOAD_PAGE}."
        )
    if len(flat) != len(meta.val_wnids):
        raise SourceError(
            f"ImageNet: there are {len(flat):,} validation images, but the ground truth of the development kit has "
            f"{len(meta.val_wnids):,} lines. The images are not complete, or do not belong to it."
        )
    wnid_of = dict(zip(flat, meta.val_wnids, strict=True))
    return [f"{wnid_of[key]}/{key}" for key in keys]


def _look(tree: Path) -> tuple[str, str]:
    """Say what a split's folder is: "sorted", "flat", "broken" (sorting it was interrupted), or "none".

    Returns:
        That, and for "broken" a file that should not be there any more: torchvision removes an inner archive of "train"
        when it is extracted, and moves the images of "val" into their folders one by one.
    """
    if not tree.is_dir():
        return "none", ""
    with os.scandir(tree) as entries:
        names = sorted((not entry.is_dir(), entry.name) for entry in entries)
    has_folders = bool(names) and not names[0][0]
    files = [name for is_file, name in names if is_file]
    archive = next((name for name in files if name.endswith(".tar")), "")
    image = next(filter(is_image, files), "")
    loose = archive or (image if tree.name == "val" else "")
    if has_folders:
        return ("broken", loose) if loose else ("sorted", "")
    return ("flat", "") if image else ("broken", archive) if archive else ("none", "")


RECIPES = {"imagenet": ImageNet}
