"""Images with a file each: masks, Pascal VOC's XML, and YOLO's label files with `data.yaml` or `classes.txt`.

YOLO's format: https://docs.ultralytics.com/datasets/detect/ and /datasets/segment/.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import read_small, read_text
from recordzoo.base.settings import need
from recordzoo.base.text import JSON, counted, lines_of, name_first
from recordzoo.errors import SourceError
from recordzoo.formats.base import split_name
from recordzoo.own.annotations import (
    IMAGE_FOLDERS,
    MASKS,
    NUM_NAMED,
    OF_CVAT,
    OTHER_FOLDERS,
    VOC,
    YOLO,
    Problems,
    annotated,
    box_columns,
    folders_in,
    is_file_name,
    is_split,
    split_of,
)
from recordzoo.own.listing import Listing
from recordzoo.recipes.declared import IMAGE_ENDINGS, class_folder_order, files_under
from recordzoo.recipes.folders import is_shown
from recordzoo.records.manifest import BoxFormat
from recordzoo.records.reader import is_record_set

_OF_MAKESENSE = re.compile("_my-project.*")
OF_MASK = re.compile(r"[ _.-](masks?|seg|segmentation|labels?|gt|l)$", re.IGNORECASE)
"""What the stem of a mask may have behind that of its image."""

_NO_LABELS = re.compile(r"classes|labels|images|notes|train|val|valid|test|readme.*", re.IGNORECASE)
"""Stems of texts that are no label files, if there is no image of that name."""

_NAMES_FILES = ("classes.txt", "obj.names", "_darknet.labels")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[/\\]")
_NONE = ("", "null", "~", "none")
_LEAST, _MOST = -0.01, 1.01  # range of a coordinate; ultralytics allows the same for rounding
_MOST_CLASSES = 100_000  # without names; each gets one

_Row = tuple[int, Sequence[float], Sequence[float]]
"""An object: its class, its box, and the corners of its polygon, if any."""


class Pairs:
    """The images of a directory, or of its folders named like splits, and the files that say something of them.

    Hidden files, which macOS and Jupyter make, are left out.

    Both are in folders of their own, `images/` and `labels/`; or side by side.

    Args:
        root: The directory.
        format: Decides how the folders are called, and the files end.

    Attributes:
        images: The images, relative to the directory, in ImageFolder's order.
        others: The other files by their stems: "train/cat/1" for train/images/cat/1.jpg.
        is_beside: Whether they lie side by side.
    """

    def __init__(self, root: Path, format: str) -> None:
        self._format, self._folders = format, OTHER_FOLDERS[format][0]
        images, others = self._in_folders(root, OTHER_FOLDERS[format][1])
        self.is_beside = not others and not images
        if self.is_beside:
            images, others = self._side_by_side(root, OTHER_FOLDERS[format][1])
        names = list(images)
        self.images = [names[place] for place in class_folder_order(names).tolist()]
        self._stem_of, self._stems = images, _by_stem(images)
        self.others = _by_stem({name: self._stem_of_image(stem) for name, stem in others.items()})
        for stem in [each for each in self.others if each not in self._stems]:
            if format == YOLO and _NO_LABELS.fullmatch(stem.rpartition("/")[2]):
                del self.others[stem]

    def _in_folders(self, root: Path, endings: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
        """Return images and other files with their stems."""
        found: tuple[dict[str, str], dict[str, str]] = {}, {}
        tops = ["", *(f"{name}/" for name in folders_in(root) if is_split(name))]
        for top in tops:
            inside = [name for name in folders_in(root / top) if not is_record_set(root / top / name)]
            usual = [name for name in inside if name.lower() in IMAGE_FOLDERS]
            images = dict.fromkeys(usual or (["data"] if "data" in inside else []), "")
            others = {name: "" for name in inside if _OF_MAKESENSE.sub("", name.lower()) in self._folders}
            if self._format == MASKS:  # train/ and train_masks/
                pairs = [name for name in inside if f"{name}_masks" in inside]
                images |= {name: f"{name}/" for name in pairs}
                others |= {f"{name}_masks": f"{name}/" for name in pairs}
            files = {name: part for name, part in others.items() if images and files_under(root, top + name, endings)}
            for kind, folders, wanted in ((0, images, IMAGE_ENDINGS), (1, files, endings)):
                for folder, part in folders.items() if files else ():
                    for name in filter(is_shown, files_under(root, top + folder, wanted)):
                        found[kind][name] = top + part + stem_of(name[len(f"{top}{folder}/") :])
        return found

    def _side_by_side(self, root: Path, endings: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
        images, others = (
            {name: stem_of(name) for name in filter(is_shown, files_under(root, "", wanted))}
            for wanted in (IMAGE_ENDINGS, endings)
        )
        if self._format == MASKS:
            masks = {name for name, stem in others.items() if OF_MASK.search(stem)}
            images = {name: stem for name, stem in images.items() if name not in masks}
            others = {name: others[name] for name in masks}
        return images, others

    def _stem_of_image(self, stem: str) -> str:
        """Return the stem of the image that a file is about: 1.jpg.txt, and 1_mask.png, are of 1.jpg."""
        shorter = stem_of(stem) if stem.lower().endswith(IMAGE_ENDINGS) else OF_MASK.sub("", stem)
        return shorter if stem not in self._stems and shorter in self._stems else stem

    @property
    def match(self) -> bool:
        """Whether any image has another file."""
        return not self._stems.keys().isdisjoint(self.others)

    @property
    def folders(self) -> set[str]:
        """The folders that may be splits; "" if images are in none."""
        return {stem.rpartition("/")[0].partition("/")[0] for stem in self._stems}

    def of(self, image: str) -> str | None:
        """Return the other file of an image; None if there is none."""
        return self.others.get(self._stem_of[image], [None])[0]

    def check(self, problems: Problems, *, is_optional: bool = False) -> None:
        """Report files without image, files that share a stem and, unless `is_optional`, images without file."""
        what = self._folders[0]
        if not self.images or not self.others:
            problems.add(f"it has no images in images/ with files in {what}/, and none side by side")
        alone = {"image": [file for stem, files in self.others.items() if stem not in self._stems for file in files]}
        if not is_optional:
            alone[what] = [files[0] for stem, files in self._stems.items() if stem not in self.others]
        for missing, files in alone.items():
            if files:
                problems.add(f"no {missing} for {counted(len(files), 'file')}: {name_first(files, NUM_NAMED)}")
        for files in (*self._stems.values(), *self.others.values()):
            if len(files) > 1:
                problems.add(f"{' and '.join(files)} have one stem")

    def splits(self) -> dict[str, NDArray[np.int64]]:
        """Return the splits by the folder above `images`, or the first one below it, if all are named like splits."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.images):
            folder = self._stem_of[name].rpartition("/")[0].partition("/")[0]
            found.setdefault(OF_CVAT.sub(r"\1", folder), []).append(position)
        if not all(map(is_split, found)):
            return {}
        return {split_of(folder): np.array(positions, np.int64) for folder, positions in found.items()}


