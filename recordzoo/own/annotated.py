"""Directories of images with annotations: `images/` beside YOLO's `labels/`, or beside `masks/`; the recipe of all.

The format of labels: https://docs.ultralytics.com/datasets/detect/ and /datasets/segment/.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.settings import command, need
from recordzoo.base.text import JSON, name_first
from recordzoo.own.annotations import (
    COCO,
    Problems,
    annotated,
    box_columns,
    coco_files,
    is_file_name,
    is_split,
    read_coco,
    slug,
    split_name,
)
from recordzoo.own.listing import Listing, ListingRecipe, ListSource
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.declared import IMAGE_ENDINGS, class_folder_order, files_under
from recordzoo.recipes.folders import records_beside
from recordzoo.recipes.recipe import Blob, BlobField
from recordzoo.records.kinds import BoxFormat, SetKind
from recordzoo.records.manifest import Manifest
from recordzoo.records.writer import TREE_FILE

YOLO, MASKS = "yolo", "masks"
"""The names of formats; MASKS also that of its folder."""

_NAMES_FILE = "classes.txt"
_LEAST, _MOST = -0.01, 1.01  # range of a coordinate; ultralytics allows the same for rounding
_NUM_SHOWN = 5
_ANNOTATION_ENDINGS = (".json", ".txt", ".yaml", ".yml")

_Row = tuple[int, Sequence[float], Sequence[float]]
"""An object: its class, its box, and the corners of its polygon, if any."""


class Pairs:
    """The files of `images/` and of a parallel folder, in a directory or in its folders named like splits.

    Args:
        root: The directory.
        folder: The other folder.
        endings: Extensions of its files.

    Attributes:
        images: The images, relative to the directory, in ImageFolder's order.
        others: The files of the other folder by their stems: "train/cat/1" for train/images/cat/1.jpg.
    """

    def __init__(self, root: Path, folder: str, endings: tuple[str, ...] = IMAGE_ENDINGS) -> None:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        tops = ["", *(f"{name}/" for name in names if is_split(name))]
        tops = [top for top in tops if (root / f"{top}images").is_dir() and (root / f"{top}{folder}").is_dir()]
        images = [name for top in tops for name in files_under(root, f"{top}images", IMAGE_ENDINGS)]
        self.images = [images[place] for place in class_folder_order(images).tolist()]
        self._stems = _by_stem(self.images, "images")
        self.others = _by_stem([name for top in tops for name in files_under(root, f"{top}{folder}", endings)], folder)
        self._folder = folder

    @property
    def match(self) -> bool:
        """Whether any image has a file in the other folder."""
        return not self._stems.keys().isdisjoint(self.others)

    def of(self, image: str) -> str | None:
        """Return the other folder's file for an image; None if there is none."""
        return self.others.get(_stem(image, "images"), [None])[0]

    def check(self, problems: Problems, *, is_optional: bool = False) -> None:
        """Report files without image, files that share a stem and, unless `is_optional`, images without file."""
        if not self.images:
            problems.add(f"it has no images in images/ beside {self._folder}/")
        alone = {"image": [file for stem, files in self.others.items() if stem not in self._stems for file in files]}
        if not is_optional:
            alone[self._folder] = [files[0] for stem, files in self._stems.items() if stem not in self.others]
        for missing, files in alone.items():
            if files:
                problems.add(f"{len(files):,} files have no {missing}: {name_first(files, _NUM_SHOWN)}")
        for files in (*self._stems.values(), *self.others.values()):
            if len(files) > 1:
                problems.add(f"{' and '.join(files)} have one stem")

    def splits(self) -> dict[str, NDArray[np.int64]]:
        """Return the splits by the folder above `images`, or the first one below it, if all are named like splits."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.images):
            first, second, *rest = name.split("/")
            folder = first if first != "images" else second if rest else ""
            found.setdefault(folder, []).append(position)
        if not all(map(is_split, found)):
            return {}
        return {split_name(folder): np.array(positions, np.int64) for folder, positions in found.items()}


def _stem(name: str, folder: str) -> str:
    parts = list(PurePosixPath(name).with_suffix("").parts)
    parts.remove(folder)  # only the first match: it is the first or second part
    return "/".join(parts)


def _by_stem(names: Sequence[str], folder: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(_stem(name, folder), []).append(name)
    return found


def has_masks(root: Path) -> bool:
    """Whether a directory has `images/` and `masks/` with an equal stem."""
    return Pairs(root, MASKS).match


def read_masks(root: Path) -> Listing:
    """Read `images/` and `masks/`.

    Raises:
        SourceError: An image has no mask, a mask has no image, or two files share a stem.
    """
    problems, pairs = Problems(root), Pairs(root, MASKS)
    pairs.check(problems)
    problems.raise_if_any()
    masks = [pairs.of(name) or "" for name in pairs.images]
    return annotated(root, MASKS, pairs.images, pairs.splits(), {}, masks=masks)


def _pairs(root: Path) -> Pairs:
    pairs = Pairs(root, "labels", (".txt",))
    pairs.others.pop("classes", None)
    return pairs


def has_labels(root: Path) -> bool:
    """Whether a directory has `images/` and text files in `labels/`."""
    return bool(_pairs(root).others)


def read_yolo(root: Path) -> Listing:
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
    columns = box_columns(
        [np.array([box for _, box, _ in rows], np.float32).reshape(-1, 4) for rows in objects],
        [np.array([label for label, _, _ in rows], np.int64) for rows in objects],
        [_texts(rows) for rows in objects] if has_polygons else (),
        facts.names,
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


FORMATS: dict[str, tuple[Callable[[Path], object], Callable[[Path], Listing]]] = {
    COCO: (coco_files, read_coco),
    YOLO: (has_labels, read_yolo),
    MASKS: (has_masks, read_masks),
}
"""Format -> (detector, reader); the first format that fits is used."""


def format_of(root: Path) -> str | None:
    """Return the format of a directory's annotations; None if no known format fits."""
    return next((name for name, (is_there, _) in FORMATS.items() if is_there(root)), None)


