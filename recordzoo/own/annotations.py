"""What the formats of annotations share: folders, splits, problems, the listing; and COCO's instance files.

COCO is read without keeping its objects in memory. An object's JSON text is kept unchanged, so that polygons, run
lengths, areas and further keys are not lost. Memory: twice the file's size. The format:
https://cocodataset.org/#format-data.
"""

import codecs
import itertools
import json
import os
import re
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import MAX_TEXT_BYTES, is_folder, open_at_once, read_text
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, Faults, counted, lines_of, name_first, no_constant
from recordzoo.errors import SourceError
from recordzoo.formats.base import split_name
from recordzoo.own.listing import Column, Listing
from recordzoo.own.values import is_storable
from recordzoo.recipes.declared import IMAGE_ENDINGS, SPLIT_NAMES, files_under
from recordzoo.records.arrays import leads_out
from recordzoo.records.manifest import BlobSpec, BoxFormat, FieldKind, FieldSpec

COCO, YOLO, VOC, MASKS = "coco", "yolo", "voc", "masks"
"""The names of formats."""

IMAGE_FOLDERS = ("images", "imgs", "img", "image", "img_dir", "jpegimages")
OTHER_FOLDERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    YOLO: (("labels", "label"), (".txt",)),
    VOC: (("annotations", "annotation", "labels", "xmls", "xml"), (".xml",)),
    MASKS: (
        ("masks", "mask", "ann_dir", "segmentationclass", "annotations", "labels", "label"),
        (*IMAGE_ENDINGS, ".gif"),
    ),
}
"""Names of the folders that tools write, in lower case: of images; by format, of other files, with their endings."""

OF_CVAT = re.compile(r"^obj_(\w+)_data$")
_FOLDERS = {*IMAGE_FOLDERS, *(name for names, _ in OTHER_FOLDERS.values() for name in names), "segmentationobject"}
_FOLDERS |= {"leftimg8bit", "gtfine", "gtcoarse"}  # of Cityscapes
NUM_NAMED = 5
"""Number of files that a message names."""


def annotated(
    root: Path,
    format: str,
    images: Sequence[str],
    splits: Mapping[str, NDArray[np.int64]],
    columns: Mapping[str, Column],
    *,
    files: Sequence[str] = (),
    masks: Sequence[str] = (),
    metadata: Mapping[str, JSON] | None = None,
    remarks: Sequence[str] = (),
    stated: Mapping[str, tuple[int, int]] | None = None,
) -> Listing:
    """Return the images of a directory with their annotations.

    Args:
        root: The directory; all names are relative to it, with "/" between the parts.
        format: "coco", "yolo", "voc" or "masks".
        images: The N images, in the order of the records.
        splits: int64 positions of each split.
        columns: The annotations of the images: `box_columns` and others.
        files: The annotation files.
        masks: Mask file of each image.
        metadata: Further values for the manifest.
        remarks: Remarks for the user.
        stated: Width and height of images, where the files state them.
    """
    what = [f"{format} annotations", counted(len(images), "image")]
    if boxes := columns.get("boxes"):
        classes = columns["labels"].spec.names
        what.append(f"{counted(sum(map(len, boxes.values)), 'box', 'boxes')} ({boxes.spec.box_format})")
        what += ["polygons"] if "annotations" in columns and boxes.spec.is_normalized else []
        what.append("classes without names" if classes is None else counted(len(classes), "class", "classes"))
    if masks:
        what.append("a mask for each")
    said = ", ".join(f"{name} ({len(found):,})" for name, found in splits.items())
    which = name_first(files, NUM_NAMED) if format == COCO else "The directory"
    return Listing(
        path=root,
        base=root,
        files={"image": images, "mask": masks} if masks else {"image": images},
        names=images,
        columns=columns,
        splits=splits,
        default_target="mask" if masks else "labels",
        specs={"mask": FieldSpec(FieldKind.MASKS)} if masks else {},
        metadata={"annotations": format, **(metadata or {})},
        beside=files,
        stated=stated or {},
        where=f"{which} says so; images were looked for in every folder of {root}.",
        choice="; ".join([f"{', '.join(what)}; {f'splits: {said}' if said else 'no splits'}", *remarks]),
    )


