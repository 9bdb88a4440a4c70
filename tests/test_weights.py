"""`RecordSampler(weights=...)`: who is drawn how often; draws are a function of seed, epoch and place."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.utils.data import Subset

import recordzoo
from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler
from recordzoo.errors import ArgumentError
from tests.fakes import folder
from tests.sampling import TAIL, Labelled, check_loader, check_resumed, drawn, p_value, tail

weights = st.lists(st.sampled_from([0.0, 1e-3, 0.5, 1.0, 3.0, 1e3]), min_size=1, max_size=200).filter(any)
ranks = st.integers(1, 8)


@given(weights, st.booleans(), ranks, ranks, st.integers(0, 3), st.booleans(), st.data())
def test_resumed_anywhere_on_any_ranks(
    weights: list[float], replacement: bool, before: int, after: int, epoch: int, drop_last: bool, data: st.DataObject
) -> None:
    make = functools.partial(RecordSampler, range(len(weights)), weights=weights, replacement=replacement)
    check_resumed(make, before, after, drop_last, epoch, data)


@given(weights, st.integers(0, 5))
def test_zeros_are_never_drawn_and_without_replacement_all_others_are(weights: list[float], seed: int) -> None:
    positive = np.flatnonzero(weights).tolist()
    assert set(RecordSampler(range(len(weights)), weights=weights, seed=seed)) <= set(positive)
    once = RecordSampler(range(len(weights)), weights=weights, replacement=False, seed=seed)
    assert len(once) == len(positive)
    assert sorted(once) == positive
    assert list(once) != list(once) or len(positive) < 8


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.uint8, torch.float32, torch.int32, list])
def test_draws_with_replacement_are_distributed_as_the_weights(kind: Any) -> None:
    values = np.random.default_rng(1).integers(1, 9, 50)
    given = values.tolist() if kind is list else torch.tensor(values).to(kind) if "torch" in str(kind) else kind(values)
    sampler = RecordSampler(range(50), weights=given, num_samples=5000)
    assert len(sampler) == 5000
    found = drawn(sampler, 10)
    assert p_value(found, values) > 1e-3
    pairs = np.bincount(found[:-1] % 7 * 7 + found[1:] % 7, minlength=49)  # a draw says nothing of the next one
    each = np.bincount(np.arange(50) % 7, values) / values.sum()
    assert stats.chisquare(pairs, np.outer(each, each).ravel() * pairs.sum()).pvalue > 1e-3


def test_draws_without_replacement_are_distributed_as_the_weights() -> None:
    """The first by weight; the second by the weights that are left: of three samples, all six orders are compared."""
    weights = np.array([5.0, 3.0, 2.0])
    sampler = RecordSampler(range(3), weights=weights, replacement=False)
    orders = drawn(sampler, 6000).reshape(-1, 3)
    expected = {}
    for first, second in ((a, b) for a in range(3) for b in range(3) if a != b):
        expected[first, second] = weights[first] / 10 * weights[second] / (10 - weights[first])
    counts = [int(np.all(orders[:, :2] == pair, axis=1).sum()) for pair in expected]
    assert stats.chisquare(counts, [6000 * chance for chance in expected.values()]).pvalue > 1e-3
    few = RecordSampler(range(3), weights=weights, replacement=False, num_samples=1)
    assert p_value(drawn(few, 3000), weights) > 1e-3


@pytest.mark.parametrize("replacement", [True, False])
def test_weights_of_all_sizes(replacement: bool) -> None:
    """Sums that overflow, one weight beside which the others are nothing, and numbers below the normal ones."""
    for weights, first in (
        ([1e308] * 9, None),
        ([5e-324] * 9, None),
        ([1.0, 1e300, 1.0, 0.0], 1),
        ([0.0, 5e-324, 1e308], 2),
    ):
        sampler = RecordSampler(range(len(weights)), weights=weights, replacement=replacement, num_samples=1)
        found = drawn(sampler, 900)
        if first is None:
            assert p_value(found, np.ones(9)) > 1e-3
        else:
            assert set(found.tolist()) == {first}
    whole = RecordSampler(range(4), weights=[1.0, 1e300, 1.0, 0.0], replacement=False)
    assert sorted(whole) == [0, 1, 2]


def test_an_order_by_weights_never_changes() -> None:
    """As that of permutations: checkpoints name it by seed and epoch."""
    options = {"weights": np.arange(1000), "seed": 1, "num_samples": 6}
    assert list(RecordSampler(range(1000), **options)) == [832, 650, 336, 925, 699, 368]
    assert list(RecordSampler(range(1000), replacement=False, **options)) == [917, 755, 466, 992, 533, 592]


@pytest.mark.parametrize("as_targets", [np.ndarray.tolist, np.asarray, torch.tensor, lambda t: (t - 1) * 2**40])
def test_balanced_classes_are_drawn_equally_often(as_targets: Any) -> None:
    labels = tail()
    sampler = RecordSampler(Labelled(as_targets(labels)), weights="balanced")
    assert len(sampler) == len(labels)
    found = drawn(sampler, 20)
    assert p_value(labels[found], np.ones(len(TAIL))) > 1e-3
    members = np.flatnonzero(labels == 1)
    assert p_value(np.searchsorted(members, found[labels[found] == 1]), np.ones(len(members))) > 1e-3


def test_samples_without_a_class_are_not_drawn() -> None:
    sampler = RecordSampler(Labelled([-1, 0, -1, 1, 1, -1]), weights="balanced", num_samples=3000)
    assert p_value(drawn(sampler, 1), [0, 2, 0, 1, 1, 0]) > 1e-3


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty images of three classes, with two more columns of a table."""
    root = tmp_path_factory.mktemp("weights")
    lines = ["path,breed,place,age"]
    for number in range(30):
        name = f"{number}.png"
        (root / name).write_bytes(folder.image_bytes(name, number))
        lines.append(f"{name},{'abc'[(number > 20) + (number > 28)]},{'xy'[number % 10 == 0]},{number / 2}")
    (root / "birds.csv").write_text("\n".join(lines) + "\n")
    return root / "birds.csv"


