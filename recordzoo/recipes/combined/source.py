"""The stored values of several record sets as one source, each once, in storage order."""

import functools
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from recordzoo.raw.member import Member, Unit
from recordzoo.raw.sized import SizedSource
from recordzoo.recipes.combined.part import SetPart
from recordzoo.recipes.variants.source import FieldValues, StoredValue, field_values
from recordzoo.records.reader import RecordReader

_HINTED = 64
"""Number of values hinted at once: from a URL they are fetched together."""

SlotEntry = tuple[int, str, str, int, int]
"""A stored value: part, field, name, position in that part's set, size in bytes."""


def distinct_names(parts: Sequence[SetPart], *, first_stay: bool = False) -> list[list[str]]:
    """Return the names of each part's records; duplicates across parts get the part's name as prefix.

    Args:
        parts: The parts.
        first_stay: The names of the first part stay.
    """
    names = [part.names() for part in parts]
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
class CombinedSource(SizedSource):
    """All stored values of the chosen records of some record sets."""

    parts: Sequence[SetPart]
    keeps_names: bool = False

    @property
    @override
    def description(self) -> str:
        return ", ".join(str(part.reader.path) for part in self.parts)

    def fingerprint(self) -> str:
        """Return a digest of the digests of all sets and of the choice."""
        said = [part.to_json() for part in self.parts]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

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
    def values(self) -> list[dict[str, FieldValues]]:
        """Of each part the values of each blob field; `of_position` counts the chosen records."""
        return [
            {name: field_values(part.reader, name, part.positions, names) for name in part.reader.manifest.blobs}
            for part, names in zip(self.parts, self.names, strict=True)
        ]

    @functools.cached_property
    def _order(self) -> list[tuple[int, str, int]]:
        """Part, field and number of all values: part by part, in storage order."""
        found: list[tuple[int, str, int]] = []
        for number, fields in enumerate(self.values):
            numbered = [(number, field, value) for field, each in fields.items() for value in range(len(each.keys))]
            places = [each.places for each in fields.values()]
            order = np.argsort(np.concatenate(places), kind="stable").tolist() if places else []
            found += [numbered[i] for i in order]
        return found

    @functools.cached_property
    def _sizes(self) -> list[int]:
        lengths = [{field: each.lengths.tolist() for field, each in fields.items()} for fields in self.values]
        return [lengths[part][field][value] for part, field, value in self._order]

    @override
    def unit(self, start: int, stop: int) -> Unit:
        entries: list[SlotEntry] = []
        for (part, field, number), size in zip(self._order[start:stop], self._sizes[start:stop], strict=True):
            values = self.values[part][field]
            entries.append((part, field, values.keys[number], int(values.positions[number]), size))
        used = {part: self.parts[part].reader for part, *_ in entries}
        return CombinedUnit(used, tuple(entries))


@dataclass(frozen=True, slots=True)
class CombinedUnit:
    """Some consecutive values; see `Unit`.

    Attributes:
        readers: The record sets that they are in, by number of the part.
        entries: The values.
    """

    readers: dict[int, RecordReader]
    entries: tuple[SlotEntry, ...]

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

    def _hint(self, entries: Sequence[SlotEntry]) -> None:
        wanted: dict[tuple[int, str], list[int]] = {}
        for part, field, _, position, _ in entries:
            wanted.setdefault((part, field), []).append(position)
        for (part, field), positions in wanted.items():
            self.readers[part].hint(field, positions)
