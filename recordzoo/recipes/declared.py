"""Recipes of the catalogue's datasets: class folders, and image files with lists of their splits and targets."""

import bisect
import dataclasses
import hashlib
import importlib
import io
import itertools
import logging
import os
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.base.settings import is_installed
from recordzoo.base.text import JSON, counted, lines_of, name_first, text_of
from recordzoo.catalogue import Entry, Layout
from recordzoo.errors import ArgumentError, FolderError, PrepareError, SourceError
from recordzoo.net.url import RemoteFile
from recordzoo.raw.archive import ChainSource, raw_source
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.recipe import INCOMPLETE, NO_TARGET, Blob, Recipe, Sidecar, Stored, Table, name_below, present
from recordzoo.records.manifest import BlobSpec

logger = logging.getLogger("recordzoo")

_CLASSES_SHOWN = 20


def dataset_recipe(
    dataset: str,
    part: str = "",
    raw_files: tuple[RemoteFile, ...] | None = None,
    member_md5s: Mapping[str, str] = MappingProxyType({}),
) -> "DeclaredRecipe":
    """Return the recipe of a part of a dataset in the catalogue; arguments and errors are those of `DeclaredRecipe`.

    `member_md5s` has the MD5 of each file within the raw data that has a known one.
    """
    entry = catalogue.entry(dataset)
    found = entry.part(part)
    if found.recipe:
        kind = getattr(importlib.import_module(f"{entry.dataset_module}_recipe"), found.recipe)
    else:
        kind = {"class_folders": ClassFolderRecipe, "annotated": AnnotatedRecipe}[found.layout.kind]
    made: DeclaredRecipe = kind(dataset, part, raw_files)
    made.member_md5s = dict(member_md5s)
    return made


