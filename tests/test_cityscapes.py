"""Cityscapes: trees that have not everything, and where its archives come from."""

import shutil
from pathlib import Path

import pytest
from torchvision.datasets import Cityscapes

import recordzoo
from recordzoo import CityscapesRecord, RecordReader
from recordzoo.errors import DownloadError, NotPreparedError
from tests.fakes.annotations import cityscapes as FAKE


def test_a_tree_with_one_split(tmp_path: Path) -> None:
    tree = FAKE.write_tree(tmp_path)
    for folder in ("gtFine/val", "leftImg8bit/test"):
        shutil.rmtree(tree / folder)
    dataset = CityscapesRecord(tree)
    assert len(dataset) == 4
    assert list(RecordReader(dataset.records_path).manifest.splits) == ["train"]
    with pytest.raises(RuntimeError, match="Dataset not found or incomplete"):
        Cityscapes(tree, "val")
    with pytest.raises(NotPreparedError, match=r"no leftImg8bit/val/ or no gtFine/val/ when .*fine\.records"):
        CityscapesRecord(tree, "val")


def test_a_target_that_is_missing(tmp_path: Path) -> None:
    tree = FAKE.write_tree(tmp_path)
    path = tree / "gtFine/train/ulm/ulm_000000_000019_gtFine_color.png"
    path.unlink()
    dataset = CityscapesRecord(tree, target_type=["semantic", "color"])
    index = [target[1] for target in dataset.targets].index(str(path))
    with pytest.raises(FileNotFoundError, match=path.name):  # torchvision's error, too
        dataset[index]
    assert CityscapesRecord(tree, target_type="semantic")[index][1].size == (24, 12)


def test_each_part_is_made_of_its_own_archives(tmp_path: Path) -> None:
    root = FAKE.write_archive(tmp_path)
    (root / "gtFine_trainvaltest.zip").unlink()
    (coarse,) = recordzoo.prepare("cityscapes.coarse", root, check_hash=False, workers=1)
    splits = {name: len(RecordReader(coarse).split(name)) for name in RecordReader(coarse).manifest.splits}
    assert splits == {"train": 4, "val": 4}
    assert len(RecordReader(coarse)) == 8  # without the images of the test
    with pytest.raises(DownloadError, match=r"(?s)Register or log in.*gtFine_trainvaltest\.zip \(241 MB\)"):
        recordzoo.prepare("cityscapes.fine", root, check_hash=False, workers=1)
