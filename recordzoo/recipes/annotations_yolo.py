"""YOLO's `images/` and `labels/`, with or without `data.yaml`, and `images/` with `masks/`.

The format of labels: https://docs.ultralytics.com/datasets/detect/ and /datasets/segment/.
"""

import functools
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from recordzoo.base.packages import need
from recordzoo.base.text import name_first
from recordzoo.recipes.annotations import Annotations, Problems, is_file_name, is_split, slug, split_name
from recordzoo.recipes.class_folders import IMAGE_ENDINGS, class_folder_order, files_under
from recordzoo.records.kinds import BoxFormat

YOLO, MASKS = "yolo", "masks"
"""The formats' names; masks also lie in a folder of that name."""

LABELS = "labels"
_NAMES_FILE = "classes.txt"
_LEAST, _MOST = -0.01, 1.01  # of a coordinate; ultralytics allows as much for rounding
_NUM_SHOWN = 5


def has_pairs(root: Path, other: str) -> bool:
    """Whether a directory has images with labels (text files), or with masks (images of equal stems)."""
    pairs = _folders(root, other)
    if other == LABELS:
        texts = (os.walk(root / folder / other) for folder in pairs)
        return any(file.endswith(".txt") for walk in texts for _, _, files in walk for file in files)
    stems = [_stems(_images(root, pairs, name)) for name in ("images", other)]
    return bool(stems[0]) and stems[0].keys() == stems[1].keys() and all(len(each) == 1 for each in stems[1].values())


def read_masks(root: Path) -> Annotations:
    """Read `images/` with `masks/`, in the directory or in folders that are called like splits.

    Raises:
        SourceError: An image has no mask, or a mask no image, or two files have one stem.
    """
    problems, pairs = Problems(root), _folders(root, MASKS)
    if not pairs:
        problems.add("it has no folders images and masks")
    images, masks = _images(root, pairs, "images"), _stems(_images(root, pairs, MASKS))
    _compare(images, masks, MASKS, problems)
    for files in masks.values():
        if len(files) > 1:
            problems.add(f"{' and '.join(files)} have one stem")
    problems.raise_if_any()
    found = [masks[_stem(name)][0] for name in images]
    return Annotations(MASKS, [], images, _folder_splits(images), masks=found)


def read_yolo(root: Path) -> Annotations:
    """Read `images/` and `labels/`: boxes, or the boxes around polygons, and those as the annotations.

    An image without a label file has no objects.

    Raises:
        PrepareError: PyYAML, which reads data.yaml, is not installed.
        SourceError: Files are missing or damaged; the message names up to 20 problems.
    """
    problems, pairs = Problems(root), _folders(root, LABELS)
    if not pairs:
        problems.add("it has no folders images and labels")
    images = _images(root, pairs, "images")
    files = [name for folder in pairs for name in files_under(root, f"{folder}{LABELS}", (".txt",))]
    files = [name for name in files if not name.endswith(f"/{_NAMES_FILE}")]
    labels = _stems(files)
    _compare(images, labels, "label file", problems, is_optional=True)
    facts = _Facts(root, problems)
    splits = facts.splits(images)
    boxes, classes, polygons = [], [], []
    for name in images:
        rows = facts.rows(labels[_stem(name)][0]) if _stem(name) in labels else []
        boxes.append(np.array([box for _, box, _ in rows], np.float32).reshape(-1, 4))
        classes.append(np.array([label for label, _, _ in rows], np.int64))
        polygons.append([(label, points) for label, _, points in rows])
    problems.raise_if_any()
    has_polygons = any(points for rows in polygons for _, points in rows)
    without = sum(_stem(name) not in labels for name in images)
    return Annotations(
        YOLO,
        [*facts.files, *files],
        images,
        splits,
        boxes=boxes,
        labels=classes,
        texts=[_texts(rows) for rows in polygons] if has_polygons else (),
        classes=facts.names,
        box_format=BoxFormat.CXCYWH,
        is_normalized=True,
        remarks=[*facts.remarks, *([f"{without:,} images have no label file: no objects"] if without else [])],
    )


