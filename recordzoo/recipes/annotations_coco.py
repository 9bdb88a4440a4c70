"""Find COCO's instance files beside their images, and read them without keeping their objects in memory.

The format: https://cocodataset.org/#format-data. An object's JSON text is kept unchanged, so that polygons, run
lengths, areas and further keys are not lost. Memory: twice the file's size.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recordzoo.base.text import name_first
from recordzoo.recipes.annotations import Annotations, Problems, is_file_name, is_split, slug, split_name
from recordzoo.recipes.json_objects import objects_of
from recordzoo.records.kinds import BoxFormat

COCO = "coco"
"""The format's name."""

_HEAD = re.compile(rb'\s*\{\s*"(info|licenses|images|annotations|categories|type)"\s*:')
_KEYS = (b'"bbox"', b'"category_id"', b'"image_id"', b'"file_name"', b'"supercategory"')
_LOOKED_BYTES = 1 << 16
_NOT_INSTANCES = ("captions", "person_keypoints", "image_info", "panoptic", "stuff")
_IDS_TRIED = 5
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


def coco_files(root: Path) -> list[str]:
    """List the instance files of a directory, relative to it, sorted; detected by names, first and last bytes.

    They are in the directory, in `annotations/`, or in folders named like splits. Files named instances_* are
    preferred; COCO's own files of captions, keypoints and so on are skipped.
    """
    with os.scandir(root) as entries:
        names = [entry.name for entry in entries if entry.is_dir()]
    folders = ["", *(name for name in sorted(names) if name.lower() == "annotations" or is_split(name))]
    found = []
    for folder in folders:
        for path in sorted((root / folder).glob("*.json")):
            if not path.name.startswith(_NOT_INSTANCES) and _looks_like_coco(path):
                found.append(path.relative_to(root).as_posix())
    instances = [name for name in found if name.rpartition("/")[2].startswith("instances")]
    return instances or found


def _looks_like_coco(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(_LOOKED_BYTES)
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOOKED_BYTES))
            return _HEAD.match(head) is not None and any(key in head + file.read() for key in _KEYS)
    except OSError:
        return False


def read_coco(root: Path) -> Annotations:
    """Read the instance files of a directory.

    Records are in the order of the files and, within a file, of the images' ids, as in torchvision's `CocoDetection`.
    Classes are numbered from 0 in the order of the categories' ids; the metadata keeps the ids.

    Raises:
        SourceError: The files contradict themselves, or one is damaged; the message names up to 20 problems.
    """
    problems = Problems(root)
    names = coco_files(root)
    if not names:
        problems.add("it has no COCO JSON of instances, neither in it nor in annotations/")
    files = [_CocoFile(root, name, problems) for name in names]
    for file in files:
        file.read()
    problems.raise_if_any()
    categories = _categories(files, problems)
    label_of = {number: label for label, number in enumerate(categories)}
    images: list[str] = []
    boxes, labels, texts, ids = [], [], [], []
    positions: dict[str, list[int]] = {}
    for file, split in zip(files, _splits(names), strict=True):
        folder = file.image_folder()
        for number in sorted(file.images):
            positions.setdefault(split, []).append(len(images))
            images.append(f"{folder}/{file.images[number]}" if folder else file.images[number])
            objects = file.objects.pop(number, None) or _Objects()
            boxes.append(np.array(objects.boxes, np.float32).reshape(-1, 4))
            labels.append(np.array([label_of[each] for each in objects.categories], np.int64))
            texts.append(f"[{','.join(objects.texts)}]".encode())
            ids.append(number)
    _refuse_repeated(images, problems)
    problems.raise_if_any()
    return Annotations(
        COCO,
        names,
        images,
        {name: np.array(found, np.int64) for name, found in positions.items() if name},
        boxes=boxes,
        labels=labels,
        texts=texts,
        image_ids=np.array(ids, np.int64),
        classes=tuple(categories.values()),
        box_format=BoxFormat.XYWH,
        metadata={"category_ids": list(categories)},
        remarks=[f"read {name_first(names, _IDS_TRIED)}"],
    )


def _categories(files: "Sequence[_CocoFile]", problems: Problems) -> dict[int, str]:
    found: dict[int, str] = {}
    for file in files:
        for number, name in file.categories.items():
            if found.setdefault(number, name) != name:
                problems.add(f"{file.name}: category {number} is {name!r}, and {found[number]!r} in another file")
    return {number: found[number] for number in sorted(found)}


@dataclass
class _Objects:
    """The objects in an image."""

    boxes: list[list[float]] = field(default_factory=list)
    categories: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


