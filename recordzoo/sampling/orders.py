"""The order of an epoch: the sample at each place, computed from the place alone."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.types import JSON
from recordzoo.sampling.permutation import Network, Permutation, hash_key, hash_keys

Int64s = NDArray[np.int64]


class Order(Protocol):
    """The samples of an epoch in order, and the windows in which they are read.

    Places that read from the same *window* repeat every `cycle` places, until the next window begins.

    Attributes:
        cycle: As above.
    """

    cycle: int

    def __call__(self, places: Int64s) -> Int64s:
        """Return the index of the sample at each place."""

    def windows(self, places: Int64s) -> Int64s:
        """Return the number of the window that each place reads from."""

    def members(self, windows: Int64s) -> Int64s:
        """Return the indices of all samples of windows, in storage order."""


class SampleOrder:
    """An order in which each sample is its own window.

    Args:
        index_of: Function from places to indices; None: ascending indices.
    """

    cycle = 1

    def __init__(self, index_of: Callable[[Int64s], Int64s] | None) -> None:
        self._index_of = index_of

    def __call__(self, places: Int64s) -> Int64s:
        """Return the index of the sample at each place."""
        return places if self._index_of is None else self._index_of(places)

    def windows(self, places: Int64s) -> Int64s:
        """Return the places: each is a window."""
        return places

    def members(self, windows: Int64s) -> Int64s:
        """Return the indices of the samples."""
        return self(windows)


class Scheme(ABC):
    """Creates the order of each epoch; a sampler keeps one scheme.

    Attributes:
        length: Number of places in an epoch.
    """

    length: int

    @property
    def identity(self) -> dict[str, JSON]:
        """The facts that identify this scheme in a sampler's state: "blocks" or "draws"."""
        return {}

    @abstractmethod
    def order(self, seed: int, epoch: int) -> Order:
        """Return the order of an epoch: a function of seed and epoch."""

    def window_bytes(self, num_replicas: int) -> int:
        """Return the average number of bytes that a rank mixes at a time; 0 if samples are drawn one by one."""
        return 0


class SampleScheme(Scheme):
    """All samples once, shuffled or in the order of the dataset."""

    def __init__(self, length: int, is_shuffled: bool) -> None:
        self.length, self._is_shuffled = length, is_shuffled

    @override
    def order(self, seed: int, epoch: int) -> SampleOrder:
        return SampleOrder(Permutation(self.length, hash_key(seed, epoch)) if self._is_shuffled else None)


