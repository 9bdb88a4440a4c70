"""How COCO's images become records with other targets: masks of stuff, panoptic segments, LVIS's objects."""

import dataclasses
import json
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.own.coco import objects_of
from recordzoo.raw.archive import inner_members
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import DeclaredRecipe, files_under, is_apple_double
from recordzoo.recipes.recipe import Blob, BlobField, Sidecar, Stored, Table, present
from recordzoo.records.manifest import FieldKind, FieldSpec

CATEGORIES = "categories"
"""The categories of the annotation file, in the metadata."""

_IMAGE = ".jpg"


class CocoImages(DeclaredRecipe):
    """Images in folders of COCO, sorted by name, and annotations for some of them.

    Attributes:
        annotations: The name of a split's annotation file, if the recipe reads it.
        annotation_folders: The folders of a tree in which it may be.
    """

    annotations: ClassVar[str] = ""
    annotation_folders: ClassVar[Sequence[str]] = ("annotations/",)

    @property
    @abstractmethod
    def folders(self) -> Mapping[str, str]:
        """The folder of images of each split."""

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        targets = self._target_names(base)
        if not targets or not all((base / folder).is_dir() for folder in self.folders.values()):
            return None
        return [*(name for folder in self.folders.values() for name in files_under(base, folder, (_IMAGE,))), *targets]

    def _target_names(self, base: Path) -> Sequence[str]:
        """List the files with the targets in a tree; empty if one is missing."""
        names = [self.annotations.format(split=split) for split in self.folders]
        found = [
            folder + name for name in names for folder in self.annotation_folders if (base / folder / name).is_file()
        ]
        return found if len({name.rpartition("/")[2] for name in found}) == len(names) else []

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        folder, _, last = member.name.rpartition("/")
        if is_apple_double(member.name):
            return
        if folder in self.folders.values() and last.endswith(_IMAGE):
            yield Blob("image", self.image_key(member.name), member.read())
            return
        for split in self.folders:
            if self.annotations and last == self.annotations.format(split=split):
                try:
                    with member.open() as file:
                        yield from self.read_annotations(split, text_of(file.read(), member.name))
                except (ValueError, KeyError, TypeError) as err:
                    raise SourceError(f"{member.name} is not an annotation file of {self.dataset}: {err}") from err

    def image_key(self, name: str) -> str:
        """Return the key of an image by its name in the raw data."""
        return name.rpartition("/")[2]

    def read_annotations(self, split: str, text: str) -> Iterator[Blob | Sidecar]:
        """Read an annotation file."""
        return iter(())

    def images(self, stored: Stored) -> list[str]:
        """Return the names of all images, sorted.

        Raises:
            SourceError: There are none.
        """
        if not stored.keys["image"]:
            raise self.no_image(" or ".join(f"{folder}/" for folder in self.folders.values()))
        return sorted(stored.keys["image"])


class CocoStuff(CocoImages):
    """A part's images that have a mask. The masks are in a zip within the archive; a tree has that zip or its files.

    Attributes:
        masks: The name of that zip and of its folder.
    """

    fields = {"image": BlobField("image"), "mask": BlobField("image")}
    masks: ClassVar[str] = "stuff_{split}2017_pixelmaps"

    @property
    @override
    def folders(self) -> Mapping[str, str]:
        return {self.part: f"{self.part}2017"}

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [f"{self.part}2017/", f"annotations/{self._masks}/"]

    @property
    def _masks(self) -> str:
        return self.masks.format(split=self.part)

    @override
    def _target_names(self, base: Path) -> Sequence[str]:
        for folder in (f"annotations/{self._masks}", self._masks):
            if (base / folder).is_dir():
                return files_under(base, folder, (".png",))
        packed = f"annotations/{self._masks}.zip"
        return [packed] if (base / packed).is_file() else []

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        folder, _, last = member.name.rpartition("/")
        if is_apple_double(member.name):
            return
        if last == f"{self._masks}.zip":
            for inner in inner_members(member):
                yield from self.extract(
                    dataclasses.replace(inner, name=f"{self._masks}/{inner.name.rpartition('/')[2]}")
                )
        elif folder.rpartition("/")[2] == self._masks and last.endswith(".png"):
            yield Blob("mask", last.removesuffix(".png") + _IMAGE, member.read())
        else:
            yield from super().extract(member)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        names, masks = self.images(stored), set(stored.keys["mask"])
        return Table(
            names=names,
            keys={"mask": present(names, masks)},
            splits={self.part: [name for name in names if name in masks]},
            fields={"mask": FieldSpec(FieldKind.MASKS)},
            default_target="mask",
        )


