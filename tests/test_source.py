"""Where samples come from, through any `Subset` and `ConcatDataset`, and which datasets a loader can see through."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, Subset

from recordzoo import ImageFolderRecord, convert
from recordzoo.loader.source import Source
from tests.batching import make_tree
from tests.fakes.samples import Samples

# Any: of datasets of all kinds.


@pytest.fixture(scope="module")
def leaves(tmp_path_factory: pytest.TempPathFactory) -> list[ImageFolderRecord]:
    root = make_tree(tmp_path_factory.mktemp("tree"))
    return [ImageFolderRecord(root), ImageFolderRecord(root, is_valid_file=lambda path: path[-6:-4] > "20")]


def nested(data: st.DataObject, leaves: list[Any], depth: int) -> Any:
    """Draw a dataset, as a function of its leaves: datasets, or lists of what their samples are."""
    kind = data.draw(st.sampled_from(["leaf", "subset", "concat"])) if depth else "leaf"
    if kind == "leaf":
        number = data.draw(st.integers(0, len(leaves) - 1))
        return lambda leaves: leaves[number]
    if kind == "concat":
        parts = [nested(data, leaves, depth - 1) for _ in range(data.draw(st.integers(1, 3)))]
        return lambda leaves: ConcatDataset([part(leaves) for part in parts])
    inner = nested(data, leaves, depth - 1)
    length = len(inner(leaves))
    chosen = data.draw(st.lists(st.integers(-length, length - 1), max_size=9)) if length else []
    make = data.draw(st.sampled_from([list, tuple, np.array, torch.tensor]))
    return lambda leaves: Subset(inner(leaves), make(chosen))


@given(st.data())
def test_samples_are_found_through_all_around_them(leaves: list[ImageFolderRecord], data: st.DataObject) -> None:
    make = nested(data, leaves, 3)
    dataset = make(leaves)
    right = make([[(number, index) for index in range(len(leaf))] for number, leaf in enumerate(leaves)])
    source = Source(dataset)
    length = len(dataset)
    indices = data.draw(st.lists(st.integers(0, length - 1), max_size=20)) if length else []
    numbers, inner = source.locate(np.array(indices, np.int64))
    kinds = [leaves.index(leaf.dataset) for leaf in source.leaves]
    found = [(kinds[number], index) for number, index in zip(numbers.tolist(), inner.tolist(), strict=True)]
    assert found == [right[index] for index in indices]
    for index in (length, -length - 1):
        with pytest.raises(IndexError):
            source.locate(np.array([index]))


def test_what_cannot_be_seen_through(leaves: list[ImageFolderRecord], tmp_path: Path) -> None:
    class Own(ImageFolderRecord):
        def __getitem__(self, index: int) -> Any:
            return 1, 2

    class OwnSubset(Subset[Any]):
        pass

    floats = ImageFolderRecord(convert(Samples("float", 4), tmp_path / "my.records", workers=1))
    for dataset, problem in [
        (Own(leaves[0].root), "Own makes its samples itself"),
        (OwnSubset(leaves[0], [1]), "OwnSubset makes its samples itself"),
        (range(3), "range makes its samples itself"),
        (floats, "its images are stored as numbers that are no pixels"),
        (ConcatDataset([leaves[0], range(3)]), "range makes its samples itself"),
        (Subset(floats, [1]), "its images are stored as numbers that are no pixels"),
    ]:
        source = Source(dataset)
        assert (source.problem, source.leaves) == (problem, [])
