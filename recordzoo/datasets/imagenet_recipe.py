"""How ImageNet (ILSVRC2012) becomes records: `imagenet.train.records` and `imagenet.val.records`.

Training needs nothing but the images: the inner archives, or the folders, are named by their WNIDs. Validation images
get theirs from the development kit (or torchvision's ``meta.bin``, or Kaggle's lists), unless a tree has them sorted
already. Whatever the form of the raw data, an image is stored under the key ``<wnid>/<file>``, or ``<file>`` until its
WNID is known.

The test sets for its models follow: other class folders, and other labels.
"""

import dataclasses
import functools
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.base.text import JSON, counted, name_first
from recordzoo.datasets import imagenet_forms as forms
from recordzoo.errors import SourceError
from recordzoo.raw.archive import ArchiveSource, ChainSource, NestedTarSource
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.declared import (
    ClassFolderRecipe,
    DeclaredRecipe,
    class_folder_order,
    class_labels,
    files_under,
    is_apple_double,
    is_class_image,
    is_image,
)
from recordzoo.recipes.recipe import INCOMPLETE, Blob, Sidecar, Stored, Table
from recordzoo.records.manifest import BlobSpec

DOWNLOAD_PAGE = "https://image-net.org/challenges/LSVRC/2012/2012-downloads.php"

_NUMBER = re.compile(r"ILSVRC2012_val_([0-9]{8})\.JPEG")

logger = logging.getLogger("recordzoo")
_first = functools.partial(name_first, most=10)