def box_columns(
    boxes: Sequence[NDArray[np.float32]],
    labels: Sequence[NDArray[np.int64]],
    texts: Sequence[bytes],
    classes: tuple[str, ...] | None,
    format: BoxFormat,
    *,
    is_normalized: bool = False,
) -> dict[str, Column]:
    """Return the fields of the objects of N images.

    Args:
        boxes: Boxes of each image, float32 [n, 4].
        labels: Classes of each image's objects, int64 [n], from 0.
        texts: Annotations of each image as JSON; empty if boxes and labels contain everything.
        classes: The class names, if known.
        format: The meaning of a box's numbers.
        is_normalized: Whether coordinates are fractions of the image's width and height.
    """
    found = {
        "boxes": Column(FieldSpec(FieldKind.BOXES, None, format, is_normalized), boxes, BlobSpec("raw", dtype="<f4")),
        "labels": Column(FieldSpec(FieldKind.CLASS, classes), labels, BlobSpec("raw", dtype="<i8")),
    }
    if texts:
        found["annotations"] = Column(FieldSpec(FieldKind.JSON, is_normalized=is_normalized), texts, BlobSpec("json"))
    return found


class Problems(Faults):
    """Collects the problems of a directory's annotation files, and reads them."""

    def __init__(self, root: Path) -> None:
        insist = command("prepare", root, "--from", "classes")
        super().__init__(root, advice=f" To read its folders as classes, run: {insist}")
        self._root = root

    def text(self, name: str, most: int = MAX_TEXT_BYTES) -> str | None:
        """Read a text file of the directory; None if it cannot be read, which is a problem."""
        try:
            return read_text(self._root / name, name, most)
        except SourceError as err:
            self.add(str(err).rstrip("."))
            return None

    def lines(self, name: str) -> list[str]:
        """Read the lines of a text file of the directory, as `text`; none if it cannot be read."""
        return lines_of(self.text(name) or "")


def is_file_name(name: str) -> bool:
    """Whether a path in an annotation file, with "/" between its parts, stays inside the directory."""
    return is_storable(name) and not leads_out(name) and "\0" not in name and name != "."


def folders_in(root: Path) -> list[str]:
    """List the folders in a directory, sorted."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if is_folder(entry))


def is_split(folder: str) -> bool:
    """Whether a folder has the name of a split, maybe with a year: "train2017"."""
    return folder.lower().rstrip("0123456789") in SPLIT_NAMES


def is_usual_folder(name: str) -> bool:
    """Whether tools give this name to a folder of images, or to one of their annotations."""
    return name.lower() in _FOLDERS or OF_CVAT.match(name.lower()) is not None


def split_of(text: str) -> str:
    """Convert a text to a split's name; the year of "train2017" is dropped."""
    name = split_name(text)
    return name.rstrip("0123456789") if is_split(name) else name


_LISTS = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[')
_KEYS = (b'"bbox"', b'"category_id"', b'"image_id"', b'"file_name"', b'"supercategory"')
_LOOKED_BYTES = 1 << 16
_NOT_INSTANCES = ("captions", "person_keypoints", "image_info", "panoptic", "stuff")
_IDS_TRIED = 5
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_MOST_COCO_BYTES = 16 << 30
_Id = int | str
_SPACE = re.compile(r"[ \t\r\n]*")


# Any: a JSON object.
def objects_of(text: str, keys: Collection[str]) -> Iterator[tuple[str, Any, str]]:
    """Yield each object of the lists under some keys of a document, as value and text; None where a list begins.

    Raises:
        ValueError: The text is not one JSON object, or a list holds something else than objects, or NaN.
    """
    decode = json.JSONDecoder(parse_constant=no_constant).raw_decode
    place = _after(text, 0, "{")
    while text[place : place + 1] != "}":
        key, place = decode(text, place)
        place = _after(text, place, ":")
        if key not in keys:
            _, place = decode(text, place)
        else:
            yield key, None, ""
            place = _after(text, place, "[")
            while text[place : place + 1] != "]":
                try:
                    value, end = decode(text, place)
                except ValueError as err:
                    raise ValueError(f"{err}: {text[place : place + 80]}") from err
                if not isinstance(value, dict):
                    raise ValueError(f"{key} has {text[place : place + 40]!r}, which is no object")
                yield key, value, text[place:end]
                place = _next(text, end, "]")
            place += 1
        place = _next(text, place, "}")


def _next(text: str, place: int, end: str) -> int:
    """Return where the next item begins, or the end of the list or object is."""
    place = _skip(text, place)
    return place if text[place : place + 1] == end else _after(text, place, ",")


def _after(text: str, place: int, mark: str) -> int:
    place = _skip(text, place)
    if text[place : place + 1] != mark:
        raise ValueError(f"{mark!r} is missing at character {place:,}")
    return _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def coco_files(root: Path) -> list[str]:
    """List the instance files of a directory, relative to it, sorted; detected by names, first and last bytes.

    They are in the directory, in `annotations/`, or in folders named like splits. Files named instances_* are
    preferred; COCO's own files of captions, keypoints and so on are skipped.
    """
    folders = ["", *(name for name in folders_in(root) if name.lower() == "annotations" or is_split(name))]
    found = []
    for folder in folders:
        for path in sorted((root / folder).glob("*.json")):
            if not path.name.startswith(_NOT_INSTANCES) and _looks_like_coco(path):
                found.append(path.relative_to(root).as_posix())
    instances = [name for name in found if name.rpartition("/")[2].startswith("instances")]
    return instances or found


def _looks_like_coco(path: Path) -> bool:
    try:
        with open(path, "rb", opener=open_at_once) as file:
            head = file.read(_LOOKED_BYTES)
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOOKED_BYTES))
            return has_coco_keys(head + file.read())
    except OSError:
        return False


