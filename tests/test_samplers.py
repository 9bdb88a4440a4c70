"""`RecordSampler`: every sample once on some rank, in one global order, from any place on, whatever reads it."""

import json
import math
import os
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, DataLoader, Subset, random_split
from torchdata.stateful_dataloader import StatefulDataLoader
from torchvision.datasets import wrap_dataset_for_transforms_v2

from recordzoo import ImageFolderRecord, RecordLoader, RecordReader, RecordSampler, mix
from recordzoo.errors import ArgumentError
from recordzoo.families.selection import Selection
from recordzoo.loader.parts import locate, storage_of
from recordzoo.loader.samplers import Epoch
from tests.fakes import folder
from tests.fakes.records import some_values, write_records
from tests.sampling import QUIET, Labelled, check_resumed, dealt

SAMPLE_BYTES = 64 << 10  # of what is in no record set
SHUFFLES = (True, False, "block")
pytestmark = QUIET
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


# Any: of RecordSampler.
def samplers(length: int, ranks: int, **options: Any) -> list[RecordSampler]:
    return [RecordSampler(range(length), num_replicas=ranks, rank=rank, **options) for rank in range(ranks)]


def whole_order(length: int, epoch: int, **options: Any) -> list[int]:
    sampler = RecordSampler(range(length), **options)
    sampler.set_epoch(epoch)
    return list(sampler)


lengths = st.integers(0, 400)
ranks = st.integers(1, 9)
options = st.fixed_dictionaries(
    {
        "shuffle": st.sampled_from(SHUFFLES),
        "seed": st.integers(-3, 3),
        "window": st.integers(1, 5),
        "virtual_ranks": st.integers(1, 12),
        "block_bytes": st.integers(1, 30).map(SAMPLE_BYTES.__mul__),
    }
)


