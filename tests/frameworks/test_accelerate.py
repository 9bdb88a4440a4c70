"""accelerate: all ranks together take each sample once an epoch, a share of a share is refused; states and skipping."""

from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from recordzoo import RecordLoader, RecordSampler
from tests.frameworks.ranks import on_ranks
from tests.frameworks.samples import BATCH, DRAWN, Numbers, drawn

accelerate = pytest.importorskip("accelerate", reason="needs the extra `frameworks`: make frameworks")

LENGTH, EPOCHS = 44, 3


# Any: what `accelerate_ranks` found on each rank.
@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return on_ranks("accelerate_ranks", tmp_path_factory.mktemp("accelerate"))


@pytest.mark.parametrize(
    ("how", "used", "num_batches", "repeated"),
    [
        ("dealt by accelerate", "DataLoaderShard", [6, 6], 4),
        ("uneven", "DataLoaderShard", [6, 5], 0),
        ("batches split", "DataLoaderShard", [11, 11], 0),
        ("dispatched", "DataLoaderDispatcher", [6, 6], 0),
        ("RecordLoader", "RecordLoader", [6, 6], 0),
        *((kind, "RecordLoader", [6, 6], 0) for kind in DRAWN),
        ("of one rank", "DataLoaderShard", [6, 6], 4),
        ("of another sampler", "DataLoaderShard", [6, 6], 4),
        ("not prepared", "DataLoader", [6, 6], 0),
    ],
)
def test_each_sample_once_an_epoch(
    ranks: list[Any], how: str, used: str, num_batches: list[int], repeated: int
) -> None:
    """accelerate deals a loader that takes no share of its rank, and repeats samples until all have whole batches."""
    assert [rank[how]["type"] for rank in ranks] == [used] * 2
    assert [rank[how]["len"] for rank in ranks] == num_batches
    orders = []
    for epoch in range(EPOCHS):
        parts = [rank[how]["epochs"][epoch] for rank in ranks]
        assert [len(part) for part in parts] == num_batches
        taken = list(chain(*chain(*parts)))
        assert (set(taken), len(taken)) == (set(range(LENGTH)), LENGTH + repeated)
        orders.append(tuple(taken))
    assert len(set(orders)) == EPOCHS


def test_batches_of_both_ranks_are_those_of_one_order(ranks: list[Any]) -> None:
    sampler = RecordSampler(range(LENGTH), seed=3)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        order = list(sampler)
        dealt = [rank["dealt by accelerate"]["epochs"][epoch] for rank in ranks]
        assert list(chain(*chain(*zip(*dealt, strict=True))))[:LENGTH] == order
        own = [list(chain(*rank["not prepared"]["epochs"][epoch])) for rank in ranks]
        assert own == [order[0::2], order[1::2]]


def test_what_would_be_dealt_twice_is_refused(ranks: list[Any]) -> None:
    for message in chain(*(rank["refused"] for rank in ranks)):
        assert "accelerate deals the batches of this DataLoader to its processes" in message
        assert "Give RecordSampler num_replicas=1, rank=0" in message


def test_resumed(ranks: list[Any]) -> None:
    for rank in ranks:
        whole = rank["dealt by accelerate"]["epochs"]
        assert rank["resumed"] == whole[1][3:] + whole[2]
        own = rank["resumed RecordLoader"]
        assert own["resumed"] == own["whole"][1][3:] + own["whole"][2]


# One process


@pytest.fixture
def accelerator() -> Any:
    return accelerate.Accelerator(cpu=True)


def numbers(batches: Any) -> list[list[int]]:
    return [labels.tolist() for _, labels in batches]


@pytest.mark.parametrize("kind", ["shuffle", *DRAWN])
def test_save_state_and_load_state(accelerator: Any, tmp_path: Path, kind: str) -> None:
    dataset, options = drawn(kind) if kind in DRAWN else (Numbers(), {"shuffle": True})
    loader = accelerator.prepare(RecordLoader(dataset, BATCH, seed=2, **options))
    numbers(loader)
    iterator = iter(loader)
    list(islice(iterator, 3))
    accelerator.save_state(str(tmp_path))
    rest, following = numbers(iterator), numbers(loader)
    accelerator.free_memory()
    if kind in DRAWN:
        dataset, options = drawn(kind)
    again = accelerator.prepare(RecordLoader(dataset, BATCH, **options))
    accelerator.load_state(str(tmp_path))
    assert [numbers(again), numbers(again)] == [rest, following]


def test_skip_first_batches(accelerator: Any) -> None:
    """It makes a stock DataLoader, with the right samples; the loader itself goes on with the next epoch."""
    loader = accelerator.prepare(RecordLoader(Numbers(), BATCH, shuffle=True, seed=2, num_workers=1))
    first, second, third = (numbers(loader) for _ in range(3))
    for epoch, right in ((0, first), (1, second)):
        loader.set_epoch(epoch)
        skipped = accelerate.skip_first_batches(loader, 3)
        assert type(skipped) is DataLoader
        assert numbers(skipped) == right[3:]
    assert numbers(loader) == third
