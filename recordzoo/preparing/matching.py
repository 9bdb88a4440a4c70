"""Where keys stand in a list of them, by sorted hashes: 16 bytes a key, where a dict takes over 100."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from recordzoo.recipes.base import ABSENT

_AT_ONCE = 1 << 16


class Places:
    """The place of each of some keys.

    Args:
        keys: The keys, each once.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        hashes = _hashes(keys, len(keys))
        self._order = np.argsort(hashes).astype(np.int32 if len(keys) < 1 << 31 else np.int64)
        self._hashes = hashes[self._order]
        # Of 100 million keys, two have the same hash with a probability of 1 to 3,700.
        self._table = None if _are_different(self._hashes) else {key: place for place, key in enumerate(keys)}

    def find(self, keys: Iterable[str | None], count: int) -> NDArray[np.int64]:
        """Return the places of `count` keys, int64; `ABSENT` for those that are not there, and for None."""
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
    """Whether a key stands twice among keys."""
    hashes = _hashes(keys, len(keys))
    hashes.sort()
    return not _are_different(hashes) and len(set(keys)) < len(keys)


def _hashes(keys: Iterable[str | None], count: int) -> NDArray[np.int64]:
    return np.fromiter(map(hash, keys), np.int64, count)


def _are_different(hashes: NDArray[np.int64]) -> bool:
    """Whether sorted hashes are all different."""
    return not bool((hashes[1:] == hashes[:-1]).any())
