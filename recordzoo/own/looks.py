"""Whether the folders of images may be no classes: images with annotations, pairs of images, splits or parts.

A wrong answer costs little: class folders that look so are refused, and `--from classes` insists.
"""

import itertools
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from recordzoo.base.files import is_folder, open_at_once
from recordzoo.base.settings import command
from recordzoo.base.text import name_first
from recordzoo.errors import SourceError
from recordzoo.own.annotations import is_split, is_usual_folder
from recordzoo.own.coco import has_coco_keys
from recordzoo.raw.zip import unzipped_name
from recordzoo.recipes.declared import are_splits, is_image
from recordzoo.recipes.folders import is_shown, like_splits, split_folders, tables_of

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


def _tops(names: Iterable[str]) -> list[str]:
    return sorted({name.partition("/")[0] for name in names if "/" in name and is_image(name)})


def why_folder(root: Path) -> str:
    """Say why a directory looks annotated; "" if nothing does."""
    return why_annotated(files_of(root), head_of(root))


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
    return all(_is_mask(head(name)) for name in itertools.islice(filter(is_image, names), _NUM_LOOKED))


def _is_mask(data: bytes) -> bool:
    return data[:4] == b"GIF8" or (data[1:4] == b"PNG" and data[25:26] in (b"\0", b"\3"))
