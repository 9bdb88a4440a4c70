"""What the tests of `RecordSampler` share: datasets with labels, draws, and what every order of samples must keep."""

import json
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from recordzoo import RecordLoader, RecordSampler
from recordzoo.loader.samplers import Epoch

QUIET = [
    # Python 3.12 and later; torch starts threads of its own.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),  # on a machine with one core
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata 0.11 with torch 2.10
]
TAIL = [500, 60, 7, 1]  # samples of each class


def tail() -> NDArray[np.int64]:
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(TAIL)), TAIL))


# Any, here and below: of datasets, samplers and loaders of all kinds.
class Labelled:
    """Numbers, with labels as torchvision's datasets have them."""

    def __init__(self, targets: Any) -> None:
        self.targets = targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, int(self.targets[index])


def drawn(sampler: RecordSampler, epochs: int) -> NDArray[np.int64]:
    found = [sampler.make_epoch(number) for number in range(epochs)]
    return np.concatenate([epoch.indices(0, epoch.end) for epoch in found])


def p_value(indices: NDArray[np.int64], weights: Any) -> float:
    weights = np.asarray(weights, np.float64)
    counts, expected = np.bincount(indices, minlength=len(weights)), weights / weights.sum() * len(indices)
    assert not counts[weights == 0].any()
    return float(stats.chisquare(counts[weights > 0], expected[weights > 0]).pvalue)


def dealt(epochs: Sequence[Epoch]) -> list[int]:
    """What all ranks take from where they are to the end, in the order of the places; all of equal length."""
    taken = [epoch.indices(epoch.first, epoch.end) for epoch in epochs]
    places = [epoch.places(epoch.first, epoch.end) for epoch in epochs]
    in_order = np.stack(places, axis=1).ravel()
    assert np.array_equal(in_order, epochs[0].consumed + np.arange(len(in_order)))
    return np.stack(taken, axis=1).ravel().tolist()


def check_resumed(
    make: Callable[..., RecordSampler], before: int, after: int, drop_last: bool, epoch: int, data: st.DataObject
) -> None:
    """Take a part of an epoch on some ranks, and what is left on others, from a state.

    Args:
        make: Makes a sampler with further options.
        before, after: How many ranks take the first part, and the rest.
    """

    def on_ranks(count: int, seed: int) -> list[RecordSampler]:
        return [make(seed=seed, num_replicas=count, rank=rank, drop_last=drop_last) for rank in range(count)]

    whole, following = (
        order.indices(0, order.end).tolist() for order in map(make(seed=7).make_epoch, (epoch, epoch + 1))
    )
    saved = on_ranks(before, 7)
    assert len(saved[0]) == (len(whole) // before if drop_last else -(-len(whole) // before))
    taken = data.draw(st.integers(0, len(saved[0])))
    states = []
    for rank, sampler in enumerate(saved):
        sampler.set_epoch(epoch)
        seen = list(islice(sampler, taken))
        places = [(at * before + rank) % len(whole) for at in range(taken)]
        assert seen == [whole[place] for place in places]
        states.append(json.loads(json.dumps(sampler.state_dict())))
    assert all(state == states[0] for state in states)
    assert len(json.dumps(states[0])) < 250
    consumed = states[0]["consumed"]
    assert consumed == min(len(whole), taken * before) or (drop_last and consumed == len(whole))
    resumed = on_ranks(after, 99)
    for sampler in resumed:
        sampler.load_state_dict(states[0])
    if consumed and (consumed >= len(whole) or (drop_last and len(whole) - consumed < after)):
        assert resumed[0].upcoming().number == epoch + 1
        return
    found, rest = dealt([sampler.begin() for sampler in resumed]), whole[consumed:]
    if drop_last:
        assert found == rest[: len(rest) // after * after]
    else:
        assert found[: len(rest)] == rest
        assert len(found) - len(rest) < after
    if len(resumed[0]):
        assert next(iter(resumed[0])) == following[0]
        assert resumed[0].epoch == epoch + 1


def loader_of_rank(
    dataset: Any,
    batch_size: int,
    rank: int,
    ranks: int,
    *,
    shuffle: Any = True,
    seed: int = 0,
    drop_last: bool = False,
    **options: Any,
) -> RecordLoader:
    """Return the loader of a rank that is told its number, without a process group."""
    sampler = RecordSampler(dataset, shuffle=shuffle, seed=seed, num_replicas=ranks, rank=rank, drop_last=drop_last)
    return RecordLoader(dataset, batch_size, sampler=sampler, drop_last=drop_last, **options)


def check_loader(dataset: Any, size: int, workers: Any, **options: Any) -> None:
    """Take the sampler's samples in batches from a loader, and those after two batches from another one."""

    def make(seed: int) -> RecordLoader:
        sampler = RecordSampler(dataset, seed=seed, **options)
        return RecordLoader(dataset, size, sampler=sampler, num_workers=2, workers=workers)

    order = drawn(RecordSampler(dataset, seed=2, **options), 1)
    wanted = [dataset[index] for index in order.tolist()]
    loader, again = make(2), make(7)
    first = list(islice(loader, 2))
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    again.set_epoch(0)
    for batches, right in ((first, wanted[: 2 * size]), (again, wanted[2 * size :])):
        assert [each for one, other in batches for each in zip(one.tolist(), other.tolist(), strict=True)] == right
    assert len(loader) == len(again) == -(-len(wanted) // size)
