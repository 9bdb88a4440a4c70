"""A choice of records: by split, by index, by class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.meant import no_split
from recordzoo.errors import ArgumentError
from recordzoo.records.reader import RecordReader

Indices = Sequence[int] | NDArray[np.integer[Any]]


def chosen(
    reader: RecordReader, split: str | None, indices: NDArray[np.int64] | None, labels: Sequence[int] | None
) -> NDArray[np.int64]:
    """Return the positions of the records of a set that meet all conditions, int64 [n].

    Args:
        reader: The set.
        split: The records of a split, in its order. None: all, in order.
        indices: Indices into that order.
        labels: Numbers of classes.

    Raises:
        ArgumentError: There is no such split, index or class, or none is left.
    """
    if split is not None and split not in reader.manifest.splits:
        raise no_split(reader.path, split, reader.manifest.splits)
    found = np.array(reader.split(split or ""), np.int64)
    if indices is not None:
        where = f"split {split!r} of {reader.path}" if split else str(reader.path)
        found = taken(found, indices, f"{where} has {len(found):,} records")
    if labels is not None:
        column = reader.manifest.label_field
        if column is None:
            raise ArgumentError(f"{reader.path} has no classes: no field target or label holds a whole number each.")
        found = found[np.isin(reader.array(column)[found], labels)]
    if not len(found):
        raise ArgumentError(f"No record of {reader.path} is left by what is chosen. Nothing was made.")
    return found


def refuse_repeated(what: str, numbers: Indices) -> None:
    """Refuse numbers of which one is given twice."""
    found, counts = np.unique(np.asarray(numbers, np.int64), return_counts=True)
    if (counts > 1).any():
        raise ArgumentError(f"The {what} {found[counts > 1][0]} is given twice; a record set holds a record once.")


def new_numbers(labels: Sequence[int]) -> NDArray[np.int64]:
    """Return the new number of each class if only some are taken, in this order: -1 for the others."""
    found = np.full(max(labels) + 1, -1, np.int64)
    found[list(labels)] = np.arange(len(labels))
    return found


def checked_indices(indices: Indices) -> NDArray[np.int64]:
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
