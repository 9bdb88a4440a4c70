"""The files of a list as a source: in list order, each followed by the list's notes on it."""

import functools
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import override

from recordzoo.errors import NotPreparedError
from recordzoo.raw.file_table import FileTable
from recordzoo.raw.member import Member, Unit
from recordzoo.raw.sized import SizedSource
from recordzoo.raw.tree import TreeUnit, tree_unit

_NUM_SHOWN = 20

Note = tuple[str, bytes]
"""A member that is not a file: its name and its content."""


@dataclass(frozen=True)
class ListSource(SizedSource):
    """The files of a list. Their status is read once, so that all answers of one source agree.

    Attributes:
        path: The list.
        names: The files in the order of reading, each once: absolute, or relative to the list's directory, with "/".
        notes: Extra members that follow a file, by the file's name.
        lines: The line of each file in the list, for messages.
        digest: A digest of the list's content.
        word: The word for its lines in messages: "line" or "row".
    """

    path: Path
    names: Sequence[str]
    notes: Mapping[str, Sequence[Note]] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    word: str = "line"

    @property
    @override
    def description(self) -> str:
        return str(self.path)

    @override
    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        notes = sum(cost(len(data)) for notes in self.notes.values() for _, data in notes)
        return max(int(self.size_bytes * expansion), sum(map(cost, self.files().sizes)) + notes)

    def fingerprint(self) -> str:
        """Return a digest of the list and of all files' names, sizes and modification times."""
        return self.files().fingerprint(self.digest.encode())

    def files(self) -> FileTable:
        """See `Source`.

        Raises:
            NotPreparedError: Files are missing or cannot be read; the message names them.
        """
        return self._files

    @override
    def member_sizes(self) -> Sequence[int]:
        """Return the size in bytes of each file with its notes.

        Raises:
            NotPreparedError: As `files`.
        """
        return self._sizes

    @override
    def unit(self, start: int, stop: int) -> Unit:
        names = tuple(self.names[start:stop])
        files = tree_unit(self.path.parent, self.files(), start, stop)
        return ListUnit(files, tuple(tuple(self.notes.get(name, ())) for name in names))

    @functools.cached_property
    def _sizes(self) -> list[int]:
        sizes = self.files().sizes
        if not self.notes:
            return list(sizes)
        return [
            size + sum(len(data) for _, data in self.notes.get(name, ()))
            for name, size in zip(self.names, sizes, strict=True)
        ]

    @functools.cached_property
    def _files(self) -> FileTable:
        """Read the status of every file."""
        base = str(self.path.parent)
        table, problems = FileTable(base), []
        for name in self.names:
            found = look(os.path.join(base, name))
            if isinstance(found, str):
                problems.append((name, found))
            else:
                table.add(name, found)
        if problems:
            self._refuse(problems)
        return table

    def _refuse(self, problems: Sequence[tuple[str, str]]) -> None:
        problems = sorted(problems, key=lambda problem: self.lines.get(problem[0], 0))
        shown = "; ".join(
            f"{name} ({f'{self.word} {self.lines[name]}: ' if name in self.lines else ''}{why})"
            for name, why in problems[:_NUM_SHOWN]
        )
        more = f"; and {len(problems) - _NUM_SHOWN} more" if len(problems) > _NUM_SHOWN else ""
        raise NotPreparedError(
            f"{self.description}: {len(problems)} of the {len(self.names)} files that it names cannot be read: {shown}"
            f"{more}. Relative paths are relative to the list's directory, {self.path.parent}. "
            "on_error='skip' (--on-error skip) leaves them out.",
            path=str(self.path),
            num_missing=len(problems),
        )


def look(path: str) -> os.stat_result | str:
    """Return a file's status, or the reason why it cannot be read."""
    try:
        status = os.stat(path)
    except OSError as err:
        return err.strerror or str(err)
    if not stat.S_ISREG(status.st_mode):
        return "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
    return status if os.access(path, os.R_OK) else "Permission denied"


@dataclass(frozen=True, slots=True)
class ListUnit:
    """Some files of a list with their notes; see `Unit`."""

    files: TreeUnit
    notes: tuple[tuple[Note, ...], ...]

    @property
    def size_bytes(self) -> int:
        """The total size of files and notes in bytes."""
        return self.files.size_bytes + sum(len(data) for notes in self.notes for _, data in notes)

    @property
    def stamp(self) -> str:
        """The files' stamp; see `Unit`. The list's notes are compared elsewhere."""
        return self.files.stamp

    def members(self) -> Iterator[Member]:
        """Yield the files, each before its notes; `Member.read` raises `SourceError` like a tree's files."""
        for member, notes in zip(self.files.members(), self.notes, strict=True):
            yield member
            for name, data in notes:
                yield Member(name, len(data), functools.partial(bytes, data))
