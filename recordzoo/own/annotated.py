"""Directories of images with annotations: the formats, among them masks and Pascal VOC's XML; the recipe of all."""

import json
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from PIL import Image
from typing_extensions import override

from recordzoo.base.files import read_small
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, counted, name_first
from recordzoo.images.decode import ORIENTATION
from recordzoo.own.annotations import (
    COCO,
    MASKS,
    NUM_NAMED,
    VOC,
    YOLO,
    Pairs,
    Problems,
    annotated,
    box_columns,
    is_split,
    slug,
)
from recordzoo.own.coco import coco_files, read_coco
from recordzoo.own.listing import Listing, ListingRecipe
from recordzoo.own.looks import why_folder
from recordzoo.own.yolo import has_labels, read_yolo
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.folders import records_beside
from recordzoo.recipes.recipe import Stored, Table
from recordzoo.records.manifest import BlobSpec, BoxFormat, FieldKind, FieldSpec, Manifest, SetKind
from recordzoo.records.writer import TREE_FILE


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
        splits[slug(path.stem)] = np.array([n for n, stem in enumerate(stems) if stem in listed], np.int64)
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


_ONE_CHANNEL = ("1", "L", "P", "I", "I;16", "I;16B", "I;16L")
_ORIENTATION = 0x0112  # a tag of EXIF
_TURNED = range(2, 9)
_TRANSPOSED = range(5, 9)  # its values that change width and height
_THREADS = 16


class Header(NamedTuple):
    """What the first bytes of an image say.

    Attributes:
        size: Width and height of the stored pixels.
        mode: Of Pillow: "RGB", "L", ...
        is_jpeg: Whether it is a JPEG.
        orientation: Of EXIF, 1 for upright.
    """

    size: tuple[int, int]
    mode: str
    is_jpeg: bool
    orientation: int


def check_headers(listing: Listing, *, turns: bool) -> tuple[list[str], dict[str, int]]:
    """Compare all images with their masks, and with the sizes that annotations state: others would be of other pixels.

    Args:
        listing: The images with their annotations.
        turns: Whether images are turned by their EXIF orientation: people annotate upright pictures.

    Returns:
        Warnings; and the orientation of each image to turn. Where width and height change and the annotations are of
        the stored size, an image is not turned.

    Raises:
        SourceError: Sizes differ, or a mask has several channels; the message names up to 20.
    """
    problems = Problems(listing.base)
    images, masks = listing.files["image"], listing.files.get("mask", ())
    with ThreadPoolExecutor(_THREADS) as threads:
        headers = list(threads.map(lambda name: read_header(listing.base / name), images))
        of_masks = list(threads.map(lambda name: read_header(listing.base / name), masks))
    of_mask = dict(zip(images, of_masks, strict=False))
    found: dict[str, int] = {}
    for number, (name, header) in enumerate(zip(images, headers, strict=True)):
        if header is None:
            continue  # broken, which is said when they are stored
        mask = of_mask.get(name)
        stated = listing.stated.get(name)
        drawn_on = stated or (mask and mask.size)
        is_lying = header.orientation in _TRANSPOSED and drawn_on == header.size != header.size[::-1]
        if turns and header.orientation in _TURNED and not is_lying:
            found[name] = header.orientation
            (width, height), is_turned = header.size, header.orientation in _TRANSPOSED
            headers[number] = header = header._replace(
                size=(height, width) if is_turned else (width, height), orientation=1
            )
        if stated not in (None, header.size):
            problems.add(f"{_shape(name, header)}, and its annotations are of {stated[0]}x{stated[1]}")
    scaled, lossy = [], []
    for image, header, name, mask in zip(images, headers, masks, of_masks, strict=False):
        if header is None or mask is None:
            continue  # broken, which is said when they are stored
        if mask.mode not in _ONE_CHANNEL:
            problems.add(f"{name} is of mode {mask.mode}; a mask has one channel or a palette")
        if mask.is_jpeg:
            lossy.append(name)
        if mask.size != header.size:
            (width, height), (w, h) = header.size, mask.size
            if width * h == w * height:
                scaled.append(name)
            else:
                problems.add(f"{_shape(image, header)}, and its mask {name} is {w}x{h}")
    problems.raise_if_any()
    left = [name for name, header in zip(images, headers, strict=True) if header and header.orientation in _TURNED]
    said = [
        (scaled, "mask", "of another size than the image, and of the same shape"),
        (lossy, "mask", "as JPEG, whose values are not exactly those that were drawn"),
        (left, "image", "with an EXIF orientation, read as the file has it, not turned"),
        (list(found), "image", "turned by its EXIF orientation when it is read (--exif keep leaves it)"),
    ]
    remarks = [
        f"{counted(len(names), one)} {what}: {name_first(names, NUM_NAMED)}" for names, one, what in said if names
    ]
    return remarks, found


def _shape(name: str, header: Header) -> str:
    turned = ", and turned by its EXIF orientation (save it turned)" if header.orientation in _TRANSPOSED else ""
    return f"{name} is {header.size[0]}x{header.size[1]}{turned}"


def read_header(path: Path) -> Header | None:
    """Read the header of an image; None if it cannot be read."""
    try:
        with Image.open(path) as image:
            is_jpeg = image.format in ("JPEG", "MPO")  # a PNG would be decoded for it
            return Header(image.size, image.mode, is_jpeg, image.getexif().get(_ORIENTATION, 1) if is_jpeg else 1)
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError):
        return None


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
        self.fields = {**self.fields, **{name: BlobSpec("image" if name == "mask" else "raw") for name in others}}
        self._all: Listing | None = None  # with missing images
        self._stamp = ""

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
    def remarks(self) -> Iterator[str]:
        """Also compare the images with masks and stated sizes; raises as `check_headers`."""
        yield from super().remarks()
        if self._listing is not None:
            said, self._turns = check_headers(self._listing, turns=self._exif == "turn")
            yield from (f"warning: {each}" for each in said)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        if not self._turns:
            return table
        numbers = np.array([self._turns.get(name, 1) for name in table.names], np.uint8)
        spec = FieldSpec(FieldKind.INT)
        return replace(table, arrays={**table.arrays, ORIENTATION: numbers}, fields={**table.fields, ORIENTATION: spec})

    def extras(self) -> Mapping[str, bytes]:
        """Return `TREE_FILE`, except for COCO, which need not list all images of a folder."""
        found = self._listing
        if found is None or self.format == COCO:
            return {}
        images = [name for name in found.files["image"] if name not in self.missing]
        names = [*images, *(name for name in found.beside if "/" in name)]
        folders = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents} - {"."}
        times = {folder: os.stat(found.base / folder).st_mtime_ns for folder in sorted(folders)}
        return {TREE_FILE: json.dumps({"root": os.fspath(found.base), "directories": times}, indent=1).encode()}