class DeclaredRecipe(Recipe):
    """A recipe of a dataset in the catalogue. Its raw data is torchvision's tree under ``root``, or the raw files.

    Names of members are relative to the dataset's folder (`Entry.folder`), from the tree as from the archives.

    Args:
        dataset: The dataset's name in the catalogue.
        part: One of its parts.
        raw_files: Raw files to use instead of the catalogue's. Those of other parts are ignored.

    Raises:
        ArgumentError: There is no such dataset or part, or `raw_files` lacks one of its files.
    """

    member_md5s: Mapping[str, str] = MappingProxyType({})
    package: ClassVar[str] = ""
    """A package that reads the raw files and is not one of recordzoo's dependencies."""

    def __init__(self, dataset: str, part: str = "", raw_files: tuple[RemoteFile, ...] | None = None) -> None:
        self.dataset = dataset
        self.part = self.entry.part(part).name
        self.raw_files = _files_of_part(self.entry.raw_files(part), raw_files)
        self.expansion = self.entry.expansion
        self._is_known = raw_files is None
        if raw_files is None:
            self.counts = {split.name: split.count for split in self.entry.splits if split.part == self.part}

    @property
    def entry(self) -> Entry:
        """The dataset's entry in the catalogue."""
        return catalogue.entry(self.dataset)

    @property
    @override
    def set_name(self) -> str:
        return self.entry.set_name(self.part)

    @property
    def layout(self) -> Layout:
        """The layout of the raw data, from the facts."""
        return self.entry.part(self.part).layout

    def require(self, names: Collection[str]) -> None:
        """Require these raw files, even if they are optional."""
        self.raw_files = tuple(
            dataclasses.replace(file, optional=False) if file.name in names else file for file in self.raw_files
        )

    def tree_names(self, base: Path) -> Sequence[str] | None:
        """List the members of the extracted tree, relative to `base`; None if there is no tree, or `find` looks."""
        return None

    @property
    def names_folder(self) -> str:
        """The folder that names of records are relative to, itself relative to the dataset's folder."""
        return self.tree_marks[0]

    @property
    @abstractmethod
    def tree_marks(self) -> Sequence[str]:
        """Folders or files that identify the extracted tree, relative to the dataset's folder."""

    def tree_bases(self, root: Path) -> Sequence[Path]:
        """List the directories that names of members may be relative to: all may be one folder deeper."""
        base = root / self.entry.folder
        tops = {mark.partition("/")[0] for mark in self.tree_marks}
        return [base, *(base / top for top in tops if len(tops) == 1)]

    @override
    def find(self, root: Path) -> Source | None:
        self._check_package(self.package)
        for base in self.tree_bases(root):
            if base.is_dir() and (names := self.tree_names(base)):
                return TreeSource(base, names)
        files = [file for file in self.raw_files if file.path(root).is_file()]
        if not files or not all(file.optional or file in files for file in self.raw_files):
            return None
        sources = [raw_source(file.path(root)) for file in files]
        return sources[0] if len(sources) == 1 else ChainSource(sources)

    @override
    def looked_for(self, root: Path) -> list[str]:
        files = [file.path(root).relative_to(root).as_posix() for file in self.raw_files if not file.optional]
        folder = f"{self.entry.folder}/" if self.entry.folder else ""
        return list(dict.fromkeys([*(folder + mark for mark in self.tree_marks), *files]))

    def compare_md5(self, name: str, md5: str, folder: str = "") -> None:
        """Compare the MD5 of a file in the raw data with the expected one, if known.

        Args:
            name: The file, as `member_md5s` has it.
            md5: Its MD5.
            folder: The folder of the file, for the message.

        Raises:
            SourceError: They differ.
        """
        expected = self.member_md5s.get(name)
        if expected and md5 != expected:
            text = f"{folder}{name} is damaged: its MD5 is {md5}, not {expected}. Get it again."
            raise SourceError(text, worthless=True)

    def check_classes(self, classes: Collection[str]) -> None:
        """Refuse labels that follow from folders of which some are missing: they would be other numbers."""
        expected = self.entry.num_classes
        if not self._is_known or self.takes_incomplete or expected in (None, len(classes)):
            return
        raise PrepareError(  # no SourceError: nothing is downloaded instead
            f"{self.set_name}: the raw data has {counted(len(classes), 'class folder')}, and the dataset has "
            f"{expected} classes: labels would be other numbers. There are "
            f"{name_first(sorted(classes), _CLASSES_SHOWN)}. Complete it, or pass incomplete=True (--allow-incomplete) "
            "to store what is there."
        )

    def incomplete(self, num_images: int, *more: str) -> dict[str, JSON]:
        """Return metadata that says how many images are missing, and more; empty if none is. Warn of it."""
        expected = self.counts.get("all") or sum(self.counts.values()) or self.entry.num_images
        if not self._is_known or expected in (None, num_images):
            return {}
        text = " ".join([f"has {counted(num_images, 'image')}, not {expected:,}.", *more])
        logger.warning("%s %s", self.set_name, text)
        return {"incomplete": text}

    def no_image(self, folder: str) -> SourceError:
        """Return the error for raw data without images."""
        return SourceError(f"{self.entry.title}: there is no image under {folder} in the raw data. {INCOMPLETE}")

    def _check_package(self, package: str) -> None:
        # Before the download: it can take hours.
        if package and not is_installed(package):
            raise PrepareError(
                f"{self.set_name}: its raw files are read with {package}, which is not installed. "
                f"Run: pip install {package}",
                package=package,
            )


def _files_of_part(known: Sequence[RemoteFile], given: Sequence[RemoteFile] | None) -> tuple[RemoteFile, ...]:
    if given is None:
        return tuple(known)
    by_name = {file.name: file for file in given}
    if lacking := [file.name for file in known if file.name not in by_name and not file.optional]:
        raise ArgumentError(f"Argument raw_files lacks {', '.join(lacking)}; it has {', '.join(by_name) or 'none'}.")
    return tuple(by_name[file.name] for file in known if file.name in by_name)


IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""A copy of torchvision.datasets.folder.IMG_EXTENSIONS, whose import needs torch; a test compares them."""

SPLIT_NAMES = frozenset(
    ("train", "training", "trainval", "val", "valid", "validation", "dev", "test", "testing", "eval", "evaluation")
)
"""Folders with these names, in any case, are splits, not classes."""


def is_image(name: str) -> bool:
    """Whether a file has an image's extension."""
    return name.lower().endswith(IMAGE_ENDINGS)


def is_class_image(name: str) -> bool:
    """Whether ImageFolder would take ``name`` ("class/file.jpg", from the tree's root) as a sample."""
    return "/" in name and is_image(name)


def are_splits(folders: Sequence[str]) -> bool:
    """Whether all folders of a tree are named like splits; hidden folders are ignored."""
    visible = [name for name in folders if not name.startswith(".")]
    return bool(visible) and all(name.lower() in SPLIT_NAMES for name in visible)


def class_folder_order(names: Sequence[str]) -> NDArray[np.int64]:
    """Return torchvision's order of names ``class/[folders/]file`` as indices into `names`."""
    # Most names are already in this order; sorting would take 100 bytes per name.
    if all(first <= second for first, second in itertools.pairwise(map(name_key, names))):
        return np.arange(len(names))
    return np.array(sorted(range(len(names)), key=lambda index: name_key(names[index])), dtype=np.int64)


def name_key(name: str) -> str:
    """Return the sort key of ImageFolder's order: the class, the whole folder as one string, the file."""
    folder, _, file = name.rpartition("/")
    # One string, not a tuple of three: half the memory at 1.28 million names. Names contain no NUL.
    return f"{folder.partition('/')[0]}\0{folder}\0{file}"


def find_name(names: Sequence[str], name: str) -> int | None:
    """Return the position of a name among names in ImageFolder's order; None if it is missing."""
    position = bisect.bisect_left(names, name_key(name), key=name_key)
    return position if position < len(names) and names[position] == name else None


