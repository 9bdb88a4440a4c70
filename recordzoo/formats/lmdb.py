"""LMDB databases of earlier tools: images and labels in the tool's order, read page by page without running code."""

import contextlib
import hashlib
import itertools
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from recordzoo.base.files import read_text
from recordzoo.base.settings import is_installed, need
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.formats.base import Foreign, Piece, Sample, even_ranges, fault, first_bytes
from recordzoo.formats.lmdb_values import (
    DATA_FILE,
    INSTRUCTIONS,
    Database,
    PageEntry,
    PageTree,
    Value,
    array_value,
    caffe_value,
    image_value,
    loaded,
    object_value,
    pair_value,
    torchrecord_value,
)
from recordzoo.formats.tfrecord import PROTOBUF
from recordzoo.recipes.recipe import NO_TARGET, sniffed_ending
from recordzoo.records.manifest import FieldKind, FieldSpec
from recordzoo.records.shard import MAGIC, PAGE_HEADER

KEYS, LENGTH, COUNT = b"__keys__", b"__len__", b"num-samples"
"""Keys of folder2lmdb; the key by which databases of text recognition are known."""

LOOKS_FOR = f"{DATA_FILE}, *.lmdb, and db0/{DATA_FILE}"

_LIST_NAME = "meta_info.txt"
_LIST_LINE_BYTES = 1024  # a key has at most 511
_SHOWN_BYTES = 32
_UP = re.compile(r"(?<![^/])\.\.(?![^/])")
_PART = re.compile(r"db(0|[1-9]\d{0,5})")
_ENDINGS = (".lmdb", ".mdb")
_OTHERS_NAMED = 10


def find(location: str, fields: Mapping[str, str], layout: str = "") -> Foreign | None:
    """See `recordzoo.formats`; the default layout is detected."""
    path = Path(location)
    if "://" in location or (not layout and path.is_file() and not _may_be_database(path)):
        return None
    files = _database_files(path)
    return LMDB(location, fields, files, KNOWN.get(layout)) if files else None


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


def _is_database(path: Path) -> bool:
    if path.is_dir():
        return (path / DATA_FILE).is_file()
    return path.suffix in _ENDINGS and path.name != "lock.mdb"


def _may_be_database(path: Path) -> bool:
    """Whether a file has the name or the first bytes of an LMDB database; it may be damaged."""
    if path.suffix in _ENDINGS:
        return True
    return first_bytes(path, PAGE_HEADER + 4)[PAGE_HEADER:] == MAGIC.to_bytes(4, sys.byteorder)


@dataclass(frozen=True, slots=True)
class Records(Piece):
    """Some consecutive records of a database.

    Attributes:
        prefix: The beginning of their names, which distinguishes the database from others; "" if it is the only one.
        place: The file, and the database's name in it, for messages.
        status: The file's size and time.
        entries: Where each record is in the file.
        labels: Where the label of each is, if labels have keys of their own.
    """

    prefix: str = ""
    place: str = ""
    status: tuple[int, int] = (0, 0)
    entries: Sequence[PageEntry] = ()
    labels: Sequence[PageEntry] = ()

    def values(self) -> Iterator[tuple[str, str, bytes, bytes | None]]:
        """Yield each record's name, location (for messages), value, and its label if that has a key of its own."""
        (file,) = self.files
        with Database(file, self.status) as database:
            for entry, label in itertools.zip_longest(self.entries, self.labels):
                text = None if label is None else database.value(label)
                where = f"{self.place}, key {entry.key!r}"
                yield f"{self.prefix}{as_name(entry.key)}", where, database.value(entry), text


Entries = Mapping[bytes, PageEntry]
"""The entries of a database by their keys, in LMDB's order."""

Order = tuple[Sequence[PageEntry], Sequence[PageEntry]]
"""The samples among the entries of a database; their labels, if these have keys of their own."""


@dataclass(frozen=True)
class Layout:
    """How one tool stores samples.

    Attributes:
        name: Its name for `--from`.
        parse: Reads a value; raises `ValueError` for another layout.
        order: Finds the samples among the entries of a database, in the order in which the tool counts them; raises
            `ValueError` if the keys are not those of this layout.
    """

    name: str
    parse: Callable[[bytes], Value]
    order: Callable[[Database, Entries], Order]


