"""Which stored values are damaged, and the search for them in the raw data: by their length and CRC-32."""

import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import CorruptRecordError, RecordError, SourceError
from recordzoo.progress import Progress
from recordzoo.recipes.base import Blob, Recipe
from recordzoo.records.crc import crc32
from recordzoo.records.files import Directory, pread
from recordzoo.records.manifest import NO_SHARD, Manifest
from recordzoo.repairing.spool import Spool
from recordzoo.sources.member import Member, Source, Unit
from recordzoo.sources.sized import SizedSource

_UNIT_BYTES = 64 << 20
_MOST_TRIED = 16
"""So many values of a unit are looked up to find out where the unit's values are stored."""

Kind = tuple[str, int, int]
"""What a value is known by: its field, its length in bytes and its CRC-32."""


@dataclass(frozen=True)
class ShardValues:
    """The n values of a damaged shard, by slot.

    Attributes:
        number: The shard.
        fields: The field of each value.
        lengths: uint32 [n], in bytes.
        crcs: CRC-32 of each value, uint32 [n].
        offsets: Where each value begins, uint64 [n].
        positions: A record that has the value, int64 [n].
        is_good: Whether the file still holds the value, bool [n].
    """

    number: int
    fields: list[str]
    lengths: NDArray[np.uint32]
    crcs: NDArray[np.uint32]
    offsets: NDArray[np.uint64]
    positions: NDArray[np.int64]
    is_good: NDArray[np.bool_]

    def kind(self, slot: int) -> Kind:
        """Return what the value of a slot is known by."""
        return self.fields[slot], int(self.lengths[slot]), int(self.crcs[slot])

    def read(self, directory: Directory, name: str) -> Iterator[bytes | None]:
        """Yield the values that the file still holds, by slot, and None for each of the others."""
        try:
            fd = directory.open(name)
        except RecordError:
            yield from itertools.repeat(None, len(self.fields))
            return
        try:
            for length, crc, offset in zip(
                self.lengths.tolist(), self.crcs.tolist(), self.offsets.tolist(), strict=True
            ):
                try:
                    data = pread(fd, length, offset)
                except OSError:
                    data = b""
                yield data if len(data) == length and crc32(data) == crc else None
        finally:
            os.close(fd)


def shard_values(
    directory: Directory, manifest: Manifest, indices: Mapping[str, NDArray[Any]], number: int
) -> ShardValues | None:
    """List the values of a damaged shard, and look which of them its file still holds.

    Args:
        directory: The record set.
        manifest: Its manifest.
        indices: The index of each blob field, undamaged.
        number: The shard.

    Returns:
        None if the shard has values that no record refers to: the indices do not know them.
    """
    spec = manifest.shards[number]
    count = spec.num_values
    fields = [""] * count
    found = ShardValues(
        number,
        fields,
        np.zeros(count, np.uint32),
        np.zeros(count, np.uint32),
        np.zeros(count, np.uint64),
        np.full(count, -1, np.int64),
        np.zeros(count, np.bool_),
    )
    for name, index in indices.items():
        positions = np.flatnonzero(index["shard"] == number)
        rows = index[positions]
        slots = rows["slot"]
        found.lengths[slots], found.crcs[slots], found.offsets[slots] = rows["length"], rows["crc32"], rows["offset"]
        found.positions[slots] = positions
        for slot in slots.tolist():
            fields[slot] = name
    if (found.positions < 0).any():
        return None
    found.is_good[:] = [data is not None for data in found.read(directory, spec.name)]
    return found