class ImageNet(DeclaredRecipe):
    """One split; labels are places in the sorted WNIDs, the order is ImageFolder's over ``<part>/<wnid>/``."""

    _missing_shards: Sequence[str] = ()

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [f"{self.part}/<wnid>/"]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        return None  # `find` looks for it: the tree's lists come from another place

    @override
    def find(self, root: Path) -> Source | None:
        meta = forms.meta_source(root)
        lists = None if meta is not None else forms.kaggle_lists(root, self.part)
        is_labelled = self.part == "train" or meta is not None or forms.has_labels(lists)
        images = self._images(root, is_labelled)
        if images is not None:
            others = meta or lists
            return images if others is None else ChainSource([images, others])
        shards = forms.shards_source(root, self.part)
        if shards is None:
            return None
        self._check_package("pyarrow")
        self._missing_shards = forms.missing_shards(shards)
        return shards if meta is None else ChainSource([shards, meta])

    def _trees(self, root: Path) -> list[Path]:
        """Return the possible folders of the split; the first is Kaggle's and unzip tools'."""
        return [root / self.part / self.part, root / self.part, root / forms.KAGGLE_IMAGES / self.part]

    def _images(self, root: Path, is_labelled: bool) -> Source | None:
        """Find image files or archives; those without class folders only if the labels are known from elsewhere."""
        for tree in self._trees(root):
            found, _ = _look(tree)
            if found == "sorted":
                return TreeSource(tree, wanted=is_class_image)
            if found == "flat" and self.part == "val" and is_labelled:
                return TreeSource(tree)
        archive = root / self.raw_files[0].name
        if archive.is_file() and is_labelled:
            return NestedTarSource(archive) if self.part == "train" else ArchiveSource(archive)
        archive = root / forms.KAGGLE_ARCHIVE
        return ArchiveSource(archive) if archive.is_file() else None

    @override
    def looked_for(self, root: Path) -> list[str]:
        archive = self.raw_files[0].name
        found, loose = _look(root / self.part)
        note = f" (not sorted to the end: {loose} is still in {self.part}/)" if found == "broken" else ""
        others = [
            f"{forms.KAGGLE_IMAGES}/{self.part}/",
            forms.KAGGLE_ARCHIVE,
            f"{forms.PARQUET_SPLITS[self.part]}-*.parquet",
        ]
        if self.part == "train":
            return [f"train/<wnid>/{note}", archive, *others]
        return [
            f"val/<wnid>/{note}",
            archive,
            f"{forms.DEVKIT} or torchvision's {forms.META_BIN} or Kaggle's {forms.SOLUTION} (only they say which class "
            f"an image has: {DOWNLOAD_PAGE})",
            *others,
        ]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if member.name.endswith(forms.PARQUET):
            for name, data in forms.parquet_images(member):
                yield Blob("image", name, data)
            return
        if member.name in (*forms.SIDECARS, *forms.kaggle_files(self.part)):
            yield Sidecar(member.name, member.read())
        name = forms.kaggle_image_name(member.name, self.part)
        if is_image(name) and not is_apple_double(name) and ("/" in name or self.part == "val"):
            yield Blob("image", name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = stored.keys.get("image", ())
        if not keys:
            raise SourceError(f"ImageNet: there is no image of the split {self.part!r} in the raw data. {INCOMPLETE}")
        meta = forms.parse_meta(sidecars)
        synonyms = forms.kaggle_synonyms(sidecars) if meta is None else meta.synonyms
        placed = keys if self.part == "train" else _sort_into_wnids(keys, meta, forms.kaggle_val_wnids(sidecars))
        order = class_folder_order(placed)
        names = [placed[index] for index in order]
        wnids, target = class_labels(names)
        incomplete = self._what_is_missing(wnids, len(names))
        if incomplete:
            logger.warning("ImageNet's split %r %s", self.part, incomplete)
        return Table(
            names=names,
            keys={"image": [keys[index] for index in order]},
            arrays={"target": target},
            classes=wnids,
            metadata={**synonyms_metadata(wnids, synonyms), **({"incomplete": incomplete} if incomplete else {})},
        )

    def _what_is_missing(self, wnids: Sequence[str], count: int) -> str:
        """Say what is missing, or "": an interrupted extraction or download leaves a tree that looks whole."""
        expected = next(split.count for split in self.entry.splits if split.name == self.part)
        if count == expected:
            return ""
        facts = [f"has {counted(count, 'image')}, not {expected:,}."]
        there = set(wnids)
        missing = [wnid for wnid in forms.all_wnids() if wnid not in there]
        facts += [f"Classes without images: {_first(missing)}."] if missing else []
        facts += [f"Shards that are missing: {_first(self._missing_shards)}."] if self._missing_shards else []
        return " ".join(facts)


def synonyms_metadata(wnids: Sequence[str], synonyms: Mapping[str, Sequence[str]]) -> dict[str, JSON]:
    """Return the metadata: the synonyms of each class, if they are known for every class."""
    if not synonyms or not synonyms.keys() >= set(wnids):
        return {}
    return {"synonyms": [list(synonyms[wnid]) for wnid in wnids]}


def _sort_into_wnids(keys: Sequence[str], meta: forms.Meta | None, by_kaggle: Mapping[str, str]) -> Sequence[str]:
    """Name validation images ``<wnid>/<file>``, by the ground truth or by Kaggle's lists."""
    flat = sorted(key for key in keys if "/" not in key)
    if not flat:
        return keys
    if len(flat) < len(keys):
        raise SourceError(
            f"ImageNet: {len(flat)} validation images lie outside of a <wnid> folder (the first is {flat[0]}) and "
            f"{len(keys) - len(flat)} inside: sorting them was interrupted. Remove the folder val/ and start from "
            "ILSVRC2012_img_val.tar."
        )
    if meta is not None:
        wnid_of = _by_ground_truth(flat, meta.val_wnids)
    elif by_kaggle:
        wnid_of = {key: by_kaggle.get(os.path.splitext(key)[0], "") for key in flat}
    else:
        raise SourceError(
            f"ImageNet: the validation images are not sorted into <wnid> folders, and nothing that says which class "
            f"each image has ({forms.DEVKIT}, {forms.META_BIN}, {forms.SOLUTION}) is there. Get {forms.DEVKIT} from "
            f"{DOWNLOAD_PAGE}."
        )
    if unknown := [key for key, wnid in wnid_of.items() if not wnid]:
        raise SourceError(
            f"ImageNet: the lists do not say the class of {counted(len(unknown), 'image')}: {_first(unknown)}."
        )
    return [f"{wnid_of[key]}/{key}" for key in keys]


def _by_ground_truth(flat: Sequence[str], val_wnids: Sequence[str]) -> dict[str, str]:
    """Return the WNID of each image: by its place if all images are there, as in torchvision; else by its number."""
    if len(flat) == len(val_wnids):
        return dict(zip(flat, val_wnids, strict=True))
    numbers = [int(match[1]) if (match := _NUMBER.fullmatch(key)) else 0 for key in flat]
    if min(numbers) > 0 and max(numbers) <= len(val_wnids):
        return {key: val_wnids[number - 1] for key, number in zip(flat, numbers, strict=True)}
    raise SourceError(
        f"ImageNet: there are {len(flat):,} validation images, but the ground truth of the development kit has "
        f"{len(val_wnids):,} lines. The images do not belong to it, or were renamed."
    )


def _look(tree: Path) -> tuple[str, str]:
    """Return the state of a split's folder: "sorted", "flat", "broken" (sorting was interrupted), or "none".

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

    fields = {"image": BlobSpec("image"), "target": BlobSpec("json")}
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