class _CocoFile:
    """One file and its problems.

    Attributes:
        images: File names by the images' ids.
        categories: Names by the categories' ids.
        objects: The objects by the images' ids.
    """

    def __init__(self, root: Path, name: str, problems: Problems) -> None:
        self.name = name
        self.images: dict[int, str] = {}
        self.categories: dict[int, str] = {}
        self.objects: dict[int, _Objects] = {}
        self._root, self._problems = root, problems
        self._lists: set[str] = set()

    def read(self) -> None:
        """Read the file and collect its problems."""
        readers: dict[str, Callable[[Any, str], None]] = {
            "images": self._image,
            "categories": self._category,
            "annotations": self._object,
        }
        try:
            text = (self._root / self.name).read_text("utf-8-sig")
            for key, value, its_text in objects_of(text, readers):
                self._lists.add(key)
                if value is not None:
                    readers[key](value, its_text)
        except (OSError, ValueError, RecursionError) as err:
            self._note(f"it cannot be read as JSON ({err})")
            return
        for key in readers:
            if key not in self._lists:
                self._note(f"it has no list {key!r}")
        self._check_references()

    def _check_references(self) -> None:
        absent = [number for number in self.objects if number not in self.images]
        if absent:
            self._note(f"annotations of {len(absent):,} images that it does not list: {_shown(absent)}")
        used = {number for objects in self.objects.values() for number in objects.categories}
        unknown = sorted(used - self.categories.keys())
        if unknown and "categories" in self._lists:
            self._note(f"annotations with categories that it does not list: {_shown(unknown)}")

    def image_folder(self) -> str:
        """Return the folder that file names are relative to: the first usual folder that has any of the images.

        If no folder has any, return the first that exists: each image is then reported as missing there.
        """
        part = _part(self.name)
        beside = self.name.rpartition("/")[0]
        split = split_name(part)
        usual = [part, f"images/{part}", split, f"images/{split}", beside, "images", "", f"{beside}/images".lstrip("/")]
        folders = [folder for folder in dict.fromkeys(usual) if (self._root / folder).is_dir()]
        some = list(self.images.values())[:: max(1, len(self.images) // _IDS_TRIED)]
        counts = [sum((self._root / folder / name).is_file() for name in some) for folder in folders]
        return folders[counts.index(max(counts))]

    # Any, here and below: JSON values.
    def _image(self, image: Any, text: str) -> None:
        number, name = image.get("id"), image.get("file_name")
        if not _is_int64(number) or not isinstance(name, str) or not name:
            self._note(f"an image without a whole number as id, or without file_name: {text[:80]}")
            return
        name = os.path.normpath(name).replace(os.sep, "/")
        if not is_file_name(name):
            self._note(f"the file_name {name!r} is no path in the directory")
        if self.images.setdefault(number, name) != name:
            self._note(f"two images have the id {number}: {self.images[number]} and {name}")

    def _category(self, category: Any, text: str) -> None:
        number, name = category.get("id"), category.get("name")
        if not _is_int64(number) or not isinstance(name, str):
            self._note(f"a category without a whole number as id, or without name: {text[:80]}")
        elif self.categories.setdefault(number, name) != name:
            self._note(f"two categories have the id {number}: {self.categories[number]!r} and {name!r}")

    def _object(self, found: Any, text: str) -> None:
        image, category, box = found.get("image_id"), found.get("category_id"), found.get("bbox")
        if not _is_int64(image) or not _is_int64(category):
            self._note(f"an annotation without whole numbers as image_id and category_id: {text[:80]}")
        elif not isinstance(box, list) or len(box) != 4 or not all(map(_is_finite, box)):
            self._note(f"annotation {found.get('id')} of image {image}: bbox is {str(box)[:80]}, not four numbers")
        else:
            objects = self.objects.setdefault(image, _Objects())
            objects.boxes.append(box)
            objects.categories.append(category)
            objects.texts.append(text)

    def _note(self, problem: str) -> None:
        self._problems.add(f"{self.name}: {problem}")


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _MAX_FLOAT32  # false for NaN


def _shown(numbers: Sequence[int]) -> str:
    return name_first([str(number) for number in numbers], _IDS_TRIED)


def _splits(names: Sequence[str]) -> list[str]:
    """Return the split of each file, by its own or its folder's name; "" for no split.

    Files that would share a split keep their full names: "train2014" and "train2017".
    """
    found = [_split_of(name) for name in names]
    return found if len(set(found)) == len(found) else [slug(_part(name)) for name in names]


def _split_of(name: str) -> str:
    folder, _, file = name.rpartition("/")
    word = next(filter(is_split, slug(_part(file)).split("-")), folder)
    return split_name(word) if is_split(word) else ""


def _part(name: str) -> str:
    """Return the part that a file names: "train2017" for annotations/instances_train2017.json."""
    return name.rpartition("/")[2].removesuffix(".json").removeprefix("instances_")


def _refuse_repeated(images: Sequence[str], problems: Problems) -> None:
    seen: set[str] = set()
    for name in images:
        if name in seen:
            problems.add(f"{name} is listed twice; an image has one record")
        seen.add(name)