class Search:
    """Looks for damaged values in raw data, whatever their names there, in whatever order.

    A value is found by its length and CRC-32. That it is the right one is proven later, by the hash of its shard.

    Args:
        indices: The index of each blob field.
        names: The records' names.
        shards: The damaged shards.
        spool: Takes the values that are found.
        progress: Told of the bytes that are read.
    """

    def __init__(
        self,
        indices: Mapping[str, NDArray[Any]],
        names: Any,  # a sequence of texts, read when they are asked for
        shards: list[ShardValues],
        spool: Spool,
        progress: Progress,
    ) -> None:
        self._spool, self._progress = spool, progress
        self._recipe: Recipe
        self._places = {name: _Places(index) for name, index in indices.items()}
        self._shards = [shard.number for shard in shards]
        self.wanted: dict[Kind, str] = {}
        for shard in shards:
            for slot in np.flatnonzero(~shard.is_good).tolist():
                self.wanted[shard.kind(slot)] = names[int(shard.positions[slot])]

    def run(self, recipe: Recipe, source: Source) -> None:
        """Read those units of the raw data that hold what is wanted; the others only if something is still missing.

        Args:
            recipe: What turns raw data into values.
            source: The raw data.

        Raises:
            SourceError: The raw data is damaged where the values are.
        """
        self._recipe = recipe
        for unit in self._named(source):
            self._read(unit)
        if not self.wanted:
            return
        units = source.units(_UNIT_BYTES)
        likely = self._likely(units) if len(units) > 1 else range(len(units))
        chosen = set(likely)
        for number in [*likely, *(number for number in range(len(units)) if number not in chosen)]:
            if not self.wanted:
                return
            self._read(units[number])

    def _named(self, source: Source) -> Iterator[Unit]:
        """Yield the files that are called as the records of the wanted values are."""
        files = source.files() if isinstance(source, SizedSource) else None
        if files is None or not isinstance(source, SizedSource):
            return
        names = set(self.wanted.values())
        for place, name in enumerate(files.names):
            if name in names:
                yield source.unit(place, place + 1)

    def _likely(self, units: list[Unit]) -> list[int]:
        """Return the units that should hold values of the damaged shards: units are stored in their order."""
        begins = [self._begin(unit) for unit in units]
        likely = []
        for number, begin in enumerate(begins):
            if begin is None:
                continue
            after = next((each for each in begins[number + 1 :] if each is not None), None)
            if any(begin <= shard and (after is None or shard <= after) for shard in self._shards):
                likely.append(number)
        return likely

    def _begin(self, unit: Unit) -> int | None:
        """Return the shard in which the first values of a unit are stored; None if they are not, or in several."""
        try:
            for blob in itertools.islice(self._blobs(unit), _MOST_TRIED):
                shard = self._places[blob.field].shard(blob) if blob.field in self._places else None
                if shard is not None:
                    return shard
        except (SourceError, CorruptRecordError):
            return None
        return None

    def _read(self, unit: Unit) -> None:
        left = unit.size_bytes
        for member in unit.members():
            for blob in self._blobs_of(member):
                kind = blob.field, len(blob.data), crc32(blob.data)
                if self.wanted.pop(kind, None) is not None:
                    self._spool.put(kind, blob.data)
            counted = min(left, member.size_bytes)
            left -= counted
            self._progress.advance(counted)
            if not self.wanted:
                return

    def _blobs(self, unit: Unit) -> Iterator[Blob]:
        for member in unit.members():
            yield from self._blobs_of(member)

    def _blobs_of(self, member: Member) -> Iterator[Blob]:
        """Yield what a member becomes; nothing of one that may be left out, or is a damaged value itself."""
        try:
            for item in self._recipe.extract(member):
                if isinstance(item, Blob):
                    yield item
        except CorruptRecordError:
            return
        except SourceError as err:
            if not err.details.get("is_oversized"):
                raise


class _Places:
    """In which shard values are stored, by length and CRC-32."""

    def __init__(self, index: NDArray[Any]) -> None:
        rows = index[index["shard"] != NO_SHARD]
        keys = rows["length"].astype(np.uint64) << np.uint64(32) | rows["crc32"]
        order = np.argsort(keys, kind="stable")
        self._keys, self._shards = keys[order], rows["shard"][order]

    def shard(self, blob: Blob) -> int | None:
        """Return the shard of a value; None if it is in none, or in several."""
        key = np.uint64(len(blob.data) << 32 | crc32(blob.data))
        low, high = np.searchsorted(self._keys, key, "left"), np.searchsorted(self._keys, key, "right")
        shards = np.unique(self._shards[low:high])
        return int(shards[0]) if len(shards) == 1 else None
