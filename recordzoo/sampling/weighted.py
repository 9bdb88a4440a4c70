"""Draw samples by weight, with or without replacement."""

import functools
import zlib
from collections.abc import Iterator, Sized
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError
from recordzoo.sampling.labels import Classes
from recordzoo.sampling.orders import Int64s, SampleOrder, Scheme
from recordzoo.sampling.permutation import hash_key, hash_keys, uniform

Float64s = NDArray[np.float64]

_AT_ONCE = 1 << 18


class Weights(Protocol):
    """The weight of each sample, in pieces: no array of all samples is allocated."""

    def __len__(self) -> int: ...

    def piece(self, start: int, end: int) -> Float64s:
        """Return the weights of samples from a number up to another."""


class GivenWeights:
    """Weights that a user gave.

    Args:
        values: A list, array or tensor. An array is not copied.
    """

    # Any: a user's value.
    def __init__(self, values: Any, length: int) -> None:
        try:
            self._values = np.asarray(values)
        except (TypeError, ValueError, RuntimeError) as err:
            raise ArgumentError(f"weights cannot be made an array of numbers: {err}") from err
        if self._values.shape != (length,) or self._values.dtype.kind not in "biuf":
            raise ArgumentError(
                f"weights must be {length} numbers, one for each sample; they are {self._values.dtype} of shape "
                f"{list(self._values.shape)}."
            )
        self._largest, largest = 1.0, 0.0
        for start, piece in _pieces(self):
            wrong = np.flatnonzero(~(np.isfinite(piece) & (piece >= 0)))
            if len(wrong):
                raise ArgumentError(
                    f"weights[{start + wrong[0]}] is {piece[wrong[0]]}: a weight is a finite number, 0 or more."
                )
            largest = max(largest, float(piece.max()))
        if not largest:
            raise ArgumentError(f"The sum of the {length} weights is 0: no sample could be drawn.")
        self._largest = largest

    def __len__(self) -> int:
        return len(self._values)

    def piece(self, start: int, end: int) -> Float64s:
        """Return weights, divided by the largest one, so that their sum is finite."""
        piece = self._values[start:end].astype(np.float64)
        with np.errstate(over="ignore"):  # NumPy 1.26 may warn, although no result is greater than 1
            return piece / self._largest


class BalancedWeights:
    """Weights that draw all classes equally often: 1 / the size of the sample's class; 0 for label -1."""

    def __init__(self, dataset: Sized, field: str | None) -> None:
        self._length, self._classes = len(dataset), Classes(dataset, field)
        self._weights = np.where(self._classes.is_none, 0.0, 1 / self._classes.counts)
        if not self._weights.any():
            raise ArgumentError("weights='balanced': no sample has a class; all labels are -1.")

    def __len__(self) -> int:
        return self._length

    def piece(self, start: int, end: int) -> Float64s:
        """See `Weights`."""
        return self._weights[self._classes.numbers(start, end)]


class WithReplacement(Scheme):
    """Each place of an epoch draws by weight, independently of the others.

    It keeps 8 bytes per sample, the cumulative sum of the weights. The draw at a place is a hash of seed, epoch and
    place, looked up in the sums: a sample of weight 0 ends where the one before it ends, and is never found.
    """

    def __init__(self, weights: Weights, num_samples: int) -> None:
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
    def order(self, seed: int, epoch: int) -> SampleOrder:
        key = hash_key(seed, epoch)

        def drawn(places: Int64s) -> Int64s:
            found = uniform(hash_keys(key, places)) * self._sums[-1]
            by_value = np.argsort(found)  # neighbours are looked up together: a third of the time with 1e8 weights
            indices = np.empty(len(found), np.int64)
            indices[by_value] = np.searchsorted(self._sums, found[by_value], side="right")
            return indices

        return SampleOrder(drawn)


class WithoutReplacement(Scheme):
    """Each sample at most once per epoch; large weights come earlier and more often.

    Sample i has the key -log(u) / weight with its own random u, and the smallest keys come first: each place draws by
    weight among the samples that are left (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
    The keys are sorted when an epoch begins: 8 bytes a sample.
    """

    def __init__(self, weights: Weights, num_samples: int | None) -> None:
        self._weights = weights
        positive = sum(int(np.count_nonzero(piece)) for _, piece in _pieces(weights))
        self.length = positive if num_samples is None else num_samples
        if self.length > positive:
            raise ArgumentError(
                f"num_samples={num_samples} with replacement=False: only {positive} samples have a weight above 0."
            )

    @functools.cached_property
    @override
    def identity(self) -> dict[str, JSON]:
        checksum = 0
        for _, piece in _pieces(self._weights):
            checksum = zlib.crc32(piece.data, checksum)
        return {"draws": ["without replacement", checksum]}

    @override
    def order(self, seed: int, epoch: int) -> SampleOrder:
        return SampleOrder(_Sorted(self, hash_key(seed, epoch)))

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


class _Sorted:
    """The samples of an epoch; they are sorted on first access, so that an unused epoch costs nothing."""

    def __init__(self, scheme: WithoutReplacement, key: int) -> None:
        self._scheme, self._key = scheme, key

    @functools.cached_property
    def _indices(self) -> Int64s:
        return self._scheme.sorted(self._key)

    def __call__(self, places: Int64s) -> Int64s:
        return self._indices[places]


def _pieces(weights: Weights) -> Iterator[tuple[int, Float64s]]:
    for start in range(0, len(weights), _AT_ONCE):
        yield start, weights.piece(start, min(start + _AT_ONCE, len(weights)))
