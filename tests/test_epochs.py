"""When an epoch begins: its seed, its length and its weights are those of that moment, as in torch's `DataLoader`."""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Subset
from torchvision import transforms as v1

from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler, mix
from recordzoo.errors import ArgumentError
from tests.batching import assert_same, make_tree
from tests.sampling import QUIET

pytestmark = QUIET

# Any, in all of this module: datasets, samplers and batches of all kinds.

LOADERS = (DataLoader, RecordLoader)
KINDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "shuffle": lambda dataset: {"shuffle": True},
    "block": lambda dataset: {"shuffle": "block"},
    "weights": lambda dataset: {"weights": np.ones(len(dataset))},
    "sampler": lambda dataset: {"sampler": RandomSampler(dataset)},
    "batch_sampler": lambda dataset: {"batch_sampler": BatchSampler(RandomSampler(dataset), 4, False), "batch_size": 1},
}


def flat(batches: Any) -> list[int]:
    return [index for batch in batches for index in batch.tolist()]


def make(kind: str, dataset: Any = range(40), **options: Any) -> RecordLoader:
    given = {"batch_size": 4, "num_workers": 1, "workers": "threads", **KINDS[kind](dataset), **options}
    return RecordLoader(dataset, **given)


# The seed


@pytest.mark.parametrize(
    ("kind", "is_own"),
    [*((kind, False) for kind in KINDS), *((kind, True) for kind in ("shuffle", "block", "weights"))],
)
def test_the_seed_is_drawn_when_an_epoch_begins(kind: str, is_own: bool) -> None:
    """`torch.manual_seed`, or a generator of one's own, decides the order, before and after the loader is made."""
    generator = torch.Generator() if is_own else torch.default_generator
    options = {"generator": generator} if is_own else {}
    loader, orders = make(kind, **options), []
    for seed in (5, 6, 5):
        torch.manual_seed(len(orders))  # does not count where the generator is another one
        generator.manual_seed(seed)
        orders.append(flat(loader))
    assert orders[0] == orders[2] != orders[1]
    assert flat(loader) != orders[2]
    generator.manual_seed(5)
    assert flat(make(kind, **options)) == orders[0]


@pytest.mark.parametrize("in_batches", [False, True])
def test_torchs_samplers_give_the_orders_that_they_give_to_torchs_loader(in_batches: bool) -> None:
    """Both loaders draw one seed from the generator before the sampler draws its own."""

    def orders(loader: type, generator: torch.Generator | None) -> list[list[int]]:
        sampler = RandomSampler(range(40), generator=generator)
        batches = {"batch_sampler": BatchSampler(sampler, 4, False)} if in_batches else {"sampler": sampler}
        made = loader(range(40), generator=generator, **batches)
        torch.manual_seed(5)
        return [flat(made), flat(made)]

    assert orders(DataLoader, None) == orders(RecordLoader, None)
    own = [torch.Generator().manual_seed(7) for _ in LOADERS]
    assert orders(DataLoader, own[0]) == orders(RecordLoader, own[1])


def test_transforms_follow_the_seed_too(tmp_path: Path) -> None:
    make_tree(tmp_path)
    transform = v1.Compose([v1.RandomResizedCrop(9), v1.PILToTensor()])
    loader = RecordLoader(ImageFolderRecord(tmp_path, transform=transform), 4)
    epochs = []
    for seed in (5, 6, 5):
        torch.manual_seed(seed)
        epochs.append(list(loader))
    assert_same(epochs[0], epochs[2])
    assert not torch.equal(epochs[0][0][0], epochs[1][0][0])


def test_a_loader_that_is_made_and_looked_at_draws_nothing() -> None:
    before = torch.get_rng_state()
    for kind in KINDS:
        loader = make(kind)
        loader.set_epoch(1)
        assert loader.state_dict()["drawn"] is False
        assert len(loader) == 10
        iter(loader)
        assert "RecordLoader" in repr(loader)
    assert torch.equal(torch.get_rng_state(), before)


def fit(loader: Any) -> list[int]:
    """Take one epoch as `Trainer(max_epochs=1).fit` does: it calls `iter` first, then tells samplers the epoch."""
    batches = iter(loader)
    for sampler in (loader.sampler, getattr(loader.batch_sampler, "sampler", None)):
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(0)
    return flat(batches)


@pytest.mark.parametrize("kind", KINDS)
def test_three_fits_get_three_orders(kind: str) -> None:
    loader = make(kind)
    orders = [fit(loader) for _ in range(3)]
    assert len(set(map(tuple, orders))) == 3
    if kind != "weights":
        assert [sorted(order) for order in orders] == [list(range(40))] * 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 9])
def test_the_state_keeps_the_drawn_seed(kind: str, steps: int) -> None:
    """For the epoch that it is of; the next one draws again."""
    loader = make(kind)
    flat(loader)
    torch.manual_seed(5)
    batches = iter(loader)
    list(islice(batches, steps))
    state = json.loads(json.dumps(loader.state_dict()))
    rest = flat(batches)
    again = make(kind)
    again.load_state_dict(state)
    torch.manual_seed(99)
    assert flat(again) == rest
    torch.manual_seed(6)
    following = flat(loader)
    torch.manual_seed(6)
    assert flat(again) == following


