"""Directories of images with annotations: whether one is there, in which format, and the recipe.

A wrong answer costs little: class folders that look annotated, divided or paired are refused, and `--from classes`
insists.
"""

import itertools
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from typing_extensions import override

from recordzoo.base.files import is_folder, open_at_once
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, counted, name_first
from recordzoo.errors import SourceError
from recordzoo.images.decode import ORIENTATION
from recordzoo.own.annotations import (
    COCO,
    MASKS,
    NUM_NAMED,
    VOC,
    YOLO,
    Problems,
    coco_files,
    has_coco_keys,
    is_split,
    is_usual_folder,
    read_coco,
)
from recordzoo.own.columns import LIST_ENDINGS, PARQUET
from recordzoo.own.listing import Listing, ListingRecipe
from recordzoo.own.pairs import has_labels, has_masks, has_xml, read_masks, read_voc, read_yolo
from recordzoo.raw.tree import TreeSource
from recordzoo.raw.zip import unzipped_name
from recordzoo.recipes.declared import SPLIT_NAMES, are_splits, is_image
from recordzoo.recipes.folders import is_shown, like_splits, records_beside, split_folders, tables_of
from recordzoo.recipes.recipe import Stored, Table
from recordzoo.records.manifest import BlobSpec, FieldKind, FieldSpec, Manifest, SetKind
from recordzoo.records.writer import TREE_FILE

_TEXTS = (".txt", ".xml", ".json")
_NAMES = ("data.yaml", "data.yml", "obj.names")
_OF_FOLDER = re.compile(r"_masks$|_labels$|_?annot$")
"""What the name of a folder of masks has behind that of its images' folder."""

_LISTS = (".csv", ".tsv", ".jsonl", ".parquet", ".json", ".mat", ".manifest")
_OF_MASK = re.compile(r"[_.-](mask|masks|seg|label|labels|gt)$", re.IGNORECASE)
"""Fewer endings than those of `OF_MASK`: among classes, ``a_l.jpg`` may be the large one of ``a.jpg``."""

_OF_TOOLS = re.compile(
    rb'"(shape_attributes|_via_\w+|from_name|rectanglelabels|polygonlabels|brushlabels)"\s*:|region_shape_attributes|'
    rb'"shapes"\s*:\s*\[|"coordinates"\s*:\s*\{|<annotations>\s*<version>|(?i:^[^\n<]*\bx_?min\b[^\n<]*\by_?max\b)'
)
"""What files of VIA, Label Studio, labelme, CreateML and CVAT begin with, and tables of boxes; none of them is read."""

_PAIRED = re.compile(
    "before|after|inputs?|outputs?|targets?|source|reference|gt|ground_?truth|rgb|depth|disparity|normals?|flows?|"
    "frames|lr|hr|low|high|sharp|blur|blurred|clean|noisy|hazy|clear|rain|left|right|visible|infrared|thermal|"
    "originals?|thumbnails",
    re.IGNORECASE,
)
"""Names of folders with the images of a pair."""

_NUM_FOLDERS, _NUM_FILES, _NUM_LOOKED, _NUM_SHOWN = 20, 2000, 5, 3
_ENTRIES_TRIED = 100
_NEARLY, _LEAST_MASKS = 0.8, 3
_SHALLOW = 2  # parts of an image's name in a class folder
_HEAD_BYTES = 1 << 16

Head = Callable[[str], bytes]
"""Returns the first bytes of a file, by its name."""

Folders = dict[str, dict[str, str]]
"""The names of files by their folder and their name in it."""