class LMDB(Foreign):
    """The records of one or several databases. All have the layout of the first one."""

    origin = "lmdb"

    def __init__(
        self, location: str, fields: Mapping[str, str], files: Mapping[str, Path], layout: Layout | None
    ) -> None:
        super().__init__(location, fields)
        self.check_fields(("image", "target"))
        self.format, self._files, self._layout, self._kind = layout.name if layout else "", files, layout, ""
        self._image, self._target = (fields.get(key, key) for key in ("image", "target"))

    # Any: what pickle keeps.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "pieces": ()}  # a worker gets its own with its unit

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
        pieces: list[Records] = []
        for folder, file in self._files.items():
            with Database(file) as database:
                for name, tree in _trees(database).items():
                    entries = {entry.key: entry for entry in database.entries(tree)}
                    pieces += self._cut(database, folder, name, entries) if entries else []
        self.pieces = pieces
        if not any(piece.size_bytes for piece in pieces):
            raise fault(self.location, " is empty: there is no record in it.")
        self.format = cast(Layout, self._layout).name
        _, _, first = next(self._values(pieces[0]))
        self._kind = first.kind
        is_text = isinstance(first.label, str)
        self.kinds = {
            self._image: "image" if isinstance(first.image, bytes) else "raw",
            self._target: "json" if is_text else "array",
        }
        self.specs = {self._target: FieldSpec(FieldKind.TEXT)} if is_text else {}

    def _cut(self, database: Database, folder: str, name: str, entries: Entries) -> Iterator[Records]:
        """Cut the records of a database into pieces."""
        layout = self._layout = self._layout or recognised(database, entries)
        try:
            found, labels = layout.order(database, entries)
        except ValueError as err:
            raise fault(database.path, f" is no database of {layout.name}: {err}.") from err
        prefix = "".join(f"{part}/" for part in (folder, name) if part)
        place = f"{database.path}, {name}" if name else str(database.path)
        for first, stop in even_ranges(0, len(found), sum(entry.length for entry in found)):
            some = found[first:stop]
            yield Records(
                f"{prefix or 'all'}[{first}]",
                sum(entry.length for entry in some),
                (database.path,),
                prefix=prefix,
                place=place,
                status=database.status,
                entries=some,
                labels=labels[first:stop],
            )

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
            yield Sample.of({self._image: value.image, self._target: label}, name)

    def _values(self, piece: Piece) -> Iterator[tuple[str, str, Value]]:
        """Yield the name of each sample, its location (for messages), and the stored value."""
        assert isinstance(piece, Records)
        for name, where, data, label in piece.values():
            try:
                value = cast(Layout, self._layout).parse(data)
                found = list((value if label is None else Value(value.image, label.decode())).singles())
            except ValueError as err:
                raise SourceError(f"{where}: {err}.", path=str(piece.files[0])) from err
            yield from ((f"{name}{ending}", where, single) for ending, single in found)


def as_name(key: bytes) -> str:
    """Return a key as a record's name; as a path, it never leaves its directory."""
    text = _UP.sub("%2E%2E", key.decode("utf-8", "surrogateescape")).replace("\0", "%00")
    return f"%2F{text[1:]}" if text.startswith("/") else text


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


def _numbered_parts(names: Collection[str], path: Path) -> list[str]:
    """Sort the names of TorchRecord's databases by their numbers."""
    last = max(int(name.removeprefix("db")) for name in names)
    wanted = [f"db{number}" for number in range(last + 1)]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise fault(path, f" has db{last}, but not {', '.join(missing[:_OTHERS_NAMED])}. All from db0 on are needed.")
    return wanted


def recognised(database: Database, entries: Entries) -> Layout:
    """Find the layout by the keys, or by the first value."""
    if COUNT in entries:
        return KNOWN["lmdb_text"]
    first = next((key for key in entries if key not in (KEYS, LENGTH)), next(iter(entries)))
    value = database.value(entries[first])
    untried = {"lmdb_text"} if is_installed(PROTOBUF[0]) else {"lmdb_text", "caffe", "torchrecord"}
    for name, layout in KNOWN.items():
        with contextlib.suppress(ValueError):
            if name not in untried:
                layout.parse(value)
                return layout
    if KEYS in entries or LENGTH in entries:
        return KNOWN["folder2lmdb"]
    need(*PROTOBUF)  # without it, a layout was not tried
    key, begins = str(first[:100])[2:-1], value[:_SHOWN_BYTES].hex(" ")
    raise SourceError(
        f"{database.path} is of no known LMDB layout ({', '.join(KNOWN)}); the value of its key {key!r} begins with "
        f"{begins or 'nothing'}. Read it with the program that wrote it, and store that dataset with "
        "recordzoo.convert.",
        path=str(database.path),
        sample={"key": key, "begins": begins, "size_bytes": len(value)},
    )


def _in_place(database: Database, entries: Entries) -> Order:
    return list(entries.values()), ()


