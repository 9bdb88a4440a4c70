"""Databases as a source: where they are, how they are laid out, and ranges of their records, to be read in workers."""

import dataclasses
import functools
import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.recipes.imports import LAYOUTS, folder2lmdb, lmdb_text
from recordzoo.recipes.imports.database import Database, Entry
from recordzoo.recipes.imports.places import database_files, parts_of
from recordzoo.recipes.imports.sample import ForeignValueError, Sample, layout, samples_of
from recordzoo.sources.file_table import stamp_of
from recordzoo.sources.member import Member, Unit
from recordzoo.sources.sized import SizedSource

BLOCK = 256
"""So many records are one member: their labels share a side file."""

_UP = re.compile(r"(?<![^/])\.\.(?![^/])")
_SHOWN_BYTES = 32


def identity(path: Path) -> str:
    """Return what tells one set of databases from another cheaply: names, sizes, numbers of keys; no times."""
    digest = hashlib.sha256()
    for name, file in database_files(path).items():
        with Database(file) as database:
            meta = database.meta
            digest.update(f"{name}\0{database.status[0]}\0{meta.entries}\0{meta.last_page}\0".encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class DatabasePart:
    """One database, listed: its file with size and time, and its records in their order.

    Attributes:
        folder: Its directory's name, if there are several.
        tree: Its name in the file, if it has one.
        labels: Of each record, if they have keys of their own.
    """

    folder: str
    tree: str
    file: Path
    status: tuple[int, int]
    entries: Sequence[Entry]
    labels: Sequence[Entry] = ()

    @property
    def name(self) -> str:
        """What tells it from the others; empty if it is the only one."""
        return "/".join(filter(None, (self.folder, self.tree)))

    def where(self, key: bytes) -> str:
        """Say where a key is, for messages."""
        return f"{self.file}, {f'{self.tree}, ' if self.tree else ''}key {key!r}"


@dataclass(frozen=True)
class DatabaseSource(SizedSource):
    """The records of one or several databases, listed once.

    Attributes:
        path: What was asked for.
        layout: The name of the layout; "" if values are images and nothing else.
        parts: The databases in their order.
        first: The first record.
    """

    path: Path
    layout: str
    parts: Sequence[DatabasePart]
    first: Sample

    @property
    def archives(self) -> tuple[Path, ...]:
        """None that was downloaded."""
        return ()

    @property
    @override
    def description(self) -> str:
        return str(self.path)

    @functools.cached_property
    def _sizes(self) -> Sequence[int]:
        return [entry.length for part in self.parts for entry in part.entries]

    @override
    def member_sizes(self) -> Sequence[int]:
        return self._sizes

    def fingerprint(self) -> str:
        """See `Source`."""
        digest = hashlib.sha256(self.layout.encode())
        for part in self.parts:
            digest.update(f"{part.name}\0{part.status}\0{len(part.entries)}\0".encode())
        return digest.hexdigest()

    def files(self) -> None:
        """See `Source`: databases stand for their records."""

    @override
    def unit(self, start: int, stop: int) -> Unit:
        pieces = []
        before = 0
        for part in self.parts:
            low, high = max(start - before, 0), min(stop - before, len(part.entries))
            if low < high:
                entries, labels = tuple(part.entries[low:high]), tuple(part.labels[low:high])
                pieces.append(dataclasses.replace(part, entries=entries, labels=labels))
            before += len(part.entries)
        return RecordUnit(start, tuple(pieces), "".join(stamp_of(piece.file.stat()) for piece in pieces))


@dataclass(frozen=True, slots=True)
class RecordUnit:
    """Some consecutive records, of one database or several; see `Unit`."""

    start: int
    pieces: tuple[DatabasePart, ...]
    stamp: str

    @property
    def size_bytes(self) -> int:
        """See `Unit`."""
        return sum(entry.length for piece in self.pieces for entry in piece.entries)

    def members(self) -> Iterator[Member]:
        """Yield the records, `Block` by `Block`."""
        position = self.start
        for piece in self.pieces:
            with Database(piece.file, piece.status) as database:
                for first in range(0, len(piece.entries), BLOCK):
                    entries = piece.entries[first : first + BLOCK]
                    size_bytes = sum(entry.length for entry in entries)
                    labels = piece.labels[first : first + BLOCK]
                    yield Block(f"{position:012d}", size_bytes, bytes, piece, database, entries, labels)
                    position += len(entries)


@dataclass(frozen=True, slots=True)
class Block(Member):
    """Some records of an opened database; the name is the first one's position."""

    part: DatabasePart
    database: Database
    entries: Sequence[Entry]
    labels: Sequence[Entry] = ()

    def values(self) -> Iterator[tuple[str, str, bytes, bytes | None]]:
        """Yield each record's name, where it is, for messages, its value, and its label if it has a key of its own.

        Raises:
            ArchiveError, SourceError: It cannot be read.
        """
        for entry, label in itertools.zip_longest(self.entries, self.labels):
            key = as_name(entry.key)
            name = f"{self.part.name}/{key}" if self.part.name else key
            text = None if label is None else self.database.value(label)
            yield name, self.part.where(entry.key), self.database.value(entry), text


def as_name(key: bytes) -> str:
    """Write a key as a record's name, which never leads out of a directory when it is made a path."""
    text = _UP.sub("%2E%2E", key.decode("utf-8", "surrogateescape")).replace("\0", "%00")
    return f"%2F{text[1:]}" if text.startswith("/") else text


def image_source(file: Path) -> DatabaseSource:
    """List the records of one database whose values are images, without labels.

    Raises:
        ArchiveError: It is damaged.
        SourceError: It cannot be read, or is empty.
    """
    with Database(file) as database:
        part = DatabasePart("", "", file, database.status, tuple(database.entries()))
        if not part.entries:
            raise SourceError(f"{file} is empty: there is no record in it.", path=str(file))
        return DatabaseSource(file, "", (part,), Sample(database.value(part.entries[0])))


def find_source(path: Path, wanted: str | None) -> DatabaseSource:
    """List the databases at a path, and find out of which layout they are.

    Args:
        path: A directory, or an LMDB file.
        wanted: The layout, if the person says it.

    Raises:
        NotPreparedError, ArgumentError: As `database_files`.
        ArchiveError: A database is damaged.
        SourceError: It is of no known layout, or not of the wanted one, or empty.
    """
    parts: list[DatabasePart] = []
    chosen, first = wanted, None
    for folder, file in database_files(path).items():
        with Database(file) as database:
            for name, tree in parts_of(database).items():
                part = DatabasePart(folder, name, file, database.status, tuple(database.entries(tree)))
                if part.entries:
                    chosen = chosen or _recognised(database, part.entries)
                    part = _ordered(database, part, chosen)
                if first is None and part.entries:
                    first = _first(database, part, cast(str, chosen))
                parts.append(part)
    if chosen is None or first is None:
        raise SourceError(f"{path} is empty: there is no record in it.", path=str(path))
    return DatabaseSource(path, chosen, tuple(parts), first)


def _ordered(database: Database, part: DatabasePart, chosen: str) -> DatabasePart:
    """Put a part's records in their order, without the keys that are none."""
    entries = part.entries

    def read(place: int) -> bytes:
        return database.value(entries[place])

    try:
        places, labels = layout(chosen).order([entry.key for entry in entries], read, database.path)
    except ForeignValueError as err:
        raise SourceError(f"{database.path} is no database of {chosen}: {err}.", path=str(database.path)) from err
    ordered, texts = (tuple(entries[place] for place in each) for each in (places, labels))
    return dataclasses.replace(part, entries=ordered, labels=texts)


def _first(database: Database, part: DatabasePart, chosen: str) -> Sample:
    first = Block("", 0, bytes, part, database, part.entries[:1], part.labels[:1])
    (_, where, value, label), *_ = first.values()
    try:
        return next(samples_of(chosen, value, label))[1]
    except ForeignValueError as err:
        raise SourceError(f"{where}: {err}.", path=str(part.file)) from err


def _recognised(database: Database, entries: Sequence[Entry]) -> str:
    """Find the layout by the keys, or by the first value."""
    keys = {entry.key for entry in entries}
    if lmdb_text.COUNT in keys:
        return lmdb_text.NAME
    has_list = not keys.isdisjoint(folder2lmdb.OWN_KEYS)
    first = next((entry for entry in entries if entry.key not in folder2lmdb.OWN_KEYS), entries[0])
    value = database.value(first)
    reasons = {}
    for name in LAYOUTS:
        try:
            if name != lmdb_text.NAME:
                layout(name).parse(value)
                return name
        except ForeignValueError as err:
            reasons[name] = f"{layout(name).EXPECTED}: {err}"
    if has_list:
        return folder2lmdb.NAME
    raise SourceError(
        f"{database.path} is of no known LMDB layout ({', '.join(LAYOUTS)}). Read it with the program that wrote it, "
        "and store that dataset with recordzoo.convert.",
        path=str(database.path),
        sample={"key": str(first.key[:100])[2:-1], "begins": value[:_SHOWN_BYTES].hex(" "), "size_bytes": len(value)},
        reasons=reasons,
    )
