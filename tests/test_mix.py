"""`mix`: proportions in every window, each source whole, classes joined by name; resumed anywhere on any ranks."""

import functools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, DataLoader, Subset

from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler, mix
from recordzoo.errors import ArgumentError
from recordzoo.loader.parts import labels_of
from tests.fakes import folder
from tests.sampling import QUIET, Labelled, check_loader, check_resumed

pytestmark = QUIET

WINDOW = 1000
sources = st.lists(st.tuples(st.integers(1, 3000), st.floats(0.01, 1)), min_size=1, max_size=8)
ranks = st.integers(1, 8)


# Any, here and below: datasets and what they give.
def mixed_of(sources: list[tuple[int, float]]) -> Any:
    return mix([range(size) for size, _ in sources], weights=[weight for _, weight in sources])


def order_of(mixed: Any, epoch: int = 0, seed: int = 0) -> NDArray[np.int64]:
    found = RecordSampler(mixed, seed=seed).make_epoch(epoch)
    return found.indices(0, found.end)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(sources, st.integers(0, 3))
def test_proportions_hold_in_every_window_and_each_source_is_seen_whole(
    sources: list[tuple[int, float]], epoch: int
) -> None:
    mixed = mixed_of(sources)
    order = order_of(mixed, epoch)
    of = np.searchsorted(mixed.cumulative_sizes, order, side="right")
    starts = [0, *mixed.cumulative_sizes]
    ends = []
    for number, (size, _) in enumerate(sources):
        counts = np.concatenate([[0], np.cumsum(of == number)])
        window = min(WINDOW, len(order))
        share = mixed.weights[number] * window
        assert np.abs(counts[window:] - counts[:-window] - share).max() < 2 + window / 65537
        own = (order[of == number] - starts[number]).tolist()
        for start in range(0, len(own), size):
            run = own[start : start + size]
            assert len(set(run)) == len(run)  # none again before the others were seen
        assert len(own) >= size
        ends.append(int(np.flatnonzero(of == number)[size - 1]))
    assert len(order) == max(ends) + 1
    assert sum(mixed.weights) == pytest.approx(1)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(sources, ranks, ranks, st.booleans(), st.integers(0, 2), st.data())
def test_resumed_anywhere_on_any_ranks(
    sources: list[tuple[int, float]], before: int, after: int, drop_last: bool, epoch: int, data: st.DataObject
) -> None:
    mixed = mixed_of([(size % 40 + 1, weight) for size, weight in sources])
    check_resumed(functools.partial(RecordSampler, mixed), before, after, drop_last, epoch, data)


def test_the_order_never_changes() -> None:
    """Checkpoints name it by seed and epoch."""
    order = order_of(mix([range(5), range(9)], weights=[1, 2]), seed=1)
    assert order.tolist() == [0, 8, 11, 3, 10, 12, 13, 1, 5, 4, 7, 6, 9, 13, 2]


class Named(Labelled):
    """Labels with class names, and a `target_transform` as datasets have it."""

    def __init__(self, classes: list[str], targets: list[int], target_transform: Any = None) -> None:
        super().__init__(targets)
        self.classes, self.target_transform = classes, target_transform

    def __getitem__(self, index: int) -> tuple[int, int]:
        index, target = super().__getitem__(index)
        return index, target if self.target_transform is None else self.target_transform(target)


def test_classes_are_joined_by_name() -> None:
    cats: Any = Named(["cat", "dog"], [0, 1, 1, -1])
    owls: Any = Named(["owl", "cat"], [0, 1, 0])
    mixed = mix([cats, Subset(ConcatDataset[Any]([owls, cats]), [0, 1, 4])], weights=[1, 1])
    assert mixed.classes == ["cat", "dog", "owl"]
    assert mixed.class_to_idx == {"cat": 0, "dog": 1, "owl": 2}
    right = [0, 1, 1, -1, 2, 0, 1]
    assert [mixed[index][1] for index in range(7)] == right
    assert owls[0] == (0, 0)  # the dataset itself is as it was
    assert labels_of(mixed, np.arange(7), None).tolist() == right
    assert [pickle.loads(pickle.dumps(mixed))[index][1] for index in range(7)] == right


def test_classes_that_cannot_be_joined_are_refused() -> None:
    cats = Named(["cat", "dog"], [0, 1])
    cranes = Named(["crane", "dog", "crane"], [0, 1, 2])  # a bird and a machine, as in ImageNet
    for other in (Named(["dog", "cat"], [0, 1], abs), Labelled([0, 1]), Named(["dog"], [[1, 2], [3, 4]]), cranes):  # type: ignore[list-item]
        with pytest.raises(ArgumentError, match=r"mix joins classes|mix: the class numbers of Named|has no labels"):
            mix([cats, other], weights=[1, 1])
    assert [mix([cranes, cranes], weights=[1, 1])[index][1] for index in range(6)] == [0, 1, 2, 0, 1, 2]
    same = mix([cats, Named(["cat", "dog"], [1, 0], abs)], weights=[1, 1])
    assert same[3] == (1, 0)


@pytest.mark.parametrize(
    ("datasets", "weights", "message"),
    [
        ([range(3)], [1, 2], "1 datasets and 2 weights"),
        ([range(3), range(3)], [1, 0], r"weights\[1\] is 0: a weight is a finite number above 0"),
        ([range(3), range(3)], [float("nan"), 1], r"weights\[0\] is nan"),
        ([range(3), range(0)], [1, 1], r"dataset 1 \(range\) has no samples"),
        ([range(3), range(3)], [1e300, 1], r"the share of dataset 1 is below 1 / 65537"),
    ],
)
def test_what_is_wrong_is_refused(datasets: list[Any], weights: list[float], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        RecordSampler(mix(datasets, weights=weights))


@pytest.mark.parametrize("options", [{"shuffle": "block"}, {"shuffle": False}, {"weights": "balanced"}])
def test_a_mix_says_itself_how_samples_are_drawn(options: dict[str, Any]) -> None:
    mixed = mix([Labelled([0, 1]), Labelled([1, 0])], weights=[1, 1])
    for kind in (RecordSampler, RecordLoader):
        with pytest.raises(ArgumentError, match="with a mix, which says itself how samples are drawn"):
            kind(mixed, **options)


@pytest.fixture
def pets(tmp_path: Path) -> Any:
    trees = []
    for name, classes in (("one", "cat dog"), ("two", "bee dog owl")):
        files = {f"{kind}/{i}.png": folder.image_bytes(f"{i}.png", i) for kind in classes.split() for i in range(8)}
        tree = folder.write_tree(tmp_path / name, files)
        trees.append(ImageFolderRecord(tree, transform=lambda image: image.size[0]))
    return mix(trees, weights=[0.7, 0.3])


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_loader_of_a_mix_goes_on(pets: Any, workers: Any) -> None:
    check_loader(pets, 6, workers)
    loader = RecordLoader(pets, 6, seed=2)
    assert "target_transform" not in str(loader)
    wanted = [pets[index][1] for index in order_of(pets, seed=2).tolist()]
    assert [pets.classes[each] for each in wanted].count("owl") >= 8
    stock = DataLoader(pets, 6, sampler=RecordSampler(pets, seed=2))
    assert torch.cat([targets for _, targets in stock]).tolist() == wanted
