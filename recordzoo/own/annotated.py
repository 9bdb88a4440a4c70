"""Directories of images with annotations: `images/` beside YOLO's `labels/`, or beside `masks/`; the recipe of all.

The format of labels: https://docs.ultralytics.com/datasets/detect/ and /datasets/segment/.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.files import read_text
from recordzoo.base.settings import command, need
from recordzoo.base.text import JSON, counted, lines_of, name_first
from recordzoo.errors import SourceError
from recordzoo.images.decode import ORIENTATION
from recordzoo.own.annotations import (
    COCO,
    IMAGE_FOLDERS,
    MASKS,
    OF_CVAT,
    OF_MASK,
    OTHER_FOLDERS,
    VOC,
    YOLO,
    Problems,
    Voc,
    annotated,
    box_columns,
    coco_files,
    is_file_name,
    is_split,
    read_coco,
    read_xml,
    slug,
    split_name,
)
from recordzoo.own.headers import check_headers
from recordzoo.own.listing import Listing, ListingRecipe, ListSource
from recordzoo.own.looks import why_folder
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.declared import IMAGE_ENDINGS, class_folder_order, files_under
from recordzoo.recipes.folders import records_beside
from recordzoo.recipes.recipe import Blob, BlobField, Stored, Table
from recordzoo.records.kinds import BoxFormat, FieldKind, FieldSpec, SetKind
from recordzoo.records.manifest import Manifest
from recordzoo.records.reader import is_record_set
from recordzoo.records.writer import TREE_FILE

_NAMES_FILES = ("classes.txt", "obj.names")
_NONE = ("", "null", "~", "none")
_LEAST, _MOST = -0.01, 1.01  # range of a coordinate; ultralytics allows the same for rounding
_MOST_CLASSES = 100_000  # without names; each gets one
_NUM_SHOWN = 5
_ANNOTATION_ENDINGS = (".json", ".txt", ".yaml", ".yml", ".xml", ".names")

_Row = tuple[int, Sequence[float], Sequence[float]]
"""An object: its class, its box, and the corners of its polygon, if any."""


_NO_LABELS = re.compile(r"classes|labels|images|notes|train|val|valid|test|readme.*", re.IGNORECASE)
"""Stems of texts that are no label files, if there is no image of that name."""


class Pairs:
    """The images of a directory, or of its folders named like splits, and the files that say something of them.

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
        tops = ["", *(f"{name}/" for name in _folders(root) if is_split(name))]
        for top in tops:
            inside = [name for name in _folders(root / top) if not is_record_set(root / top / name)]
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
                    for name in files_under(root, top + folder, wanted):
                        found[kind][name] = top + part + _stem(name[len(f"{top}{folder}/") :])
        return found

    def _side_by_side(self, root: Path, endings: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
        images, others = ({name: _stem(name) for name in _below(root, each)} for each in (IMAGE_ENDINGS, endings))
        if self._format == MASKS:
            masks = {name for name, stem in others.items() if OF_MASK.search(stem)}
            images = {name: stem for name, stem in images.items() if name not in masks}
            others = {name: others[name] for name in masks}
        return images, others

    def _stem_of_image(self, stem: str) -> str:
        """Return the stem of the image that a file is about: 1.jpg.txt, and 1_mask.png, are of 1.jpg."""
        shorter = _stem(stem) if stem.lower().endswith(IMAGE_ENDINGS) else OF_MASK.sub("", stem)
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
                problems.add(f"no {missing} for {counted(len(files), 'file')}: {name_first(files, _NUM_SHOWN)}")
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
        return {split_name(folder): np.array(positions, np.int64) for folder, positions in found.items()}


_OF_MAKESENSE = re.compile("_my-project.*")


def _folders(root: Path) -> list[str]:
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def _below(root: Path, endings: tuple[str, ...]) -> list[str]:
    return [name.removeprefix("./") for name in files_under(root, "", endings)]


def _stem(name: str) -> str:
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
            *([f"no label file, no objects: {counted(without, 'image')}"] if without else []),
        ],
    )


def numbered(labels: Sequence[NDArray[np.int64]]) -> tuple[str, ...]:
    """Return the names of classes that have none: "0", "1", ... to the greatest one that occurs."""
    return tuple(map(str, range(1 + max((int(each.max()) for each in labels if each.size), default=-1))))


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
                self._note(f"names has the keys {name_first(list(names), _NUM_SHOWN)}, not 0 to {len(names) - 1}")
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
            if name == "." or (is_file_name(name) and os.path.exists(self._root / name)):
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
                f"{path} lists {counted(len(missing), 'missing image')}: {name_first(missing, _NUM_SHOWN)}"
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
    read = [Voc([], None) if file is None else read_xml(root, file, problems) for file in files]
    lists, splits = sorted((root / "ImageSets" / "Main").glob("*.txt")), pairs.splits()
    for path in filter(lambda each: is_split(each.stem), lists):
        lines = problems.lines(path.relative_to(root).as_posix())
        listed = {line.split()[0] for line in lines if line.strip()}
        there = [number for number, name in enumerate(pairs.images) if PurePosixPath(name).stem in listed]
        splits[slug(path.stem)] = np.array(there, np.int64)
    problems.raise_if_any()
    objects = [each.objects for each in read]
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
        stated={name: each.size for name, each in zip(pairs.images, read, strict=True) if each.size is not None},
    )


