"""`RecordLoader` with samplers of other people: their epochs, and what of an epoch is left after a resume."""

import copy
import json
import pickle
import random
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from recordzoo import RecordLoader
from recordzoo.errors import ArgumentError

# Any, here and below: of batches, states and samplers of all kinds.

pytestmark = pytest.mark.usefixtures("threads")

DATA = range(40)
WEIGHTS = [1.0 + number % 3 for number in DATA]


def loader(batch_size: int = 4, **options: Any) -> RecordLoader:
    if "batch_sampler" not in options:
        options["batch_size"] = batch_size
    return RecordLoader(DATA, num_workers=1, **options)


def flat(batches: Any) -> list[int]:
    return [int(index) for batch in batches for index in batch]


def saved(one: RecordLoader, steps: int) -> tuple[Any, list[int], list[int]]:
    """Return the state after some batches, what they had, and what the rest of the epoch has."""
    iterator = iter(one)
    taken = flat(islice(iterator, steps))
    state = json.loads(json.dumps(one.state_dict()))
    return state, taken, flat(iterator)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(7)


SAMPLERS: dict[str, Callable[[], Any]] = {
    "list": lambda: [*range(30), 3, 3],
    "global": lambda: RandomSampler(DATA),
    "own": lambda: RandomSampler(DATA, generator=seeded()),
    "replaced": lambda: RandomSampler(DATA, replacement=True, num_samples=50, generator=seeded()),
    "weighted": lambda: WeightedRandomSampler(WEIGHTS, 33),
    "subset": lambda: SubsetRandomSampler(range(5, 30), generator=seeded()),
    "distributed": lambda: DistributedSampler(DATA, 1, 0, seed=3),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("before", "after"), [(4, 4), (4, 5), (5, 3)])
def test_the_rest_of_an_epoch_with_another_batch_size(name: str, before: int, after: int) -> None:
    torch.manual_seed(1)
    one = loader(before, sampler=SAMPLERS[name]())
    list(one)
    state, _, rest = saved(one, 3)
    torch.manual_seed(2)
    again = loader(after, sampler=SAMPLERS[name]())
    unchanged = torch.get_rng_state()
    again.load_state_dict(state)
    batches = list(again)
    assert flat(batches) == rest
    assert {len(batch) for batch in batches[:-1]} == {after}
    assert torch.equal(torch.get_rng_state(), unchanged)
    following = flat(again)
    if name not in ("global", "weighted"):  # whose next epoch comes from the process's generator
        assert following == flat(one)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("in_batches", [False, True])
def test_a_distributed_sampler_on_other_ranks(ranks: int, in_batches: bool) -> None:
    def loaders(number: int) -> list[RecordLoader]:
        samplers = [DistributedSampler(DATA, number, rank, seed=5) for rank in range(number)]
        if in_batches:
            return [loader(batch_sampler=BatchSampler(each, 2, drop_last=False)) for each in samplers]
        return [loader(2, sampler=each) for each in samplers]

    states, taken, _ = zip(*(saved(each, 4) for each in loaders(2)), strict=True)
    resumed = loaders(ranks)
    for each in resumed:
        each.load_state_dict(states[0])
    parts = [flat(each) for each in resumed]
    assert sorted(chain(*taken, *parts)) == list(DATA)
    assert {len(part) for part in parts} == {24 // ranks}


def test_what_cannot_continue_on_other_ranks_is_refused() -> None:
    state, *_ = saved(loader(2, sampler=DistributedSampler(DATA, 2, 0)), 4)
    other = loader(2, sampler=DistributedSampler(DATA, 3, 0))
    other.load_state_dict(state)
    with pytest.raises(ArgumentError, match=r"from 2 ranks, each of which took 8 samples; here are 3"):
        next(iter(other))

    class Mine(DistributedSampler[int]):
        """It may deal in another way."""

    mine = loader(2, sampler=Mine(DATA, 1, 0))
    mine.load_state_dict(state)
    with pytest.raises(ArgumentError, match=r"here are 1, and Mine cannot continue with what is left"):
        next(iter(mine))


class Shuffled:
    """Draws from a generator that nobody saves."""

    def __iter__(self) -> Iterator[int]:
        return iter(random.Random().sample(DATA, 40))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"sampler": Shuffled()}, {"sampler": Shuffled()}),
        ({"sampler": range(40)}, {"sampler": range(1, 40)}),
        ({"sampler": range(40)}, {"sampler": range(5)}),
        ({"batch_sampler": BatchSampler(DATA, 4, False)}, {"batch_sampler": BatchSampler(DATA, 5, False)}),
    ],
)
def test_other_samples_than_before_are_refused(before: Any, after: Any) -> None:
    state, *_ = saved(loader(**before), 3)
    again = loader(**after)
    again.load_state_dict(state)
    with pytest.raises(ArgumentError, match=r"does not give the 12 samples again that it gave before the state"):
        list(again)


