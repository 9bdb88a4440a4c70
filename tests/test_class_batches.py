"""`classes_per_batch` and `samples_per_class`: whole batches on every rank, from any place on; each class as often."""

import functools
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from torch.utils.data import ConcatDataset, Subset

import recordzoo
from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler
from recordzoo.errors import ArgumentError
from tests.fakes import folder
from tests.sampling import QUIET, TAIL, Labelled, check_loader, check_resumed, drawn, tail

pytestmark = QUIET

labels = st.lists(st.integers(-1, 6), min_size=1, max_size=300).filter(lambda found: set(found) != {-1})
ranks = st.integers(1, 8)


# Any, here and below: of RecordSampler.
def sampler_of(targets: Any, classes: int, each: int, **options: Any) -> RecordSampler:
    return RecordSampler(Labelled(targets), classes_per_batch=classes, samples_per_class=each, **options)


def by_batch(indices: Any, classes: int, each: int) -> NDArray[np.int64]:
    return np.asarray(indices, np.int64).reshape(-1, classes, each)


@given(labels, st.integers(1, 7), st.integers(1, 9), st.integers(0, 3), st.data())
def test_each_batch_has_its_classes_with_its_samples(
    targets: list[int], classes: int, each: int, epoch: int, data: st.DataObject
) -> None:
    classes = min(classes, len(set(targets) - {-1}))
    batches = data.draw(st.none() | st.integers(1, 30))
    num_samples = None if batches is None else batches * classes * each
    sampler = sampler_of(targets, classes, each, num_samples=num_samples, seed=4)
    order = sampler.make_epoch(epoch)
    found = by_batch(order.indices(0, order.end), classes, each)
    usable = sum(target != -1 for target in targets)
    assert len(found) == (batches or max(1, usable // (classes * each)))
    of = np.asarray(targets)[found]
    assert (of == of[:, :, :1]).all()
    assert all(len(set(batch)) == classes for batch in of[:, :, 0].tolist())
    assert (of != -1).all()
    sizes = np.bincount(np.asarray(targets) + 1)[1:]
    for batch in found.reshape(-1, each).tolist():
        size = sizes[targets[batch[0]]]
        counts = np.bincount(batch)
        counts = counts[counts > 0]
        assert len(counts) == min(size, each)  # none twice, unless there are too few
        assert counts.max() - counts.min() <= 1


@given(labels, st.integers(1, 4), st.integers(1, 5), ranks, ranks, st.booleans(), st.integers(0, 2), st.data())
def test_resumed_anywhere_on_any_ranks_with_whole_batches(
    targets: list[int],
    classes: int,
    each: int,
    before: int,
    after: int,
    drop_last: bool,
    epoch: int,
    data: st.DataObject,
) -> None:
    classes = min(classes, len(set(targets) - {-1}))
    check_resumed(functools.partial(sampler_of, targets, classes, each), before, after, drop_last, epoch, data)


@pytest.mark.parametrize(("classes", "each"), [(3, 4), (2, 7), (4, 1)])
def test_classes_and_their_samples_are_drawn_equally_often(classes: int, each: int) -> None:
    targets = tail()
    found = drawn(sampler_of(targets, classes, each, num_samples=classes * each * 100), 30)
    of = targets[found]
    batches = by_batch(of, classes, each)[:, :, 0]
    assert stats.chisquare(np.bincount(batches.ravel())).pvalue > 1e-3
    pairs = {pair: int(np.isin(batches, pair).sum(1).__eq__(2).sum()) for pair in [(0, 1), (1, 2), (2, 3), (0, 3)]}
    assert classes == 4 or stats.chisquare(list(pairs.values())).pvalue > 1e-3
    for number in range(len(TAIL)):
        counts = np.bincount(found[of == number], minlength=len(targets))[targets == number]
        assert len(counts) == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_a_class_gives_each_sample_before_any_comes_again() -> None:
    targets = np.repeat([0, 1], [12, 40])
    found = by_batch(drawn(sampler_of(targets, 2, 4, num_samples=80), 1), 2, 4)
    for number, size in ((0, 12), (1, 40)):
        row = found[targets[found] == number].tolist()
        assert sorted(row[:size]) == np.flatnonzero(targets == number).tolist()
    for one, other in pairwise(found[targets[found] == 0][:36].reshape(-1, 12).tolist()):
        assert one != other
        assert sorted(one) == sorted(other)


@settings(max_examples=20)
@given(st.integers(0, 1 << 62), st.integers(0, 1 << 40))
def test_a_draw_depends_on_seed_epoch_and_place_alone(seed: int, epoch: int) -> None:
    short, long = (sampler_of(tail(), 3, 2, num_samples=n, seed=seed) for n in (12, 6000))
    assert np.array_equal(short.make_epoch(epoch).indices(0, 12), long.make_epoch(epoch).indices(0, 12))
    assert np.array_equal(long.make_epoch(epoch).indices(100, 200), long.make_epoch(epoch).indices(0, 200)[100:])
    assert not np.array_equal(long.make_epoch(epoch).indices(0, 99), long.make_epoch(epoch + 1).indices(0, 99))


def test_an_order_never_changes() -> None:
    """Checkpoints name it by seed and epoch."""
    assert list(sampler_of(tail(), 3, 2, num_samples=6, seed=1)) == [226, 14, 156, 292, 200, 308]


def test_many_classes_of_all_sizes() -> None:
    """One class has half of the samples; most have one. A network for the largest would be walked for ages."""
    targets = np.concatenate([np.zeros(500_000, np.int64), np.arange(1, 400_001)])
    np.random.default_rng(0).shuffle(targets)
    found = by_batch(drawn(sampler_of(targets, 64, 2, num_samples=12_800), 1), 64, 2)
    of = targets[found]
    assert (of[:, :, 0] == of[:, :, 1]).all()
    assert len(np.unique(of[:, :, 0])) == 6400


def test_through_subsets_concatenations_and_by_field(tmp_path: Path) -> None:
    one, two = Labelled([0] * 90 + [1] * 10), Labelled([1] * 5 + [2] * 200)
    parts = ConcatDataset([two, Subset(one, range(80, 100))])
    found = by_batch(list(RecordSampler(parts, classes_per_batch=3, samples_per_class=4)), 3, 4)
    of = np.array([parts[index][1] for index in found.ravel()]).reshape(found.shape)
    assert (np.sort(of[:, :, 0]) == [0, 1, 2]).all()
    lines = ["path,breed,place", *(f"{n}.png,{'ab'[n % 2]},{'xyz'[n % 3]}" for n in range(12))]
    for number in range(12):
        (tmp_path / f"{number}.png").write_bytes(folder.image_bytes("1.png", number))
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    recordzoo.prepare(tmp_path / "t.csv", image="path", targets={"breed": "class"}, output=tmp_path / "t.records")
    dataset = recordzoo.open(tmp_path / "t.records")
    for field, wanted in (("place", [0, 0, 1, 1, 2, 2]), ("breed", [0, 0, 0, 1, 1, 1])):
        options = {"classes_per_batch": len(set(wanted)), "samples_per_class": 6 // len(set(wanted))}
        sampler = RecordSampler(dataset, weights_by=field, **options)
        found = np.reshape(list(sampler), (2, 6)) % len(set(wanted))
        assert np.sort(found).tolist() == [wanted] * 2
        without = RecordSampler(dataset, **options) if field == "breed" else sampler
        assert list(without.make_epoch(0).indices(0, 12)) == list(sampler.make_epoch(0).indices(0, 12))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes_per_batch": 2}, "samples_per_class is missing: a batch has"),
        ({"samples_per_class": 2}, "classes_per_batch is missing"),
        ({"classes_per_batch": 0, "samples_per_class": 2}, "classes_per_batch=0 must be 1 or more"),
        ({"classes_per_batch": 2, "samples_per_class": 1.5}, r"samples_per_class=1\.5 must be a whole number"),
        ({"classes_per_batch": 3, "samples_per_class": 2}, "classes_per_batch=3: the samples have 2 classes"),
        ({"classes_per_batch": 2, "samples_per_class": 2, "num_samples": 6}, "num_samples=6 is no multiple of 4"),
        ({"classes_per_batch": 2, "samples_per_class": 2, "weights": "balanced"}, "weights with classes_per_batch"),
        ({"classes_per_batch": 2, "samples_per_class": 2, "replacement": True}, "replacement with classes_per_batch"),
        (
            {"classes_per_batch": 2, "samples_per_class": 2, "shuffle": "block"},
            "shuffle='block' with classes_per_batch",
        ),
        ({"classes_per_batch": 2, "samples_per_class": 2, "shuffle": False}, "shuffle=False with classes_per_batch"),
    ],
)
def test_what_is_wrong_is_refused(options: dict[str, Any], message: str) -> None:
    for kind in (RecordSampler, RecordLoader):
        with pytest.raises(ArgumentError, match=message):
            kind(Labelled([0, 1, -1, 0]), **options)
    with pytest.raises(ArgumentError, match="range has no labels"):
        RecordSampler(range(4), classes_per_batch=2, samples_per_class=2)


def test_the_batch_size_is_that_of_the_classes() -> None:
    dataset, options = Labelled(tail()), {"classes_per_batch": 4, "samples_per_class": 3}
    sampler = RecordSampler(dataset, **options)
    for loader in (
        RecordLoader(dataset, **options),
        RecordLoader(dataset, 12, **options),
        RecordLoader(dataset, sampler=sampler),
    ):
        assert (loader.batch_size, len(loader)) == (12, 568 // 12)
        assert all(len(target) == 12 for _, target in loader)
    for wrong in (5, None, 24):
        with pytest.raises(ArgumentError, match=f"batch_size={wrong} with classes_per_batch: a batch has 12 samples"):
            RecordLoader(dataset, wrong, **options)
        with pytest.raises(ArgumentError, match="a batch has 12 samples"):
            RecordLoader(dataset, wrong, sampler=sampler)


def test_states_of_other_batches_are_refused() -> None:
    state = sampler_of([0, 1, 2] * 40, 3, 4).state_dict()
    for others in ((2, 6, [0, 1, 2] * 40), (3, 4, [0, 2, 1] * 40), (3, 2, [0, 1, 2] * 40)):
        with pytest.raises(ArgumentError, match="of another order: draws was"):
            sampler_of(others[2], *others[:2]).load_state_dict(state)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_loader_gives_the_samplers_batches_and_goes_on(tmp_path: Path, workers: Any) -> None:
    tree = folder.write_tree(tmp_path / "t", {f"{i % 3}/{i}.png": folder.image_bytes("1.png", i) for i in range(24)})
    dataset = ImageFolderRecord(tree, transform=lambda image: image.size[0])
    check_loader(dataset, 6, workers, classes_per_batch=2, samples_per_class=3)
