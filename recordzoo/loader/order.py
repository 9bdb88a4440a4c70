"""The order of an epoch: the sample at each place, computed from the place alone.

A permutation is computed place by place: no list, whatever the length. A Feistel network permutes the numbers of `bits`
bits, the fewest that hold ``size - 1``; results outside the range are permuted again until they are inside (cycle
walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), fewer than twice on average. The domain is a
power of two, not a closer a * b >= size: a shift and a mask cost a tenth of a division. Halves are added, not XORed:
XOR gives only even permutations, half of all.

A scheme makes the order of each epoch: all samples once, by blocks, by weight, or of a mix.
"""

import contextlib
import functools
import heapq
import math
import operator
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from recordzoo.base.text import JSON
from recordzoo.errors import ArgumentError
from recordzoo.loader.parts import Int64s, Mix, labels_of
from recordzoo.recipes.recipe import NO_TARGET

UInt64s = NDArray[np.uint64]
Float64s = NDArray[np.float64]

_GOLDEN = 0x9E3779B97F4A7C15  # splitmix64: increment and the two multipliers (Steele, Lea, Flood, OOPSLA 2014)
_MULTIPLY_1 = 0xBF58476D1CE4E5B9
_MULTIPLY_2 = 0x94D049BB133111EB
_MASK = (1 << 64) - 1

_AT_ONCE = 1 << 18

_MAX_SPAN = 1 << 22
"""Largest span of integers that are counted with a table: 50 times as fast as a sort."""

_CYCLE = 65537
"""Period of the pattern of sources, in places: a prime number, which no number of ranks divides."""

_SWEEPS = 16


# Any, in all of this module: values from a user or a file.


@functools.lru_cache(256)  # each batch of an epoch has the same ones
def hash_key(*parts: int) -> int:
    """Return a 64-bit key that depends on every bit of every part, and on their order.

    Examples:
        >>> hash_key(0, 1) != hash_key(1, 0)
        True
    """
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = _mixed(key ^ np.uint64(part & _MASK))
    return int(key[0])


def hash_keys(key: int, numbers: NDArray[np.int64]) -> UInt64s:
    """Return a 64-bit key for each number, derived from a key of `hash_key`."""
    return _mixed(np.uint64(key) ^ numbers.astype(np.uint64))


def uniform(hashes: UInt64s) -> NDArray[np.float64]:
    """Return numbers from 0 to 1, 1 excluded, of the upper 53 bits of hashes."""
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(values: UInt64s) -> UInt64s:
    """One step of splitmix64, vectorised."""
    values = values + np.uint64(_GOLDEN)
    values = (values ^ values >> np.uint64(30)) * np.uint64(_MULTIPLY_1)
    values = (values ^ values >> np.uint64(27)) * np.uint64(_MULTIPLY_2)
    return values ^ values >> np.uint64(31)


