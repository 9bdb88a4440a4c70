"""Trees that lack the list of a split: the other splits open, and the error for this one says what to do."""

from pathlib import Path

import pytest

import recordzoo
from tests.contract import FAKES


@pytest.mark.parametrize(
    ("dataset", "kind", "missing", "split"),
    [
        ("dtd", "DTDRecord", "dtd/dtd/labels/val1.txt", "val"),
        ("food101", "Food101Record", "food-101/meta/test.json", "test"),
    ],
)
def test_a_split_whose_list_was_missing(dataset: str, kind: str, missing: str, split: str, tmp_path: Path) -> None:
    (fake,) = [each for each in FAKES if each.dataset == dataset]
    fake.write_tree(tmp_path)
    (tmp_path / missing).unlink()
    assert len(getattr(recordzoo, kind)(tmp_path)) > 0
    with pytest.raises(recordzoo.errors.NotPreparedError, match=rf"{dataset}\.records has no split '{split}.*refresh"):
        getattr(recordzoo, kind)(tmp_path, split)