def test_an_order_is_not_known_before_its_seed_is_drawn() -> None:
    loader: Any = make("shuffle")
    with pytest.raises(ArgumentError, match="seed of an epoch is drawn when it begins"):
        loader.sampler.indices(0, 4)
    first = next(iter(loader)).tolist()
    assert loader.sampler.indices(0, 4).tolist() == first


# The length


class Growing:
    """A list whose samples may come and go."""

    def __init__(self, length: int) -> None:
        self.samples = list(range(length))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> int:
        return self.samples[index]


def wrapped(kind: str, growing: Growing) -> Any:
    """A dataset whose length is that of another one."""
    if kind == "subset":
        return Subset(growing, growing.samples)  # type: ignore[arg-type]
    return mix([growing, range(100, 108)], weights=[1, 1]) if kind == "mix" else growing


@pytest.mark.parametrize(("workers", "num_workers"), [("threads", 2), ("processes", 1)])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("list", {}),
        ("list", {"shuffle": True}),
        ("list", {"shuffle": "block"}),
        ("list", {"weights": "ones"}),
        ("subset", {"shuffle": True}),
        ("mix", {}),
    ],
)
def test_samples_that_come_and_go_between_epochs(
    kind: str, options: dict[str, Any], workers: str, num_workers: int
) -> None:
    growing = Growing(10)
    dataset = wrapped(kind, growing)
    given: dict[str, Any] = dict(options)
    weights = [1.0] * 10
    if "weights" in options:
        given = {"sampler": RecordSampler(dataset, weights=weights, replacement=False)}
    loader = RecordLoader(dataset, 4, seed=1, workers=workers, num_workers=num_workers, **given)
    for length in (10, 14, 14, 6, 9):
        del growing.samples[length:], weights[length:]
        growing.samples.extend(range(len(growing), length))
        weights.extend([1.0] * (length - len(weights)))
        found = flat(loader)
        assert {index for index in found if index < 100} == set(range(length))
        assert len(loader) == -(-len(found) // 4)
        if kind != "mix":
            assert sorted(found) == flat(DataLoader(dataset, 4))
            assert len(loader) == len(DataLoader(dataset, 4))


@pytest.mark.parametrize("in_batches", [False, True])
def test_samplers_of_torch_ask_for_the_length(in_batches: bool) -> None:
    growing: Any = Growing(10)
    made = RandomSampler(growing)
    batches = {"batch_sampler": BatchSampler(made, 4, False)} if in_batches else {"sampler": made, "batch_size": 4}
    found, right = RecordLoader(growing, **batches), DataLoader(growing, **batches)  # type: ignore[arg-type]
    for length in (10, 14, 3):
        del growing.samples[length:]
        growing.samples.extend(range(len(growing), length))
        orders = []
        for loader in (found, right):
            torch.manual_seed(length)
            orders.append(flat(loader))
        assert orders[0] == orders[1]
        assert len(found) == len(right)


def test_an_epoch_keeps_the_samples_with_which_it_began() -> None:
    growing = Growing(10)
    loader, sampler = RecordLoader(growing, 4, num_workers=1), RecordSampler(growing)  # type: ignore[arg-type]
    batches, drawn = iter(loader), iter(sampler)
    found, indices = next(batches).tolist(), [next(drawn)]
    growing.samples += [10, 11, 12]
    assert (len(loader), len(sampler)) == (3, 10)
    assert loader.state_dict()["length"] == sampler.state_dict()["length"] == 10
    assert found + flat(batches) == list(range(10))
    assert sorted(indices + list(drawn)) == list(range(10))
    assert (len(loader), len(sampler)) == (4, 13)
    state = sampler.state_dict()
    assert (state["length"], state["consumed"], state["epoch"]) == (10, 10, 0)
    assert len(list(sampler)) == 13


def test_a_resumed_epoch_keeps_its_samples_and_the_next_has_those_that_came() -> None:
    growing = Growing(10)
    saved = RecordLoader(growing, 4, num_workers=1)
    list(islice(saved, 2))
    loader = RecordLoader(growing, 4, num_workers=1)
    loader.load_state_dict(saved.state_dict())
    growing.samples += [10, 11]
    assert flat(loader) == [8, 9]
    assert flat(loader) == list(range(12))
    with pytest.raises(ArgumentError, match="length was 10 and is 12 here"):
        loader.load_state_dict(saved.state_dict())


# Weights


@pytest.mark.parametrize("as_weights", [np.asarray, torch.tensor, list])
@pytest.mark.parametrize("replacement", [True, False])
def test_weights_that_are_changed_in_place_count_from_the_next_epoch(as_weights: Any, replacement: bool) -> None:
    weights: Any = as_weights([1.0, 1.0, 0.0, 0.0])
    sampler = RecordSampler(range(4), weights=weights, replacement=replacement)
    epoch: Iterator[int] = iter(sampler)
    first = {next(epoch)}
    weights[0], weights[1], weights[2], weights[3] = 0.0, 0.0, 1.0, 1.0
    assert first | set(epoch) <= {0, 1}
    assert set(sampler) <= {2, 3}


def test_wrong_weights_are_refused_when_the_next_epoch_begins() -> None:
    growing, weights = Growing(3), np.ones(3)
    loader = RecordLoader(growing, 1, weights=weights, num_workers=1)
    weights[1] = -1
    with pytest.raises(ArgumentError, match=r"weights\[1\] is -1"):
        next(iter(loader))
    weights[1] = 1
    growing.samples.append(3)
    with pytest.raises(ArgumentError, match="weights must be 4 numbers"):
        next(iter(loader))
