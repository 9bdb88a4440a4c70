"""`RecordSampler`: the order of samples in a DataLoader, for every rank and epoch, resumable at any place."""

import functools
import math
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DistributedSampler

from recordzoo.base.text import JSON
from recordzoo.errors import ArgumentError
from recordzoo.loader.frameworks import EpochIterator, Ranks, check_dealt_once
from recordzoo.loader.order import (
    BlockLayout,
    BlockOrder,
    MixScheme,
    Order,
    SampleScheme,
    Scheme,
    WithoutReplacement,
    WithReplacement,
    balanced_weights,
    given_weights,
    plain,
    truth_value,
    whole_number,
)
from recordzoo.loader.parts import Int64s, Mix, storage_of, warn_of_requests

CHUNK = 2048
"""Number of samples whose order is computed at once: NumPy's overhead is then 0.1 microseconds per sample."""

_MIN_WINDOWS = 4
"""Minimum number of windows per virtual rank: with few samples, blocks are small."""


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
        return self._members_at_border(start, end, -1)

    def closed(self, start: int, end: int) -> Int64s:
        """Return the indices of all samples in the windows that these places read last."""
        return self._members_at_border(start, end, 1)

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Iterate over the ranges of numbers, from first to end, whose order is computed at once."""
        return ((start, min(start + CHUNK, self.end)) for start in range(self.first, self.end, CHUNK))

    def _members_at_border(self, start: int, end: int, direction: int) -> Int64s:
        """Return all samples of the windows of these places that the place a cycle before or after does not read."""
        order = self.order
        if not isinstance(order, BlockOrder):  # each sample is read on its own
            return self.indices(start, end)
        # The period, in this rank's places, of the window pattern.
        shift = direction * order.cycle // math.gcd(order.cycle, self.num_replicas)
        numbers = np.arange(start, end) + shift
        windows = order.windows(self._wrapped(start, end))
        others = order.windows(self._wrapped(start + shift, end + shift))
        is_border = (numbers < self.first) | (numbers >= self.end) | (windows != others)
        return order.members(windows[is_border])

    def _wrapped(self, start: int, end: int) -> Int64s:
        return self.places(start, end) % max(1, self.length)


# Any: the user's values.
def scheme_of(
    dataset: Sized, shuffle: bool | str, draws: dict[str, Any], *, block_bytes: int, window: int, virtual_ranks: int
) -> Scheme:
    """Return the scheme for a sampler's epochs.

    Args:
        shuffle, block_bytes, window, virtual_ranks: As in `RecordSampler`, and checked.
        draws: The user's arguments for draws other than once per sample.
    """
    if isinstance(dataset, Mix):
        if draws or shuffle is not True:
            wrong = next(iter(draws), f"shuffle={shuffle!r}")
            raise ArgumentError(f"{wrong} with a mix, which says itself how samples are drawn. Leave it out.")
        return MixScheme(dataset)
    if draws:
        return _drawn(dataset, shuffle, draws)
    length = len(dataset)
    if shuffle != "block":
        return SampleScheme(length, shuffle is True)
    storage = storage_of(dataset)
    wanted = math.ceil(length * storage.mean_bytes / block_bytes / virtual_ranks)
    per_rank = max(wanted, _MIN_WINDOWS * window)
    return BlockLayout(length, virtual_ranks, per_rank, window, storage.order, storage.mean_bytes)


def _drawn(dataset: Sized, shuffle: object, draws: dict[str, Any]) -> Scheme:
    if "weights" not in draws:
        raise ArgumentError(f"{', '.join(sorted(draws))} without weights: pass weights, or leave them out.")
    if shuffle is not True:
        raise ArgumentError(
            f"shuffle={shuffle!r} with weights: samples are drawn at random, one by one. Leave one out."
        )
    num_samples = draws.get("num_samples")
    if num_samples is not None:
        num_samples = whole_number("num_samples", num_samples, at_least=1)
    weights, field = draws["weights"], draws.get("weights_by")
    is_balanced = isinstance(weights, str)
    if is_balanced and weights != "balanced":
        raise ArgumentError(f"weights={weights!r} is not 'balanced', and no array of numbers.")
    if field is not None and not is_balanced:
        raise ArgumentError(f"weights_by={field!r} is for weights='balanced': it names the field with the classes.")
    found = balanced_weights(dataset, field) if is_balanced else given_weights(weights, len(dataset))
    replacement = draws.get("replacement")
    if replacement is None or truth_value("replacement", replacement):
        return WithReplacement(found, len(dataset) if num_samples is None else num_samples)
    return WithoutReplacement(found, num_samples)


def sizes_of(dataset: Sized) -> list[int]:
    """Return the number of samples as it is now; of a mix, the sums of its datasets' numbers."""
    if not isinstance(dataset, Mix):
        return [len(dataset)]
    dataset.renew()
    return dataset.cumulative_sizes