class Permutation:
    """A permutation of ``range(size)``, chosen by a key; ``permutation(array)`` is vectorised.

    Args:
        size: Number of permuted numbers, 0 to 2**62.
        key: Any integer; `hash_key` combines several.

    Examples:
        >>> sorted(Permutation(5, key=1)(range(5)).tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, key: int) -> None:
        self.size = size
        self._network = Network(size)
        self._keys = np.array([hash_key(key)], np.uint64)

    def __call__(self, numbers: ArrayLike) -> NDArray[np.int64]:
        """Return the images of numbers, int64 of the same shape.

        Raises:
            IndexError: A number is not in ``range(size)``.
        """
        array = np.asarray(numbers, np.int64)
        if array.size and not 0 <= array.min() <= array.max() < self.size:
            raise IndexError(f"a number outside range({self.size})")
        return self._network.permute(array, self.size, self._keys)


class Network:
    """The Feistel network over the power of two that holds `max_size` numbers; each number may have its own key."""

    def __init__(self, max_size: int) -> None:
        bits = max(max_size - 1, 0).bit_length()
        self._low_bits = np.uint64(bits - bits // 2)
        self._high_mask = np.uint64((1 << bits // 2) - 1)
        self._low_mask = np.uint64((1 << bits - bits // 2) - 1)
        # Few values mix slowly: after 8 rounds chi-square still sees which of the 120 permutations of 5 are favoured.
        self._rounds = max(8, 32 - 2 * bits)

    def permute(self, numbers: NDArray[np.int64], sizes: ArrayLike, keys: UInt64s) -> NDArray[np.int64]:
        """Permute each number within ``range(its size)`` by its key.

        Args:
            numbers: Any shape, each of ``range(its size)``.
            sizes: An array of the same shape, or one number for all; each at most `max_size`.
            keys: Uniform 64-bit numbers, of the same shape or [1] for all.
        """
        shape = numbers.shape
        found = self._step(numbers.ravel().astype(np.uint64), keys.ravel())
        sizes = np.broadcast_to(np.asarray(sizes, np.uint64).ravel(), found.shape)
        keys = np.broadcast_to(keys.ravel(), found.shape)
        outside = np.flatnonzero(found >= sizes)
        while len(outside):
            found[outside] = self._step(found[outside], keys[outside])
            outside = outside[found[outside] >= sizes[outside]]
        return found.astype(np.int64).reshape(shape)

    def _step(self, numbers: UInt64s, keys: UInt64s) -> UInt64s:
        high, low = numbers >> self._low_bits, numbers & self._low_mask
        for number in range(0, self._rounds, 2):
            high = high + _hashes(low, keys, number) & self._high_mask
            low = low + _hashes(high, keys, number + 1) & self._low_mask
        return high << self._low_bits | low


def permute_each(numbers: NDArray[np.int64], sizes: NDArray[np.int64], keys: UInt64s) -> NDArray[np.int64]:
    """Permute each number among ``range(its size)`` with its own key, where sizes are of all magnitudes; all [n]."""
    found = np.empty_like(numbers)
    bits = np.frexp((sizes - 1).astype(np.float64))[1]  # of the smallest network that holds each size
    for each in np.unique(bits).tolist():
        here = bits == each
        found[here] = Network(1 << each).permute(numbers[here], sizes[here], keys[here])
    return found


def _hashes(half: UInt64s, keys: UInt64s, number: int) -> UInt64s:
    """Hash halves with the keys of a round: multiply, fold, multiply, of which the upper 32 bits are good."""
    hashes = half ^ keys + np.uint64(number * _GOLDEN & _MASK)
    hashes *= np.uint64(_MULTIPLY_1)
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(_MULTIPLY_2)
    hashes >>= np.uint64(32)
    return hashes


def plain(value: Any) -> Any:
    """Return arrays, tensors, their scalars and tuples as Python's lists and numbers; other values as they are."""
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        with contextlib.suppress(RuntimeError, NotImplementedError):  # a tensor of the device "meta" has no values
            return value.tolist()
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def whole_number(name: str, value: Any, *, at_least: int | None = None) -> int:
    """Return a value that must be an integer; refuse another one, or one that is too small."""
    number = plain(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    try:
        number = operator.index(number)
    except TypeError as err:
        raise ArgumentError(f"{name}={value!r} must be a whole number.") from err
    if at_least is not None and number < at_least:
        raise ArgumentError(f"{name}={number} must be {at_least} or more.")
    return number


def truth_value(name: str, value: Any) -> bool:
    """Return a value that must be True or False, or 1 or 0."""
    found = plain(value)
    if not isinstance(found, bool | int | float) or found not in (True, False):
        raise ArgumentError(f"{name}={value!r} must be True or False.")
    return bool(found)


Order = Callable[[Int64s], Int64s]
"""Returns the index of the sample at each place of an epoch."""


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
    def order(self, seed: int, epoch: int) -> Order:
        return Permutation(self.length, hash_key(seed, epoch)) if self._is_shuffled else lambda places: places


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

    The cuts between blocks depend on the key: all samples are equally likely at each place. Places that read from the
    same window repeat every `cycle` places, until the next window begins.
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


def given_weights(values: Any, length: int) -> Float64s:
    """Return weights that a user gave, divided by the largest one, so that their sum is finite.

    Args:
        values: A list, array or tensor.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as err:
        raise ArgumentError(f"weights cannot be made an array of numbers: {err}") from err
    if array.shape != (length,) or array.dtype.kind not in "biuf":
        raise ArgumentError(
            f"weights must be {length} numbers, one for each sample; they are {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    weights = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise ArgumentError(f"weights[{wrong[0]}] is {weights[wrong[0]]}: a weight is a finite number, 0 or more.")
    if not weights.any():
        raise ArgumentError(f"The sum of the {length} weights is 0: no sample could be drawn.")
    with np.errstate(over="ignore"):  # NumPy 1.26 may warn, although no result is greater than 1
        weights /= weights.max()
    return weights


def balanced_weights(dataset: Sized, field: str | None) -> Float64s:
    """Return weights that draw all classes equally often: 1 / the size of the sample's class; 0 for label -1."""
    labels = labels_of(dataset, np.arange(len(dataset)), field)
    if not len(labels):
        raise ArgumentError(f"{type(dataset).__name__} has no samples, so there are no classes to draw from.")
    if labels.dtype.kind in "iu" and int(labels.max()) - int(labels.min()) < _MAX_SPAN:
        lowest = int(labels.min())
        numbers = labels.astype(np.int64) - lowest
        counts = np.bincount(numbers)
        known = np.arange(lowest, lowest + len(counts))
    else:
        known, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    of_classes = 1 / np.maximum(counts, 1)
    if known.dtype.kind == "i":
        of_classes[known == NO_TARGET] = 0.0
    weights: Float64s = of_classes[numbers]
    if not weights.any():
        raise ArgumentError("weights='balanced': no sample has a class; all labels are -1.")
    return weights


class WithReplacement(Scheme):
    """Each place of an epoch draws by weight, independently of the others.

    It keeps 8 bytes per sample, the cumulative sum of the weights. The draw at a place is a hash of seed, epoch and
    place, looked up in the sums: a sample of weight 0 ends where the one before it ends, and is never found.
    """

    def __init__(self, weights: Float64s, num_samples: int) -> None:
        self.length = num_samples
        self._sums = np.empty(len(weights))
        total = 0.0
        for start, piece in _pieces(weights):
            part = self._sums[start : start + len(piece)]
            np.cumsum(piece, out=part)
            part += total
            total = float(part[-1])

    @functools.cached_property
    @override
    def identity(self) -> dict[str, JSON]:
        return {"draws": ["with replacement", zlib.crc32(self._sums.data)]}

    @override
    def order(self, seed: int, epoch: int) -> Order:
        key = hash_key(seed, epoch)

        def drawn(places: Int64s) -> Int64s:
            found = uniform(hash_keys(key, places)) * self._sums[-1]
            by_value = np.argsort(found)  # neighbours are looked up together: a third of the time with 1e8 weights
            indices = np.empty(len(found), np.int64)
            indices[by_value] = np.searchsorted(self._sums, found[by_value], side="right")
            return indices

        return drawn


class WithoutReplacement(Scheme):
    """Each sample at most once per epoch; large weights come earlier and more often.

    Sample i has the key -log(u) / weight with its own random u, and the smallest keys come first: each place draws by
    weight among the samples that are left (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
    The keys are sorted when an epoch begins: 8 bytes a sample, besides those of its weight.
    """

    def __init__(self, weights: Float64s, num_samples: int | None) -> None:
        self._weights = weights
        positive = int(np.count_nonzero(weights))
        self.length = positive if num_samples is None else num_samples
        if self.length > positive:
            raise ArgumentError(
                f"num_samples={num_samples} with replacement=False: only {positive} samples have a weight above 0."
            )

    @functools.cached_property
    @override
    def identity(self) -> dict[str, JSON]:
        return {"draws": ["without replacement", zlib.crc32(self._weights.data)]}

    @override
    def order(self, seed: int, epoch: int) -> Order:
        # Sorted when they are first asked for: an epoch that is not used costs nothing.
        indices = functools.cache(functools.partial(self.sorted, hash_key(seed, epoch)))
        return lambda places: indices()[places]

    def sorted(self, key: int) -> Int64s:
        """Return the indices of an epoch in their order, int64 [length]."""
        # Positive floats sort like their bits. The lowest bits of each key are replaced by the sample's number, so
        # that one array is sorted, in its place.
        bits = np.uint64(max(1, (len(self._weights) - 1).bit_length()))
        mask = np.uint64((1 << int(bits)) - 1)
        keys = np.empty(len(self._weights), np.uint64)
        for start, piece in _pieces(self._weights):
            numbers = np.arange(start, start + len(piece))
            with np.errstate(divide="ignore", over="ignore"):
                found = -np.log1p(-uniform(hash_keys(key, numbers))) / piece
            found[piece == 0] = np.nan  # whose bits are greater than those of infinity
            keys[start : start + len(piece)] = found.view(np.uint64) & ~mask | numbers.astype(np.uint64)
        keys.sort()
        keys &= mask
        return keys[: self.length].view(np.int64)


def _pieces(weights: Float64s) -> Iterator[tuple[int, Float64s]]:
    for start in range(0, len(weights), _AT_ONCE):
        yield start, weights[start : start + _AT_ONCE]


class MixScheme(Scheme):
    """The order of a mix: the dataset at each place of a cycle is tabulated; its sample is computed."""

    def __init__(self, mixed: Mix) -> None:
        self._sizes = np.diff(np.array([0, *mixed.cumulative_sizes]))
        self._starts = np.array([0, *mixed.cumulative_sizes[:-1]])
        self._counts = _counts(mixed.weights)
        self._sources = _pattern(self._counts)
        places = [np.flatnonzero(self._sources == number) for number in range(len(self._sizes))]
        self._before = np.empty(_CYCLE, np.int64)  # number of earlier places with the same source
        for each in places:
            self._before[each] = np.arange(len(each))
        cycles, lasts = np.divmod(self._sizes - 1, self._counts)
        ends = [cycle * _CYCLE + int(each[last]) for cycle, last, each in zip(cycles, lasts, places, strict=True)]
        self.length = int(max(ends)) + 1

    @functools.cached_property
    @override
    def identity(self) -> dict[str, JSON]:
        return {"draws": ["mix", zlib.crc32(np.concatenate([self._sizes, self._counts]).astype(np.int64).tobytes())]}

    @override
    def order(self, seed: int, epoch: int) -> Order:
        key = hash_key(seed, epoch)

        def drawn(places: Int64s) -> Int64s:
            cycles, within = np.divmod(places, _CYCLE)
            sources = self._sources[within]
            sizes = self._sizes[sources]
            passes, numbers = np.divmod(cycles * self._counts[sources] + self._before[within], sizes)
            keys = hash_keys(key, passes * len(self._sizes) + sources)
            indices: Int64s = self._starts[sources] + permute_each(numbers, sizes, keys)
            return indices

        return drawn


def _counts(weights: Sequence[float]) -> Int64s:
    """Return each source's number of places in a cycle."""
    exact = np.array(weights) * _CYCLE
    counts: Int64s = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact)[: _CYCLE - int(counts.sum())]] += 1
    if not counts.all():
        raise ArgumentError(f"mix: the share of dataset {int(counts.argmin())} is below 1 / {_CYCLE}.")
    return counts


