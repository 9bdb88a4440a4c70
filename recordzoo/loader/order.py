"""What orders are made of: hashes, permutations, checked numbers, states, ranks, and the seed of an epoch.

A permutation is computed place by place: no list, whatever the length. A Feistel network permutes the numbers of `bits`
bits, the fewest that hold ``size - 1``; results outside the range are permuted again until they are inside (cycle
walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), fewer than twice on average. The domain is a
power of two, not a closer a * b >= size: a shift and a mask cost a tenth of a division. Halves are added, not XORed:
XOR gives only even permutations, half of all.
"""

import contextlib
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import distributed

from recordzoo.base.text import JSON
from recordzoo.errors import ArgumentError

Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15  # splitmix64: increment and the two multipliers (Steele, Lea, Flood, OOPSLA 2014)
_MULTIPLY_1 = 0xBF58476D1CE4E5B9
_MULTIPLY_2 = 0x94D049BB133111EB
_MASK = (1 << 64) - 1

# Any, in all of this module: values from a user or a file.


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

    def __call__(self, numbers: ArrayLike) -> NDArray[np.int64]:
        """Return the images of numbers, int64 of the same shape.

        Raises:
            IndexError: A number is not in ``range(size)``.
        """
        return self._network.permute(self._checked(numbers), self.size, self._keys)

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


def checked_state(state: Any, kind: str, numbers: tuple[str, ...], own: dict[str, JSON]) -> dict[str, Any]:
    """Return a state with Python's types; refuse that of another kind of object, or of another order.

    Args:
        state: The user's value. "drawn" may be left out.
        kind: The expected kind of object, for the message.
        numbers: Keys of integers, 0 or more.
        own: Keys whose values must be equal to these.
    """
    names = state if isinstance(state, Mapping) else {}
    for name in ("seed", *numbers, *own):
        if name not in names:
            given = ", ".join(sorted(map(str, names))) or repr(state)
            raise ArgumentError(f"This is not the state of {kind}: it has no {name!r}, but {given}.")
    found = {name: plain(value) for name, value in names.items()}
    for name in ("seed", *numbers):
        found[name] = whole_number(f"state: {name}", found[name], at_least=None if name == "seed" else 0)
    if "drawn" in found:
        found["drawn"] = truth_value("state: drawn", found["drawn"])
    for name, value in own.items():
        if found[name] != value:
            raise ArgumentError(
                f"The state is that of another order: {name} was {state[name]!r} and is {value!r} here. Give the "
                "sampler the dataset and the arguments that it had then."
            )
    return found


class Ranks:
    """Number of ranks and number of this rank.

    A missing number is read from `torch.distributed` at each use: Lightning, accelerate and many scripts
    build samplers and loaders before they initialise the process group.

    Args:
        num_replicas: Number of ranks.
        rank: This rank, from 0.
    """

    def __init__(self, num_replicas: int | None = None, rank: int | None = None) -> None:
        self._num_replicas = None if num_replicas is None else whole_number("num_replicas", num_replicas)
        self._rank = None if rank is None else whole_number("rank", rank)
        self.now()

    def now(self) -> tuple[int, int]:
        """Return number of ranks and this rank; 1 and 0 if there is no process group and neither was given.

        Raises:
            ArgumentError: Only one of them is known, or the rank is not below the number of ranks.
        """
        num_replicas, rank = self._num_replicas, self._rank
        if distributed.is_available() and distributed.is_initialized():
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if num_replicas is None and rank is None:
            return 1, 0
        if num_replicas is None or rank is None or not 0 <= rank < num_replicas:
            raise ArgumentError(
                f"rank={rank} and num_replicas={num_replicas}: rank must be one of 0 to num_replicas - 1, and both "
                "must be given where torch.distributed is not initialised."
            )
        return num_replicas, rank

    def that_agree(self) -> int:
        """Return the number of ranks that must have one seed: also those that divide this rank's samples again."""
        is_group = distributed.is_available() and distributed.is_initialized()
        return max(self.now()[0], distributed.get_world_size() if is_group else 1)


@dataclass(frozen=True)
class EpochSeed:
    """The seed of one epoch.

    Attributes:
        value: The seed; None if it is not drawn yet.
        is_drawn: Whether it was drawn for this epoch alone: then the number of the epoch does not count, and equal
            seeds give equal orders, as in torch's `RandomSampler`.
    """

    value: int | None
    is_drawn: bool = False

    def key(self, number: int) -> tuple[int, int]:
        """Return seed and epoch number that determine order and random numbers.

        Raises:
            ArgumentError: The seed is not drawn yet.
        """
        if self.value is None:
            raise ArgumentError("The seed of an epoch is drawn when it begins. Begin the epoch first, or pass seed=.")
        return self.value, 0 if self.is_drawn else number

    def state(self) -> dict[str, JSON]:
        """Return the seed's part of a state. "drawn" is left out if the seed was given, False before it is drawn."""
        if self.value is None:
            return {"seed": 0, "drawn": False}
        return {"seed": self.value, "drawn": True} if self.is_drawn else {"seed": self.value}


class Seed:
    """The seed of all epochs if it is given; otherwise each epoch draws one when it begins.

    Epochs of several ranks draw nothing, because each rank would draw another seed: some samples would come twice,
    others never. Their seed is 0.

    Args:
        given: The user's seed.
        generator: The generator to draw from. Default: torch's own.
    """

    def __init__(self, given: int | None = None, generator: torch.Generator | None = None) -> None:
        self._given = None if given is None else whole_number("seed", given)
        self._generator = generator

    def known(self, num_ranks: int) -> EpochSeed:
        """Return the seed of the next epoch, without drawing it."""
        return EpochSeed(0 if self._given is None and num_ranks > 1 else self._given)

    def begin(self, num_ranks: int) -> EpochSeed:
        """Return the seed of an epoch that begins now."""
        known = self.known(num_ranks)
        if known.value is not None:
            return known
        device = "cpu" if self._generator is None else self._generator.device  # torch's default may be another one
        drawn = torch.empty((), dtype=torch.int64, device=device).random_(generator=self._generator)
        return EpochSeed(int(drawn), is_drawn=True)

    def load(self, state: dict[str, Any]) -> EpochSeed | None:  # Any: the values of a checked state
        """Return the seed that a state has for its epoch, if it was drawn; take another one as given."""
        if "drawn" not in state:
            self._given = state["seed"]
        return EpochSeed(state["seed"], is_drawn=True) if state.get("drawn") else None