def why_annotated(names: Sequence[str], head: Head) -> str:
    """Say why files look like images with annotations; "" if nothing does.

    Args:
        names: The files, with "/" between the parts.
        head: Of these files.
    """
    names = list(filter(is_shown, names))
    plain = next((name for name in names if name.rpartition("/")[2].lower() in _NAMES), None)
    if plain is not None:
        return f"there is {plain}"
    for name in [name for name in names if name.lower().endswith((".json", ".xml", ".csv"))][:_NUM_LOOKED]:
        data = head(name)
        if has_coco_keys(data):
            return f"{name} has the keys of COCO (--annotations {name} reads instances there)"
        if _OF_TOOLS.search(data):
            return f"{name} has the keys of a tool for annotations"
    tops = {name.partition("/")[0] for name in names if "/" in name}
    if masks := sorted(top for top in tops if _OF_FOLDER.search(top) and _OF_FOLDER.sub("", top) in tops):
        return f"{masks[0]} has the name of a folder with masks"
    folders = _by_folder(names)
    with_images = [folder for folder, files in folders.items() if folder and any(map(is_image, files))]
    if _nested(names)[0]:
        return _why_texts(folders)
    if with_images and all(map(is_usual_folder, with_images)):
        are = "is the usual name of a folder" if len(with_images) == 1 else "are usual names of folders"
        return f"{name_first(with_images, _NUM_SHOWN)} {are} of annotated images"
    if len(with_images) == 1 and with_images[0] in tops:
        beside = [*folders.get("", {}).values(), *folders[with_images[0]].values()]
        listed = [name for name in beside if name.lower().endswith(_LISTS) and name != "classes.json"]
        if listed:
            return f"{listed[0]} is there, and one folder with images, {with_images[0]}"
    return _why_texts(folders) or _why_pairs({name: folders[name] for name in with_images[:_NUM_FOLDERS]}, head)


def _nested(names: Iterable[str]) -> tuple[str, str]:
    """Say why all classes may be in one of the folders, and return that; "" if nothing does."""
    paths = [name.split("/") for name in names if "/" in name and is_image(name) and is_shown(name)]
    shallow = {path[0] for path in paths if len(path) == _SHALLOW}
    inner: dict[str, set[str]] = {}
    for path in paths:
        inner.setdefault(path[0], set()).add(path[1])
    for top, folders in inner.items():
        shown = f"{top}: {name_first(sorted(folders), _NUM_SHOWN)}"
        is_of_tool = is_usual_folder(top) and all(map(is_split, folders))
        if top in shallow or is_split(top) or is_of_tool:
            continue
        if len(inner) == 1:
            return f"has its images in folders of one folder, {shown}", top
        if len(folders & inner.keys()) > 1:
            return f"has folders of the names of others in {shown}", top
    return "", ""


def refuse_no_classes(path: Path, text: str) -> None:
    """Refuse a directory or a zip whose folders are taken for classes if they may be none.

    Args:
        path: It is of no layout that is read.
        text: What the user calls it.

    Raises:
        SourceError: It looks annotated, or divided, or its only folder holds all others.
    """
    if path.is_dir():
        names = files_of(path)
        why, has_splits = why_annotated(names, head_of(path)), bool(split_folders(path))
        where = "It is in none of the layouts that are read:"
    else:
        names, why = _why_zip(path)
        has_splits, where = are_splits(_tops(names)), "Unpack it: in a directory are read"

    def run(name: str) -> str:
        return f": {command('prepare', os.path.join(text, name))}" if path.is_dir() else ", unpacked"

    how = ""
    if why:
        how = f"looks annotated: {why}. {where} COCO's JSON, YOLO's texts, Pascal VOC's XML, images/ and masks/"
    elif (nested := _nested(names))[0]:
        how = f"{nested[0]}. If these are the classes or splits, prepare that folder{run(nested[1])}"
    elif not has_splits and (divided := like_splits(_tops(names))):
        how = (
            f"looks divided: {name_first(divided, _NUM_SHOWN)} are named like splits or parts of a dataset. Leave only "
            f"folders called train, val or test there, or prepare each by itself{run(divided[0])}"
        )
    if how:
        tables = tables_of(name for name in names if name.count("/") < _SHALLOW)
        listed = f" If {tables[0]} lists the images with labels, prepare it{run(tables[0])}." if tables else ""
        insist = f"If its folders are classes, run: {command('prepare', text, '--from', 'classes')}"
        raise SourceError(f"{text} {how}.{listed} {insist}", path=os.fspath(path))


