"""Split records into train and val at random, with the same share of each class; groups stay together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.meant import did_you_mean
from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError
from recordzoo.recipes.base import Table
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.records.reader import RecordReader

TRAIN, VAL = "train", "val"


@dataclass(frozen=True)
class Division:
    """A division of a set's records into train and val; a `Change`.

    Attributes:
        val: The share of val, between 0 and 1.
        by: Records with the same value of this field stay together.
        seed: Another number gives another division.
    """

    val: float
    by: str | None = None
    seed: int = 0

    def to_json(self) -> dict[str, JSON]:
        """What the new set's manifest says of it."""
        return {"split": {"val": self.val, "by": self.by, "seed": self.seed}}

    def apply(self, table: Table, parts: Sequence[SetPart]) -> Table:
        """Return the table with the splits train and val."""
        (part,) = parts
        reader = part.reader
        pool = _pool(reader)
        column = reader.manifest.label_field
        labels = np.zeros(len(pool), np.int64) if column is None else reader.array(column)[pool].astype(np.int64)
        draws = _draws(len(pool), self.seed)
        if self.by is None:
            is_val = _stratified(labels, draws, self.val)
        else:
            is_val = _grouped(labels, _groups(reader, self.by, pool), draws, self.val)
        if not is_val.any() or is_val.all():
            raise ArgumentError(
                f"{len(pool):,} records of {reader.path} cannot be divided with {self.val:.2%} for val: one of the two "
                "splits would be empty."
            )
        return replace(table, splits={**table.splits, TRAIN: pool[~is_val], VAL: pool[is_val]})


def _pool(reader: RecordReader) -> NDArray[np.int64]:
    """Return the positions that are divided: the split train; without one, those that are in no split."""
    splits = reader.manifest.splits
    if VAL in splits:
        raise ArgumentError(f"{reader.path} has a split {VAL} already: {VAL} {splits[VAL]:,}.")
    if TRAIN in splits:
        return np.sort(reader.split(TRAIN))
    is_free = np.ones(len(reader), bool)
    for name in splits:
        is_free[reader.split(name)] = False
    return np.flatnonzero(is_free)


def _draws(count: int, seed: int) -> NDArray[np.uint64]:
    """Return a random number for each record, the same with every version of NumPy."""
    return np.random.PCG64(seed % (1 << 64)).random_raw(count)


def _stratified(labels: NDArray[np.int64], draws: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """Choose the same share of each class; the remainder goes to the classes that lack most."""
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    exact = counts * share
    quota = np.floor(exact).astype(np.int64)
    missing = round(len(labels) * share) - int(quota.sum())
    quota[np.argsort(quota - exact, kind="stable")[:missing]] += 1
    order = np.lexsort((draws, classes))
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(len(labels), bool)
    chosen[order] = rank < quota[classes[order]]
    return chosen


def _grouped(
    labels: NDArray[np.int64], groups: NDArray[np.int64], draws: NDArray[np.uint64], share: float
) -> NDArray[np.bool_]:
    """Choose whole groups, large ones first, while each moves the classes' counts closer to their share."""
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    wanted = counts * share
    sizes = np.bincount(groups)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    is_chosen = np.zeros(len(sizes), bool)
    for group in np.lexsort((draws[: len(sizes)], -sizes)).tolist():
        found, times = np.unique(classes[members[group]], return_counts=True)
        if (times * times).sum() < 2 * (times * wanted[found]).sum():
            wanted[found] -= times
            is_chosen[group] = True
    return is_chosen[groups]


def _groups(reader: RecordReader, field: str, pool: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the values of a field, from 0, in the order of the values."""
    if field in reader.columns:
        values = reader.array(field)[pool]
        return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    if field not in reader.manifest.blobs:
        fields = [*reader.manifest.fields]
        raise ArgumentError(
            f"{reader.path} has no field {field!r}; it has {', '.join(fields)}.{did_you_mean(field, fields)}"
        )
    there = [reader.has(field, place) for place in pool.tolist()]
    data = [reader.read(field, place) if has else b"" for place, has in zip(pool.tolist(), there, strict=True)]
    numbers = {key: number for number, key in enumerate(sorted(set(zip(there, data, strict=True))))}
    return np.array([numbers[key] for key in zip(there, data, strict=True)], np.int64)
