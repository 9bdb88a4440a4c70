"""A record set as a source: its stored values, each once, in storage order."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.raw.member import Member, Unit
from recordzoo.raw.sized import SizedSource
from recordzoo.recipes.base import ABSENT
from recordzoo.records.manifest import NO_SHARD
from recordzoo.records.reader import RecordReader


@dataclass(frozen=True, slots=True)
class StoredValue(Member):
    """A stored value of a blob field, as a member; its name is unique within the field."""

    field: str


@dataclass(frozen=True)
class FieldValues:
    """The V stored values of a blob field.

    Attributes:
        field: Its name.
        keys: A name for each value: that of the first record that has it.
        positions: The position of that record, int64 [V].
        lengths: The value's length in bytes, uint32 [V].
        places: Where it is stored, ascending, uint64 [V].
        of_position: Which value each of the N records has, int64 [N]; `ABSENT` for none.
    """

    field: str
    keys: Sequence[str]
    positions: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    places: NDArray[np.uint64]
    of_position: NDArray[np.int64]


def field_values(
    reader: RecordReader,
    field: str,
    chosen: NDArray[np.int64] | None = None,
    names: Sequence[str] | None = None,
) -> FieldValues:
    """List the stored values of a blob field; a file that a list names several times is one.

    Args:
        reader: The record set.
        field: The blob field.
        chosen: Take only the records at these positions, and count them from 0 in `of_position`.
        names: What these are called. Default: as in the record set.
    """
    index = reader.array(f"{field}.index")
    index = index if chosen is None else index[chosen]
    names = reader.names if names is None else names
    present = np.flatnonzero(index["shard"] != NO_SHARD)
    rows = index[present]
    every = rows["shard"].astype(np.uint64) << np.uint64(32) | rows["slot"]
    places, first, value = np.unique(every, return_index=True, return_inverse=True)
    of_position = np.full(len(index), ABSENT, np.int64)
    of_position[present] = value
    positions = present[first]
    keys = _unique([names[position] for position in positions.tolist()])
    positions = positions if chosen is None else chosen[positions]
    return FieldValues(field, keys, positions, rows["length"][first], places, of_position)


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
    """All stored values of a record set."""

    reader: RecordReader

    @property
    @override
    def description(self) -> str:
        return str(self.reader.path)

    def fingerprint(self) -> str:
        """Return the record set's digest."""
        return self.reader.digest

    def files(self) -> None:
        """See `Source`: the record set stands for its files."""

    @override
    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        return sum(map(cost, self._sizes))

    @override
    def member_sizes(self) -> Sequence[int]:
        return self._sizes

    @functools.cached_property
    def values(self) -> dict[str, FieldValues]:
        """The values of each blob field."""
        return {field: field_values(self.reader, field) for field in self.reader.manifest.blobs}

    @functools.cached_property
    def _order(self) -> list[tuple[str, int]]:
        """Field and number of all values, as they are stored."""
        numbered = [(field, number) for field, each in self.values.items() for number in range(len(each.keys))]
        places = np.concatenate([each.places for each in self.values.values()])
        return [numbered[i] for i in np.argsort(places, kind="stable").tolist()]

    @functools.cached_property
    def _sizes(self) -> list[int]:
        lengths = {field: each.lengths.tolist() for field, each in self.values.items()}
        return [lengths[field][number] for field, number in self._order]

    @override
    def unit(self, start: int, stop: int) -> Unit:
        entries = []
        for (field, number), size_bytes in zip(self._order[start:stop], self._sizes[start:stop], strict=True):
            values = self.values[field]
            entries.append((field, values.keys[number], int(values.positions[number]), size_bytes))
        return SetUnit(self.reader, tuple(entries))


@dataclass(frozen=True, slots=True)
class SetUnit:
    """Some consecutive values of a record set: field, name, position and size of each; see `Unit`."""

    reader: RecordReader
    entries: tuple[tuple[str, str, int, int], ...]

    @property
    def size_bytes(self) -> int:
        """The values' sizes together."""
        return sum(size_bytes for *_, size_bytes in self.entries)

    @property
    def stamp(self) -> str:
        """See `Unit`: the record set's digest, of which the source's fingerprint consists."""
        return ""

    def members(self) -> Iterator[Member]:
        """Yield the values; `Member.read` raises `CorruptRecordError` if one is damaged."""
        for field, name, position, size_bytes in self.entries:
            yield StoredValue(name, size_bytes, functools.partial(self.reader.read, field, position), field)
