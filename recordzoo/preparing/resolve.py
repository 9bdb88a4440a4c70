"""Turn a recipe's table into slots and positions, without the images that were skipped."""

from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.arrays import AnyArray
from recordzoo.errors import PrepareError, SourceError
from recordzoo.recipes.base import ABSENT, INCOMPLETE, Recipe, Table

_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Resolved:
    """N positions.

    Attributes:
        names: Their names.
        slots: For each blob field, int64 [N]: the slot of each position's value, or `ABSENT`.
        arrays: For each array field, an array [N, ...].
        splits: For each split, int64 positions.
        shapes: For each raw blob field whose values have several shapes, uint32 [N, dimensions].
    """

    names: Sequence[str]
    slots: Mapping[str, NDArray[np.int64]]
    arrays: Mapping[str, AnyArray]
    splits: Mapping[str, NDArray[np.int64]]
    shapes: Mapping[str, NDArray[np.uint32]]


def resolve(recipe: Recipe, table: Table, stored: Mapping[str, Sequence[str]], skipped: Set[str]) -> Resolved:
    """Turn keys into slots and names in splits into positions; leave out skipped images.

    Args:
        table: The recipe's table.
        stored: For each blob field the keys of the stored values, in order.
        skipped: Keys of images that were skipped on request. Their positions are skipped, too.
    """
    _check(recipe, table)
    image = recipe.main_field
    slots = {}
    for field in recipe.fields:
        slots[field] = Places(stored[field]).find(_keys(table, field, image), len(table.names))
    kept = np.ones(len(table.names), bool)
    missing = []
    for position in np.flatnonzero(slots[image] == ABSENT).tolist() if image else ():
        key = _keys(table, image, image)[position]
        if key is not None and key in skipped:
            kept[position] = False
        elif key is not None:
            missing.append(key)
    if missing:
        raise SourceError(
            f"{recipe.set_name}: {len(missing):,} images that the lists name are missing in the raw data, the first is "
            f"{missing[0]}. {INCOMPLETE}"
        )
    splits = _positions(recipe, table)
    if kept.all():
        return Resolved(table.names, slots, table.arrays, splits, table.shapes)
    new_position = np.cumsum(kept) - 1
    return Resolved(
        [name for name, is_kept in zip(table.names, kept.tolist(), strict=True) if is_kept],
        {field: each[kept] for field, each in slots.items()},
        {name: array[kept] for name, array in table.arrays.items()},
        {name: new_position[split[kept[split]]] for name, split in splits.items()},
        {field: each[kept] for field, each in table.shapes.items()},
    )


def check_counts(recipe: Recipe, resolved: Resolved) -> None:
    """Compare the numbers of samples with those published by the authors of the raw files.

    A record set without splits counts as one split, if its part has only one.
    """
    found = {name: len(positions) for name, positions in resolved.splits.items()}
    if not found and len(recipe.counts) == 1:
        found = {name: len(resolved.names) for name in recipe.counts}
    wrong = [
        f"{split} has {found[split]:,} and should have {count:,}"
        for split, count in recipe.counts.items()
        if found.get(split, count) != count
    ]
    if wrong:
        raise PrepareError(
            f"{recipe.set_name}: the raw files are the authors' own, but the split {'; the split '.join(wrong)}. "
            "This is a mistake in recordzoo; please report it. Until it is mended, pass check_hash=False "
            "(--no-check-hash): then nothing is compared."
        )


def _keys(table: Table, field: str, image: str) -> Sequence[str | None]:
    return table.names if field == image and field not in table.keys else table.keys[field]


def _positions(recipe: Recipe, table: Table) -> dict[str, NDArray[np.int64]]:
    """Return the positions of each split; the recipe gives positions or names."""
    found: dict[str, NDArray[np.int64]] = {}
    position_of: dict[str, int] = {}
    for name, split in table.splits.items():
        if isinstance(split, np.ndarray):
            found[name] = split
            continue
        position_of = position_of or {each: position for position, each in enumerate(table.names)}
        try:
            found[name] = np.fromiter((position_of[each] for each in split), np.int64, len(split))
        except KeyError as err:
            text = f"{recipe.set_name}: the split {name} names {err.args[0]}, which is not in the raw data."
            raise SourceError(text) from err
    for name, positions in found.items():
        if len(positions) and not 0 <= positions.min() <= positions.max() < len(table.names):
            raise PrepareError(
                f"{recipe.set_name}: the split {name} points outside of its {len(table.names):,} records."
            )
    return found


def _check(recipe: Recipe, table: Table) -> None:
    count = len(table.names)
    columns: dict[str, Sized] = {**table.keys, **table.arrays, **table.shapes}
    wrong = [f"{name} has {len(column):,}" for name, column in columns.items() if len(column) != count]
    wrong += [f"{field} has none" for field in recipe.fields if field not in (recipe.main_field, *table.keys)]
    if wrong:
        raise PrepareError(f"{recipe.set_name}: the recipe's table has {count:,} records, but {'; '.join(wrong)}.")


class Places:
    """Finds the place of a key in a list by sorted hashes: 16 bytes per key; a dict takes over 100.

    Args:
        keys: The keys, each once.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        hashes = _hashes(keys, len(keys))
        self._order = np.argsort(hashes).astype(np.int32 if len(keys) < 1 << 31 else np.int64)
        self._hashes = hashes[self._order]
        # Among 100 million keys, two have the same hash with a probability of 1 in 3,700.
        self._table = None if _are_different(self._hashes) else {key: place for place, key in enumerate(keys)}

    def find(self, keys: Iterable[str | None], count: int) -> NDArray[np.int64]:
        """Return the places of `count` keys, int64; `ABSENT` for None and for keys not in the list."""
        places = np.full(count, ABSENT, np.int64)
        wanted = iter(keys)
        for start in range(0, count, _AT_ONCE):
            part = [next(wanted) for _ in range(min(_AT_ONCE, count - start))]
            places[start : start + len(part)] = self._find(part)
        return places

    def _find(self, keys: list[str | None]) -> NDArray[np.int64]:
        if self._table is not None:
            found = (ABSENT if key is None else self._table.get(key, ABSENT) for key in keys)
            return np.fromiter(found, np.int64, len(keys))
        if not len(self._order):
            return np.full(len(keys), ABSENT, np.int64)
        at = np.minimum(np.searchsorted(self._hashes, _hashes(keys, len(keys))), len(self._order) - 1)
        places = self._order[at].astype(np.int64)
        stored = self._keys
        is_there = [key == stored[place] for key, place in zip(keys, places.tolist(), strict=True)]
        return np.where(is_there, places, ABSENT)


def are_repeated(keys: Sequence[str]) -> bool:
    """Whether a list contains a key twice."""
    hashes = _hashes(keys, len(keys))
    hashes.sort()
    return not _are_different(hashes) and len(set(keys)) < len(keys)


def _hashes(keys: Iterable[str | None], count: int) -> NDArray[np.int64]:
    return np.fromiter(map(hash, keys), np.int64, count)


def _are_different(hashes: NDArray[np.int64]) -> bool:
    """Whether sorted hashes are all different."""
    return not bool((hashes[1:] == hashes[:-1]).any())
