"""accelerate: all ranks together take each sample once an epoch; a share of a share is refused."""

from itertools import chain
from typing import Any

import pytest

from recordzoo import RecordSampler
from tests.frameworks.ranks import on_ranks

pytest.importorskip("accelerate", reason="needs the extra `frameworks`: make frameworks")

LENGTH, EPOCHS = 44, 3


# Any: what `accelerate_ranks` found on each rank.
@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return on_ranks("accelerate_ranks", tmp_path_factory.mktemp("accelerate"))


@pytest.mark.parametrize(
    ("how", "num_batches", "repeated"),
    [
        ("dealt by accelerate", [6, 6], 4),
        ("with a seedable sampler", [6, 6], 4),
        ("uneven", [6, 5], 0),
        ("batches split", [11, 11], 0),
        ("dispatched", [6, 6], 0),
        ("RecordLoader", [6, 6], 0),
        ("not prepared", [6, 6], 0),
    ],
)
def test_each_sample_once_an_epoch(ranks: list[Any], how: str, num_batches: list[int], repeated: int) -> None:
    """accelerate repeats samples until all ranks have as many whole batches."""
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
        by_skipping, by_state = rank["resumed"]
        assert by_skipping == whole[1][3:] + whole[2]
        del by_skipping[2], by_state[2]  # the last batch of the epoch: filled up with the first samples that are drawn
        assert by_state == by_skipping
        own = rank["resumed RecordLoader"]
        assert own["resumed"] == own["whole"][1][3:] + own["whole"][2]