def test_balanced_by_target_and_by_field(birds: Path, tmp_path: Path) -> None:
    recordzoo.prepare(birds, image="path", targets={"breed": "class"}, output=tmp_path / "b.records")
    dataset = recordzoo.open(tmp_path / "b.records")
    breeds = np.array([dataset[index][1] for index in range(30)])
    assert np.bincount(breeds).tolist() == [21, 8, 1]
    found = drawn(RecordSampler(dataset, weights="balanced", num_samples=3000), 1)
    assert p_value(breeds[found], np.ones(3)) > 1e-3
    for whole, field in ((dataset, "place"), (recordzoo.open(tmp_path / "b.records", target_type="place"), None)):
        part = Subset(whole, range(15, 30))
        found = drawn(RecordSampler(part, weights="balanced", weights_by=field, num_samples=3000), 1)
        assert p_value((found + 15) % 10 == 0, np.ones(2)) > 1e-3
    with pytest.raises(
        ArgumentError, match=r"weights_by='name' is no field of .* one value a sample: age, breed, place"
    ):
        RecordSampler(dataset, weights="balanced", weights_by="name")
    dataset.samples = dataset.samples[20:]  # what the user leaves out is not drawn
    assert set(drawn(RecordSampler(dataset, weights="balanced"), 30).tolist()) == set(range(10))
    assert p_value(breeds[20:][drawn(RecordSampler(dataset, weights="balanced"), 100)], np.ones(3)) > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0, float("nan"), 1.0]}, r"weights\[1\] is nan: a weight is a finite number, 0 or more"),
        ({"weights": [1.0, 1.0, -2.0]}, r"weights\[2\] is -2\.0"),
        ({"weights": [0, 0, 0]}, "The sum of the 3 weights is 0"),
        ({"weights": [1.0, 1.0]}, r"weights must be 3 numbers, .* float64 of shape \[2\]"),
        ({"weights": [1.0, [2.0], 3.0]}, "weights cannot be made an array"),
        ({"weights": "even"}, "weights='even' is not 'balanced'"),
        ({"weights": "balanced"}, "range has no labels"),
        ({"weights": "balanced", "weights_by": "breed"}, "weights_by='breed': range is not of a record set"),
        ({"weights": [1.0] * 3, "weights_by": "breed"}, "weights_by='breed' is for weights='balanced'"),
        ({"weights": [1.0] * 3, "num_samples": 0}, "num_samples=0 must be 1 or more"),
        ({"weights": [1.0, 0, 2], "num_samples": 3, "replacement": False}, "only 2 samples have a weight above 0"),
        ({"num_samples": 3}, "num_samples without weights"),
        ({"weights": [1.0] * 3, "shuffle": "block"}, "shuffle='block' with weights"),
    ],
)
def test_what_is_wrong_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        RecordSampler(range(3), **options)
    if not {"weights_by", "num_samples", "replacement"} & set(options):
        with pytest.raises(ArgumentError, match=message):
            RecordLoader(range(3), **options)


@pytest.mark.parametrize("targets", [[[0, 1]] * 3, [None] * 3, [[0], [1, 2], []], [-1, -1]])
def test_targets_that_are_no_labels_are_refused(targets: list[Any]) -> None:
    with pytest.raises(ArgumentError, match=r"Labelled has no labels|no sample has a class; all labels are -1"):
        RecordSampler(Labelled(targets), weights="balanced")


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_loader_gives_the_samplers_draws(tmp_path: Path, workers: Any) -> None:
    tree = folder.write_tree(tmp_path / "t", {f"{i % 2}/{i}.png": folder.image_bytes("1.png", i) for i in range(24)})
    dataset = ImageFolderRecord(tree, transform=lambda image: image.size[0])
    weights = np.arange(24) % 5
    check_loader(dataset, 5, workers, weights=weights, num_samples=23)
    with pytest.raises(ArgumentError, match="A sampler sets the order, and so does weights"):
        RecordLoader(dataset, sampler=RecordSampler(dataset), weights=weights)