def stem_of(name: str) -> str:
    """Return a path without its ending."""
    return os.path.splitext(name)[0]


def _by_stem(stems: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, stem in stems.items():
        found.setdefault(stem, []).append(name)
    return found


def has_masks(root: Path) -> bool:
    """Whether a directory has images with masks; those side by side in folders that may be classes do not count."""
    pairs = Pairs(root, MASKS)
    return pairs.match and (not pairs.is_beside or pairs.folders == {""} or all(map(is_split, pairs.folders)))


def read_masks(root: Path) -> Listing:
    """Read images and masks.

    Raises:
        SourceError: An image has no mask, a mask has no image, or two files share a stem.
    """
    problems, pairs = Problems(root), Pairs(root, MASKS)
    pairs.check(problems)
    problems.raise_if_any()
    masks = [pairs.of(name) or "" for name in pairs.images]
    return annotated(root, MASKS, pairs.images, pairs.splits(), {}, masks=masks)


def has_xml(root: Path) -> bool:
    """Whether a directory has images and XML files of their names."""
    return Pairs(root, VOC).match


def read_voc(root: Path) -> Listing:
    """Read images and Pascal VOC's XML: boxes as the files have them, classes sorted by name.

    An image without an XML file has no objects. What else an object has is kept as JSON.

    Raises:
        SourceError: Files are missing or damaged; the message names up to 20 problems.
    """
    problems, pairs = Problems(root), Pairs(root, VOC)
    pairs.check(problems, is_optional=True)
    files = [pairs.of(name) for name in pairs.images]
    read = [([], None) if file is None else read_xml(root, file, problems) for file in files]
    lists, splits = sorted((root / "ImageSets" / "Main").glob("*.txt")), pairs.splits()
    stems = [PurePosixPath(name).stem for name in pairs.images]
    for path in filter(lambda each: is_split(each.stem), lists):
        name = path.relative_to(root).as_posix()
        listed = {line.split()[0] for line in problems.lines(name) if line.strip()}
        if missing := sorted(listed.difference(stems)):
            problems.add(f"{name} lists {counted(len(missing), 'missing image')}: {name_first(missing, NUM_NAMED)}")
        splits[split_name(path.stem)] = np.array([n for n, stem in enumerate(stems) if stem in listed], np.int64)
    problems.raise_if_any()
    objects = [found for found, _ in read]
    classes = sorted({name for found in objects for name, _, _ in found})
    label_of = {name: label for label, name in enumerate(classes)}
    columns = box_columns(
        [np.array([box for _, box, _ in found], np.float32).reshape(-1, 4) for found in objects],
        [np.array([label_of[name] for name, _, _ in found], np.int64) for found in objects],
        [json.dumps([facts for _, _, facts in found]).encode() for found in objects],
        tuple(classes),
        BoxFormat.XYXY,
    )
    without = files.count(None)
    return annotated(
        root,
        VOC,
        pairs.images,
        splits,
        columns,
        files=list(filter(None, files)),
        remarks=[f"no XML file, no objects: {counted(without, 'image')}"] if without else [],
        stated={name: size for name, (_, size) in zip(pairs.images, read, strict=True) if size is not None},
    )


_Object = tuple[str, list[float], dict[str, JSON]]
"""What Pascal VOC's XML says of an object: class, box, other facts."""


def read_xml(root: Path, name: str, problems: Problems) -> tuple[list[_Object], tuple[int, int] | None]:
    """Read the objects in a file of Pascal VOC, and the image's size if it states one; a damaged file is a problem."""
    try:
        data = read_small(root / name)
        if b"<!DOCTYPE" in data:
            raise ValueError("it has a DOCTYPE, which may hold anything")
        found = ElementTree.fromstring(data)
        if found.tag != "annotation":
            raise ValueError(f"it begins with <{found.tag}>, not with <annotation>")
        width, height = (int(float(found.findtext(f"size/{key}") or 0)) for key in ("width", "height"))
        size = (width, height) if width > 0 and height > 0 else None  # labelImg writes 0 for an unknown one
        return [_voc_object(each) for each in found.findall("object")], size
    except (OSError, ValueError, OverflowError, LookupError, ElementTree.ParseError) as err:
        problems.add(f"{name} cannot be read ({err})")
        return [], None


def _voc_object(found: ElementTree.Element) -> _Object:
    name = (found.findtext("name") or "").strip()
    if not name:
        raise ValueError("an object has no name")
    if found.find("bndbox") is None:
        raise ValueError(f"an object {name!r} has no bndbox; polygons, such as LabelMe's, are not read")
    box = [float(found.findtext(f"bndbox/{key}", "nan")) for key in ("xmin", "ymin", "xmax", "ymax")]
    if not all(map(math.isfinite, box)) or box[0] > box[2] or box[1] > box[3]:
        raise ValueError(f"the box of an object {name!r} is {box}, not xmin, ymin, xmax and ymax")
    return name, box, {each.tag: each.text for each in found if not len(each)}


def has_labels(root: Path) -> bool:
    """Whether a directory has images and text files in `labels/`, or label files beside the images."""
    pairs = Pairs(root, YOLO)
    return bool(pairs.others) and (not pairs.is_beside or (pairs.match and _is_label(root, pairs)))


def _is_label(root: Path, pairs: Pairs) -> bool:
    """Whether the first text beside its image has rows of numbers."""
    for name in filter(None, map(pairs.of, pairs.images)):
        try:
            cells = lines_of(read_text(root / name))[0].split()
            return len(list(map(float, cells))) > 4
        except (SourceError, LookupError, ValueError):
            return False
    return False


def read_yolo(root: Path) -> Listing:
    """Read images and their label files: boxes, or polygons as annotations with the boxes around them.

    An image without a label file has no objects.

    Raises:
        PrepareError: PyYAML, which reads data.yaml, is not installed.
        SourceError: Files are missing or damaged; the message names up to 20 problems.
    """
    problems, pairs = Problems(root), Pairs(root, YOLO)
    pairs.check(problems, is_optional=True)
    files = [pairs.of(name) for name in pairs.images]
    facts = _Facts(root, problems, list(filter(None, files)))
    splits = facts.splits(pairs)
    objects = [[] if file is None else facts.rows(file) for file in files]
    problems.raise_if_any()
    has_polygons = any(points for rows in objects for _, _, points in rows)
    without = files.count(None)
    labels = [np.array([label for label, _, _ in rows], np.int64) for rows in objects]
    columns = box_columns(
        [np.array([box for _, box, _ in rows], np.float32).reshape(-1, 4) for rows in objects],
        labels,
        [_texts(rows) for rows in objects] if has_polygons else (),
        facts.names or numbered(labels),
        BoxFormat.CXCYWH,
        is_normalized=True,
    )
    return annotated(
        root,
        YOLO,
        pairs.images,
        splits,
        columns,
        files=[*facts.files, *filter(None, files)],
        remarks=[
            *facts.remarks,
            *([f"no {', '.join(_NAMES_FILES)} or data.yaml names the classes"] if facts.names is None else []),
            *([f"no label file, no objects: {counted(without, 'image')}"] if without else []),
            *(["read as polygons, though the numbers could be boxes with key points"] if _may_be_pose(objects) else []),
        ],
    )


def numbered(labels: Sequence[NDArray[np.int64]]) -> tuple[str, ...]:
    """Return the names of classes that have none: "0", "1", ... to the greatest one that occurs."""
    return tuple(map(str, range(1 + max((int(each.max()) for each in labels if each.size), default=-1))))


def _may_be_pose(objects: Sequence[Sequence[_Row]]) -> bool:
    """Whether polygons of one length may be boxes with key points: their first two corners a box around the others."""
    polygons = [points for rows in objects for _, _, points in rows if points]
    if len({len(points) for points in polygons}) != 1:
        return False
    corners = np.array(polygons).reshape(len(polygons), -1, 2)
    centre, size, points = corners[:, :1], corners[:, 1:2], corners[:, 2:]
    is_inside = (np.abs(points - centre) <= size / 2 - _LEAST).all(2) | (points == 0).all(2)  # 0: a point not seen
    return bool(is_inside.all())


def _texts(rows: Sequence[_Row]) -> bytes:
    """Encode objects as in COCO; a polygon's coordinates stay fractions of width and height."""
    objects = [{"category_id": label, "segmentation": [points] if points else []} for label, _, points in rows]
    return json.dumps(objects, separators=(",", ":")).encode()


class _Facts:
    """The facts in `data.yaml` or `classes.txt`, and the reader of label files.

    Attributes:
        files: The existing ones, and the lists of images that they name.
        names: The class names; None if no file has them.
    """

    def __init__(self, root: Path, problems: Problems, labels: Sequence[str]) -> None:
        self._root, self._problems = root, problems
        self.files: list[str] = []
        self.remarks: list[str] = []
        self.names: tuple[str, ...] | None = None
        found = sorted(path for pattern in ("*.yaml", "*.yml") for path in root.glob(pattern))
        usual = [path for path in found if path.stem in ("data", "dataset")] or found
        self._yaml = usual[0].name if usual and (len(usual) == 1 or usual != found) else "data.yaml"
        self._said = self._read() if usual else {}
        if self.names is None:
            self._read_names(labels)

    def _read_names(self, labels: Sequence[str]) -> None:
        """Read the class names beside the images, or beside the label files; all files must have the same."""
        folders = dict.fromkeys(["", *(f"{PurePosixPath(name).parts[0]}/" for name in labels), "labels/"])
        found = [f"{folder}{name}" for folder in folders for name in _NAMES_FILES]
        self.files += (there := [name for name in found if (self._root / name).is_file()])
        for name in there:
            names = tuple(line.strip() for line in self._problems.lines(name))
            while names and not names[-1]:
                names = names[:-1]
            if "" in names:  # LabelImg and darknet count that line as a class, other tools do not
                self._problems.add(f"{name}, line {names.index('') + 1}: it is empty, and names no class")
            if self.names not in (None, names):
                self._problems.add(f"{name} has other classes than {there[0]}")
            self.names = names

    def _read(self) -> dict[str, Any]:  # Any: YAML values, every scalar a text
        need("yaml", f"{self._yaml} is read")
        import yaml

        self.files.append(self._yaml)
        self.remarks.append(f"read {self._yaml}")
        if (text := self._problems.text(self._yaml)) is None:
            return {}
        try:
            # BaseLoader reads all scalars as texts: a class named "no" or "1" keeps its name.
            said = yaml.load(text, yaml.BaseLoader)
        except (ValueError, RecursionError, yaml.YAMLError) as err:
            self._note(f"it cannot be read as YAML ({err})")
            return {}
        if not isinstance(said, dict):
            self._note("it is no mapping")
            return {}
        if "kpt_shape" in said:
            self._note("it describes key points (kpt_shape), which are not read")
        self.names = self._names(said.get("names"), said.get("nc"))
        return said

    def _names(self, names: Any, count: Any) -> tuple[str, ...] | None:
        if isinstance(names, dict):
            numbers = sorted(int(key) for key in names if key.isdecimal())
            if numbers != list(range(len(names))):
                self._note(f"names has the keys {name_first(list(names), NUM_NAMED)}, not 0 to {len(names) - 1}")
                return None
            names = [next(value for key, value in names.items() if int(key) == number) for number in numbers]
        if names is None and isinstance(count, str) and count.isdecimal():
            if len(count) > len(str(_MOST_CLASSES)) or int(count) > _MOST_CLASSES:
                self._note(f"nc is {count}, and {_MOST_CLASSES:,} classes are the most")
                return None
            return tuple(map(str, range(int(count))))
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._note("names is no list of texts and no mapping of numbers to texts")
            return None
        if count is not None and count != str(len(names)):
            self._note(f"nc is {count}, and there are {len(names)} names")
        return tuple(names)

    def splits(self, pairs: Pairs) -> dict[str, NDArray[np.int64]]:
        """Return the splits of `data.yaml`; without it, of the folders named like splits."""
        said = {key: value for key, value in self._said.items() if is_split(key) and value not in _NONE}
        if not said:
            return pairs.splits()
        found, images = {}, pairs.images
        for key, value in said.items():
            wanted: set[str] = set()
            for place in value if isinstance(value, list) else [value]:
                path = self._inside(place) if isinstance(place, str) else None
                if path is None and key == "test":
                    self.remarks.append(f"test is left out: {place} is not there")
                elif path is None:
                    self._note(f"{key} is {place!r}, which is not in the directory")
                else:
                    wanted.update(self._listed(path, images))
            positions = [position for position, name in enumerate(images) if name in wanted]
            if wanted or key != "test":
                found[split_name(key)] = np.array(positions, np.int64)
        return found

    def _inside(self, place: str) -> str | None:
        """Return a path in `data.yaml` relative to the directory; None if it does not exist.

        Its base path may be the author's directory: the path is also tried without it. Like in ultralytics, a leading
        "../" may be dropped. Of an absolute path, as Roboflow's downloader writes it, the end that exists counts.
        """
        base = self._said.get("path")
        bases = [base, ""] if isinstance(base, str) else [""]
        paths = [os.path.join(base, place.removeprefix(top)) for base in bases for top in ("", "../")]
        ends = list(_shortened(place.replace("\\", "/")))[1:] if _ABSOLUTE.match(place) else []
        for path in (*paths, *(end for end in ends if "/" in end or is_split(end))):
            name = os.path.relpath(os.path.join(self._root, path), self._root).replace(os.sep, "/")
            if name == "." or (is_file_name(name) and os.path.exists(self._root / name)):
                self.remarks += [f"{place} is read as {name}"] if path in ends else []
                return name
        return None

    def _listed(self, path: str, images: Sequence[str]) -> list[str]:
        """Return the images below a folder or in a list."""
        if not (self._root / path).is_file():
            return [name for name in images if path == "." or name.startswith(f"{path}/")]
        self.files.append(path)
        listed = [
            os.path.normpath(line.strip()).replace(os.sep, "/") for line in self._problems.lines(path) if line.strip()
        ]
        there = set(images)
        listed = [next((each for each in _shortened(name) if each in there), name) for name in listed]
        missing = [name for name in listed if name not in there]
        if missing:
            self._problems.add(
                f"{path} lists {counted(len(missing), 'missing image')}: {name_first(missing, NUM_NAMED)}"
            )
        return listed

    def rows(self, name: str) -> list[_Row]:
        """Read a label file."""
        found = []
        for number, line in enumerate(self._problems.lines(name), 1):
            if not line.strip():
                continue
            try:
                found.append(_row(line.split(), self.names))
            except ValueError as err:
                self._problems.add(f"{name}, line {number}: {err}")
        return found

    def _note(self, problem: str) -> None:
        self._problems.add(f"{self._yaml}: {problem}")


def _shortened(name: str) -> Iterator[str]:
    """Yield a path, and it without its first folders: they may be those of the author's machine."""
    parts = name.split("/")
    return ("/".join(parts[start:]) for start in range(len(parts)))


def _row(cells: Sequence[str], names: Sequence[str] | None) -> _Row:
    """Parse a class and four numbers, or a class and the corners of a polygon.

    Raises:
        ValueError: The cells are neither.
    """
    numbers = [float(cell) for cell in cells]
    count = len(numbers)
    if count != 5 and (count < 7 or count % 2 == 0):
        raise ValueError(f"{count} numbers, where a box has 5, and a polygon 7, 9, 11, ...")
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number is not finite")
    label = int(numbers[0])
    if label != numbers[0] or not 0 <= label < (_MOST_CLASSES if names is None else len(names)):
        raise ValueError(f"class {cells[0]} of {f'at most {_MOST_CLASSES:,}' if names is None else len(names)} classes")
    if not _LEAST <= min(numbers[1:]) <= max(numbers[1:]) <= _MOST:
        raise ValueError("a coordinate is not between 0 and 1: a fraction of the image's width or height")
    if count == 5:
        return label, numbers[1:], []
    low_x, high_x, low_y, high_y = (extent(numbers[start::2]) for start in (1, 2) for extent in (min, max))
    box = [(low_x + high_x) / 2, (low_y + high_y) / 2, high_x - low_x, high_y - low_y]
    return label, box, numbers[1:]