def _pattern(counts: Int64s) -> Int64s:
    """Return the source at each place of a cycle: up to any place, each source has its share, rounded up or down.

    Turn i of a source with c of n places must lie between floor(i * n / c) and ceil((i + 1) * n / c) - 1. Scheduling
    the possible turn with the earliest deadline always succeeds (Steiner and Yeomans, "Level schedules for mixed-model,
    just-in-time processes", 1993). Then neighbours are swapped at random if both bounds allow: otherwise a rank could
    have samples of few sources for long.
    """
    sources: Int64s = np.repeat(np.arange(len(counts)), counts)
    turns = np.concatenate([np.arange(count) for count in counts.tolist()])
    first, last = turns * _CYCLE // counts[sources], -(-(turns + 1) * _CYCLE // counts[sources]) - 1
    coming = iter(np.argsort(first, kind="stable").tolist())
    upcoming, heap, taken = next(coming), list[tuple[int, int]](), np.empty(_CYCLE, np.int64)
    for place in range(_CYCLE):
        while upcoming is not None and first[upcoming] <= place:
            heapq.heappush(heap, (int(last[upcoming]), upcoming))
            upcoming = next(coming, None)
        taken[place] = heapq.heappop(heap)[1]
    for sweep in range(_SWEEPS):
        places = np.arange(sweep % 2, _CYCLE - 1, 2)
        here, there = taken[places], taken[places + 1]
        chance = hash_keys(hash_key(sweep), places) & np.uint64(1) > 0
        places = places[chance & (last[here] > places) & (first[there] <= places)]
        taken[places], taken[places + 1] = taken[places + 1], taken[places]
    return sources[taken]