@given(lengths, ranks, options, st.integers(0, 3), st.booleans())
def test_every_sample_once(length: int, ranks: int, options: dict[str, Any], epoch: int, drop_last: bool) -> None:
    order = whole_order(length, epoch, **options)
    assert sorted(order) == list(range(length))
    all_ranks = samplers(length, ranks, drop_last=drop_last, **options)
    for sampler in all_ranks:
        sampler.set_epoch(epoch)
    found = dealt([sampler.begin() for sampler in all_ranks])
    assert len(found) == ranks * len(all_ranks[0])
    if drop_last:
        assert found == order[: length // ranks * ranks]
    else:
        assert found == [order[place % length] for place in range(-(-length // ranks) * ranks)]
    if options["shuffle"] is False:
        assert order == list(range(length))


@given(st.integers(1, 400), ranks, ranks, options, st.integers(0, 3), st.booleans(), st.data())
def test_resumed_on_other_ranks_the_rest_is_the_same(
    length: int, before: int, after: int, options: dict[str, Any], epoch: int, drop_last: bool, data: st.DataObject
) -> None:
    def make(seed: int, **ranks: Any) -> RecordSampler:
        return RecordSampler(range(length), **{**options, **ranks, "seed": seed})

    check_resumed(make, before, after, drop_last, epoch, data)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 40), st.data())
def test_each_block_is_read_by_one_rank_and_windows_are_bounded(
    ranks: int, times: int, per_block: int, data: st.DataObject
) -> None:
    window = data.draw(st.integers(1, 5))
    length = ranks * data.draw(st.integers(1, 300))  # nothing is repeated
    arguments = {"virtual_ranks": ranks * times, "window": window, "block_bytes": per_block * SAMPLE_BYTES}
    all_ranks = samplers(length, ranks, shuffle="block", **arguments)
    virtual_ranks, per_rank, _ = all_ranks[0].state_dict()["blocks"]
    rank_of = np.empty(length, np.int64)
    for rank, sampler in enumerate(all_ranks):
        indices, most = check_windows(sampler.begin())
        rank_of[indices] = rank
        assert most * SAMPLE_BYTES <= sampler.window_bytes
    cuts = np.count_nonzero(rank_of != np.roll(rank_of, 1))
    assert cuts <= min(length, virtual_ranks * per_rank)


def check_windows(epoch: Epoch) -> tuple[NDArray[np.int64], int]:
    """Read as a loader does, ahead by nothing: what is taken was opened before, and is closed only after; how much."""
    taken, held, most = [np.empty(0, np.int64)], set[int](), 0
    step = max(1, (epoch.end - epoch.first) // 20)
    for start in range(epoch.first, epoch.end, step):
        end = min(start + step, epoch.end)
        opened = epoch.opened(start, end).tolist()
        assert held.isdisjoint(opened)
        held.update(opened)
        taken.append(epoch.indices(start, end))
        assert held.issuperset(taken[-1].tolist())
        held.difference_update(epoch.closed(start, end).tolist())
        most = max(most, len(held))  # not counting what this step alone held
    assert held == set()
    return np.concatenate(taken), most


@settings(max_examples=30)
@given(st.integers(1, 300), ranks, options, st.integers(0, 300))
def test_windows_of_a_resumed_epoch_on_any_number_of_ranks(
    length: int, ranks: int, options: dict[str, Any], consumed: int
) -> None:
    for sampler in samplers(length, ranks, drop_last=True, **options):
        check_windows(sampler.make_epoch(2, consumed))


@pytest.mark.parametrize(
    ("length", "options", "first"),
    [
        (1000, {}, [546, 175, 105, 298, 134, 594, 986, 509]),
        (50_000, {}, [20999, 44512, 187, 39542, 27864, 10371, 9162, 14425]),
        (23, {"virtual_ranks": 4, "window": 2}, [2, 0, 14, 9, 22, 11, 1, 10]),  # fewer samples than blocks
    ],
)
def test_an_order_by_blocks_never_changes(length: int, options: dict[str, Any], first: list[int]) -> None:
    """As that of permutations: checkpoints name it by seed and epoch."""
    assert whole_order(length, 0, shuffle="block", seed=1, **options)[:8] == first


# Epochs.


def test_each_iteration_is_another_epoch() -> None:
    sampler = RecordSampler(range(50))
    orders = [tuple(sampler) for _ in range(3)]
    assert [whole_order(50, epoch) for epoch in range(3)] == list(map(list, orders))
    next(iter(sampler))  # left at once; who always leaves early sees new samples all the same
    assert sampler.epoch == 3
    assert list(sampler) == whole_order(50, 4)
    iter(sampler)  # never drawn from: not an epoch
    assert list(sampler) == whole_order(50, 5)
    sampler.set_epoch(1)
    assert list(sampler) == list(orders[1])
    sampler.set_epoch(1)
    assert list(sampler) == list(orders[1])
    assert list(sampler) == list(orders[2])


def test_set_epoch_leaves_a_resumed_epoch_where_it_is() -> None:
    sampler = RecordSampler(range(50))
    sampler.load_state_dict({**sampler.state_dict(), "epoch": 3, "consumed": 20})
    sampler.set_epoch(3)
    assert (sampler.epoch, sampler.consumed) == (3, 20)
    assert list(sampler) == whole_order(50, 3)[20:]
    sampler.set_epoch(3)
    assert list(sampler) == whole_order(50, 3)
    sampler.load_state_dict({**sampler.state_dict(), "epoch": 3, "consumed": 20})
    sampler.set_epoch(4)
    assert list(sampler) == whole_order(50, 4)


def test_what_was_taken_counts_from_where_the_iteration_was_resumed() -> None:
    sampler = RecordSampler(range(50), num_replicas=2, rank=0)
    sampler.load_state_dict({**sampler.state_dict(), "epoch": 3, "consumed": 20})
    assert len(list(islice(sampler, 10))) == 10
    assert [sampler.state_dict(taken=taken)["consumed"] for taken in (0, 4, 10)] == [20, 28, 40]
    assert sampler.state_dict() == sampler.state_dict(taken=10)
    assert sampler.places(10, 12).tolist() == [20, 22]


def test_what_is_wrong_is_refused() -> None:
    for name in ("block_bytes", "window", "virtual_ranks"):
        with pytest.raises(ArgumentError, match=f"{name}=0 must be 1 or more"):
            RecordSampler(range(10), shuffle="block", **{name: 0})  # type: ignore[arg-type]
    for ranks in ({"rank": 2, "num_replicas": 2}, {"rank": -1, "num_replicas": 2}, {"num_replicas": 2}, {"rank": 0}):
        with pytest.raises(ArgumentError, match="rank must be one of 0 to num_replicas - 1"):
            RecordSampler(range(10), **ranks)  # type: ignore[arg-type]


def test_states_of_other_orders_are_refused() -> None:
    state = RecordSampler(range(1000)).state_dict()
    with pytest.raises(ArgumentError, match="length was 1000 and is 999 here"):
        RecordSampler(range(999)).load_state_dict(state)
    with pytest.raises(ArgumentError, match="shuffle was True and is 'block' here"):
        RecordSampler(range(1000), shuffle="block").load_state_dict(state)
    blocks = RecordSampler(range(1000), shuffle="block").state_dict()
    with pytest.raises(ArgumentError, match=r"blocks was \[64, 16, 4\] and is \[64, 12, 3\] here"):
        RecordSampler(range(1000), shuffle="block", window=3).load_state_dict(blocks)
    with pytest.raises(ArgumentError, match=r"not the state of a RecordSampler: it has no 'seed', but yielded"):
        RecordSampler(range(1000)).load_state_dict({"yielded": 7})
    mixed = [RecordSampler(mix([range(5), range(9)], weights=weights)) for weights in ([1, 2], [2, 4], [2, 1])]
    options: list[dict[str, Any]] = [{"weights": weights} for weights in ([1, 2, 3], [2, 4, 6], [1, 2, 4])]
    options += [{"weights": [1, 2, 3], "replacement": False}, {"weights": [1, 2, 3], "num_samples": 4}, {}]
    for right, same, *others in (mixed, [RecordSampler(range(3), **each) for each in options]):
        same.load_state_dict(right.state_dict())
        for other in others:
            with pytest.raises(ArgumentError, match=r"of another order: (draws|blocks|length) was"):
                other.load_state_dict(right.state_dict())


# Values of other types are converted, or refused.

WHOLE = [np.int64, np.uint8, np.float32, float, torch.tensor, np.array]
NOT_WHOLE = [None, float("nan"), 1.5, "2", [2], np.array([2, 3]), torch.tensor(1.5)]


@pytest.mark.parametrize("kind", WHOLE)
def test_numbers_of_other_types_are_converted(kind: Any) -> None:
    numbers = {"seed": 3, "num_replicas": 2, "rank": 1, "block_bytes": 9, "window": 2, "virtual_ranks": 5}
    for options in ({"shuffle": "block"}, {"weights": range(1, 51), "num_samples": 20}):
        plain: dict[str, Any] = numbers | options
        given = {name: kind(value) if isinstance(value, int) else value for name, value in plain.items()}
        found, right = RecordSampler(range(50), **given), RecordSampler(range(50), **plain)
        for sampler, as_given in ((found, kind), (right, int)):
            sampler.set_epoch(as_given(2))
            list(islice(sampler, 3))
        for options in ({}, {"taken": 2}, {"taken": 2, "batch_size": 2}):
            state = json.loads(json.dumps(found.state_dict(**{name: kind(n) for name, n in options.items()})))
            assert state == right.state_dict(**options)  # type: ignore[arg-type]
            again = RecordSampler(range(50), **given)
            again.load_state_dict({n: kind(value) if type(value) is int else value for n, value in state.items()})
            assert again.state_dict() == state
        assert list(found) == list(right)


@pytest.mark.parametrize("name", ["seed", "num_replicas", "rank", "block_bytes", "window", "virtual_ranks"])
@pytest.mark.parametrize("value", NOT_WHOLE)
def test_what_is_no_whole_number_is_refused(name: str, value: Any) -> None:
    if value is None and name in ("num_replicas", "rank"):
        return
    options: dict[str, Any] = {"num_replicas": 3, "rank": 1, name: value}
    with pytest.raises(ArgumentError, match=f"{name}=.* must be a whole number"):
        RecordSampler(range(10), shuffle="block", **options)


@pytest.mark.parametrize("value", NOT_WHOLE)
def test_states_with_what_is_no_whole_number_are_refused(value: Any) -> None:
    sampler = RecordSampler(range(10))
    loader = RecordLoader(range(10), sampler=sampler)
    with pytest.raises(ArgumentError, match=r"epoch=.* must be a whole number"):
        sampler.set_epoch(value)
    for name in ("seed", "epoch", "consumed"):
        with pytest.raises(ArgumentError, match=f"state: {name}=.* must be a whole number"):
            loader.load_state_dict({**sampler.state_dict(), name: value})
    for name in ("epoch", "consumed"):
        with pytest.raises(ArgumentError, match=f"state: {name}=-1 must be 0 or more"):
            loader.load_state_dict({**sampler.state_dict(), name: -1})
    if value is not None:
        with pytest.raises(ArgumentError, match=r"taken=.* must be a whole number"):
            sampler.state_dict(taken=value)
    with pytest.raises(ArgumentError, match=r"length was .* and is 10 here"):
        sampler.load_state_dict({**sampler.state_dict(), "length": value})
    assert sampler.state_dict() == RecordSampler(range(10)).state_dict()


@pytest.mark.parametrize("value", [None, "blocks", 2, [], np.array([True, False]), torch.ones(2)])
def test_what_is_no_truth_value_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"shuffle=.* is not one of True, False and 'block'"):
        RecordSampler(range(10), shuffle=value)
    with pytest.raises(ArgumentError, match=r"drop_last=.* must be True or False"):
        RecordSampler(range(10), drop_last=value)
    if value is not None:
        with pytest.raises(ArgumentError, match=r"replacement=.* must be True or False"):
            RecordSampler(range(10), weights=np.ones(10), replacement=value)


def test_more_consumed_than_an_epoch_has_is_refused() -> None:
    sampler = RecordSampler(range(10), num_replicas=3, rank=2)
    list(sampler)
    state = sampler.state_dict()
    assert (state["consumed"], state["epoch"]) == (10, 0)
    with pytest.raises(ArgumentError, match="consumed=11 is beyond the end of the epoch, which has 10 samples"):
        sampler.load_state_dict({**state, "consumed": 11})
    with pytest.raises(ArgumentError, match="consumed=11 is beyond the end"):
        iter(sampler).load_state_dict({"epoch": 0, "consumed": 11})
    assert sampler.state_dict() == state


# Where samples are stored.


class Stored(torch.utils.data.Dataset[bytes]):
    """The values of a record set."""

    def __init__(self, path: Path, split: NDArray[np.int64] | None = None) -> None:
        self._selection = Selection(RecordReader(path), positions=split)

    def __len__(self) -> int:
        return len(self._selection)

    def __getitem__(self, index: int) -> bytes:
        return self._selection.reader.read("image", self._selection.position(index))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Two hundred values, stored in another order than that of their positions, in seven shards."""
    path = tmp_path_factory.mktemp("stored") / "x.records"
    return Stored(write_records(path, some_values(200, sizes=(20, 300, 5000)), per_shard=30))


def stored_at(dataset: Any, indices: Sequence[int]) -> list[tuple[int, int, int]]:
    located = locate(dataset, np.asarray(indices))
    assert located is not None
    rows = [located.readers[number].array("image.index") for number in located.numbers]
    places = [row[position] for row, position in zip(rows, located.positions, strict=True)]
    return [(int(n), int(p["shard"]), int(p["offset"])) for n, p in zip(located.numbers, places, strict=True)]


def test_storage_order_through_subsets_and_concatenations(stored: Stored, tmp_path: Path) -> None:
    other = Stored(write_records(tmp_path / "y.records", some_values(50, seed=1), per_shard=20))
    shown = Stored(stored._selection.reader.path, np.arange(199, 0, -3))
    nested = ConcatDataset([Subset(other, [3, 1, 2]), ConcatDataset([shown, Subset(other, range(10, 20))]), stored])
    for dataset in (stored, other, shown, Subset(stored, torch.tensor([5, 3, 9])), nested):
        found = storage_of(dataset)
        assert found.order is not None
        assert found.order.dtype == np.int32
        assert sorted(found.order.tolist()) == list(range(len(dataset)))
        places = stored_at(dataset, found.order.tolist())
        assert places == sorted(places)
        lengths = [len(dataset[index]) for index in range(len(dataset))]
        assert found.mean_bytes == pytest.approx(np.mean(lengths))
    many = np.random.default_rng(0).integers(200, size=300_000)  # more than are looked at at once
    place = np.argsort(storage_of(stored).order)  # type: ignore[arg-type]
    assert (np.diff(place[many][storage_of(Subset(stored, many)).order]) >= 0).all()  # type: ignore[arg-type]
    assert {number for number, _, _ in stored_at(nested, range(len(nested)))} == {0, 1}  # not one for each part
    for index in (0, 3, 70, 85, 200):
        located = locate(nested, np.array([index]))
        assert located is not None
        assert located.readers[int(located.numbers[0])].read("image", int(located.positions[0])) == nested[index]


def test_storage_of_others_is_their_order(tmp_path: Path, stored: Stored) -> None:
    for dataset in (range(7), Subset(list(range(9)), [1, 2]), ConcatDataset([stored, list(range(3))]), []):
        found = storage_of(dataset)  # type: ignore[arg-type]
        assert (found.order, found.mean_bytes) == (None, SAMPLE_BYTES)
    in_order = Subset(stored, storage_of(stored).order)  # type: ignore[arg-type]
    assert storage_of(in_order).order is None


def test_blocks_lie_together_on_the_disk(stored: Stored) -> None:
    epoch = RecordSampler(stored, shuffle="block", virtual_ranks=2, window=1).begin()
    order = storage_of(stored).order
    assert order is not None
    place = np.empty(200, np.int64)
    place[order] = np.arange(200)
    steps = np.diff(place[np.concatenate([epoch.opened(k, k + 1) for k in range(epoch.end)])])
    assert np.count_nonzero(steps != 1) <= 9  # 8 blocks, of which one is around the end


# DataLoaders.


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> ImageFolderRecord:
    """Sixty images; a sample's target is its index."""
    tree = tmp_path_factory.mktemp("samplers") / "photos"
    folder.write_tree(tree, {f"{i:02d}/1.png": folder.image_bytes("1.png", i) for i in range(60)})
    return ImageFolderRecord(tree, transform=image_size)


def image_size(image: Any) -> int:
    return int(image.size[0])


def together(batches: Sequence[list[int]]) -> list[int]:
    return sorted(chain.from_iterable(batches))


def loaded(loader: Any) -> list[list[int]]:
    return [targets.tolist() for _, targets in loader]


DRAWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "weights": (Labelled(range(40)), {"weights": range(40), "num_samples": 60}),
    "mix": (mix([Labelled(range(30)), Labelled(range(30, 39))], weights=[0.7, 0.3]), {}),
}


@pytest.mark.parametrize(
    ("kind", "workers", "batch_size"),
    [
        ("block", 0, 7),
        ("block", 0, None),
        pytest.param("block", 2, 12, marks=needs_fork),
        pytest.param("block", 2, None, marks=[needs_fork, pytest.mark.slow]),
        *((kind, 0, 12) for kind in DRAWS),
    ],
)
def test_stateful_loader(dataset: ImageFolderRecord, kind: str, workers: int, batch_size: int | None) -> None:
    """Saved after any batch, also the last, before and after the loop has ended, and before the first of an epoch."""
    whole = dataset if batch_size else Subset(dataset, range(0, 60, 12))
    shown, options = DRAWS.get(kind, (whole, {"shuffle": "block"}))

    def make(loader: Any = StatefulDataLoader) -> Any:
        sampler = RecordSampler(shown, seed=3, **options)
        context = "fork" if workers else None
        return loader(shown, batch_size, sampler=sampler, num_workers=workers, multiprocessing_context=context)

    def batches(loader: Any) -> list[list[int]]:
        return [np.ravel(targets).tolist() for _, targets in loader]

    loader = make()
    epochs = [batches(loader) for _ in range(3)]
    assert epochs[0] == batches(make(DataLoader))
    num_batches = len(epochs[0])
    places = range(num_batches + 1) if workers == 0 else (0, 1, num_batches - 1, num_batches)
    for steps in places:
        loader = make()
        batches(loader)
        iterator = iter(loader)
        assert [np.ravel(targets).tolist() for _, targets in islice(iterator, steps)] == epochs[1][:steps]
        resumed = make()
        resumed.load_state_dict(loader.state_dict())
        if workers == 0:  # resumed twice, without a batch in between
            again = make()
            again.load_state_dict(resumed.state_dict())
            resumed = again
        assert batches(resumed) == epochs[1][steps:], steps
        assert batches(resumed) == epochs[2]
    assert next(iterator, None) is None  # the loop has ended
    resumed = make()
    resumed.load_state_dict(loader.state_dict())
    assert batches(resumed) == epochs[2]


def test_with_random_split_and_the_v2_wrapper(dataset: ImageFolderRecord) -> None:
    wrapped = wrap_dataset_for_transforms_v2(ImageFolderRecord(dataset.root))
    assert storage_of(wrapped).mean_bytes == storage_of(dataset).mean_bytes != SAMPLE_BYTES
    part, _ = random_split(wrapped, [40, 20], torch.Generator().manual_seed(1))
    assert sorted(RecordSampler(part, shuffle="block")) == list(range(40))
    assert RecordSampler(dataset, shuffle="block").window_bytes == math.floor(60 * storage_of(dataset).mean_bytes)
