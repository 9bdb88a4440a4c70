"""A pseudo-random permutation that is computed place by place: no list, whatever the length.

A Feistel network permutes the numbers of `bits` bits, the fewest that hold ``size - 1``; results outside the range are
permuted again until they are inside (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002),
fewer than twice on average. The domain is a power of two, not a closer a * b >= size: a shift and a mask cost a tenth
of a division. Halves are added, not XORed: XOR gives only even permutations, half of all.
"""

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

UInt64s = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15  # splitmix64: increment and the two multipliers (Steele, Lea, Flood, OOPSLA 2014)
_MULTIPLY_1 = 0xBF58476D1CE4E5B9
_MULTIPLY_2 = 0x94D049BB133111EB
_MASK = (1 << 64) - 1


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
        self.key = key
        self._network = Network(size)
        self._keys = np.array([hash_key(key)], np.uint64)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: SupportsIndex) -> int:
        """Return the image of one number.

        Raises:
            IndexError: The number is not in ``range(size)``.
        """
        return int(self([operator.index(index)])[0])

    def __call__(self, numbers: ArrayLike) -> NDArray[np.int64]:
        """Return the images of numbers, int64 of the same shape.

        Raises:
            IndexError: A number is not in ``range(size)``.
        """
        return self._network.permute(self._checked(numbers), self.size, self._keys)

    def inverse(self, numbers: ArrayLike) -> NDArray[np.int64]:
        """Apply the inverse permutation: ``inverse(permutation(x)) == x``.

        Raises:
            IndexError: A number is not in ``range(size)``.
        """
        return self._network.permute(self._checked(numbers), self.size, self._keys, backwards=True)

    def _checked(self, numbers: ArrayLike) -> NDArray[np.int64]:
        array = np.asarray(numbers, np.int64)
        if array.size and not 0 <= array.min() <= array.max() < self.size:
            raise IndexError(f"a number outside range({self.size})")
        return array


class Network:
    """The Feistel network over the power of two that holds `max_size` numbers; each number may have its own key."""

    def __init__(self, max_size: int) -> None:
        bits = max(max_size - 1, 0).bit_length()
        self._low_bits = np.uint64(bits - bits // 2)
        self._high_mask = np.uint64((1 << bits // 2) - 1)
        self._low_mask = np.uint64((1 << bits - bits // 2) - 1)
        # Few values mix slowly: after 8 rounds chi-square still sees which of the 120 permutations of 5 are favoured.
        self._rounds = max(8, 32 - 2 * bits)

    def permute(
        self, numbers: NDArray[np.int64], sizes: ArrayLike, keys: UInt64s, *, backwards: bool = False
    ) -> NDArray[np.int64]:
        """Permute each number within ``range(its size)`` by its key.

        Args:
            numbers: Any shape, each of ``range(its size)``.
            sizes: An array of the same shape, or one number for all; each at most `max_size`.
            keys: Uniform 64-bit numbers, of the same shape or [1] for all.
            backwards: Apply the inverse.
        """
        step = self._backwards if backwards else self._forwards
        shape = numbers.shape
        found = step(numbers.ravel().astype(np.uint64), keys.ravel())
        sizes = np.broadcast_to(np.asarray(sizes, np.uint64).ravel(), found.shape)
        keys = np.broadcast_to(keys.ravel(), found.shape)
        outside = np.flatnonzero(found >= sizes)
        while len(outside):
            found[outside] = step(found[outside], keys[outside])
            outside = outside[found[outside] >= sizes[outside]]
        return found.astype(np.int64).reshape(shape)

    def _forwards(self, numbers: UInt64s, keys: UInt64s) -> UInt64s:
        high, low = numbers >> self._low_bits, numbers & self._low_mask
        for number in range(0, self._rounds, 2):
            high = high + _hashes(low, keys, number) & self._high_mask
            low = low + _hashes(high, keys, number + 1) & self._low_mask
        return high << self._low_bits | low

    def _backwards(self, numbers: UInt64s, keys: UInt64s) -> UInt64s:
        high, low = numbers >> self._low_bits, numbers & self._low_mask
        for number in reversed(range(0, self._rounds, 2)):
            low = low - _hashes(high, keys, number + 1) & self._low_mask
            high = high - _hashes(low, keys, number) & self._high_mask
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