def _texts(rows: Sequence[tuple[int, Sequence[float]]]) -> bytes:
    """Write objects as COCO does; a polygon's coordinates stay fractions of width and height."""
    objects = [{"category_id": label, "segmentation": [points] if points else []} for label, points in rows]
    return json.dumps(objects, separators=(",", ":")).encode()


def _folders(root: Path, other: str) -> list[str]:
    """List what comes before `images` and the other folder: "", or folders that are called like splits, with "/"."""
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    tops = ["", *(f"{name}/" for name in names if is_split(name))]
    return [top for top in tops if (root / f"{top}images").is_dir() and (root / f"{top}{other}").is_dir()]


def _images(root: Path, pairs: Sequence[str], folder: str) -> list[str]:
    names = [name for top in pairs for name in files_under(root, f"{top}{folder}", IMAGE_ENDINGS)]
    return [names[place] for place in class_folder_order(names).tolist()]


def _stem(name: str) -> str:
    """Return what an image shares with its label file or mask: "train/cat/1" of train/images/cat/1.jpg."""
    path = PurePosixPath(name)
    top = next(place for place, part in enumerate(path.parts) if part in ("images", LABELS, MASKS))
    return str(PurePosixPath(*path.parts[:top], *path.parts[top + 1 :]).with_suffix(""))