def is_tree(path: Path, *, has_splits: bool = True) -> bool:
    """Whether a directory is clearly one of class folders, found out without listing all of it.

    A folder in it holds an image, and beside the folders lie only images, texts and lists. If it may have splits, a
    folder called as a split may itself be such a directory.
    """
    harmless = (*(ending for ending in LIST_ENDINGS if ending != PARQUET), ".md", ".json")
    folders = []
    with os.scandir(path) as entries:
        for entry in entries:
            if is_folder(entry):
                folders.append(Path(entry.path))
            elif not (entry.name.startswith(".") or is_image(entry.name) or entry.name.lower().endswith(harmless)):
                return False
    for folder in folders:
        if has_splits and folder.name.lower() in SPLIT_NAMES and is_tree(folder, has_splits=False):
            return True
        with os.scandir(folder) as entries:
            if any(is_image(entry.name) for entry, _ in zip(entries, range(_ENTRIES_TRIED), strict=False)):
                return True
    return False


def _tops(names: Iterable[str]) -> list[str]:
    return sorted({name.partition("/")[0] for name in names if "/" in name and is_image(name)})


def doubt_of(root: Path) -> str:
    """Say why `prepare` would not take the folders of a directory for classes; "" if nothing speaks against it."""
    names = files_of(root)
    if why := why_annotated(names, head_of(root)):
        return f"looks annotated: {why}"
    return _nested(names)[0]


def _why_zip(path: Path) -> tuple[list[str], str]:
    """List the files of a zip, without a folder around all, and say why they look annotated."""
    try:
        opened = zipfile.ZipFile(path)
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return [], ""  # reading it all says what is wrong
    with opened as archive:
        infos = {unzipped_name(info): info for info in archive.infolist()}
        names = [name for name in infos if is_shown(name) and not name.endswith("/")]
        tops = {name.partition("/")[0] for name in names}
        top = f"{tops.pop()}/" if len(tops) == 1 and any(name.count("/") > 1 for name in names) else ""

        def head(name: str) -> bytes:
            try:
                with archive.open(infos[top + name]) as file:
                    return file.read(_HEAD_BYTES)
            except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error):
                return b""  # damaged or encrypted: reading it all says so

        names = [name.removeprefix(top) for name in names]
        return names, why_annotated(names, head)


def files_of(root: Path) -> list[str]:
    """List files of a directory: those in it, and at most 2,000 of each of its first folders, also of splits'."""
    found: list[str] = []
    tops = [""]
    for top in tops:
        folders: list[str] = []
        with os.scandir(root / top) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = f"{top}{entry.name}"
                if not is_folder(entry):
                    found.append(name)
                elif not top and is_split(entry.name):
                    tops.append(f"{name}/")
                elif len(folders) < _NUM_FOLDERS:
                    folders.append(name)
        for folder in folders:
            inner = (
                f"{Path(path).relative_to(root).as_posix()}/{name}"
                for path, _, names in os.walk(root / folder)
                for name in names
            )
            found += itertools.islice(inner, _NUM_FILES)
    return found


def head_of(root: Path) -> Head:
    """Return the function for files of a directory."""

    def head(name: str) -> bytes:
        try:
            with open(root / name, "rb", opener=open_at_once) as file:
                return file.read(_HEAD_BYTES)
        except OSError:
            return b""

    return head


def _by_folder(names: Iterable[str]) -> Folders:
    """Return the files by the folder that would be their class; "" for those in none."""
    found: Folders = {}
    for name in names:
        first, _, rest = name.partition("/")
        inner = rest if rest and is_split(first) else name
        folder, slash, file = inner.partition("/")
        found.setdefault(folder if slash else "", {})[file if slash else inner] = name
    return found


