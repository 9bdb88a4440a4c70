"""`mix`: several datasets as one, in proportions that hold at any place of an epoch."""

import copy
import functools
import heapq
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset, Subset
from torchvision.datasets.vision import StandardTransform
from typing_extensions import override

from recordzoo.base.text import JSON
from recordzoo.errors import ArgumentError
from recordzoo.loader.order import hash_key, hash_keys, permute_each
from recordzoo.loader.orders import Int64s, NewNumbers, SampleOrder, Scheme, labels_of
from recordzoo.loader.storage import leaves_of

# Any, in all of this module: datasets are of any type.

_CYCLE = 65537
"""Period of the pattern of sources, in places: a prime number, which no number of ranks divides."""

_SWEEPS = 16


class Mix(ConcatDataset[Any]):
    """Several datasets, and the proportions of their samples in a `RecordSampler` or `RecordLoader`; see `mix`.

    Attributes:
        datasets: The datasets, with the class numbers of the mix. Index i of the mix is sample i of them end to end.
        weights: The share of each, with the sum 1.
        classes, class_to_idx: The class names of all; empty if they have none.
    """

    def __init__(self, datasets: Sequence[Any], weights: Sequence[float]) -> None:
        if not datasets or len(datasets) != len(weights):
            raise ArgumentError(f"mix: {len(datasets)} datasets and {len(weights)} weights; each dataset needs one.")
        given, weights = weights, [_finite(weight) for weight in weights]
        for number, weight in enumerate(weights):
            if weight <= 0:
                raise ArgumentError(f"mix: weights[{number}] is {given[number]}: a weight is a finite number above 0.")
        _lengths(datasets)
        names = [list(getattr(leaf, "classes", ())) for dataset in datasets for leaf in leaves_of(dataset)]
        self.classes: list[Any] = list(dict.fromkeys(name for each in names for name in each))
        if any(names) and not all(names):
            raise ArgumentError("mix joins classes by name, and some of the datasets have no class names.")
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        super().__init__([_renumbered(dataset, self.class_to_idx) for dataset in datasets])
        largest = max(weights)
        shares = [weight / largest for weight in weights]
        self.weights = [share / math.fsum(shares) for share in shares]

    def renew(self) -> None:
        """Ask the datasets for their lengths again."""
        self.cumulative_sizes = np.cumsum(_lengths(self.datasets)).tolist()


def mix(datasets: Sequence[Any], *, weights: Sequence[float]) -> Mix:
    """Combine datasets into one, whose samples `RecordLoader` and `RecordSampler` take in given proportions.

    In any 1,000 consecutive samples of an epoch, each dataset's number of samples is within 2 of its share. Each
    dataset runs through shuffled epochs of its own, as often as its share needs; an epoch of the mix ends when each
    sample of each dataset was taken once. Classes are joined by their names: targets are numbers of `Mix.classes`.

    Args:
        datasets: Datasets, or `Subset` and `ConcatDataset` of them.
        weights: The share of each dataset; any positive sum.

    Returns:
        The mix. Any other sampler takes the datasets one after another, as a `ConcatDataset`.

    Raises:
        ArgumentError: A weight is not above 0, a dataset has no samples, or the classes cannot be joined by name.

    Examples:
        >>> mixed = mix([range(10), range(100, 200)], weights=[1, 3])
        >>> from recordzoo import RecordSampler
        >>> sorted(mixed[index] < 100 for index in list(RecordSampler(mixed))[:8])
        [False, False, False, False, False, False, True, True]
    """
    return Mix(datasets, weights)


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
    def order(self, seed: int, epoch: int) -> SampleOrder:
        key = hash_key(seed, epoch)

        def drawn(places: Int64s) -> Int64s:
            cycles, within = np.divmod(places, _CYCLE)
            sources = self._sources[within]
            sizes = self._sizes[sources]
            passes, numbers = np.divmod(cycles * self._counts[sources] + self._before[within], sizes)
            keys = hash_keys(key, passes * len(self._sizes) + sources)
            indices: Int64s = self._starts[sources] + permute_each(numbers, sizes, keys)
            return indices

        return SampleOrder(drawn)


def _finite(value: Any) -> float:
    """Return a number, 0 for anything else."""
    try:
        found = float(value)
    except (TypeError, ValueError, RuntimeError):
        return 0.0
    return found if math.isfinite(found) else 0.0


def _lengths(datasets: Sequence[Any]) -> list[int]:
    lengths = [len(dataset) for dataset in datasets]
    if 0 in lengths:
        number = lengths.index(0)
        raise ArgumentError(f"mix: dataset {number} ({type(datasets[number]).__name__}) has no samples.")
    return lengths


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


def _renumbered(dataset: Any, numbers: dict[Any, int]) -> Any:
    """Return a dataset whose targets are the class numbers of the mix; a copy if the numbers differ."""
    if isinstance(dataset, Subset):
        return Subset(_renumbered(dataset.dataset, numbers), dataset.indices)
    if isinstance(dataset, ConcatDataset):
        return ConcatDataset([_renumbered(part, numbers) for part in dataset.datasets])
    own = np.array([numbers[name] for name in getattr(dataset, "classes", ())], np.int64)
    if np.array_equal(own, np.arange(len(own))):
        return dataset
    labels = labels_of(dataset, np.zeros(1, np.int64), None)
    transforms = getattr(dataset, "transforms", None)
    is_standard = transforms is None or isinstance(transforms, StandardTransform)
    if labels.dtype.kind != "i" or not is_standard or getattr(dataset, "target_transform", dataset) is not None:
        raise ArgumentError(
            f"mix: the class numbers of {type(dataset).__name__} change, and it has targets or transforms that would "
            "not know. Mix datasets with the same classes, or without target_transform and transforms."
        )
    dataset = copy.copy(dataset)
    dataset.target_transform = NewNumbers(own)
    if transforms is not None:
        dataset.transforms = StandardTransform(dataset.transform, dataset.target_transform)
    return dataset