class PerClass:
    """Two samples of each of three classes, from NumPy's own generator, like pytorch-metric-learning's sampler."""

    def __init__(self, labels: Any) -> None:
        self.labels = np.asarray(labels)
        self.classes = np.unique(self.labels)

    def __len__(self) -> int:
        return 36

    def __iter__(self) -> Iterator[int]:
        found: list[int] = []
        for _ in range(len(self) // 6):
            for label in np.random.permutation(self.classes)[:3]:
                found += np.random.choice(np.flatnonzero(self.labels == label), 2, replace=False).tolist()
        return iter(found)


class ClassBatches(PerClass):
    """The same as batches, from Python's own generator; a batch is drawn when it is asked for."""

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[list[int]]:  # type: ignore[override]
        for _ in range(len(self)):
            chosen = random.sample(self.classes.tolist(), 3)
            yield [each for label in chosen for each in random.sample(np.flatnonzero(self.labels == label).tolist(), 2)]


@pytest.mark.parametrize("kind", [PerClass, ClassBatches])
@pytest.mark.parametrize("steps", [1, 4])
def test_batches_of_classes_of_another_librarys_sampler_are_resumed(kind: Any, steps: int) -> None:
    """Exactly, where the sampler is made again and all generators stand elsewhere; the user's stay where they are."""

    def made() -> RecordLoader:
        sampler = kind([number // 10 for number in DATA])
        return loader(6, sampler=sampler) if kind is PerClass else loader(batch_sampler=sampler)

    one = made()
    flat(one)
    iterator = iter(one)
    taken = [batch.tolist() for batch in islice(iterator, steps)]
    state = json.loads(json.dumps(one.state_dict()))
    rest = [batch.tolist() for batch in iterator]
    for batch in taken + rest:
        assert np.bincount(np.array(batch) // 10, minlength=4).tolist().count(2) == 3
    before = [random.getstate(), str(np.random.get_state(legacy=False))]
    again = made()
    again.load_state_dict(state)
    iterator = iter(again)
    found = [batch.tolist() for batch in islice(iterator, 1)]
    twice = made()
    twice.load_state_dict(json.loads(json.dumps(again.state_dict())))
    assert found + [batch.tolist() for batch in iterator] == rest
    assert [batch.tolist() for batch in twice] == rest[1:]
    assert [random.getstate(), str(np.random.get_state(legacy=False))] == before


def test_a_sampler_that_changes_itself_is_resumed_in_its_first_epoch_and_refused_later() -> None:
    class Turning(PerClass):
        def __iter__(self) -> Iterator[int]:
            self.classes = np.roll(self.classes, 1)
            return super().__iter__()

    one = loader(6, sampler=Turning([number // 10 for number in DATA]))
    for _ in range(2):
        state, _, rest = saved(one, 2)
        again = loader(6, sampler=Turning([number // 10 for number in DATA]))
        again.load_state_dict(state)
        if state["epoch"] == 0:
            assert flat(again) == rest
    with pytest.raises(ArgumentError, match="Turning does not give the 12 samples again"):
        flat(again)


def test_the_sampler_is_told_each_epoch() -> None:
    """By the loader; a user may tell it, too."""
    for options in (
        {"sampler": (sampler := DistributedSampler(DATA, 1, 0, seed=2))},
        {"batch_sampler": BatchSampler(sampler, 4, drop_last=False)},
    ):
        sampler.set_epoch(0)
        one = loader(**options)
        for epoch in (0, 1, 2):
            assert flat(one) == order(epoch)
        sampler.set_epoch(7)
        assert [flat(one), flat(one)] == [order(7), order(8)]
        one.set_epoch(3)
        assert flat(one) == order(3)
        assert one.state_dict()["epoch"] == 4


def order(epoch: int) -> list[int]:
    sampler = DistributedSampler(DATA, 1, 0, seed=2)
    sampler.set_epoch(epoch)
    return list(sampler)


COPIES: dict[str, Callable[[Any], Any]] = {"pickle": lambda one: pickle.loads(pickle.dumps(one)), "copy": copy.deepcopy}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize(
    "options", [{"shuffle": True, "seed": 4}, {"sampler": RandomSampler(DATA, generator=seeded())}, {"sampler": DATA}]
)
def test_a_copy_within_an_epoch_goes_on_there(way: str, options: dict[str, Any]) -> None:
    one = loader(**options)
    list(one)
    whole = COPIES[way](one)
    assert whole.state_dict() == one.state_dict()
    iterator = iter(one)
    list(islice(iterator, 3))
    state, within = one.state_dict(), COPIES[way](one)
    assert within.state_dict() == state
    rest = flat(iterator)
    assert flat(within) == rest
    assert flat(within) == flat(one)
    assert sorted(flat(whole)) == list(DATA)
    assert COPIES[way](loader(**options)).state_dict()["epoch"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(
            ({name: value}, f"state: {name}={value!r} must be")
            for name in ("epoch", "samples", "rank")
            for value in (None, "1", -1)
        ),
        ({"num_replicas": 0}, "rank=0 is not one of 0 to num_replicas - 1"),
        ({"drawn": "yes"}, "state: drawn='yes' must be True or False"),
        ({"seed": None}, "state: seed=None must be a whole number"),
        ({"num_replicas": 1.5}, "state: num_replicas=1.5 must be a whole number"),
        ({"generator": "no base64"}, "state: generator='no base64' is not the state of a random generator"),
        ({"generator": "AAAA"}, "state: generator='AAAA' is not the state of a random generator"),
        ({"numpy": {"bit_generator": "MT19937"}}, "is not the state of a random generator"),
        ({"python": [3, [1, 2], None]}, "is not the state of a random generator"),
        ({"skipped": -1}, "state: skipped=-1 must be 0 or more"),
    ],
)
def test_wrong_numbers_in_a_state(change: dict[str, Any], message: str) -> None:
    one = loader(sampler=SequentialSampler(DATA))
    with pytest.raises(ArgumentError, match=message):
        one.load_state_dict({**one.state_dict(), **change})
    assert flat(one) == list(DATA)


@pytest.mark.parametrize("state", [None, []])
def test_no_state_at_all(state: Any) -> None:
    for sampler, kind in ((None, "a RecordSampler"), (SequentialSampler(DATA), "a RecordLoader with a sampler")):
        with pytest.raises(ArgumentError, match=f"This is not the state of {kind}.*: it has no 'seed', but"):
            loader(sampler=sampler).load_state_dict(state)


def test_a_state_of_another_rank_is_kept_until_the_first_batch() -> None:
    """Its checksum is that of the other rank's samples: this rank does not know its own before it has taken some."""

    class Failing(list[int]):
        def __getitem__(self, index: Any) -> Any:
            raise ValueError("a first batch that fails")

    state, _, _ = saved(loader(sampler=DistributedSampler(DATA, 2, 0, seed=3)), 2)
    sampler = DistributedSampler(DATA, 2, 1, seed=3)
    one = RecordLoader(Failing(DATA), 4, sampler=sampler, num_workers=1, workers="threads")
    one.load_state_dict(state)
    with pytest.raises(ValueError, match="a first batch that fails"):
        next(iter(one))
    again = loader(sampler=DistributedSampler(DATA, 2, 1, seed=3))
    again.load_state_dict(one.state_dict())
    assert flat(again) == list(sampler)[8:]
