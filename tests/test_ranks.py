"""Ranks: known only when an epoch begins; each sample on one of them, and none left out, also after a resume."""

import contextlib
import json
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import DataLoader, DistributedSampler

from recordzoo import RecordLoader, RecordSampler
from tests.sampling import loader_of_rank

SHUFFLES = (True, False, "block")


@contextlib.contextmanager
def process_group(rank: int, num_replicas: int) -> Iterator[None]:
    """Make this process one rank of several: torch's own process group for tests, whose other ranks do not exist."""
    distributed.init_process_group("fake", rank=rank, world_size=num_replicas, store=FakeStore())
    try:
        yield
    finally:
        distributed.destroy_process_group()


# Any, here and below: of anything that is iterated over, and its options.
def on_each_rank(made: list[Any], take: Callable[[Any], Any]) -> list[Any]:
    """Call a function with what each rank made before there was a process group, within one."""
    found = []
    for rank, each in enumerate(made):
        with process_group(rank, len(made)):
            found.append(take(each))
    return found


def flat(loader: Any) -> list[int]:
    return [index for batch in loader for index in batch.tolist()]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_sampler_made_before_the_process_group(shuffle: Any) -> None:
    made = [RecordSampler(range(102), shuffle=shuffle) for _ in range(3)]
    assert [(len(each), each.rank, each.num_replicas) for each in made] == [(102, 0, 1)] * 3
    right = [RecordSampler(range(102), shuffle=shuffle, rank=rank, num_replicas=3) for rank in range(3)]
    sizes = on_each_rank(made, lambda each: (each.rank, len(each), each.num_samples, each.total_size))
    assert sizes == [(rank, 34, 34, 102) for rank in range(3)]
    assert on_each_rank(made, lambda each: each.window_bytes) == [each.window_bytes for each in right]
    for _ in range(2):
        assert on_each_rank(made, list) == [list(each) for each in right]
    assert on_each_rank(made, lambda each: each.state_dict()) == [each.state_dict() for each in right]


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_size": 7}, {"shuffle": "block"}])
def test_a_loader_made_before_the_process_group(options: dict[str, Any]) -> None:
    """Each rank with a random seed of its own, and after a look at a batch: all have to take one order."""
    made = []
    for rank in range(3):
        torch.manual_seed(rank)
        made.append(RecordLoader(range(102), **{"batch_size": 17, "shuffle": True, "num_workers": 1, **options}))
        next(iter(made[-1]))
    assert len({each.state_dict()["seed"] for each in made}) == 3
    for epoch in (1, 2):
        assert sorted(chain(*on_each_rank(made, flat))) == list(range(102)), epoch
    assert on_each_rank(made, len) == [5 if "batch_size" in options else 2] * 3
    states = [each.state_dict() for each in made]  # the process group is gone
    assert states == [states[0]] * 3
    assert (states[0]["seed"], states[0]["epoch"]) == (0, 2)


def test_a_seed_that_is_given_stays() -> None:
    made = [RecordLoader(range(40), 4, shuffle=True, seed=5) for _ in range(2)]
    right = loader_of_rank(range(40), 8, 0, 1, seed=5)
    parts = on_each_rank(made, list)
    assert [sorted(torch.cat(both).tolist()) for both in zip(*parts, strict=True)] == [
        sorted(batch.tolist()) for batch in right
    ]


def test_loaders_with_others_samplers_agree_on_a_seed() -> None:
    made = []
    for rank in range(2):
        torch.manual_seed(rank)
        made.append(RecordLoader(range(40), 4, sampler=range(40)))
    on_each_rank(made, list)
    assert [each.state_dict()["seed"] for each in made] == [0, 0]


def test_ranks_that_are_given_stay() -> None:
    sampler, same = (RecordSampler(range(30), num_replicas=3, rank=2) for _ in range(2))
    loader, right = loader_of_rank(range(30), 1, 0, 1, shuffle=False), list(same)
    with process_group(0, 2):
        assert (sampler.num_replicas, sampler.rank, len(sampler), len(loader)) == (3, 2, 10, 30)
        assert list(sampler) == right
        assert flat(loader) == list(range(30))


def test_an_epoch_keeps_its_ranks() -> None:
    """Whether the process group comes or goes in its middle; the next epoch has those that there are then."""
    sampler = RecordSampler(range(40), shuffle=False)
    alone = iter(sampler)
    assert next(alone) == 0
    with process_group(1, 2):
        assert [next(alone), sampler.state_dict()["consumed"]] == [1, 2]
        together = iter(sampler)
        assert list(alone) == list(range(2, 40))
        assert [next(together), next(together), sampler.consumed] == [1, 3, 4]
        loader = RecordLoader(range(40), 2)
        batches = iter(loader)
        assert next(batches).tolist() == [1, 3]
    assert list(together) == list(range(5, 40, 2))
    assert [batch.tolist() for batch in islice(batches, 2)] == [[5, 7], [9, 11]]
    assert loader.state_dict()["consumed"] == 12
    assert (sampler.epoch, sampler.consumed, len(sampler)) == (1, 40, 40)
    assert list(sampler) == list(range(40))


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_resumed_before_there_are_ranks(shuffle: Any) -> None:
    saved = RecordLoader(range(96), 8, shuffle=shuffle, seed=3)
    begun = list(islice(saved, 3))
    state = json.loads(json.dumps(saved.state_dict()))
    made = [RecordLoader(range(96), 4, shuffle=shuffle) for _ in range(2)]
    for each in made:
        each.load_state_dict(state)
    rest = on_each_rank(made, flat)
    assert sorted(chain(torch.cat(begun).tolist(), *rest)) == list(range(96))
    assert [each.state_dict()["epoch"] for each in made] == [0, 0]
    assert sorted(chain(*on_each_rank(made, flat))) == list(range(96))


