"""LMDB databases of earlier tools: images and labels in the tool's order, read page by page without running code."""

import dataclasses
import hashlib
import itertools
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from recordzoo.errors import ArgumentError, SourceError
from recordzoo.formats.base import PIECE_SAMPLES, Foreign, Piece, Sample, fault
from recordzoo.formats.lmdb_layouts import KNOWN, Layout, ordered, recognised
from recordzoo.formats.lmdb_pages import DATA_FILE, Database, PageEntry, PageTree
from recordzoo.formats.lmdb_values import ForeignValueError, Value
from recordzoo.recipes.base import NO_TARGET
from recordzoo.recipes.images import sniffed_ending
from recordzoo.records.kinds import FieldKind, FieldSpec
from recordzoo.records.layout import MAGIC, PAGE_HEADER

LOOKS_FOR = f"{DATA_FILE}, *.lmdb, and db0/{DATA_FILE}"

_UP = re.compile(r"(?<![^/])\.\.(?![^/])")
_PART = re.compile(r"db(0|[1-9]\d{0,5})")
_ENDINGS = (".lmdb", ".mdb")
_OTHERS_NAMED = 10
_SHOWN_BYTES = 32


def find(location: str, fields: Mapping[str, str], layout: str = "") -> Foreign | None:
    """See `Format`; the default layout is detected."""
    path = Path(location)
    if "://" in location or (not layout and path.is_file() and not _may_be_database(path)):
        return None
    files = _database_files(path)
    return LMDB(location, fields, files, KNOWN.get(layout)) if files else None


@dataclass(frozen=True, slots=True)
class LmdbPart:
    """One database, listed: its file with size and time, and its records in their order.

    Attributes:
        name: What distinguishes it from the others: its directory, its name in the file; "" if it is the only one.
        place: The file, and its name in the file, for messages.
        labels: The label of each record, if labels have keys of their own.
    """

    name: str
    place: str
    file: Path
    status: tuple[int, int]
    entries: Sequence[PageEntry]
    labels: Sequence[PageEntry] = ()


@dataclass(frozen=True, slots=True)
class Records(Piece):
    """Some consecutive records of a database, with their places in it."""

    part: LmdbPart | None = None

    def values(self) -> Iterator[tuple[str, str, bytes, bytes | None]]:
        """Yield each record's name, location (for messages), value, and its label if that has a key of its own."""
        part = self.part
        assert part is not None
        with Database(part.file, part.status) as database:
            for entry, label in itertools.zip_longest(part.entries, part.labels):
                key = as_name(entry.key)
                text = None if label is None else database.value(label)
                where = f"{part.place}, key {entry.key!r}"
                yield f"{part.name}/{key}" if part.name else key, where, database.value(entry), text


class LMDB(Foreign):
    """The records of one or several databases. All have the layout of the first one."""

    origin = "lmdb"

    def __init__(
        self, location: str, fields: Mapping[str, str], files: Mapping[str, Path], layout: Layout | None
    ) -> None:
        super().__init__(location, fields)
        self.check_fields(("image", "target"))
        self.format, self._files, self._layout, self._kind = layout.name if layout else "", files, layout, ""
        self._parts: Sequence[LmdbPart] = ()
        self._image, self._target = (fields.get(key, key) for key in ("image", "target"))

    # Any: what pickle keeps.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": ()}  # a worker gets its records with its pieces

    @override
    def identity(self) -> str:
        """Names, sizes, numbers of keys; no times."""
        digest = hashlib.sha256()
        for name, file in self._files.items():
            with Database(file) as database:
                meta = database.meta
                digest.update(f"{name}\0{database.status[0]}\0{meta.entries}\0{meta.last_page}\0".encode())
        return digest.hexdigest()

    @override
    def open(self) -> None:
        """List the databases' records, and detect their layout."""
        parts: list[LmdbPart] = []
        for folder, file in self._files.items():
            with Database(file) as database:
                for name, tree in _trees(database).items():
                    entries, labels = tuple(database.entries(tree)), tuple[PageEntry, ...]()
                    if entries:
                        self._layout = self._layout or recognised(database, entries)
                        entries, labels = ordered(database, entries, self._layout)
                    full = "/".join(filter(None, (folder, name)))
                    place = f"{file}, {name}" if name else str(file)
                    parts.append(LmdbPart(full, place, file, database.status, entries, labels))
        self.pieces = [Piece(part.name, sum(e.length for e in part.entries), (part.file,)) for part in parts]
        self._parts = parts
        if not any(self.sizes()):
            raise fault(self.location, " is empty: there is no record in it.")
        self.format = cast(Layout, self._layout).name
        _, _, first = next(self._values(self._first()))
        self._kind = first.kind
        is_text = isinstance(first.label, str)
        self.kinds = {
            self._image: "image" if isinstance(first.image, bytes) else "raw",
            self._target: "json" if is_text else "array",
        }
        self.specs = {self._target: FieldSpec(FieldKind.TEXT)} if is_text else {}

    @override
    def sizes(self) -> Sequence[int]:
        return [entry.length for part in self._parts for entry in part.entries]

    @override
    def cut(self, start: int, stop: int) -> Sequence[Piece]:
        found: list[Piece] = []
        before = 0
        for part in self._parts:
            low, high = max(start - before, 0), min(stop - before, len(part.entries))
            for first in range(low, high, PIECE_SAMPLES):
                places = slice(first, min(first + PIECE_SAMPLES, high))
                some = dataclasses.replace(part, entries=part.entries[places], labels=part.labels[places])
                size_bytes = sum(entry.length for entry in some.entries)
                found.append(Records(f"{part.name or 'all'}[{first}]", size_bytes, (part.file,), part=some))
            before += len(part.entries)
        return found

    @override
    def first(self) -> list[tuple[Piece, Sample]]:
        return [(self._first(), next(self.read(self._first())))]

    def _first(self) -> Piece:
        return self.cut(0, 1)[0]

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        for name, where, value in self._values(piece):
            if value.kind != self._kind:
                raise SourceError(
                    f"{where}: it holds {value.kind}, and the first record {self._kind}. A record set has one kind of "
                    "image: read the database with the program that wrote it, and store that with recordzoo.convert.",
                    path=str(piece.files[0]),
                )
            if isinstance(value.image, bytes) and "." not in name.rpartition("/")[2]:
                name += sniffed_ending(value.image)
            label = NO_TARGET if value.label is None else value.label
            yield {"name": name, self._image: value.image, self._target: label}

    def _values(self, piece: Piece) -> Iterator[tuple[str, str, Value]]:
        """Yield the name of each sample, its location (for messages), and the stored value."""
        assert isinstance(piece, Records)
        for name, where, data, label in piece.values():
            try:
                value = cast(Layout, self._layout).parse(data)
                found = list((value if label is None else Value(value.image, _text(label))).singles())
            except ForeignValueError as err:
                raise SourceError(f"{where}: {err}.", path=str(piece.files[0])) from err
            yield from ((f"{name}{ending}", where, single) for ending, single in found)