# Any: the user's value.
def checked_shuffle(shuffle: Any) -> bool | Literal["block"]:
    """Return True, False or "block"."""
    if isinstance(shuffle, str) and shuffle == "block":
        return "block"
    try:
        return truth_value("shuffle", shuffle)
    except ArgumentError as err:
        raise ArgumentError(f"shuffle={shuffle!r} is not one of True, False and 'block'.") from err


class RecordSampler(DistributedSampler[int]):
    """Samples indices of a dataset: shuffled or not, distributed or not, resumed in O(1) at any place of an epoch.

    It stands in for ``shuffle=True`` and for `DistributedSampler`, of which it is a subclass so that Lightning does not
    wrap it in another one. An epoch is one sequence of places, a function of seed and epoch alone; rank r of W takes
    samples r, r + W, r + 2W, ..., so that global batches of one size hold the same samples for every W. All ranks take
    the same number: the epoch's first samples are repeated, or with `drop_last` the remainder is left out. The process
    group may be initialised after the sampler is created: an epoch reads the ranks when it begins; likewise the number
    of samples and the weights, which may change between epochs.

    Every iteration starts a new epoch, even if the last one was not finished, unless `set_epoch` or `load_state_dict`
    sets one. Ranks that do not iterate equally often must call `set_epoch`.

    Args:
        dataset: Any dataset with a length. ``shuffle="block"`` uses the storage order, known for this package's
            datasets and for a `Subset` or `ConcatDataset` of them.
        shuffle: True permutes all samples, without a list of them. "block" permutes blocks of samples that are stored
            together and mixes those of a window: for data larger than memory, on disks that seek. False: in the order
            of the dataset.
        seed: Determines the order, together with the epoch; the same on all ranks.
        num_replicas: Number of ranks. Default: that of `torch.distributed` when an epoch begins; 1 without it.
        rank: This rank, from 0. Default: likewise.
        drop_last: If samples do not divide by the number of ranks, leave some out instead of repeating some.
        weights: Draw samples by weight: a number of 0 or more for each, or "balanced", for classes that are drawn
            equally often. Draw i of an epoch is a function of seed, epoch and i. Changes in an array count from
            the next epoch.
        weights_by: With "balanced", the field of the record set whose values are the classes. Default: the target.
            Samples of class -1 (no class) are not drawn.
        num_samples: Draws in an epoch. Default: the number of samples of the dataset.
        replacement: With `weights`. False: no sample twice in an epoch. Default: True.
        block_bytes: "block": size of a block in bytes; smaller if there would be too few blocks.
        window: "block": number of blocks that each virtual rank mixes at a time.
        virtual_ranks: "block": a world size that divides it reads each block on one rank only, once an epoch. With any
            other world size, several ranks read a block, with the same samples.

    Attributes:
        dataset, shuffle, drop_last: As above.

    Raises:
        ArgumentError: A value is invalid.

    Examples:
        >>> sampler = RecordSampler(range(10), seed=1)
        >>> sorted(sampler)
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        dataset: Sized,
        *,
        shuffle: bool | Literal["block"] = True,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
        weights: Any = None,  # an array, a list, a tensor, or "balanced"
        weights_by: str | None = None,
        num_samples: int | None = None,
        replacement: bool | None = None,
        block_bytes: int = 2 << 20,
        window: int = 4,
        virtual_ranks: int = 64,
    ) -> None:
        # Not super().__init__(): it wants a process group, and fixes number of ranks and rank.
        self._ranks = Ranks(num_replicas, rank)
        shuffle = checked_shuffle(shuffle)
        draws = {"weights": weights, "weights_by": weights_by, "num_samples": num_samples, "replacement": replacement}
        draws = {name: value for name, value in draws.items() if value is not None}
        blocks = {"block_bytes": block_bytes, "window": window, "virtual_ranks": virtual_ranks}
        blocks = {name: whole_number(name, value, at_least=1) for name, value in blocks.items()}
        self._make_scheme = functools.partial(scheme_of, dataset, shuffle, draws, **blocks)
        self._is_weighted = bool(draws)
        # Any: DistributedSampler declares a Dataset, for which anything with a length does.
        self.dataset: Any = dataset
        self.shuffle: Any = shuffle  # there a bool
        self.drop_last = truth_value("drop_last", drop_last)
        self._seed = Seed(whole_number("seed", seed))
        self._known_sizes = sizes_of(dataset)
        self._scheme = self._make_scheme()  # for the next epoch, of a dataset of these sizes
        # The next epoch, how much of it was consumed, and its seed from a state; if no epoch has begun.
        self._next: tuple[int, int, EpochSeed | None] = (0, 0, None)
        self._begun: Epoch | None = None
        self._taken = 0  # this rank's next place in the current epoch

    def __len__(self) -> int:
        """Return the number of samples that this rank takes in a whole epoch; equal on all current ranks."""
        epoch = self._begun if self._begun and self.is_within_epoch else self.upcoming()
        num_replicas = self.num_replicas
        return (epoch.length if self.drop_last else epoch.length + num_replicas - 1) // num_replicas

    def __iter__(self) -> EpochIterator:
        """Iterate over this rank's indices; the epoch begins with the first of them that is drawn."""
        return EpochIterator(self)

    # Number of ranks and rank are not attributes that can be set, as in DistributedSampler: they may change.
    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        """Number of ranks: as given, otherwise those of `torch.distributed` now."""
        return self._ranks.now()[0]

    @property
    def rank(self) -> int:  # type: ignore[override]
        """This rank: as given, otherwise that of `torch.distributed` now."""
        return self._ranks.now()[1]

    @property
    def num_samples(self) -> int:  # type: ignore[override]
        """As `len`; an attribute of `DistributedSampler`."""
        return len(self)

    @property
    def total_size(self) -> int:  # type: ignore[override]
        """Number of samples of all ranks together; an attribute of `DistributedSampler`."""
        return len(self) * self.num_replicas

    @property
    def seed(self) -> int | None:  # type: ignore[override]
        """The seed that, with the epoch, determines the order; None if a loader draws it when the epoch begins."""
        return self._current().seed.value

    @property
    def window_bytes(self) -> int:
        """Average bytes that this rank mixes at a time, and that the page cache should hold; 0 unless "block"."""
        return self._scheme.window_bytes(self.num_replicas)

    @property
    def epoch(self) -> int:  # type: ignore[override]
        """The epoch that was begun last, or set or loaded since then."""
        return self._current().number

    @property
    def consumed(self) -> int:
        """Number of the epoch's samples that all ranks consumed together, if all are as far as this one."""
        return self._begun.consumed_at(self._taken) if self._begun else self.upcoming().consumed

    @property
    def is_within_epoch(self) -> bool:
        """Whether an epoch has begun and is not over."""
        return self._begun is not None and self._taken < self._begun.end

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; a resumed epoch keeps its position."""
        epoch = whole_number("epoch", epoch)
        if self._begun or epoch != self.epoch:
            self._set_next(epoch)

    def share_seed(self, seed: Seed) -> None:
        """Use the caller's seed object; for loaders."""
        self._seed = seed

    def upcoming(self) -> Epoch:
        """Return the epoch that the next `begin` begins, with the number of samples that there are now."""
        number, consumed = self._upcoming_place()
        if not consumed and sizes_of(self.dataset) != self._known_sizes:
            self._renew()
        return self.make_epoch(number, consumed)

    def make_epoch(self, number: int, consumed: int = 0) -> Epoch:
        """Return any epoch, from a place on, for the current ranks; does not move this sampler."""
        num_replicas, rank = self._ranks.now()
        next_number, _, loaded = self._next
        seed = loaded if loaded and number == next_number else self._seed.known(self._ranks.that_agree())
        return Epoch(number, self._scheme, seed, rank, num_replicas, consumed, self.drop_last)

    def begin(self, epoch: Epoch | None = None) -> Epoch:
        """Begin the epoch that was set or loaded, otherwise the one after the last, and return it: for loaders.

        `indices` and `places` are its; a loader that works ahead of its user says with `mark` how far the user is.
        Number of ranks and rank are those of this moment, for the whole epoch.

        Args:
            epoch: Begin this one.

        Raises:
            ArgumentError: `accelerate` would divide this rank's samples among the ranks again.
        """
        if epoch is None:
            if self._is_weighted and not self._upcoming_place()[1]:  # the weights may have been changed in place
                self._renew()
            epoch = self.upcoming()
        check_dealt_once(self, epoch.num_replicas)
        warn_of_requests(self.dataset)
        if epoch.seed.value is None:
            epoch = replace(epoch, seed=self._seed.begin(self._ranks.that_agree()))
        self._begun, self._taken = epoch, epoch.first
        return epoch

    def mark(self, epoch: Epoch, end: int) -> None:
        """Record that this rank consumed an epoch up to the place of this number. Older epochs are ignored."""
        if epoch is self._begun:
            self._taken = end

    def places(self, start: int, end: int) -> NDArray[np.int64]:
        """Return `Epoch.places` of the epoch; with seed and epoch, they determine all random numbers."""
        return self._current().places(start, end)

    def indices(self, start: int, end: int) -> NDArray[np.int64]:
        """Return `Epoch.indices` of the epoch, many at once."""
        return self._current().indices(start, end)

    def state_dict(self, taken: int | None = None, batch_size: int = 1) -> dict[str, JSON]:
        """Return the sampler's position and the identity of its order: a few numbers, the same on all ranks.

        Args:
            taken: Number of samples of this iteration that this rank has used. Default: the number drawn, which is too
                high for a DataLoader with workers. (`StatefulDataLoader` and `RecordLoader` count themselves.)
            batch_size: With `taken`, of a DataLoader with ``drop_last=True``: the batch size. Samples left at the end
                that do not fill a batch count as used.
        """
        epoch = self._current()
        consumed = epoch.consumed_at(self._taken) if self._begun else epoch.consumed
        if taken is not None:
            end = epoch.first + whole_number("taken", taken, at_least=0)
            consumed = epoch.consumed_at(end if epoch.end - end >= batch_size else epoch.end)
        return {**self._identity(epoch.scheme), **epoch.seed.state(), "epoch": epoch.number, "consumed": consumed}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Resume from a `state_dict`, on any number of ranks; at the end of an epoch, with the next one.

        Raises:
            ArgumentError: The state belongs to another order, such as another length or shuffling; or a number in it is
                none, or is beyond the epoch.
        """
        if self._is_weighted or sizes_of(self.dataset) != self._known_sizes:
            self._renew()
        state = checked_state(state, "a RecordSampler", ("epoch", "consumed"), self._identity(self._scheme))
        self._set_next(*self.checked_place(state), self._seed.load(state))

    def checked_place(self, state: dict[str, Any]) -> tuple[int, int]:  # Any: a value from a file
        """Return the epoch of a state, and how much of it was consumed."""
        epoch, consumed = (whole_number(f"state: {name}", state[name], at_least=0) for name in ("epoch", "consumed"))
        if consumed > self._scheme.length:
            raise ArgumentError(
                f"state: consumed={consumed} is beyond the end of the epoch, which has {self._scheme.length} samples."
            )
        return epoch, consumed

    def _identity(self, scheme: Scheme) -> dict[str, JSON]:
        own = {"length": scheme.length, "shuffle": self.shuffle, "blocks": None, "draws": None}
        return own | scheme.identity

    def _renew(self) -> None:
        """Ask for the samples and the weights again."""
        self._known_sizes = sizes_of(self.dataset)
        self._scheme = self._make_scheme()

    def _upcoming_place(self) -> tuple[int, int]:
        """Return the number of the next epoch, and how much of it was consumed."""
        if self._begun:
            return self._begun.number + 1, 0
        number, consumed, _ = self._next
        epoch = self.make_epoch(number, consumed)
        return (number + 1, 0) if consumed and epoch.first >= epoch.end else (number, consumed)

    def _current(self) -> Epoch:
        return self._begun or self.upcoming()

    def _set_next(self, number: int, consumed: int = 0, seed: EpochSeed | None = None) -> None:
        self._next, self._begun = (number, consumed, seed), None