def class_labels(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the sorted first folders of `names`, and each name's position among them."""
    classes = sorted({name.partition("/")[0] for name in names})
    label_of = {name: label for label, name in enumerate(classes)}
    labels = (label_of[name.partition("/")[0]] for name in names)
    return classes, np.fromiter(labels, dtype=np.int64, count=len(names))


def labelled_table(
    label_of: Mapping[str, int], splits: Mapping[str, Sequence[str]], classes: Sequence[str], others: Iterable[str] = ()
) -> Table:
    """Return the table of images with labels, and of others that have none, in ImageFolder's order."""
    names = sorted({*label_of, *others}, key=name_key)
    target = np.array([label_of.get(name, NO_TARGET) for name in names], np.int64)
    return Table(names, arrays={"target": target}, splits=splits, classes=classes)


def names_by_label(name_of: Mapping[int, str]) -> list[str]:
    """Return the name of each label from 0 to the last that has one; "" for a label without a name."""
    return [name_of.get(label, "") for label in range(max(name_of, default=-1) + 1)]


def raise_if_empty(empty: Sequence[str], endings: str | Sequence[str] | None) -> None:
    """Raise torchvision's error if there are classes without images.

    Raises:
        FolderError: There are empty classes.
    """
    if empty:
        message = f"Found no valid file for the classes {', '.join(sorted(empty))}. "
        if endings is not None:
            message += f"Supported extensions are: {endings if isinstance(endings, str) else ', '.join(endings)}"
        raise FolderError(message, classes=list(empty))


def files_under(base: Path, folder: str, endings: tuple[str, ...]) -> list[str]:
    """List the shown files below a folder with one of the extensions, relative to `base`, in the order of `sorted`."""
    found = []
    for path, _, names in sorted(os.walk(base / folder, followlinks=True)):
        start = f"{Path(path).relative_to(base).as_posix()}/".removeprefix("./")
        found += [f"{start}{name}" for name in sorted(names) if name.lower().endswith(endings) and name[0] != "."]
    return found


class ClassFolderRecipe(DeclaredRecipe):
    """A recipe of class folders at the places in the facts (`Layout`) or in a subclass.

    Where the facts name no folders of splits, a part whose name is a split's is that split.

    Labels follow from the folders that are there: without one class, later classes have other numbers. So the numbers
    of classes and images are compared with the facts, unless the facts name a subclass as the recipe, or raw files are
    given that are not the catalogue's.
    """

    def __init__(self, dataset: str, part: str = "", raw_files: tuple[RemoteFile, ...] | None = None) -> None:
        super().__init__(dataset, part, raw_files)
        self._is_known = self._is_known and not self.entry.part(part).recipe

    @override
    def find(self, root: Path) -> Source | None:
        found = super().find(root)
        if isinstance(found, TreeSource) and found.names is not None:
            inner = [self.class_path(name.removeprefix(self.top)) for name in found.names]
            self.check_classes({name.partition("/")[0] for name in inner if "/" in name})
        return found

    @override
    def tree_bases(self, root: Path) -> Sequence[Path]:
        return super().tree_bases(root)[::-1]  # else the folder would be the only class

    @property
    def top(self) -> str:
        """The folder above all class folders, with a final "/"; names are relative to it. "" needs such folders."""
        return self.layout.top

    @property
    def endings(self) -> tuple[str, ...]:
        """The extensions of images, in lower case."""
        return self.layout.endings or IMAGE_ENDINGS

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        places = [self.top] if self.top else self.layout.folders.values()
        found = [place for place in places if (base / place).is_dir()]
        return [name for place in found for name in files_under(base, place, self.endings)] if found else None

    @property
    @override
    def names_folder(self) -> str:
        return self.top

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [self.top] if self.top else [f"{folder}/" for folder in self.layout.folders.values()]

    def class_path(self, name: str) -> str:
        """Return ``class/[folders/]file`` of a name, which has the folder of a split before it."""
        if not self.layout.folders:
            return name
        inner = (name[len(folder) + 1 :] for folder in self.layout.folders.values() if name.startswith(f"{folder}/"))
        return next(inner, name.partition("/")[2])

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        name = member.name.removeprefix(self.top)
        is_below = member.name.startswith(self.top) and "/" in self.class_path(name)
        if is_below and name.lower().endswith(self.endings):
            yield Blob("image", name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = stored.keys["image"]
        names = [keys[index] for index in class_folder_order(keys)]
        if not names:
            raise self.no_image(", ".join(self.tree_marks))
        metadata = self.incomplete(len(names))
        inner = list(map(self.class_path, names))
        classes, target = class_labels(inner)
        self.check_classes(classes)
        splits: dict[str, NDArray[np.int64]] = {}
        if not self.layout.folders and self.part in SPLIT_NAMES:
            splits[self.part] = np.arange(len(names))
        for split, folder in self.layout.folders.items():
            places = np.flatnonzero([name.startswith(f"{folder}/") for name in names])
            splits[split] = places[class_folder_order([inner[place] for place in places.tolist()])]
        return Table(names, arrays={"target": target}, splits=splits, classes=classes, metadata=metadata)


ANNOTATIONS = "annotations"
"""The blob field of annotation files, and the first folder in their records' names."""


class AnnotatedRecipe(DeclaredRecipe):
    """A recipe of images and annotation files at the places in the facts (`Layout`). A tree may lack the latter.

    The record set is beside the folder of the images and has its name (``set_name`` in the facts), so that the root of
    torchvision's class finds it. Names of images are relative to that folder.
    """

    fields = {"image": BlobSpec("image"), ANNOTATIONS: BlobSpec("bytes")}  # noqa: RUF012 - never changed

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        if not (base / self.layout.top).is_dir():
            return None
        found = [name for pattern in self.layout.annotations for name in matching(base, pattern)]
        return [*files_under(base, self.layout.top, IMAGE_ENDINGS), *dict.fromkeys(found)]

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [self.layout.top]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        last = member.name.rpartition("/")[2]
        if is_apple_double(member.name):
            return
        if member.name.startswith(self.layout.top) and is_image(last):
            yield Blob("image", name_below(self.layout.top, member.name), member.read())
        elif any(fnmatchcase(member.name, pattern) for pattern in self.layout.annotations):
            yield Blob(ANNOTATIONS, last, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        images = set(stored.keys["image"])
        if not images:
            raise self.no_image(self.layout.top)
        files = {f"{ANNOTATIONS}/{key}": key for key in stored.keys[ANNOTATIONS]}
        names = sorted(images.union(files), key=name_key)
        return Table(
            names=names,
            keys={
                "image": present(names, images),
                ANNOTATIONS: [None if name in images else files[name] for name in names],
            },
            splits={self.part or "all": np.flatnonzero([name in images for name in names])},
        )


Files = tuple[str, tuple[str, ...]]
"""The files of a blob field: their folder, with a final "/", and their extensions, in lower case."""


class ListedRecipe(DeclaredRecipe):
    """A recipe for which subclasses define the lists, the files and the table.

    Attributes:
        needs_lists: Whether a tree must have at least one of the lists, if there are any.
    """

    needs_lists: ClassVar[bool] = True

    @property
    def lists(self) -> Sequence[str]:
        """Patterns (`fnmatch`) of the names of lists."""
        return ()

    @property
    @abstractmethod
    def files(self) -> Mapping[str, Files]:
        """The files of each blob field, including "image"; those that do not end as images are bytes."""

    @abstractmethod
    def table(self, keys: Mapping[str, Sequence[str]], lists: "Lists") -> Table:
        """Return the table: names, targets and splits, from the lists.

        If the table has no keys for another field, its files have the names of the images with another ending.

        Args:
            keys: The files of each blob field, relative to their folder.
            lists: The lists.

        Raises:
            SourceError: A list lacks required data.
        """

    @property
    @override
    def fields(self) -> Mapping[str, BlobSpec]:  # type: ignore[override]  # a constant of other recipes
        are_images = {field: all(map(is_image, endings)) for field, (_, endings) in self.files.items()}
        return {field: BlobSpec("image" if found else "bytes") for field, found in are_images.items()}

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        folder, _ = next(iter(self.files.values()))
        lists = [name for pattern in self.lists for name in matching(base, pattern)]
        if not (base / folder).is_dir() or (self.needs_lists and self.lists and not lists):
            return None
        return [*(name for files in self.files.values() for name in files_under(base, *files)), *lists]

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [next(iter(self.files.values()))[0]]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if any(fnmatchcase(member.name, pattern) for pattern in self.lists):
            data = member.read()
            self.compare_md5(member.name, hashlib.md5(data, usedforsecurity=False).hexdigest())
            yield Sidecar(member.name, data)
            return
        if is_apple_double(member.name):
            return
        for field, (folder, endings) in self.files.items():
            if member.name.startswith(folder) and member.name.lower().endswith(endings):
                yield Blob(field, name_below(folder, member.name), member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        try:
            table = self.table(stored.keys, Lists(self.dataset, sidecars))
        except KeyError as err:
            raise SourceError(
                f"{self.set_name}: the lists contradict each other: one has {err.args[0]!r}, which another lacks. "
                f"{INCOMPLETE}"
            ) from err
        ending_of = {field: endings[0] for field, (_, endings) in self.files.items()}
        ending = ending_of.pop("image")
        keys = {
            field: present([name.removesuffix(ending) + other for name in table.names], stored.keys[field])
            for field, other in ending_of.items()
        }
        metadata = {} if table.splits else self.incomplete(len(table.names))
        return dataclasses.replace(table, keys={**keys, **table.keys}, metadata={**metadata, **table.metadata})


class Lists(dict[str, bytes]):
    """The existing lists of a dataset by name. Access to a missing list raises `SourceError`."""

    def __init__(self, dataset: str, contents: Mapping[str, bytes]) -> None:
        super().__init__(contents)
        self._dataset = dataset

    def __missing__(self, name: str) -> bytes:
        raise SourceError(f"{self._dataset}: {name} is missing in the raw data. {INCOMPLETE}")

    def lines(self, name: str) -> list[str]:
        """Return the non-empty lines of a list."""
        return [line for _, line in self._numbered(name)]

    def rows(
        self, name: str, separator: str | None = None, *, columns: int | None = None, cuts: int = -1
    ) -> list["Row"]:
        """Return the lines of a list, each cut into its columns.

        Args:
            name: The list.
            separator: The text between two columns; None: spaces and tabs.
            columns: Required number of columns; None: any number.
            cuts: Maximum number of cuts of a line; the rest is one column. -1: no limit.

        Raises:
            SourceError: A line has another number of columns, or is not UTF-8: the message names it.
        """
        rows = []
        for number, line in self._numbered(name):
            row = Row(line.split(separator, cuts), f"{self._dataset}: {name}", number)
            if columns is not None and len(row) != columns:
                raise SourceError(
                    f"{self._dataset}: {name}, line {number}: expected {columns} columns, found {len(row)}: "
                    f"{line[:80]!r}. Get the file again.",
                    lines=[number],
                )
            rows.append(row)
        return rows

    def _numbered(self, name: str) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(lines_of(text_of(self[name], f"{self._dataset}: {name}")), 1):
            if line := line.strip():
                yield number, line

    # Any: whatever MATLAB wrote.
    def mat(self, name: str) -> dict[str, Any]:
        """Return the variables of a .mat file, as `scipy.io.loadmat` does with ``squeeze_me``."""
        from scipy.io import loadmat

        found: dict[str, Any] = loadmat(io.BytesIO(self[name]), squeeze_me=True)  # type: ignore[arg-type,unused-ignore]  # files, too
        return found


class Row(list[str]):
    """The columns of a line of a list, with the place of the line for errors."""

    __slots__ = ("_line", "_where")

    def __init__(self, cells: Iterable[str], where: str, line: int) -> None:
        super().__init__(cells)
        self._where, self._line = where, line

    def integer(self, column: int, bits: int = 64) -> int:
        """Return the integer of a column; see `integer`."""
        return integer(self[column], self._where, self._line, bits)

    def floats(self, start: int) -> list[float]:
        """Return the numbers of the columns from `start` on.

        Raises:
            SourceError: A column is not a number; the message names file and line.
        """
        try:
            return [float(cell) for cell in self[start:]]
        except ValueError as err:
            raise _damaged("numbers", " ".join(self[start:]), self._where, self._line) from err


def integer(cell: str | bytes, where: str, line: int, bits: int = 64) -> int:
    """Read an integer of a list.

    Args:
        cell: The text.
        where: The dataset and its file, for the message.
        line: The number of the line, from 1.
        bits: The size of the array's type that the integer must fit.

    Raises:
        SourceError: The text is not an integer, or too large; the message names file and line.
    """
    most = 1 << bits - 1
    try:
        value = int(cell)
    except ValueError:
        value = most
    if -most <= value < most:
        return value
    raise _damaged("an integer", cell, where, line)


def _damaged(expected: str, found: str | bytes, where: str, line: int) -> SourceError:
    return SourceError(
        f"{where}, line {line}: expected {expected}, found {found[:80]!r}. Get the file again.", lines=[line]
    )


def is_apple_double(name: str) -> bool:
    """Whether a member is one of the "._" files that macOS adds to archives."""
    return name.rpartition("/")[2].startswith("._")


def matching(base: Path, pattern: str) -> list[str]:
    """List the files below a folder whose names match a pattern, relative to it, sorted."""
    found = (path.relative_to(base).as_posix() for path in base.glob(pattern) if path.is_file())
    return sorted(name for name in found if not is_apple_double(name))