def test_it_is_a_distributed_sampler_to_others() -> None:
    sampler = RecordSampler(range(10), num_replicas=4, rank=3)
    right = DistributedSampler(range(10), num_replicas=4, rank=3)  # type: ignore[arg-type]
    assert isinstance(sampler, DistributedSampler)
    assert {name for name in vars(right) if not hasattr(sampler, name)} == set()
    for name in ("num_samples", "total_size", "num_replicas", "rank", "epoch", "seed", "drop_last", "shuffle"):
        assert getattr(sampler, name) == getattr(right, name), name


# No epoch is empty


def resumed(make: Callable[[], Any], steps: int, count: int = 4) -> list[list[list[int]]]:
    """What the epochs are of a loader that goes on where another one stood after some batches."""
    loader = make()
    list(islice(loader, steps))
    again = make()
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    return [[batch.tolist() for batch in again] for _ in range(count)]


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 4), st.booleans(), st.data())
def test_the_end_of_an_epoch_is_the_beginning_of_the_next(
    length: int, batch_size: int, num_replicas: int, drop_last: bool, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, num_replicas - 1))

    def make() -> RecordLoader:
        return loader_of_rank(range(length), batch_size, rank, num_replicas, seed=2, drop_last=drop_last, num_workers=1)

    whole = make()
    epochs = [[batch.tolist() for batch in whole] for _ in range(3)]
    steps = data.draw(st.integers(0, len(epochs[0])))
    if steps < len(epochs[0]):
        assert resumed(make, steps, 2) == [epochs[0][steps:], epochs[1]]
    elif steps:
        assert resumed(make, steps, 2) == epochs[1:3]


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4))
def test_what_some_ranks_left_over_is_not_taken_by_others(length: int, before: int, after: int) -> None:
    """Ten samples on four ranks: two are left out. On two ranks the epoch is over all the same."""
    sampler = RecordSampler(range(length), num_replicas=before, rank=0, drop_last=True)
    if len(list(sampler)):
        again = RecordSampler(range(length), num_replicas=after, rank=0, drop_last=True)
        again.load_state_dict(sampler.state_dict())
        assert (again.epoch, again.consumed) == (1, 0)


def test_what_is_left_is_too_little_for_ranks_that_come_later() -> None:
    sampler = RecordSampler(range(10), drop_last=True)
    list(islice(sampler, 8))
    state = sampler.state_dict()
    made = [RecordSampler(range(10), drop_last=True) for _ in range(4)]
    for each in made:
        each.load_state_dict(state)
        assert (each.epoch, each.consumed) == (0, 8)
    assert on_each_rank(made, lambda each: (each.epoch, len(list(each)))) == [(1, 2)] * 4


class Unsized:
    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0, 1, 2, 3], [4, 5, 6, 7]])


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4, "sampler": range(10), "drop_last": True},
        {"batch_sampler": list(Unsized())},
        {"batch_sampler": Unsized()},
    ],
)
@pytest.mark.parametrize(("steps", "sizes"), [(1, [1, 2, 2]), (2, [2, 2, 2])])
def test_no_empty_epoch_with_others_samplers(options: dict[str, Any], steps: int, sizes: list[int]) -> None:
    found = resumed(lambda: RecordLoader(range(10), num_workers=1, **options), steps, 3)
    assert list(map(len, found)) == sizes


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_no_empty_epoch_in_the_stock_loader(num_replicas: int) -> None:
    """Only the loop knows of the batch size; drawn to its end, the sampler knows without it."""

    def make(state: dict[str, Any] | None = None) -> tuple[RecordSampler, Any]:
        sampler = RecordSampler(range(10 * num_replicas), num_replicas=num_replicas, rank=0)
        if state:
            sampler.load_state_dict(state)
        return sampler, DataLoader(range(10 * num_replicas), 4, sampler=sampler, drop_last=True)  # type: ignore[arg-type]

    sampler, loader = make()
    states = [sampler.state_dict(taken=4 * step, batch_size=4) for step, _ in enumerate(loader, 1)]
    for state, sizes in zip([*states, sampler.state_dict()], ([1, 2, 2], [2, 2, 2], [2, 2, 2]), strict=True):
        _, again = make(state)
        assert [len(list(again)) for _ in range(3)] == sizes
