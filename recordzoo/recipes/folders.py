"""Recipes of the user's own images: a tree with one folder per class, in ImageFolder's order, or without classes.

The scan is `torchvision.datasets.folder.find_classes` and `make_dataset` without torch: same names, same order, same
error texts (a differential test compares them).
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.base.files import is_folder
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, counted, name_first
from recordzoo.errors import ArgumentError, FolderError
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.declared import IMAGE_ENDINGS, are_splits, class_folder_order, is_image, raise_if_empty
from recordzoo.recipes.recipe import NO_TARGET, Blob, Recipe, Stored, Table
from recordzoo.records.manifest import Manifest, SetKind
from recordzoo.records.reader import is_record_set
from recordzoo.records.writer import TREE_FILE

_BUILD = ".records.build."  # in the name of an unfinished record set
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_LIKE_IMAGE = re.compile(
    r"\.(avif|dcm|gif|hei[cf]|jf?if|jp2|jpe|jxl|svg|tga)$|\.(bmp|jpe?g|png|tiff?|webp)[^a-z0-9.][^.]*$", re.IGNORECASE
)
"""Ends of names that images have, and that are not among `IMAGE_ENDINGS`: "1.gif", "1.jpg?w=300"."""

_NUM_SHOWN = 5
# A word of a folder's name that says which split it is; the name of one of several parts; that of one of two domains.
_SPLIT = re.compile(
    "(train|val|dev|test|eval|query|gallery)(ing|id|idation|uation)?(set|data|images?|imgs?)?|trainval|tr|ts"
)
_PART = re.compile(r".*\b(?:fold|part|batch|chunk|shard)s?\b.*")
_DOMAIN = re.compile("(?:train|val|test)[AB]")


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of scanning a tree.

    Attributes:
        root: The resolved tree.
        classes: Its first-level directories, sorted.
        names: The selected files, in ImageFolder's order.
        directories: Modification time in ns of each directory, by relative name ("" is the tree itself).
        others: Files that may be images by their names, and are not selected.
    """

    root: Path
    classes: tuple[str, ...]
    names: tuple[str, ...]
    directories: Mapping[str, int]
    others: tuple[str, ...] = ()