def _stems(names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(_stem(name), []).append(name)
    return found


def _compare(
    images: Sequence[str],
    others: Mapping[str, Sequence[str]],
    what: str,
    problems: Problems,
    *,
    is_optional: bool = False,
) -> None:
    """Note which files have no image, which images share a stem, and unless it is optional which have no file."""
    stems = _stems(images)
    if not images:
        problems.add("it has no images")
    for files in stems.values():
        if len(files) > 1:
            problems.add(f"{' and '.join(files)} have one stem")
    alone = {"image": [file for stem, files in others.items() if stem not in stems for file in files]}
    if not is_optional:
        alone[what] = [files[0] for stem, files in stems.items() if stem not in others]
    for missing, files in alone.items():
        if files:
            problems.add(f"{len(files):,} files have no {missing}: {name_first(files, _NUM_SHOWN)}")


def _folder_splits(images: Sequence[str]) -> dict[str, Any]:  # Any: int64 arrays
    """Split by the folder above `images`, or the first one below it, if all are called like splits."""
    folders = []
    for name in images:
        parts = name.split("/")
        folders.append(parts[0] if parts[0] != "images" else parts[1] if len(parts) > 2 else "")
    if not all(map(is_split, dict.fromkeys(folders))):
        return {}
    found: dict[str, list[int]] = {}
    for position, folder in enumerate(folders):
        found.setdefault(split_name(folder), []).append(position)
    return {name: np.array(positions, np.int64) for name, positions in found.items()}


class _Facts:
    """What `data.yaml` says, or `classes.txt`, and how the rows of label files are read.

    Attributes:
        files: Those that are there, and the lists of images that they name.
        names: The classes; None if no file names them.
    """

    def __init__(self, root: Path, problems: Problems) -> None:
        self._root, self._problems = root, problems
        self.files: list[str] = []
        self.remarks: list[str] = []
        self.names: tuple[str, ...] | None = None
        found = sorted(path for pattern in ("*.yaml", "*.yml") for path in root.glob(pattern))
        usual = [path for path in found if path.stem in ("data", "dataset")] or found
        self._yaml = usual[0].name if usual and (len(usual) == 1 or usual != found) else "data.yaml"
        self._said = self._read() if usual else {}
        names = next((name for name in (_NAMES_FILE, f"{LABELS}/{_NAMES_FILE}") if (root / name).is_file()), None)
        if self.names is None and names is not None:
            self.files.append(names)
            lines = (root / names).read_text("utf-8", "replace").splitlines()
            self.names = tuple(line.strip() for line in lines if line.strip())

    def _read(self) -> dict[str, Any]:  # Any: what YAML holds, every scalar a text
        need("yaml", "yolo", f"{self._yaml} is read")
        import yaml

        self.files.append(self._yaml)
        self.remarks.append(f"read {self._yaml}")
        try:
            # BaseLoader makes texts of all scalars: a class called "no" or "1" keeps its name.
            said = yaml.load((self._root / self._yaml).read_text("utf-8-sig"), yaml.BaseLoader)
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as err:
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
                self._note(f"names has the keys {name_first(list(names), _NUM_SHOWN)}, not 0 to {len(names) - 1}")
                return None
            names = [next(value for key, value in names.items() if int(key) == number) for number in numbers]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._note("names is no list of texts and no mapping of numbers to texts")
            return None
        if count is not None and count != str(len(names)):
            self._note(f"nc is {count}, and there are {len(names)} names")
        return tuple(names)

    def splits(self, images: Sequence[str]) -> dict[str, Any]:
        """Return the splits: those of `data.yaml`; without it, the folders that are called like splits."""
        if not any(self._said.get(key) for key in ("train", "val", "test")):
            return _folder_splits(images)
        found = {}
        for key, value in self._said.items():
            if not is_split(key) or not value:
                continue
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
                found[slug(key)] = np.array(positions, np.int64)
        return found

    def _inside(self, place: str) -> str | None:
        """Return a path of `data.yaml` relative to the directory; None if it is not there.

        The base that it names is where its author had the directory. Like ultralytics, "../" at the start is dropped.
        """
        base = self._said.get("path")
        bases = [base, ""] if isinstance(base, str) else [""]
        for path in (os.path.join(base, place.removeprefix(top)) for base in bases for top in ("", "../")):
            name = os.path.relpath(os.path.join(self._root, path), self._root).replace(os.sep, "/")
            if name == "." or (is_file_name(name) and (self._root / name).exists()):
                return name
        return None

    def _listed(self, path: str, images: Sequence[str]) -> list[str]:
        """Return the images below a folder, or those that a list names."""
        if not (self._root / path).is_file():
            return [name for name in images if path == "." or name.startswith(f"{path}/")]
        self.files.append(path)
        lines = (self._root / path).read_text("utf-8", "surrogateescape").split("\n")
        listed = [os.path.normpath(line.strip()).replace(os.sep, "/") for line in lines if line.strip()]
        there = set(images)
        missing = [name for name in listed if name not in there]
        if missing:
            self._problems.add(
                f"{path} lists {len(missing):,} images that are not there: {name_first(missing, _NUM_SHOWN)}"
            )
        return listed

    def rows(self, name: str) -> list[tuple[int, Sequence[float], Sequence[float]]]:
        """Read a label file: for each object its class, its box, and its polygon if it has one."""
        try:
            lines = (self._root / name).read_text("utf-8-sig").splitlines()
        except (OSError, ValueError) as err:
            self._problems.add(f"{name} cannot be read ({err})")
            return []
        found = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found.append(_row(line.split(), self.names))
            except ValueError as err:
                self._problems.add(f"{name}, line {number}: {err}")
        return found

    def _note(self, problem: str) -> None:
        self._problems.add(f"{self._yaml}: {problem}")


def _row(cells: Sequence[str], names: Sequence[str] | None) -> tuple[int, Sequence[float], Sequence[float]]:
    """Read a class and four numbers, or a class and the corners of a polygon.

    Raises:
        ValueError: The cells are something else.
    """
    numbers = [float(cell) for cell in cells]
    count = len(numbers)
    if count != 5 and (count < 7 or count % 2 == 0):
        raise ValueError(f"{count} numbers, where a box has 5, and a polygon 7, 9, 11, ...")
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number is not finite")
    label = int(numbers[0])
    if label != numbers[0] or not 0 <= label < (1 << 31 if names is None else len(names)):
        raise ValueError(f"class {cells[0]} of {'any number' if names is None else len(names)} classes")
    if not _LEAST <= min(numbers[1:]) <= max(numbers[1:]) <= _MOST:
        raise ValueError("a coordinate is not between 0 and 1: a fraction of the image's width or height")
    if count == 5:
        return label, numbers[1:], []
    low_x, high_x, low_y, high_y = (extent(numbers[start::2]) for start in (1, 2) for extent in (min, max))
    box = [(low_x + high_x) / 2, (low_y + high_y) / 2, high_x - low_x, high_y - low_y]
    return label, box, numbers[1:]


has_labels = functools.partial(has_pairs, other=LABELS)
has_masks = functools.partial(has_pairs, other=MASKS)