def has_coco_keys(data: bytes) -> bool:
    """Whether the first bytes of a JSON file, maybe with the last ones, have lists and keys of COCO."""
    data = data.replace(b"\0", b"")  # UTF-16 is known so, and refused by its name when it is read
    is_object = data.lstrip(codecs.BOM_UTF8 + codecs.BOM_UTF16 + string.whitespace.encode())[:1] == b"{"
    return is_object and _LISTS.search(data) is not None and any(key in data for key in _KEYS)


def read_coco(root: Path, chosen: str = "") -> Listing:
    """Read the instance files of a directory, or one that the user chose.

    Records are in the order of the files and, within a file, of the images' ids, as in torchvision's `CocoDetection`.
    Classes are numbered from 0 in the order of the categories' ids; the metadata keeps the ids.

    Raises:
        SourceError: The files contradict themselves, or one is damaged; the message names up to 20 problems.
    """
    problems = Problems(root)
    names = [chosen] if chosen else coco_files(root)
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
    stated: dict[str, tuple[int, int]] = {}
    for file, split in zip(files, _splits(names), strict=True):
        paths = file.paths()
        for number in sorted(file.images, key=_order):
            positions.setdefault(split, []).append(len(images))
            images.append(paths[number])
            if number in file.sizes:
                stated[paths[number]] = file.sizes[number]
            objects = file.objects.pop(number, None) or _Objects()
            boxes.append(np.array(objects.boxes, np.float32).reshape(-1, 4))
            labels.append(np.array([label_of[each] for each in objects.categories], np.int64))
            texts.append(f"[{','.join(objects.texts)}]".encode())
            ids.append(number)
    _refuse_repeated(images, problems)
    problems.raise_if_any()
    columns = box_columns(boxes, labels, texts, tuple(categories.values()), BoxFormat.XYWH)
    remarks = [f"read {name_first(names, _IDS_TRIED)}"]
    folders = {name.rpartition("/")[0] for name in images}
    there = set() if chosen else set(files_under(root, "", IMAGE_ENDINGS))
    if others := sorted(name for name in there.difference(images) if name.rpartition("/")[0] in folders):
        remarks.append(
            f"left out, as no JSON lists them: {counted(len(others), 'image')}: {name_first(others, _IDS_TRIED)}"
        )
    if all(isinstance(number, int) for number in ids):
        columns["image_id"] = Column(FieldSpec(FieldKind.INT), np.array(ids, np.int64))
    return annotated(
        root,
        COCO,
        images,
        {name: np.array(found, np.int64) for name, found in positions.items() if name},
        columns,
        files=names,
        metadata={"category_ids": list(categories)},
        remarks=remarks,
        stated=stated,
    )


def _categories(files: "Sequence[_CocoFile]", problems: Problems) -> dict[_Id, str]:
    found: dict[_Id, str] = {}
    for file in files:
        for number, name in file.categories.items():
            if found.setdefault(number, name) != name:
                problems.add(f"{file.name}: category {number} is {name!r}, and {found[number]!r} in another file")
    return {number: found[number] for number in sorted(found, key=_order)}


@dataclass
class _Objects:
    """The objects in an image."""

    boxes: list[list[float]] = field(default_factory=list)
    categories: list[_Id] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