def _why_texts(folders: Folders) -> str:
    images = {
        stem
        for files in folders.values()
        for file in filter(is_image, files)
        for stem in (*_names(file), file, _file(file))
    }
    for folder, files in folders.items():
        inner = {file.partition("/")[0] for file in files if "/" in file and is_image(file)}
        if len(usual := sorted(filter(is_usual_folder, inner))) > 1:
            return f"{folder}/ has images in {' and '.join(usual)}"
        stems = {_stem(file) for file in files if is_image(file)}
        for file, name in files.items():
            if file.lower().endswith(_TEXTS) and not images.isdisjoint(_names(file)):
                return f"{name} has the name of an image"
            if is_image(file) and _OF_MASK.search(_stem(file)) and _OF_MASK.sub("", _stem(file)) in stems:
                return f"{name} has the name of a mask of an image beside it"
    return ""


def _why_pairs(folders: Folders, head: Head) -> str:
    stems = {
        folder: {_OF_MASK.sub("", _stem(file)) for file in files if is_image(file)} for folder, files in folders.items()
    }
    for one, other in itertools.combinations(folders, 2):
        common = len(stems[one] & stems[other])
        fewer, more = sorted((len(stems[one]), len(stems[other])))
        if common < max(2, _NEARLY * fewer, more / 2):
            continue
        why = f"{one} and {other} have images of the same names"
        if is_usual_folder(one) or is_usual_folder(other) or all(map(_PAIRED.fullmatch, folders)):
            return why
        if {Path(file).suffix.lower() for file in folders[one]}.isdisjoint(
            Path(file).suffix.lower() for file in folders[other]
        ):
            return f"{why} and other endings"
        are_masks = [_are_masks(folders[folder].values(), head) for folder in (one, other)]
        if common >= _LEAST_MASKS and are_masks[0] != are_masks[1]:
            return f"{why}, and those of one have one channel or a palette, as masks have"
    return ""


def _names(file: str) -> tuple[str, str]:
    """Return the stem of a file, with and without its folder."""
    return _stem(file), _file(_stem(file))


def _file(name: str) -> str:
    return name.rpartition("/")[2]


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _are_masks(names: Iterable[str], head: Head) -> bool:
    """Whether files are images of one channel or with a palette: PNG by the color type, or GIF."""
    heads = map(head, itertools.islice(filter(is_image, names), _NUM_LOOKED))
    return all(data[:4] == b"GIF8" or (data[1:4] == b"PNG" and data[25:26] in (b"\0", b"\3")) for data in heads)


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
    if why_annotated(files_of(root), head_of(root)):  # looks at some files, where the others list all
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
    found: dict[str, int] = {}
    left, scaled, lossy = [], [], []
    pairs = zip(images, headers, masks or itertools.repeat(""), of_masks or itertools.repeat(None), strict=False)
    for image, header, name, mask in pairs:
        if header is None:
            continue  # broken, which is said when they are stored
        stated = listing.stated.get(image)
        drawn_on = stated or (mask and mask.size)
        is_lying = header.orientation in _TRANSPOSED and drawn_on == header.size != header.size[::-1]
        if turns and header.orientation in _TURNED and not is_lying:
            found[image] = header.orientation
            size = header.size[::-1] if header.orientation in _TRANSPOSED else header.size
            header = header._replace(size=size, orientation=1)
        elif header.orientation in _TURNED:
            left.append(image)
        if stated not in (None, header.size):
            problems.add(f"{_shape(image, header)}, and its annotations are of {stated[0]}x{stated[1]}")
        if mask is None:
            continue  # broken, as above
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
    def difference(self, manifest: Manifest, root: Path) -> str | None:
        asked = ("annotations", "annotation_file", "exif")
        held = {key: value for key, value in manifest.metadata.items() if key in asked}
        other = None if held == self.options else f"holds {manifest.title}, read in another way: {held}"
        return super().difference(manifest, root) or other

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
            others = [
                f"it may also be read as {name}: --from {name}" for name in _formats_of(place) if name != self.format
            ]
            metadata, choice = {**found.metadata, **self._asked}, "; ".join([found.choice, *others])
            self._all, self._stamp = replace(found, metadata=metadata, choice=choice), stamp
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
