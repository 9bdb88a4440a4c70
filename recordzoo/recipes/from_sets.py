"""A record set as raw data: its stored values, each once, in storage order; recipes that store them again."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.settings import command
from recordzoo.raw.member import Member, SizedSource, Source, Unit
from recordzoo.recipes.recipe import Blob, Recipe, Stored, Table
from recordzoo.records.arrays import AnyArray
from recordzoo.records.manifest import NO_SHARD
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.writer import LIST_FILE, MADE_FROM_FILE, MAX_EXTRA_BYTES, TREE_FILE

Entry = tuple[str, str, int, int]
"""A stored value: field, name, position in the set, size in bytes."""

_COUNTED_ANEW = ("num_bad", "num_skipped")  # metadata
_HINTED = 64  # values hinted at once: from a URL they are fetched together


@dataclass(frozen=True, slots=True)
class StoredValue(Member):
    """A stored value of a blob field, as a member; its name is unique within the field."""

    field: str


def shapes_of(reader: RecordReader, field: str) -> NDArray[np.uint32]:
    """Return the shapes of a raw field's values, uint32 [n, dimensions]."""
    shape = reader.manifest.blobs[field].shape
    if shape is None:
        return reader.array(f"{field}.shape")
    return np.broadcast_to(np.array(shape, np.uint32), (len(reader), len(shape)))


def _unique(names: list[str]) -> list[str]:
    """Number duplicate names, which a user's own list may have."""
    if len(set(names)) == len(names):
        return names
    times: dict[str, int] = {}
    for place, name in enumerate(names):
        times[name] = times.get(name, 0) + 1
        if times[name] > 1:
            names[place] = f"{name}\0{times[name]}"  # no name contains a NUL
    return names


@dataclass(frozen=True)
class SetSource(SizedSource):
    """All stored values of a record set, or of some of its records.

    Attributes:
        reader: The set.
        digest: The fingerprint.
        positions: The records, int64 [N]. Default: all.
    """

    reader: RecordReader
    digest: str
    positions: NDArray[np.int64] | None = None

    @property
    @override
    def description(self) -> str:
        return str(self.reader.path)

    @override
    def fingerprint(self) -> str:
        return self.digest

    @override
    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        return sum(map(cost, self._sizes))

    @override
    def member_sizes(self) -> Sequence[int]:
        return self._sizes

    @functools.cached_property
    def names(self) -> list[str]:
        """The records' names."""
        names: Sequence[str] = self.reader.names
        if self.positions is None:
            return list(names)
        if 2 * len(self.positions) > len(names):  # iterating is faster than indexing
            names = list(names)
        return [names[position] for position in self.positions.tolist()]

    def chosen(self, values: AnyArray) -> AnyArray:
        """Return the records' elements of an array over the whole set."""
        return values if self.positions is None else values[self.positions]

    def splits(self) -> dict[str, NDArray[np.int64]]:
        """Return the splits, as places in the order of the records; of some records those that have any left."""
        found = {name: np.asarray(self.reader.split(name), np.int64) for name in self.reader.manifest.splits}
        if self.positions is None:
            return found
        place = np.full(len(self.reader), -1, np.int64)
        place[self.positions] = np.arange(len(self.positions))
        kept = {name: place[positions][place[positions] >= 0] for name, positions in found.items()}
        return {name: places for name, places in kept.items() if len(places)}

    def keys(self) -> dict[str, list[str | None]]:
        """Return the keys of each blob field for a `Table`."""
        return {name: keys for name, (_, _, keys) in self._fields.items()}

    @functools.cached_property
    def _entries(self) -> list[Entry]:
        """All values, in storage order."""
        entries = [entry for _, several, _ in self._fields.values() for entry in several]
        places = [places for places, _, _ in self._fields.values()]
        order = np.argsort(np.concatenate(places), kind="stable").tolist() if places else []
        return [entries[number] for number in order]

    @functools.cached_property
    def _fields(self) -> dict[str, tuple[NDArray[np.uint64], list[Entry], list[str | None]]]:
        return {name: self._field(name) for name in self.reader.manifest.blobs}

    def _field(self, field: str) -> tuple[NDArray[np.uint64], list[Entry], list[str | None]]:
        """Return the places of a blob field's values in the shards, the values, and the key of each record's value.

        Records may share a value: a list may name a file several times. Its key is the name of the first of them.
        """
        index = self.chosen(self.reader.array(f"{field}.index"))
        present = np.flatnonzero(index["shard"] != NO_SHARD)
        rows = index[present]
        every = rows["shard"].astype(np.uint64) << np.uint64(32) | rows["slot"]
        places, first, numbers = np.unique(every, return_index=True, return_inverse=True)
        records = present[first]
        keys = _unique([self.names[record] for record in records.tolist()])
        positions = records if self.positions is None else self.positions[records]
        lengths = rows["length"][first].tolist()
        entries = [(field, *value) for value in zip(keys, positions.tolist(), lengths, strict=True)]
        key_of: list[str | None] = [None] * len(index)
        for record, number in zip(present.tolist(), numbers.tolist(), strict=True):
            key_of[record] = keys[number]
        return places, entries, key_of

    @functools.cached_property
    def _sizes(self) -> list[int]:
        return [size for *_, size in self._entries]

    @override
    def unit(self, start: int, stop: int) -> Unit:
        """See `SizedSource`; without a stamp, because the set's digest detects any change."""
        entries = self._entries[start:stop]
        return Unit(functools.partial(_values_of, self.reader, tuple(entries)), sum(size for *_, size in entries))