def _text(label: bytes) -> str:
    try:
        return label.decode()
    except UnicodeDecodeError as err:
        raise ForeignValueError(f"its label is no text in UTF-8: {label[:_SHOWN_BYTES]!r}") from err


def as_name(key: bytes) -> str:
    """Return a key as a record's name; as a path, it never leaves its directory."""
    text = _UP.sub("%2E%2E", key.decode("utf-8", "surrogateescape")).replace("\0", "%00")
    return f"%2F{text[1:]}" if text.startswith("/") else text


def _database_files(path: Path) -> dict[str, Path]:
    """Find LMDB files at a path, by the name of each database; "" for a single one. Only TorchRecord has several."""
    if path.is_file():
        return {"": path}
    if (path / DATA_FILE).is_file():
        return {"": path / DATA_FILE}
    inside = [each for each in sorted(path.iterdir()) if _is_database(each)] if path.is_dir() else []
    numbered = {each.name: each / DATA_FILE for each in inside if _PART.fullmatch(each.name)}
    if numbered and len(numbered) == len(inside):
        return {name: numbered[name] for name in _numbered_parts(numbered, path)}
    if len(inside) == 1:
        return _database_files(inside[0])
    if inside:
        names = ", ".join(each.name for each in inside[:_OTHERS_NAMED])
        raise ArgumentError(f"{path} holds several databases ({names}). Pass the path of one of them.")
    return {}


def _may_be_database(path: Path) -> bool:
    """Whether a file has the name or the first bytes of an LMDB database; it may be damaged."""
    if path.suffix in _ENDINGS:
        return True
    with path.open("rb") as file:
        return file.read(PAGE_HEADER + 4)[PAGE_HEADER:] == MAGIC.to_bytes(4, sys.byteorder)


def _numbered_parts(names: Collection[str], path: Path) -> list[str]:
    """Sort the names of TorchRecord's databases by their numbers."""
    last = max(int(name.removeprefix("db")) for name in names)
    wanted = [f"db{number}" for number in range(last + 1)]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise fault(path, f" has db{last}, but not {', '.join(missing[:_OTHERS_NAMED])}. All from db0 on are needed.")
    return wanted


def _trees(database: Database) -> dict[str, PageTree]:
    """Find a file's databases: its only one by an empty name, or TorchRecord's named ones in their order."""
    named = {tree.name.decode("utf-8", "backslashreplace"): tree for tree in database.trees()}
    if "" in named:
        return named
    for name, tree in named.items():
        if not _PART.fullmatch(name):
            raise fault(
                database.path,
                f": key {tree.name!r} has a named database; of the known tools only TorchRecord writes "
                "such ones, and calls them db0, db1, ... Read it with Python's lmdb and store it with "
                "recordzoo.convert.",
            )
    return {name: named[name] for name in _numbered_parts(named, database.path)}


def _is_database(path: Path) -> bool:
    if path.is_dir():
        return (path / DATA_FILE).is_file()
    return path.suffix in _ENDINGS and path.name != "lock.mdb"