FORMATS: dict[str, tuple[Callable[[Path], object], Callable[[Path], Listing]]] = {
    COCO: (coco_files, read_coco),
    YOLO: (has_labels, read_yolo),
    VOC: (has_xml, read_voc),
    MASKS: (has_masks, read_masks),
}
"""Format -> (detector, reader); the first format that fits is used."""


def format_of(root: Path) -> str | None:
    """Return the format of a directory's annotations; None if no known format fits."""
    return next(_formats_of(root), None)


def _formats_of(root: Path) -> Iterator[str]:
    if coco_files(root):
        yield COCO
    if why_folder(root):  # looks at some files, where the others list all
        yield from (name for name, (is_there, _) in FORMATS.items() if name != COCO and is_there(root))


class AnnotatedFolder(ListingRecipe):
    """The images of a directory with their annotations.

    Args:
        format: One of `FORMATS`.
        skips_missing: Skip missing images.
        exif: "turn": images are turned by their EXIF orientation when they are read; "keep": they are not.
        chosen: The one COCO JSON to read, relative to the directory. Default: all that `coco_files` finds.
    """

    kind = dataset = SetKind.ANNOTATED
    origin = "tree"

    def __init__(self, format: str, skips_missing: bool = False, *, exif: str = "turn", chosen: str = "") -> None:
        super().__init__(skips_missing=skips_missing)
        self.format, self._chosen, self._exif = format, chosen, exif
        self._turns: dict[str, int] = {}  # the EXIF orientation of images to turn
        others = ("mask",) if format == MASKS else ("boxes", "labels")  # until the annotations are read
        self.fields = {**self.fields, **{name: BlobField("image" if name == "mask" else "raw") for name in others}}
        self._all: Listing | None = None  # with missing images
        self._stamp = ""
        self._of_masks: frozenset[str] = frozenset()

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_all": None}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"annotations": self.format, **self._asked}

    @override
    def is_of(self, manifest: Manifest, root: Path) -> bool:
        held = manifest.metadata
        is_mine = super().is_of(manifest, root) and held.get("annotations") == self.format
        return is_mine and {key: held[key] for key in ("annotation_file", "exif") if key in held} == self._asked

    @property
    def _asked(self) -> dict[str, JSON]:
        """What the user asked for."""
        chosen: dict[str, JSON] = {"annotation_file": self._chosen} if self._chosen else {}
        return {**chosen, **({"exif": self._exif} if self._exif != "turn" else {})}

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the directory."""
        return records_beside(root)

    @override
    def title(self, root: Path) -> str:
        return root.resolve().name

    @override
    def command(self, root: Path) -> str:
        how = ("--annotations", self._chosen) if self._chosen else ("--from", self.format)
        return command("prepare", root, *how, *(("--exif", self._exif) if self._exif != "turn" else ()))

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [f"{self.format} annotations"]

    @override
    def read(self, root: Path) -> Listing:
        """Read the annotations; COCO's large files only if they were changed."""
        place = root.resolve()
        files = [self._chosen] if self._chosen else coco_files(place) if self.format == COCO else []
        stamp = TreeSource(place, files).fingerprint() if files else ""
        if self._all is None or not stamp or stamp != self._stamp:
            self._all = None  # frees memory before the next read
            found = read_coco(place, self._chosen) if self._chosen else FORMATS[self.format][1](place)
            found = replace(found, metadata={**found.metadata, **self._asked})
            others = [
                f"it may also be read as {name}: --from {name}" for name in _formats_of(place) if name != self.format
            ]
            self._all, self._stamp = replace(found, choice="; ".join([found.choice, *others])), stamp
        return self._all

    @override
    def find(self, root: Path) -> Source | None:
        source = super().find(root)
        files = self._listing.files if self._listing is not None else {}
        images, masks = ({name.rpartition("/")[0] for name in files.get(key, ())} for key in ("image", "mask"))
        self._of_masks = frozenset(masks - images)
        return source

    def check(self) -> list[str]:
        """Compare the images with masks and stated sizes, after `find`; raises and returns as `check_headers`."""
        if self._listing is None:
            return []
        said, self._turns = check_headers(self._listing, turns=self._exif == "turn")
        return said

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        if not self._turns:
            return table
        numbers = np.array([self._turns.get(name, 1) for name in table.names], np.uint8)
        spec = FieldSpec(FieldKind.INT)
        return replace(table, arrays={**table.arrays, ORIENTATION: numbers}, fields={**table.fields, ORIENTATION: spec})

    @override
    def source(self, listing: Listing) -> Source:
        names = [name for of_one in zip(*listing.files.values(), strict=True) for name in of_one]
        which = name_first(listing.beside, _NUM_SHOWN) if self.format == COCO else "The directory"
        where = f"{which} says so; images were looked for in every folder of {listing.base}."
        return ListSource(listing, [*names, *listing.beside], where=where)

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
            folder, _, file = member.name.rpartition("/")
            is_mask = folder in self._of_masks if self._of_masks else bool(OF_MASK.search(_stem(file)))
            is_mask = is_mask and self.format == MASKS
            yield Blob("mask" if is_mask else "image", member.name, member.read())