def _values_of(reader: RecordReader, entries: Sequence[Entry]) -> Iterator[Member]:
    """Yield consecutive values; `Member.read` raises `CorruptRecordError` if one is damaged."""
    for place, (field, name, position, size) in enumerate(entries):
        if place % _HINTED == 0:
            wanted: dict[str, list[int]] = {}
            for other, _, number, _ in entries[place : place + _HINTED]:
                wanted.setdefault(other, []).append(number)
            for other, positions in wanted.items():
                reader.hint(other, positions)
        yield StoredValue(name, size, functools.partial(reader.read, field, position), field)


class SetRecipe(Recipe):
    """A recipe whose raw data is a record set: stored values stay unchanged."""

    reader: RecordReader
    source: SetSource | None = None
    """What `find` found; a pickled copy has none: units have their own readers."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None}

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [self.reader.path.name]

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        assert isinstance(member, StoredValue)
        yield Blob(member.field, member.name, member.read())

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`: the records of the set, without what the set says of all of them."""
        assert self.source is not None
        source, manifest = self.source, self.source.reader.manifest
        raw = [name for name, field in self.fields.items() if field.encoding == "raw" and field.shape is None]
        return Table(
            names=source.names,
            keys=source.keys(),
            arrays={name: source.chosen(source.reader.array(name)) for name in manifest.columns},
            splits=source.splits(),
            fields=manifest.fields,
            default_target=manifest.default_target,
            shapes={name: source.chosen(shapes_of(source.reader, name)) for name in raw},
        )


class StoredRecipe(SetRecipe):
    """The records of a record set, in place of raw data."""

    def __init__(self, reader: RecordReader) -> None:
        manifest = reader.manifest
        self.reader = reader
        self.kind, self.dataset, self.part = manifest.kind, manifest.dataset, manifest.part
        self.origin = manifest.source
        self.made_from = manifest.raw_files
        self.fields = manifest.blobs

    def target(self, root: Path) -> Path:
        """See `Recipe`: itself; not a link to it, beside which variants do not belong."""
        return self.reader.folder.resolve()

    @override
    def title(self, root: Path) -> str:
        return self.reader.path.name.removesuffix(".records")

    @override
    def command(self, root: Path) -> str:
        return command("prepare", self.reader.path)

    def find(self, root: Path) -> Source | None:
        """See `Recipe`: the record set as it is now."""
        if not is_record_set(self.reader.folder):
            return None
        reader = RecordReader(self.reader.path)
        self.source = SetSource(reader, reader.digest)
        return self.source

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: where the tree or the list was, and its files."""
        found = {name: self.reader.extra(name, MAX_EXTRA_BYTES) for name in (TREE_FILE, LIST_FILE, MADE_FROM_FILE)}
        return {name: data for name, data in found.items() if data is not None}

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        manifest = self.reader.manifest
        metadata = {name: value for name, value in manifest.metadata.items() if name not in _COUNTED_ANEW}
        return dataclasses.replace(super().build_table(stored, sidecars), metadata=metadata, skipped=manifest.skipped)