class AnnotatedFolder(ListingRecipe):
    """The images of a directory with their annotations.

    Args:
        format: "coco", "yolo" or "masks".
        skips_missing: Skip missing images.
    """

    kind = dataset = SetKind.ANNOTATED
    origin = "tree"

    def __init__(self, format: str, skips_missing: bool = False) -> None:
        super().__init__(skips_missing=skips_missing)
        self.format = format
        others = ("mask",) if format == MASKS else ("boxes", "labels")  # until the annotations are read
        self.fields = {**self.fields, **{name: BlobField("image" if name == "mask" else "raw") for name in others}}
        self._all: Listing | None = None  # with missing images
        self._stamp = ""

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_all": None}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"annotations": self.format}

    @override
    def is_of(self, manifest: Manifest, root: Path) -> bool:
        return super().is_of(manifest, root) and manifest.metadata.get("annotations") == self.format

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the directory."""
        return records_beside(root)

    @override
    def title(self, root: Path) -> str:
        return root.resolve().name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", root, "--from", self.format)

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [f"{self.format} annotations"]

    @override
    def read(self, root: Path) -> Listing:
        """Read the annotations; COCO's large files only if they were changed."""
        place = root.resolve()
        stamp = TreeSource(place, coco_files(place)).fingerprint() if self.format == COCO else ""
        if self._all is None or not stamp or stamp != self._stamp:
            self._all = None  # frees memory before the next read
            self._all, self._stamp = FORMATS[self.format][1](place), stamp
        return self._all

    @override
    def source(self, listing: Listing) -> Source:
        names = [name for of_one in zip(*listing.files.values(), strict=True) for name in of_one]
        return ListSource(listing.path, listing.base, [*names, *listing.beside], listing.notes())

    def extras(self) -> Mapping[str, bytes]:
        """Return `TREE_FILE`, except for COCO, which need not list all images of a folder."""
        found = self._listing
        if found is None or self.format == COCO:
            return {}
        names = [*found.files["image"], *(name for name in found.beside if "/" in name)]
        folders = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents} - {"."}
        times = {folder: os.stat(found.base / folder).st_mtime_ns for folder in sorted(folders)}
        return {TREE_FILE: json.dumps({"root": os.fspath(found.base), "directories": times}, indent=1).encode()}

    @override
    def file(self, member: Member) -> Iterator[Blob]:
        if not member.name.lower().endswith(_ANNOTATION_ENDINGS):
            is_mask = self.format == MASKS and MASKS in member.name.split("/")
            yield Blob("mask" if is_mask else "image", member.name, member.read())