class FolderRecipe(Recipe):
    """The images of a tree. `find` keeps its result for `build_table` and `extras`; pickled copies do not.

    Args:
        names: The files to take, ``class/[folders/]file``. Default: all files with an image's extension.
        allow_empty: Whether a class may have no images.
        allow_none: Whether all classes may have no images.
    """

    kind = SetKind.FOLDER
    dataset: str = SetKind.FOLDER
    _depth = 1  # the folders above an image that lies directly in a class folder

    def __init__(
        self, names: Sequence[str] | None = None, *, allow_empty: bool = True, allow_none: bool = True
    ) -> None:
        self.selection = "" if names is None else selection_digest(names)
        self.allow_empty, self.allow_none = allow_empty, allow_none
        self._names = None if names is None else tuple(names)
        self._scan: Scan | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes get their names with their unit: pickling a million more would be useless.
        return {**self.__dict__, "_names": None, "_scan": None}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"selection": self.selection}

    @override
    def difference(self, manifest: Manifest, root: Path) -> str | None:
        is_other = manifest.metadata.get("selection") != self.selection
        return super().difference(manifest, root) or ("holds another selection of the files" if is_other else None)

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the tree, because inside it would be a class of it.

        Raises:
            ArgumentError: The tree is the root of the file system, beside which nothing lies.
        """
        return records_beside(root, f"-{self.selection[:8]}" if self.selection else "")

    @override
    def title(self, root: Path) -> str:
        return root.resolve().name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", root)

    def find(self, root: Path) -> Source | None:
        """Scan the tree.

        Raises:
            FolderError: There is no tree, no class, or a class has no images; in torchvision's words. Or there is no
                image at all.
        """
        self._scan = self._scanned(root.resolve())
        if not self.allow_empty:
            empty = sorted(set(self._scan.classes).difference(map(self._class_of, self._scan.names)))
            raise_if_empty(empty, IMAGE_ENDINGS if self._names is None else None)
        if not self.allow_none and not self._scan.names:
            text = f"There are no images in {root}: none of its class folders has a file that ends with"
            raise FolderError(f"{text} {', '.join(IMAGE_ENDINGS)}.", path=os.fspath(root))
        return TreeSource(self._scan.root, self._scan.names)

    def _scanned(self, root: Path) -> Scan:
        return scan(root, self._names)

    def _class_of(self, name: str) -> str:
        return name.partition("/")[0]

    def remarks(self) -> Iterator[str]:
        """Say what of the selection that `find` made, which is torchvision's, may not be meant."""
        if self._scan is None:
            return
        names, others = self._scan.names, self._scan.others
        if hidden := [name for name in names if not is_shown(name)]:
            yield (
                f"warning: hidden files or folders have {counted(len(hidden), 'image')}, as in ImageFolder; remove "
                f"them if they are no data: {name_first(hidden, _NUM_SHOWN)}"
            )
        if names and all(name.count("/") > self._depth for name in names):
            yield (
                f"no image lies directly in a class folder; as in ImageFolder, the class of {names[0]} is "
                f"{self._class_of(names[0])!r}"
            )
        if others:
            yield (
                "warning: left out, as by ImageFolder, because of its ending or because it is in no class folder: "
                f"{_shown(others)}"
            )

    @override
    def looked_for(self, root: Path) -> list[str]:
        return ["one folder for each class"]

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: `TREE_FILE`."""
        if self._scan is None or self.selection:
            return {}
        tree = {"root": os.fspath(self._scan.root), "directories": dict(self._scan.directories)}
        return {TREE_FILE: json.dumps(tree, indent=1).encode()}

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        # A file without an image's extension was chosen by `is_valid_file`: the user has a loader for it.
        yield Blob("image", member.name, member.read(), checked=is_image(member.name))

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = stored.keys.get("image", ())
        order = class_folder_order(keys)
        names = [keys[index] for index in order]
        skipped = stored.skipped.get("image", frozenset())
        kept = {self._class_of(name) for name in names if name not in skipped}
        classes = sorted(set(map(self._class_of, names)) if self._scan is None else self._scan.classes)
        label_of = {"": NO_TARGET, **{name: label for label, name in enumerate(classes)}}
        return Table(
            names=names,
            arrays={"target": np.fromiter((label_of[self._class_of(name)] for name in names), np.int64, len(names))},
            classes=classes,
            metadata={"selection": self.selection, "empty_classes": sorted(set(classes) - kept)},
        )


class SplitTreeRecipe(FolderRecipe):
    """The images of a tree of splits with class folders: one set with the splits, and one numbering of the classes.

    As of a zip of the tree; a split without class folders has no labels.

    Args:
        splits: The folders of the splits, in which the class folders are.
        allow_empty: Whether a class may have no images.
    """

    kind = SetKind.IMPORTED
    dataset = "splits"
    _depth = 2

    def __init__(self, splits: Sequence[str], *, allow_empty: bool = True) -> None:
        super().__init__(allow_empty=allow_empty, allow_none=False)
        self._splits = tuple(splits)

    @override
    def _scanned(self, root: Path) -> Scan:
        parts = {split: _scan_split(root / split) for split in self._splits}
        return Scan(
            root,
            tuple(sorted({name for part in parts.values() for name in part.classes})),
            tuple(f"{split}/{name}" for split, part in parts.items() for name in part.names),
            {
                f"{split}/{name}".rstrip("/"): time
                for split, part in parts.items()
                for name, time in part.directories.items()
            },
            tuple(f"{split}/{name}" for split, part in parts.items() for name in part.others),
        )

    @override
    def _class_of(self, name: str) -> str:
        folder = name.partition("/")[2]
        return folder.partition("/")[0] if "/" in folder else ""

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        tops = np.array([name.partition("/")[0] for name in table.names])
        return table.with_splits({split.lower(): np.flatnonzero(tops == split) for split in self._splits})


def _shown(files: Sequence[str]) -> str:
    return f"{counted(len(files), 'file')}: {name_first(files, _NUM_SHOWN)}"


def _scan_split(root: Path) -> Scan:
    try:
        return scan(root)
    except FolderError:
        images = sorted(filter(is_image, os.listdir(root)))
        if not images:
            raise
        return Scan(root, (), tuple(images), {"": root.stat().st_mtime_ns})


def records_beside(root: Path, ending: str = "") -> Path:
    """Return the path of a tree's record set.

    Raises:
        ArgumentError: The tree is the root of the file system, beside which nothing lies.
    """
    tree = root.resolve()
    if not tree.name:
        raise ArgumentError(
            f"The records of {root} cannot lie beside it: it is the root of the file system. Name a directory in "
            "it, or pass records_dir (--output)."
        )
    return tree.with_name(f"{tree.name}{ending}.records")


def selection_digest(names: Sequence[str]) -> str:
    """Return the identity of a selection of files: 64 hex digits, the same in whatever order they are named."""
    digest = hashlib.sha256()
    for name in sorted(set(names)):
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()


def scan(root: Path, names: Sequence[str] | None = None) -> Scan:
    """List the classes and images of a tree as torchvision does; links to directories are followed.

    Args:
        root: The tree.
        names: Take these files instead of looking for images.

    Raises:
        FolderError: There is no tree, or no class in it.
    """
    directories = {"": root.stat().st_mtime_ns} if root.exists() else {}
    classes = class_names(root)
    if names is not None:
        unique = list(dict.fromkeys(names))
        return Scan(root, tuple(classes), tuple(unique[place] for place in class_folder_order(unique)), directories)
    found: list[str] = []
    others = [name for name in os.listdir(root) if is_image(name) or _LIKE_IMAGE.search(name)]
    others = sorted({*others}.difference(classes))
    for name in classes:
        top = os.path.join(root, name)
        for path, _, files in sorted(os.walk(top, followlinks=True)):
            folder = name + path[len(top) :].replace(os.sep, "/")
            directories[folder] = os.stat(path).st_mtime_ns
            files.sort()
            found += [f"{folder}/{file}" for file in files if is_image(file)]
            others += [f"{folder}/{file}" for file in files if not is_image(file) and _LIKE_IMAGE.search(file)]
    return Scan(root, tuple(classes), tuple(found), directories, tuple(others))


def class_names(root: Path) -> list[str]:
    """List the first-level directories of a tree, sorted, without record sets.

    Raises:
        FolderError: There is no tree, or no directory in it.
    """
    try:
        with os.scandir(root) as entries:
            found = sorted(entry.name for entry in entries if is_folder(entry))
    except FileNotFoundError as err:
        raise FolderError(str(err), path=os.fspath(root)) from err
    classes = without_record_sets(root, found)
    if not classes:
        raise no_class_folder(root)
    return classes


def without_record_sets(root: Path, folders: Sequence[str]) -> list[str]:
    """Drop folders of a tree that are record sets, finished or not: they are not classes."""
    return [name for name in folders if _BUILD not in name and not is_record_set(root / name)]


def split_folders(root: Path) -> list[str]:
    """List the folders of a tree whose only folders are splits (train, val, ...); none of another tree.

    Raises:
        OSError: The tree cannot be listed.
    """
    with os.scandir(root) as entries:
        folders = without_record_sets(root, sorted(entry.name for entry in entries if is_folder(entry)))
    return [name for name in folders if not name.startswith(".")] if are_splits(folders) else []


def like_splits(folders: Sequence[str]) -> list[str]:
    """List the folders that may be splits or parts of a dataset by their names, if at least half of them may be.

    "train2017" and "val2017", "training_set" and "test_set", "fold1" and "fold2", "trainA" and "trainB"; a class may be
    called "bullet_train". Folders that are called as `SPLIT_NAMES` has it are among them.
    """
    words = {name: re.findall("[a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower()) for name in folders}
    # By three letters: "train", "training" and "trainset" are one split.
    split_of = {name: next(filter(_SPLIT.fullmatch, found), "")[:3] for name, found in words.items()}
    found = [name for name, split in split_of.items() if split]
    if len({split_of[name] for name in found}) > 1 and 2 * len(found) >= len(folders):
        return found
    are_parts = len(set(map(tuple, words.values()))) == 1 and all(_PART.fullmatch(" ".join(w)) for w in words.values())
    are_all = len(folders) > 1 and (are_parts or all(map(_DOMAIN.fullmatch, folders)))
    return list(folders) if are_all else []


def is_shown(name: str) -> bool:
    """Whether no part of a name is hidden; macOS writes ``__MACOSX/`` and ``._*``, Synology's systems ``@eaDir/``."""
    path = f"/{name}"
    return "/." not in path and "/__MACOSX/" not in path and "/@eaDir/" not in path