def _by_number(database: Database, entries: Entries) -> Order:
    if not _are_numbers(entries):
        raise ValueError('its keys are not "0", "1", "2", ...')
    return _numbered(entries), ()


def _are_numbers(keys: Iterable[bytes]) -> bool:
    return all(key.isdigit() and len(key) <= 20 for key in keys)


def _numbered(entries: Entries) -> list[PageEntry]:
    """Sort entries whose keys are numbers ("2" before "10")."""
    return [entries[key] for key in sorted(entries, key=int)]


def _by_keys(database: Database, entries: Entries) -> Order:
    """Return the keys in the order of `__keys__`; without it, by number if all keys are numbers, else in LMDB's order.

    `__keys__` and `__len__` must fit the keys of the database.
    """
    others = {key: entry for key, entry in entries.items() if key not in (KEYS, LENGTH)}
    if KEYS in entries:
        try:
            named = loaded(database.value(entries[KEYS]), 8 * len(entries) + INSTRUCTIONS)
        except ValueError as err:
            raise ValueError(f"__keys__ cannot be read: {err}") from err
        if not isinstance(named, list | tuple) or not all(isinstance(key, bytes | str) for key in named):
            raise ValueError("__keys__ is no list of keys")
        longest = max(map(len, others), default=0) + 1  # a forged list may repeat one long key: it is not copied
        short = (key[:longest] for key in named)
        wanted = [key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key for key in short]
        found = _listed(wanted, others, "__keys__")
    else:
        found = _numbered(others) if _are_numbers(others) else list(others.values())
    if LENGTH in entries and (length := database.value(entries[LENGTH])) != str(len(found)).encode():
        number = loaded(length)
        if number != len(found):
            raise ValueError(f"__len__ is {str(number)[:20]}, but there are {len(found):,} keys")
    return found, ()


def _by_list(database: Database, entries: Entries) -> Order:
    """Return the keys in the order of `meta_info.txt`; without it, of `__keys__` or of the database."""
    listing = database.path.with_name(_LIST_NAME)
    if database.path.name != DATA_FILE or not listing.is_file():
        return _by_keys(database, entries)
    most = _LIST_LINE_BYTES * (len(entries) + 1)
    lines = read_text(listing, most=most).encode().splitlines()
    names = [line.strip().rsplit(b" ", 2)[0] for line in lines if line.strip()]
    return _listed([name.rpartition(b".")[0] or name for name in names], entries, _LIST_NAME), ()


def _listed(wanted: Sequence[bytes], entries: Entries, source: str) -> list[PageEntry]:
    """Return the entries of the keys in a list, which must hold each key exactly once."""
    missing = [key for key in wanted if key not in entries]
    if missing or len(set(wanted)) != len(wanted):
        problem = f"names {missing[0][:80]!r}, which is not there" if missing else "names a key twice"
        raise ValueError(f"{source} {problem}")
    if len(wanted) != len(entries):
        raise ValueError(f"{source} names {len(wanted):,} keys, and there are {len(entries):,}")
    return [entries[key] for key in wanted]


def _by_count(database: Database, entries: Entries) -> Order:
    """Return the keys of images and labels from 1 to `num-samples`; none may be missing, and no image beyond them."""
    stored = database.value(entries[COUNT]) if COUNT in entries else b"not there"
    if not stored.isdigit() or len(stored) > 20:
        raise ValueError(f"its key num-samples is {stored[:20].decode('latin-1')}")
    number_of_images = sum(key.startswith(b"image-") for key in entries)
    if int(stored) != number_of_images:
        raise ValueError(f"num-samples is {int(stored)}, but there are {number_of_images:,} keys image-...")
    wanted = [[b"%s-%09d" % (kind, number + 1) for number in range(int(stored))] for kind in (b"image", b"label")]
    for key in (*wanted[0], *wanted[1]):
        if key not in entries:
            raise ValueError(f"key {key!r} is not there")
    images, labels = ([entries[key] for key in each] for each in wanted)
    return images, labels


STORED = Layout("", Value, _in_place)
"""Values that are images and nothing else, in LMDB's order; never detected, only requested."""

_KNOWN = (
    Layout("folder2lmdb", pair_value, _by_keys),
    Layout("torchrecord", torchrecord_value, _by_number),
    Layout("caffe", caffe_value, _in_place),
    Layout("lmdb_arrays", array_value, _by_keys),
    Layout("lmdb_objects", object_value, _by_keys),
    Layout("lmdb_text", Value, _by_count),
    Layout("lmdb_images", image_value, _by_list),
)


KNOWN = {each.name: each for each in _KNOWN}
"""All layouts by name, in the order in which they are tried."""
