"""A record set, or some of its records, as a part of a new one."""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.arrays import AnyArray
from recordzoo.base.meant import no_split
from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError
from recordzoo.records.manifest import ENDING
from recordzoo.records.reader import RecordReader


@dataclass(frozen=True, eq=False)
class Choice:
    """A choice of records of a set: those that meet all conditions.

    Attributes:
        split: The records of a split, in its order. None: all, in order.
        indices: Indices into that order, int64 [n].
        labels: Numbers of the chosen classes. The classes are renumbered in this order.
    """

    split: str | None = None
    indices: NDArray[np.int64] | None = None
    labels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for what, given in (("index", self.indices), ("class", self.labels)):
            if given is not None:
                numbers, counts = np.unique(np.asarray(given, np.int64), return_counts=True)
                if (counts > 1).any():
                    raise ArgumentError(
                        f"The {what} {int(numbers[counts > 1][0])} is given twice; a record set holds a record once."
                    )

    @property
    def is_all(self) -> bool:
        """Whether all records are chosen."""
        return self.split is None and self.indices is None and self.labels is None

    def positions(self, reader: RecordReader) -> NDArray[np.int64]:
        """Return the positions of the chosen records, int64 [n]."""
        if self.split is not None and self.split not in reader.manifest.splits:
            raise no_split(reader.path, self.split, reader.manifest.splits)
        found = np.array(reader.split(self.split or ""), np.int64)
        if self.indices is not None:
            where = f"split {self.split!r} of {reader.path}" if self.split else str(reader.path)
            found = taken(found, self.indices, f"{where} has {len(found):,} records")
        if self.labels is not None:
            column = reader.manifest.label_field
            if column is None:
                raise ArgumentError(
                    f"{reader.path} has no classes: no field target or label holds a whole number each."
                )
            found = found[np.isin(reader.array(column)[found], self.labels)]
        return found

    def to_json(self) -> dict[str, JSON]:
        """What the new set's manifest says of it."""
        said: dict[str, JSON] = {}
        if self.split is not None:
            said["split"] = self.split
        if self.indices is not None:
            data = np.ascontiguousarray(self.indices, "<i8").tobytes()
            digest = hashlib.sha256(data).hexdigest()
            said["indices"] = {"count": len(self.indices), "digest": digest}
        if self.labels is not None:
            said["labels"] = list(self.labels)
        return said


def checked_indices(indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return indices as int64 [n]."""
    found = np.asarray(indices)
    if not found.size:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ArgumentError("Argument indices must be a list of whole numbers, or an array with one dimension of them.")
    return found.astype(np.int64)


def taken(positions: NDArray[np.int64], indices: NDArray[np.int64], extent: str) -> NDArray[np.int64]:
    """Return the positions at some indices; the error for an index out of range says `extent`."""
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(positions):
        bad = int(indices.min() if indices.min() < 0 else indices.max())
        raise ArgumentError(f"Index {bad:,} is out of range: {extent}.")
    return positions[indices]


@dataclass(frozen=True, eq=False)
class SetPart:
    """Records of one record set.

    Attributes:
        reader: The set.
        choice: Which of its records.
        split: All of them are this split of the new set, and the set's own splits are left out. "": those are kept.
    """

    reader: RecordReader
    choice: Choice = field(default_factory=Choice)
    split: str = ""

    @property
    def name(self) -> str:
        """Its directory's name."""
        return self.reader.path.name

    @property
    def stem(self) -> str:
        """Its directory's name without suffix."""
        return self.name.removesuffix(ENDING) or "records"

    @functools.cached_property
    def positions(self) -> NDArray[np.int64]:
        """The positions of its records, in their new order, int64 [n]."""
        return self.choice.positions(self.reader)

    def names(self) -> list[str]:
        """Return the records' names."""
        names: Sequence[str] = self.reader.names
        if self.choice.is_all:
            return list(names)
        if 2 * len(self.positions) > len(names):  # iterating is faster than indexing
            names = list(names)
        return [names[position] for position in self.positions.tolist()]

    def array(self, name: str) -> AnyArray:
        """Return an array field of the records, [n, ...]."""
        found = self.reader.array(name)
        return found if self.choice.is_all else found[self.positions]

    def shapes(self, field_name: str) -> NDArray[np.uint32]:
        """Return the shapes of a raw field's values, uint32 [n, dimensions]."""
        shape = self.reader.manifest.blobs[field_name].shape
        if shape is None:
            return self.array(f"{field_name}.shape")
        return np.broadcast_to(np.array(shape, np.uint32), (len(self.positions), len(shape)))

    def splits(self) -> dict[str, NDArray[np.int64]]:
        """Return the splits of the records, as places in their new order; of a choice those that have some left."""
        if self.split:
            return {self.split: np.arange(len(self.positions))}
        place = np.full(len(self.reader), -1, np.int64)
        place[self.positions] = np.arange(len(self.positions))
        found = {}
        for name in self.reader.manifest.splits:
            kept = place[self.reader.split(name)]
            kept = kept[kept >= 0]
            if len(kept) or self.choice.is_all:
                found[name] = kept
        return found

    def to_json(self) -> dict[str, JSON]:
        """What the new set's manifest says of it."""
        manifest = self.reader.manifest
        said: dict[str, JSON] = {"name": self.name, "digest": self.reader.digest, "records": manifest.num_records}
        if not self.choice.is_all:
            said["chosen"] = {"records": len(self.positions), **self.choice.to_json()}
        if self.split:
            said["as_split"] = self.split
        return said
