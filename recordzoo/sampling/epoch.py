"""`Epoch`: the samples of one rank in one epoch, in order."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from recordzoo.sampling.orders import Int64s, Order, Scheme
from recordzoo.sampling.ranks import EpochSeed

CHUNK = 2048
"""Number of samples whose order is computed at once: NumPy's overhead is then 0.1 microseconds per sample."""


@dataclass(frozen=True, eq=False)
class Epoch:
    """One epoch of one rank: an immutable view, which any thread may use.

    The epoch is one sequence of *places*, the same on all ranks: rank r of W takes places r, r + W, r + 2W, ... A rank
    numbers its places from 0, the epoch's beginning, even if it resumes later.

    Args:
        number: The number of the epoch.
        scheme: Makes the order.
        seed: With the number, it determines the order.
        rank: This rank.
        num_replicas: Number of ranks.
        consumed: Places consumed before, by any number of ranks.
        drop_last: Leave out the last places if they do not divide by the number of ranks, instead of repeating the
            first ones.
    """

    number: int
    scheme: Scheme
    seed: EpochSeed
    rank: int
    num_replicas: int
    consumed: int = 0
    drop_last: bool = False

    @functools.cached_property
    def order(self) -> Order:
        """The sample at each place."""
        return self.scheme.order(*self.seed.key(self.number))

    def __getstate__(self) -> dict[str, Any]:  # Any: the fields' values
        return {name: value for name, value in self.__dict__.items() if name != "order"}

    @property
    def length(self) -> int:
        """Number of samples."""
        return self.scheme.length

    @property
    def first(self) -> int:
        """The number of this rank's first place: 0, or the position of a resumed epoch."""
        return self.consumed // self.num_replicas

    @property
    def end(self) -> int:
        """The number after that of this rank's last place; equal on all ranks."""
        left = max(0, self.length - self.consumed)
        return self.first + (left if self.drop_last else left + self.num_replicas - 1) // self.num_replicas

    def consumed_at(self, end: int) -> int:
        """Return the number of places consumed by all ranks together, when each has reached the place of this number.

        At the end with `drop_last`, all places count: the rest is left out on any number of ranks.
        """
        if self.drop_last and end >= self.end:
            return self.length
        return min(self.length, self.consumed + (end - self.first) * self.num_replicas)

    def places(self, start: int, end: int) -> Int64s:
        """Return this rank's places from number `start` up to `end`; those from `length` on repeat the first ones."""
        rows = np.arange(start - self.first, end - self.first, dtype=np.int64)
        return self.consumed + rows * self.num_replicas + self.rank

    def indices(self, start: int, end: int) -> Int64s:
        """Return the indices of the samples at this rank's places from number `start` up to `end`."""
        return self.order(self._wrapped(start, end))

    def opened(self, start: int, end: int) -> Int64s:
        """Return the indices of all samples in the windows that these places read first.

        They are the samples to prefetch: in storage order for an order of blocks; otherwise equal to `indices`.
        """
        windows = self._windows(start, end)
        is_first = (np.arange(start, end) - self._cycle < self.first) | (
            windows != self._windows(start - self._cycle, end - self._cycle)
        )
        return self.order.members(windows[is_first])

    def closed(self, start: int, end: int) -> Int64s:
        """Return the indices of all samples in the windows that these places read last."""
        windows = self._windows(start, end)
        is_last = (np.arange(start, end) + self._cycle >= self.end) | (
            windows != self._windows(start + self._cycle, end + self._cycle)
        )
        return self.order.members(windows[is_last])

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Iterate over the ranges of numbers, from first to end, whose order is computed at once."""
        return ((start, min(start + CHUNK, self.end)) for start in range(self.first, self.end, CHUNK))

    @property
    def _cycle(self) -> int:
        """Period, in this rank's places, of the window pattern."""
        return self.order.cycle // math.gcd(self.order.cycle, self.num_replicas)

    def _wrapped(self, start: int, end: int) -> Int64s:
        return self.places(start, end) % max(1, self.length)

    def _windows(self, start: int, end: int) -> Int64s:
        return self.order.windows(self._wrapped(start, end))
