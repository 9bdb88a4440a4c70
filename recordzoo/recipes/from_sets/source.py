"""The stored values of record sets as a source, each once, in storage order."""

import functools
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.net.download import RemoteFile
from recordzoo.raw.member import Member, Unit
from recordzoo.raw.sized import SizedSource
from recordzoo.recipes.base import ABSENT, Blob, Recipe
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.records.manifest import NO_SHARD
from recordzoo.records.reader import RecordReader

_HINTED = 64
"""Number of values hinted at once: from a URL they are fetched together."""

Entry = tuple[int, str, str, int, int]
"""A stored value: part, field, name, position in that part's set, size in bytes."""


@dataclass(frozen=True, slots=True)
class StoredValue(Member):
    """A stored value of a blob field, as a member; its name is unique within the field."""

    field: str


@dataclass(frozen=True)
class FieldValues:
    """The V stored values of a blob field.

    Attributes:
        keys: A name for each value: that of the first record that has it.
        positions: The position of that record, int64 [V].
        lengths: The value's length in bytes, uint32 [V].
        places: Where it is stored, ascending, uint64 [V].
        of_position: Which value each of the N chosen records has, int64 [N]; `ABSENT` for none.
    """

    keys: Sequence[str]
    positions: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    places: NDArray[np.uint64]
    of_position: NDArray[np.int64]


def field_values(part: SetPart, field: str, names: Sequence[str]) -> FieldValues:
    """List the stored values of a blob field; a file that a list names several times is one.

    Args:
        part: The record set, and which of its records.
        field: The blob field.
        names: The names of these records in the new set.
    """
    index = part.array(f"{field}.index")
    present = np.flatnonzero(index["shard"] != NO_SHARD)
    rows = index[present]
    every = rows["shard"].astype(np.uint64) << np.uint64(32) | rows["slot"]
    places, first, value = np.unique(every, return_index=True, return_inverse=True)
    of_position = np.full(len(index), ABSENT, np.int64)
    of_position[present] = value
    records = present[first]
    keys = _unique([names[record] for record in records.tolist()])
    positions = records if part.choice.is_all else part.positions[records]
    return FieldValues(keys, positions, rows["length"][first], places, of_position)


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


def distinct_names(parts: Sequence[SetPart], *, first_stay: bool = False) -> list[list[str]]:
    """Return the names of each part's records; duplicates across parts get the part's name as prefix.

    Args:
        first_stay: The names of the first part stay.
    """
    names = [part.names() for part in parts]
    if len(parts) == 1:
        return names
    times = set().union(*names)
    if len(times) == sum(map(len, names)):
        return names
    counts = Counter(itertools.chain.from_iterable(map(set, names)))
    shared = {name for name, count in counts.items() if count > 1}
    folders: dict[str, int] = {}
    for place, part in enumerate(parts):
        folders[part.stem] = folders.get(part.stem, 0) + 1
        number = folders[part.stem]
        if first_stay and place == 0:
            continue
        prefix = part.stem if number == 1 else f"{part.stem}-{number}"
        new_names = {}
        for name in sorted(shared.intersection(names[place])):
            new = f"{prefix}/{name.lstrip('/')}"
            while new in times:
                new = f"{prefix}/{new}"
            times.add(new)
            new_names[name] = new
        names[place] = [new_names.get(name, name) for name in names[place]]
    return names


@dataclass(frozen=True)
class SetsSource(SizedSource):
    """All stored values of the chosen records of some record sets.

    Attributes:
        parts: The sets, and which of their records.
        keeps_names: Whether names of the first part's records stay, even if other parts have them.
        digest: The fingerprint. Default: of the digests of all sets and of the choice.
    """

    parts: Sequence[SetPart]
    keeps_names: bool = False
    digest: str = ""

    @property
    @override
    def description(self) -> str:
        return ", ".join(str(part.reader.path) for part in self.parts)

    def fingerprint(self) -> str:
        """See `Source`."""
        said = [part.to_json() for part in self.parts]
        return self.digest or hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def files(self) -> None:
        """See `Source`: the record sets stand for their files."""

    @override
    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        return sum(map(cost, self._sizes))

    @override
    def member_sizes(self) -> Sequence[int]:
        return self._sizes

    @functools.cached_property
    def names(self) -> list[list[str]]:
        """The names of each part's records in the new set."""
        return distinct_names(self.parts, first_stay=self.keeps_names)

    @functools.cached_property
    def _values(self) -> list[dict[str, FieldValues]]:
        return [
            {name: field_values(part, name, names) for name in part.reader.manifest.blobs}
            for part, names in zip(self.parts, self.names, strict=True)
        ]

    def keys(self) -> dict[str, list[str | None]]:
        """Return the keys of each blob field for a `Table`."""
        found: dict[str, list[str | None]] = {name: [] for name in self.parts[0].reader.manifest.blobs}
        for fields in self._values:
            for name, values in fields.items():
                places = values.of_position.tolist()
                found[name] += [None if place == ABSENT else values.keys[place] for place in places]
        return found

    @functools.cached_property
    def _entries(self) -> list[Entry]:
        """All values: part by part, in storage order."""
        found: list[Entry] = []
        for number, fields in enumerate(self._values):
            entries = [
                (number, field, *value)
                for field, each in fields.items()
                for value in zip(each.keys, each.positions.tolist(), each.lengths.tolist(), strict=True)
            ]
            places = [each.places for each in fields.values()]
            order = np.argsort(np.concatenate(places), kind="stable").tolist() if places else []
            found += [entries[i] for i in order]
        return found

    @functools.cached_property
    def _sizes(self) -> list[int]:
        return [size for *_, size in self._entries]

    @override
    def unit(self, start: int, stop: int) -> Unit:
        entries = self._entries[start:stop]
        return SetsUnit({part: self.parts[part].reader for part, *_ in entries}, tuple(entries))


@dataclass(frozen=True, slots=True)
class SetsUnit:
    """Some consecutive values; see `Unit`.

    Attributes:
        readers: The record sets that they are in, by number of the part.
        entries: The values.
    """

    readers: dict[int, RecordReader]
    entries: tuple[Entry, ...]

    @property
    def size_bytes(self) -> int:
        """The values' sizes together."""
        return sum(size for *_, size in self.entries)

    @property
    def stamp(self) -> str:
        """Return "": the source's fingerprint, of the sets' digests, detects any change."""
        return ""

    def members(self) -> Iterator[Member]:
        """Yield the values; `Member.read` raises `CorruptRecordError` if one is damaged."""
        for place, (part, field, name, position, size) in enumerate(self.entries):
            if place % _HINTED == 0:
                self._hint(self.entries[place : place + _HINTED])
            read = functools.partial(self.readers[part].read, field, position)
            yield StoredValue(name, size, read, field)

    def _hint(self, entries: Sequence[Entry]) -> None:
        wanted: dict[tuple[int, str], list[int]] = {}
        for part, field, _, position, _ in entries:
            wanted.setdefault((part, field), []).append(position)
        for (part, field), positions in wanted.items():
            self.readers[part].hint(field, positions)


class SetsRecipe(Recipe):
    """A recipe whose raw data is record sets: stored values stay unchanged."""

    raw_files: tuple[RemoteFile, ...] = ()
    source: SetsSource | None = None
    """What `find` found; a pickled copy has none: units have their own readers."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None}

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        assert isinstance(member, StoredValue)
        yield Blob(member.field, member.name, member.read())