def tables_of(names: Iterable[str]) -> list[str]:
    """Return the tables among files, first those that may list images, last those of tests and submissions."""

    def order(name: str) -> tuple[bool, bool]:
        file = os.path.basename(name).lower()
        return bool(re.search("sample|submission|test", file)), not re.search("annot|label|list|meta|train", file)

    return sorted((name for name in names if name.lower().endswith(_TABLES)), key=order)


def no_class_folder(root: str | os.PathLike[str]) -> FolderError:
    """Return torchvision's error for a tree without class folders, with advice on the images in it."""
    names, hint = list[str](), ""
    folder = os.path.dirname(os.path.abspath(root)) if are_splits([os.path.basename(root)]) else root
    tables = list[str]()
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(root))
        found = (os.path.join(each, name) for each in (root, folder) for name in sorted(os.listdir(each)))
        tables = tables_of(found)
    if count := sum(map(is_image, names)):
        lie = counted(count, "image lies", "images lie")
        listed = "write a list (.csv, .txt) of their paths and labels and prepare that."
        if tables:
            name = os.path.basename(tables[0])
            listed = f"if {name} lists them with their labels, run: {command('prepare', tables[0])}."
        hint = (
            f" {lie} there without class folders. To give them classes, move them into one folder for each class, or "
            f"{listed} To store them without classes, run: {command('prepare', root, '--from', 'flat')}"
        )
    return FolderError(f"Couldn't find any class folder in {root}.{hint}", path=os.fspath(root), num_images=count)


