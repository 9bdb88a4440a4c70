"""How COCO's images become records with other targets: masks of stuff, panoptic segments, LVIS's objects."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.own.annotations import objects_of
from recordzoo.raw.archive import inner_members
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import DeclaredRecipe, Files, ListedRecipe, Lists, files_under, is_apple_double
from recordzoo.recipes.recipe import Blob, Sidecar, Stored, Table, present
from recordzoo.records.manifest import BlobSpec, FieldKind, FieldSpec

CATEGORIES = "categories"
"""The categories of the annotation file, in the metadata."""

_IMAGE = ".jpg"


def _text(member: Member) -> str:
    with member.open() as file:
        return text_of(file.read(), member.name)


class CocoStuff(ListedRecipe):
    """A part's images that have a mask. The masks are in a zip within the archive; a tree has that zip or its files.

    Attributes:
        masks: The name of that zip and of its folder.
    """

    masks: ClassVar[str] = "stuff_{split}2017_pixelmaps"

    @property
    def _masks(self) -> str:
        return self.masks.format(split=self.part)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"{self.part}2017/", (_IMAGE,)), "mask": (f"annotations/{self._masks}/", (".png",))}

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [folder for folder, _ in self.files.values()]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        (images, endings), (folder, _) = self.files.values()
        packed = f"annotations/{self._masks}.zip"
        masks = [packed] if (base / packed).is_file() else []
        for place in (self._masks, folder):
            masks = files_under(base, place.rstrip("/"), (".png",)) if (base / place).is_dir() else masks
        return [*files_under(base, images, endings), *masks] if masks and (base / images).is_dir() else None

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        *_, folder, last = ("", *member.name.split("/"))
        if last == f"{self._masks}.zip":
            for inner in inner_members(member):
                name = inner.name.rpartition("/")[2]
                yield from self.extract(dataclasses.replace(inner, name=f"{self._masks}/{name}"))
            return
        if folder == self._masks:
            member = dataclasses.replace(member, name=self.files["mask"][0] + last)
        yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names, masks = sorted(keys["image"]), set(keys["mask"])
        if not names:
            raise self.no_image(self.files["image"][0])
        return Table(
            names=names,
            splits={self.part: [name for name in names if name.removesuffix(_IMAGE) + ".png" in masks]},
            fields={"mask": FieldSpec(FieldKind.MASKS)},
            default_target="mask",
        )


class CocoPanoptic(CocoStuff):
    """Masks contain the ids of segments, which the annotation file describes."""

    masks = "panoptic_{split}2017"

    @property
    @override
    def fields(self) -> Mapping[str, BlobSpec]:  # type: ignore[override]  # a constant of other recipes
        return {**super().fields, "annotation": BlobSpec("json")}

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        names, annotations = super().tree_names(base), f"annotations/{self._masks}.json"
        return [*names, annotations] if names and (base / annotations).is_file() else None

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if member.name.rpartition("/")[2] != f"{self._masks}.json":
            yield from super().extract(member)
            return
        categories = []
        try:
            for key, value, its_text in objects_of(_text(member), (CATEGORIES, "annotations")):
                if key == CATEGORIES and value is not None:
                    categories.append(value)
                elif value is not None:
                    name = value["file_name"].removesuffix(".png") + _IMAGE
                    yield Blob("annotation", name, its_text.encode())
        except (ValueError, KeyError, TypeError) as err:
            raise SourceError(f"{member.name} is not an annotation file of {self.dataset}: {err}") from err
        yield Sidecar(CATEGORIES, json.dumps(categories).encode())

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        table, annotated = super().table(keys, lists), set(keys["annotation"])
        return dataclasses.replace(
            table,
            keys={"annotation": present(table.names, annotated)},
            splits={self.part: [name for name in table.splits[self.part] if name in annotated]},
            fields={},  # each colour of a mask is an id
            default_target="annotation",
            metadata={CATEGORIES: json.loads(lists.get(CATEGORIES, b"[]"))},
        )


_LVIS_FOLDERS = ("train2017", "val2017")
_LVIS_LISTS = {"lvis_v1_train.json": "train", "lvis_v1_val.json": "val"}


class LVIS(DeclaredRecipe):
    """All images of COCO's train2017 and val2017: each split of LVIS has some of both.

    Memory: about three times the size of the annotation file.
    """

    fields = {"image": BlobSpec("image"), "annotation": BlobSpec("json"), "info": BlobSpec("json")}
    tree_marks = ("train2017/", "val2017/", "lvis_v1_train.json")
    names_folder = ""

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        lists = [
            next((folder + name for folder in ("", "annotations/") if (base / folder / name).is_file()), "")
            for name in _LVIS_LISTS
        ]
        if not all(lists) or not all((base / folder).is_dir() for folder in _LVIS_FOLDERS):
            return None
        return [*(name for folder in _LVIS_FOLDERS for name in files_under(base, folder, (_IMAGE,))), *lists]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        folder, _, last = member.name.rpartition("/")
        if folder in _LVIS_FOLDERS and last.endswith(_IMAGE) and not is_apple_double(last):
            yield Blob("image", member.name, member.read())
        elif last in _LVIS_LISTS:
            try:
                yield from _lvis_annotations(_LVIS_LISTS[last], _text(member))
            except (ValueError, KeyError, TypeError) as err:
                raise SourceError(f"{member.name} is not an annotation file of {self.dataset}: {err}") from err

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        names = sorted(stored.keys["image"])
        if not names:
            raise self.no_image(" or ".join(self.tree_marks[:2]))
        categories = [data for key, data in sorted(sidecars.items()) if key.startswith(CATEGORIES)]
        return Table(
            names=names,
            keys={field: present(names, stored.keys[field]) for field in ("annotation", "info")},
            splits={split: json.loads(sidecars[split]) for split in _LVIS_LISTS.values() if split in sidecars},
            default_target="annotation",
            metadata={CATEGORIES: json.loads(categories[0]) if categories else []},
        )


def _lvis_annotations(split: str, text: str) -> Iterator[Blob | Sidecar]:
    """Yield what an annotation file says of each image, the names of the split's images, and the categories."""
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