class _CocoFile:
    """One file and its problems.

    Attributes:
        images: File names by the images' ids.
        sizes: Width and height by the images' ids, where they are stated.
        categories: Names by the categories' ids.
        objects: The objects by the images' ids.
    """

    def __init__(self, root: Path, name: str, problems: Problems) -> None:
        self.name = name
        self.images: dict[_Id, str] = {}
        self.sizes: dict[_Id, tuple[int, int]] = {}
        self.categories: dict[_Id, str] = {}
        self.objects: dict[_Id, _Objects] = {}
        self._root, self._problems = root, problems
        self._lists: set[str] = set()
        self._outlines: dict[_Id, tuple[int, int]] = {}  # width and height of run lengths by the images' ids
        self._below: dict[str, list[str]] | None = None  # all images of the directory by their names, once needed

    def read(self) -> None:
        """Read the file and collect its problems."""
        readers: dict[str, Callable[[Any, str], None]] = {
            "images": self._image,
            "categories": self._category,
            "annotations": self._object,
        }
        if (text := self._problems.text(self.name, _MOST_COCO_BYTES)) is None:
            return
        try:
            for key, value, its_text in objects_of(text, readers):
                self._lists.add(key)
                if value is not None:
                    readers[key](value, its_text)
        except (ValueError, RecursionError) as err:
            self._note(f"it cannot be read as JSON ({err})")
            return
        for key in ("images", *(["categories"] if self.objects else [])):
            if key not in self._lists:
                self._note(f"it has no list {key!r}")
        for key, ids in (("images", self.images), ("categories", self.categories)):
            if len(set(map(type, ids))) > 1:
                self._note(f"the ids of its {key} are numbers and texts: {_shown(list(ids))}")
        self._check_references()
        for number, size in self._outlines.items():
            stated = self.sizes.setdefault(number, size)  # is compared with the image's file
            if stated != size:
                self._note(
                    f"run lengths of image {number} are of {'x'.join(map(str, size))}, the image is "
                    f"{'x'.join(map(str, stated))}"
                )

    def _check_references(self) -> None:
        absent = [number for number in self.objects if number not in self.images]
        if absent:
            self._note(f"annotations of {counted(len(absent), 'image')} that it does not list: {_shown(absent)}")
        used = {number for objects in self.objects.values() for number in objects.categories}
        unknown = sorted(used - self.categories.keys(), key=_order)
        if unknown and "categories" in self._lists:
            self._note(f"annotations with categories that it does not list: {_shown(unknown)}")

    def paths(self) -> dict[_Id, str]:
        """Return the path of each image: in a usual folder if some lie there, else in the one folder that has it.

        The path of an image that is nowhere is the one in the usual folder.
        """
        part, beside, split = _part(self.name), self.name.rpartition("/")[0], _split_of(self.name)
        usual = [part, f"images/{part}", split, f"images/{split}", beside, "images", "data", "", f"{beside}/images"]
        folders = [folder for each in usual if (self._root / (folder := each.strip("/"))).is_dir()]
        some = list(self.images.values())[:: max(1, len(self.images) // _IDS_TRIED)]
        counts = [sum((self._root / folder / name).is_file() for name in some) for folder in folders]
        top = f"{folders[counts.index(max(counts))]}/".lstrip("/")
        found = {number: f"{top}{name}" for number, name in self.images.items()}
        return (
            found
            if max(counts) == len(some)
            else {number: self._path(found[number], name) for number, name in self.images.items()}
        )

    def _path(self, usual: str, name: str) -> str:
        if (self._root / usual).is_file():
            return usual
        if self._below is None:
            self._below = {}
            for path in files_under(self._root, "", IMAGE_ENDINGS):
                self._below.setdefault(path.rpartition("/")[2], []).append(path)
        found = [path for path in self._below.get(name.rpartition("/")[2], ()) if f"/{path}".endswith(f"/{name}")]
        if len(found) > 1:
            self._note(f"{name} is in several folders: {name_first(found, _IDS_TRIED)}")
        return found[0] if found else usual

    # Any, here and below: JSON values.
    def _image(self, image: Any, text: str) -> None:
        number, name = _id(image.get("id")), image.get("file_name")
        if number is None or not isinstance(name, str) or not name:
            self._note(f"an image without a whole number or a text as id, or without file_name: {text[:80]}")
            return
        name = os.path.normpath(name.replace("\\", "/")).replace(os.sep, "/")  # written on Windows
        if not is_file_name(name):
            self._note(f"the file_name {name!r} is no path in the directory; write it relative to that")
        if all(map(_is_size, (width := image.get("width"), height := image.get("height")))):
            self.sizes[number] = int(width), int(height)
        if self.images.setdefault(number, name) != name:
            self._note(f"two images have the id {number}: {self.images[number]} and {name}")

    def _category(self, category: Any, text: str) -> None:
        number, name = _id(category.get("id")), category.get("name")
        if number is None or not isinstance(name, str):
            self._note(f"a category without a whole number or a text as id, or without name: {text[:80]}")
        elif self.categories.setdefault(number, name) != name:
            self._note(f"two categories have the id {number}: {self.categories[number]!r} and {name!r}")

    def _object(self, found: Any, text: str) -> None:
        image, category, box = _id(found.get("image_id")), _id(found.get("category_id")), found.get("bbox")
        if image is None or category is None:
            self._note(f"an annotation without whole numbers or texts as image_id and category_id: {text[:80]}")
        elif not isinstance(box, list) or len(box) != 4 or not all(map(_is_finite, box)):
            self._note(f"annotation {found.get('id')} of image {image}: bbox is {str(box)[:80]}, not four numbers")
        elif problem := _outline_problem(found.get("segmentation")):
            self._note(f"annotation {found.get('id')} of image {image}: {problem}")
        else:
            objects = self.objects.setdefault(image, _Objects())
            objects.boxes.append(box)
            objects.categories.append(category)
            objects.texts.append(text)
            if isinstance(shape := found.get("segmentation"), dict):
                size = shape["size"][1], shape["size"][0]
                if self._outlines.setdefault(image, size) != size:
                    self._note(f"image {image} has run lengths of two sizes")

    def _note(self, problem: str) -> None:
        self._problems.add(f"{self.name}: {problem}")


def _id(value: Any) -> _Id | None:
    """Return an id: a whole number, also as 1.0, or a text; None for anything else."""
    if type(value) is float and value.is_integer():
        value = int(value)
    is_id = (type(value) is int and -(1 << 63) <= value < 1 << 63) or (isinstance(value, str) and value)
    return value if is_id else None


def _order(number: _Id) -> tuple[int, str]:
    """Return the sort key of ids, which are all numbers, or all texts."""
    return (0, number) if isinstance(number, str) else (number, "")


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _MAX_FLOAT32  # false for NaN


def _is_size(value: Any) -> bool:
    return _is_finite(value) and value >= 1 and value == int(value)  # tools write 0 for an unknown one


def _outline_problem(shape: Any) -> str:
    """Say why no mask can be drawn of polygons or run lengths; "" if one can. Fewer than three corners draw nothing."""
    if isinstance(shape, dict):
        size: Any = shape.get("size")
        counts: Any = shape.get("counts")
        is_size = isinstance(size, list) and len(size) == 2 and all(type(each) is int and each > 0 for each in size)
        lengths: Any = _run_lengths(counts) if isinstance(counts, str) else counts
        are_lengths = isinstance(lengths, list) and all(type(each) is int and each >= 0 for each in lengths)
        if is_size and are_lengths and sum(lengths) == size[0] * size[1]:
            return ""
        return "its run lengths have no size and counts of that size"
    if not shape:
        return ""
    for polygon in shape if isinstance(shape, list) else [shape]:
        if not isinstance(polygon, list) or len(polygon) % 2 or not all(map(_is_finite, polygon)):
            return f"segmentation has {str(polygon)[:80]}, which is no polygon [x, y, x, y, ...]"
    return ""


def _run_lengths(text: str) -> list[int] | None:
    """Decode pycocotools' compressed run lengths; None if they are cut, or of other characters.

    Five bits a character, the lowest first, the sixth if more follow; from the fourth on, a number is the difference
    to the last but one.
    """
    found: list[int] = []
    number = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64 or shift > 60:
            return None
        number |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            number -= (bits & 16) and 1 << shift
            found.append(number + (found[-2] if len(found) > 2 else 0))
            number = shift = 0
    return found if not shift else None


def _shown(numbers: Sequence[_Id]) -> str:
    return name_first([str(number) for number in numbers], _IDS_TRIED)


def _splits(names: Sequence[str]) -> list[str]:
    """Return the split of each file, by its own or its folder's name; "" for no split.

    Files that would share a split keep their full names: "train2014" and "train2017".
    """
    found = [_split_of(name) for name in names]
    return found if len(set(found)) == len(found) else [split_name(_part(name))[:64] for name in names]


def _split_of(name: str) -> str:
    folder, _, file = name.rpartition("/")
    word = next(filter(is_split, split_name(_part(file)).split("-")), folder)
    return split_of(word) if is_split(word) else ""


def _part(name: str) -> str:
    """Return the part that a file names: "train2017" for annotations/instances_train2017.json."""
    return name.rpartition("/")[2].removesuffix(".json").removeprefix("instances_")


def _refuse_repeated(images: Sequence[str], problems: Problems) -> None:
    for name in dict.fromkeys(name for name, following in itertools.pairwise(sorted(images)) if name == following):
        problems.add(f"{name} is listed twice; an image has one record (--annotations FILE reads one file of several)")