class FlatRecipe(Recipe):
    """The images in a directory and below it, in the order of ``sorted(os.walk(directory))``."""

    kind = dataset = SetKind.FLAT
    _others: tuple[str, ...] = ()

    @override
    def target(self, root: Path) -> Path:
        return records_beside(root)

    @override
    def title(self, root: Path) -> str:
        return root.resolve().name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", root, "--from", "flat")

    @override
    def remarks(self) -> Iterator[str]:
        if self._others:
            yield f"warning: left out because of their endings: {_shown(self._others)}"

    def find(self, root: Path) -> Source | None:
        """List the images.

        Raises:
            FolderError: There is no such directory, or no image in it.
        """
        others: list[str] = []

        def wanted(name: str) -> bool:
            if not is_image(name) and _LIKE_IMAGE.search(name):
                others.append(name)
            return is_image(name)

        source = TreeSource(root.resolve(), wanted=wanted)
        if not len(source.files().sizes):
            raise FolderError(f"There are no images in {root} ({', '.join(IMAGE_ENDINGS)}).", path=os.fspath(root))
        self._others = tuple(others)
        return source

    @override
    def looked_for(self, root: Path) -> list[str]:
        return ["images"]

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        yield Blob("image", member.name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = list(stored.keys["image"])
        return Table(names=keys, arrays={"target": np.full(len(keys), NO_TARGET, np.int64)})
