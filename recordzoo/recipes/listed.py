"""Datasets of image files with lists of their splits and targets."""

import hashlib
import io
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.base import INCOMPLETE, Blob, BlobField, Sidecar, Stored, Table
from recordzoo.recipes.class_folders import files_under
from recordzoo.recipes.declared import DeclaredRecipe

Files = tuple[str, tuple[str, ...]]
"""The files of a blob field: their folder, with a final "/", and their extensions, in lower case."""


class ListedRecipe(DeclaredRecipe):
    """A recipe for which subclasses define the lists, the files and the table.

    Attributes:
        encodings: The encoding of each blob field that does not contain images.
        needs_lists: Whether a tree must have at least one of the lists.
    """

    needs_lists: ClassVar[bool] = True
    encodings: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @property
    @abstractmethod
    def lists(self) -> Sequence[str]:
        """Patterns (`fnmatch`) of the names of lists."""

    @property
    @abstractmethod
    def files(self) -> Mapping[str, Files]:
        """The files of each blob field, including "image"."""

    @abstractmethod
    def table(self, keys: Mapping[str, Sequence[str]], lists: "Lists") -> Table:
        """Return the table: names, targets and splits, from the lists.

        Args:
            keys: The files of each blob field, relative to their folder.
            lists: The lists.

        Raises:
            SourceError: A list lacks required data.
        """

    @property
    @override
    def fields(self) -> Mapping[str, BlobField]:  # type: ignore[override]  # a constant of other recipes
        return {field: BlobField(self.encodings.get(field, "image")) for field in self.files}

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        folder, _ = next(iter(self.files.values()))
        lists = [name for pattern in self.lists for name in matching(base, pattern)]
        if not (base / folder).is_dir() or (self.needs_lists and not lists):
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
                yield Blob(field, member.name.removeprefix(folder), member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        try:
            return self.table(stored.keys, Lists(self.dataset, sidecars))
        except KeyError as err:
            raise SourceError(
                f"{self.set_name}: the lists contradict each other: one has {err.args[0]!r}, which another lacks. "
                f"{INCOMPLETE}"
            ) from err


class Lists:
    """The lists of a dataset. Access to a missing list raises `SourceError`.

    Attributes:
        contents: The existing lists by name.
    """

    def __init__(self, dataset: str, contents: Mapping[str, bytes]) -> None:
        self._dataset, self.contents = dataset, contents

    def __getitem__(self, name: str) -> bytes:
        if name not in self.contents:
            raise SourceError(f"{self._dataset}: {name} is missing in the raw data. {INCOMPLETE}")
        return self.contents[name]

    def __contains__(self, name: str) -> bool:
        return name in self.contents

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
        for number, line in enumerate(text_of(self[name], f"{self._dataset}: {name}").splitlines(), 1):
            if line := line.strip():
                yield number, line

    # Any: whatever MATLAB wrote.
    def mat(self, name: str) -> dict[str, Any]:
        """Return the variables of a .mat file, as `scipy.io.loadmat` does with ``squeeze_me``."""
        from scipy.io import loadmat

        found: dict[str, Any] = loadmat(io.BytesIO(self[name]), squeeze_me=True)  # type: ignore[arg-type]  # files, too
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
    return sorted(path.relative_to(base).as_posix() for path in base.glob(pattern) if path.is_file())