class CocoPanoptic(CocoStuff):
    """Masks contain the ids of segments, which the annotation file describes."""

    fields = {**CocoStuff.fields, "annotation": BlobField("json")}
    masks = "panoptic_{split}2017"
    annotations = "panoptic_{split}2017.json"

    @override
    def _target_names(self, base: Path) -> Sequence[str]:
        masks, annotations = super()._target_names(base), CocoImages._target_names(self, base)
        return [*masks, *annotations] if masks and annotations else []

    @override
    def read_annotations(self, split: str, text: str) -> Iterator[Blob | Sidecar]:
        categories = []
        for key, value, its_text in objects_of(text, (CATEGORIES, "annotations")):
            if key == CATEGORIES and value is not None:
                categories.append(value)
            elif value is not None:
                name = value["file_name"].removesuffix(".png") + _IMAGE
                yield Blob("annotation", name, its_text.encode())
        yield Sidecar(CATEGORIES, json.dumps(categories).encode())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        annotated = set(stored.keys["annotation"])
        return dataclasses.replace(
            table,
            keys={**table.keys, "annotation": present(table.names, annotated)},
            splits={self.part: [name for name in table.splits[self.part] if name in annotated]},
            fields={},  # each colour of a mask is an id
            default_target="annotation",
            metadata={CATEGORIES: json.loads(sidecars.get(CATEGORIES, b"[]"))},
        )


class LVIS(CocoImages):
    """All images of COCO's train2017 and val2017: each split of LVIS has some of both.

    Memory: about three times the size of the annotation file.
    """

    fields = {"image": BlobField("image"), "annotation": BlobField("json"), "info": BlobField("json")}
    folders = {"train": "train2017", "val": "val2017"}
    annotations = "lvis_v1_{split}.json"
    annotation_folders = ("", "annotations/")
    names_folder = ""

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [*(f"{folder}/" for folder in self.folders.values()), "lvis_v1_train.json"]

    @override
    def image_key(self, name: str) -> str:
        return name

    @override
    def read_annotations(self, split: str, text: str) -> Iterator[Blob | Sidecar]:
        categories = []
        names: dict[int, str] = {}
        objects: dict[int, list[str]] = defaultdict(list)
        for key, value, its_text in objects_of(text, (CATEGORIES, "images", "annotations")):
            if value is None:
                continue
            if key == CATEGORIES:
                categories.append(value)
            elif key == "annotations":
                objects[value["image_id"]].append(its_text)
            else:
                names[value["id"]] = name = "/".join(value["coco_url"].rsplit("/", 2)[1:])
                yield Blob("info", name, its_text.encode())
        for number, name in names.items():
            yield Blob("annotation", name, f"[{','.join(objects[number])}]".encode())
        yield Sidecar(split, json.dumps([names[number] for number in sorted(names)]).encode())
        yield Sidecar(f"{CATEGORIES}_{split}", json.dumps(categories).encode())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        names = self.images(stored)
        categories = [sidecars[key] for split in self.folders if (key := f"{CATEGORIES}_{split}") in sidecars]
        return Table(
            names=names,
            keys={field: present(names, stored.keys[field]) for field in ("annotation", "info")},
            splits={split: json.loads(sidecars[split]) for split in self.folders if split in sidecars},
            default_target="annotation",
            metadata={CATEGORIES: json.loads(categories[0]) if categories else []},
        )