@dataclass(frozen=True, eq=False)
class BlockLayout(Scheme):
    """The part of shuffling by blocks that is the same in every epoch.

    Place p belongs to virtual rank p % virtual_ranks, and a rank reads whole virtual ranks. Each of them gets
    `blocks_per_rank` blocks, and mixes `window` of them at a time. Blocks are of two sizes that differ by one sample
    (one of them 0, if there are more blocks than samples), so that virtual ranks differ by one sample at most.

    Args:
        length: Number of samples, up to 2**36.
        storage: The indices in storage order; None if that is 0, 1, 2, ...
        mean_bytes: Mean size of a sample.
    """

    length: int
    virtual_ranks: int
    blocks_per_rank: int
    window: int
    storage: NDArray[np.signedinteger] | None
    mean_bytes: float

    @property
    @override
    def identity(self) -> dict[str, JSON]:
        return {"blocks": [self.virtual_ranks, self.blocks_per_rank, self.window]}

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return self.virtual_ranks * self.blocks_per_rank

    @property
    def max_block(self) -> int:
        """Number of samples in the larger blocks."""
        return -(-self.length // self.num_blocks)

    @override
    def order(self, seed: int, epoch: int) -> "BlockOrder":
        return BlockOrder(self, hash_key(seed, epoch))

    @override
    def window_bytes(self, num_replicas: int) -> int:
        virtual_ranks = self.virtual_ranks // math.gcd(self.virtual_ranks, num_replicas)
        return int(min(self.length, virtual_ranks * self.window * self.max_block) * self.mean_bytes)


class BlockOrder:
    """Blocks of adjacent stored samples, permuted over the whole set and mixed in windows.

    The cuts between blocks depend on the key: all samples are equally likely at each place.
    """

    def __init__(self, layout: BlockLayout, key: int) -> None:
        self._layout = layout
        self.cycle = layout.virtual_ranks
        self._size, self._num_larger = divmod(layout.length, layout.num_blocks)
        self._larger = Permutation(self._num_larger, hash_key(key, 1))
        self._smaller = Permutation(layout.num_blocks - self._num_larger, hash_key(key, 2))
        self._rotation = hash_key(key, 3) % max(1, layout.length)
        self._window_key = hash_key(key, 4)
        self._mixer = Network(layout.window * layout.max_block)
        self._windows_per_rank = layout.blocks_per_rank // layout.window + 2
        ranks = np.arange(self.cycle)
        self._lengths = (layout.length - ranks + self.cycle - 1) // self.cycle
        self._shifts = ranks * layout.window // self.cycle  # the first windows are shorter, so that not all end at once
        # Larger blocks, which are adjacent in storage, must not come all at once either.
        self._phases = (hash_keys(hash_key(key, 5), ranks) % np.uint64(layout.blocks_per_rank)).astype(np.int64)

    def __call__(self, places: Int64s) -> Int64s:
        """Return the index of the sample at each place."""
        windows = self.windows(places)
        start, stop = self._spans(windows)
        ranks, turns = places % self.cycle, places // self.cycle
        mixed = start + self._mixer.permute(turns - start, stop - start, hash_keys(self._window_key, windows))
        return self._indices(self._stored(ranks, mixed))

    def windows(self, places: Int64s) -> Int64s:
        """Return the number of the window that each place reads from."""
        ranks, turns = places % self.cycle, places // self.cycle
        return ranks * self._windows_per_rank + (self._slots(ranks, turns) + self._shifts[ranks]) // self._layout.window

    def members(self, windows: Int64s) -> Int64s:
        """Return the indices of all samples of windows, in storage order."""
        start, stop = self._spans(windows)
        turns = [np.arange(*span) for span in zip(start.tolist(), stop.tolist(), strict=True)]
        ranks = np.repeat(windows // self._windows_per_rank, stop - start)
        return self._indices(np.sort(self._stored(ranks, np.concatenate([np.empty(0, np.int64), *turns]))))

    def _spans(self, windows: Int64s) -> tuple[Int64s, Int64s]:
        """Return the first and last turn of a window in its virtual rank."""
        ranks, numbers = np.divmod(windows, self._windows_per_rank)
        first = numbers * self._layout.window - self._shifts[ranks]
        last = np.minimum(first + self._layout.window, self._layout.blocks_per_rank)
        return self._begins(ranks, np.maximum(first, 0)), self._begins(ranks, last)

    def _begins(self, ranks: Int64s, slots: Int64s) -> Int64s:
        """Return the first turn of the block in a slot of a virtual rank; larger blocks are spread evenly."""
        return (slots * self._lengths[ranks] + self._phases[ranks]) // self._layout.blocks_per_rank

    def _slots(self, ranks: Int64s, turns: Int64s) -> Int64s:
        """Return the slot that each turn falls into: the inverse of `_begins`."""
        return ((turns + 1) * self._layout.blocks_per_rank - self._phases[ranks] - 1) // self._lengths[ranks]

    def _stored(self, ranks: Int64s, turns: Int64s) -> Int64s:
        """Return the place in storage order that each turn takes, before its window is mixed."""
        slots = self._slots(ranks, turns)
        begins = self._begins(ranks, slots)
        is_larger = self._begins(ranks, slots + 1) - begins > self._size
        each, rest = divmod(self._num_larger, self.cycle)
        larger_before = ranks * each + np.minimum(ranks, rest) + begins - slots * self._size
        smaller_before = ranks * self._layout.blocks_per_rank + slots - larger_before
        blocks = np.empty_like(slots)
        blocks[is_larger] = self._larger(larger_before[is_larger])
        blocks[~is_larger] = self._num_larger + self._smaller(smaller_before[~is_larger])
        firsts = blocks * self._size + np.minimum(blocks, self._num_larger)
        return (self._rotation + firsts + turns - begins) % self._layout.length

    def _indices(self, stored: Int64s) -> Int64s:
        return stored if self._layout.storage is None else self._layout.storage[stored].astype(np.int64)
