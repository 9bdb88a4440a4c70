"""YOLO's `images/` and `labels/`, with or without `data.yaml`: boxes and polygons.

The format of labels: https://docs.ultralytics.com/datasets/detect/ and /datasets/segment/.
"""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.packages import need
from recordzoo.base.text import name_first
from recordzoo.recipes.annotations import Annotations, Problems, is_file_name, is_split, slug
from recordzoo.recipes.annotations_pairs import Pairs
from recordzoo.records.kinds import BoxFormat

YOLO = "yolo"
"""The format's name."""

_NAMES_FILE = "classes.txt"
_LEAST, _MOST = -0.01, 1.01  # range of a coordinate; ultralytics allows the same for rounding
_NUM_SHOWN = 5

_Row = tuple[int, Sequence[float], Sequence[float]]
"""An object: its class, its box, and the corners of its polygon, if any."""


def _pairs(root: Path) -> Pairs:
    pairs = Pairs(root, "labels", (".txt",))
    pairs.others.pop("classes", None)
    return pairs


def has_labels(root: Path) -> bool:
    """Whether a directory has `images/` and text files in `labels/`."""
    return bool(_pairs(root).others)


def read_yolo(root: Path) -> Annotations:
    """Read `images/` and `labels/`: boxes, or polygons as annotations with the boxes around them.

    An image without a label file has no objects.

    Raises:
        PrepareError: PyYAML, which reads data.yaml, is not installed.
        SourceError: Files are missing or damaged; the message names up to 20 problems.
    """
    problems, pairs = Problems(root), _pairs(root)
    pairs.check(problems, is_optional=True)
    facts = _Facts(root, problems)
    splits = facts.splits(pairs)
    files = [pairs.of(name) for name in pairs.images]
    objects = [[] if file is None else facts.rows(file) for file in files]
    problems.raise_if_any()
    has_polygons = any(points for rows in objects for _, _, points in rows)
    without = files.count(None)
    return Annotations(
        YOLO,
        [*facts.files, *filter(None, files)],
        pairs.images,
        splits,
        boxes=[np.array([box for _, box, _ in rows], np.float32).reshape(-1, 4) for rows in objects],
        labels=[np.array([label for label, _, _ in rows], np.int64) for rows in objects],
        texts=[_texts(rows) for rows in objects] if has_polygons else (),
        classes=facts.names,
        box_format=BoxFormat.CXCYWH,
        is_normalized=True,
        remarks=[*facts.remarks, *([f"{without:,} images have no label file: no objects"] if without else [])],
    )


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

    def __init__(self, root: Path, problems: Problems) -> None:
        self._root, self._problems = root, problems
        self.files: list[str] = []
        self.remarks: list[str] = []
        self.names: tuple[str, ...] | None = None
        found = sorted(path for pattern in ("*.yaml", "*.yml") for path in root.glob(pattern))
        usual = [path for path in found if path.stem in ("data", "dataset")] or found
        self._yaml = usual[0].name if usual and (len(usual) == 1 or usual != found) else "data.yaml"
        self._said = self._read() if usual else {}
        names = next((name for name in (_NAMES_FILE, f"labels/{_NAMES_FILE}") if (root / name).is_file()), None)
        if self.names is None and names is not None:
            self.files.append(names)
            lines = (root / names).read_text("utf-8", "replace").splitlines()
            self.names = tuple(line.strip() for line in lines if line.strip())

    def _read(self) -> dict[str, Any]:  # Any: YAML values, every scalar a text
        need("yaml", f"{self._yaml} is read")
        import yaml

        self.files.append(self._yaml)
        self.remarks.append(f"read {self._yaml}")
        try:
            # BaseLoader reads all scalars as texts: a class named "no" or "1" keeps its name.
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

    def splits(self, pairs: Pairs) -> dict[str, NDArray[np.int64]]:
        """Return the splits of `data.yaml`; without it, of the folders named like splits."""
        if not any(self._said.get(key) for key in ("train", "val", "test")):
            return pairs.splits()
        found, images = {}, pairs.images
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
        """Return a path in `data.yaml` relative to the directory; None if it does not exist.

        Its base path may be the author's directory: the path is also tried without it. Like in ultralytics, a leading
        "../" may be dropped.
        """
        base = self._said.get("path")
        bases = [base, ""] if isinstance(base, str) else [""]
        for path in (os.path.join(base, place.removeprefix(top)) for base in bases for top in ("", "../")):
            name = os.path.relpath(os.path.join(self._root, path), self._root).replace(os.sep, "/")
            if name == "." or (is_file_name(name) and (self._root / name).exists()):
                return name
        return None

    def _listed(self, path: str, images: Sequence[str]) -> list[str]:
        """Return the images below a folder or in a list."""
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

    def rows(self, name: str) -> list[_Row]:
        """Read a label file."""
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
    if label != numbers[0] or not 0 <= label < (1 << 31 if names is None else len(names)):
        raise ValueError(f"class {cells[0]} of {'any number' if names is None else len(names)} classes")
    if not _LEAST <= min(numbers[1:]) <= max(numbers[1:]) <= _MOST:
        raise ValueError("a coordinate is not between 0 and 1: a fraction of the image's width or height")
    if count == 5:
        return label, numbers[1:], []
    low_x, high_x, low_y, high_y = (extent(numbers[start::2]) for start in (1, 2) for extent in (min, max))
    box = [(low_x + high_x) / 2, (low_y + high_y) / 2, high_x - low_x, high_y - low_y]
    return label, box, numbers[1:]
