"""DatasetFolderRecord beside what the contract compares: which records serve it, with the tree and without it."""

from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import DatasetFolder
from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader

from recordzoo import DatasetFolderRecord, ImageFolderRecord
from recordzoo.errors import FolderError
from tests.contract import read_bytes
from tests.fakes import folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return folder.write_dataset(tmp_path / "things")


def test_arrays_of_a_tree_that_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "arrays"
    for name in ("up", "down"):
        (root / name).mkdir(parents=True)
        np.save(root / name / "0.npy", np.full((2, 3), len(name)))
    DatasetFolderRecord(root, np.load, (".npy",))
    root.rename(tmp_path / "elsewhere")
    ours = DatasetFolderRecord(root, np.load, (".npy",))
    assert [(array.tolist(), label) for array, label in ours] == [([[4] * 3] * 2, 0), ([[2] * 3] * 2, 1)]
    assert ours.samples[0] == (str(root / "down" / "0.npy"), 0)


def test_images_are_those_of_the_whole_tree(tree: Path) -> None:
    whole = ImageFolderRecord(tree)
    assert DatasetFolderRecord(tree, default_loader, IMG_EXTENSIONS).records_path == whole.records_path
    some = DatasetFolderRecord(tree, default_loader, (".png",), allow_empty=True)
    assert some.records_path == whole.records_path
    assert len(some) < len(whole)
    others = DatasetFolderRecord(tree, read_bytes, (".txt",))
    assert others.records_path != whole.records_path
    assert DatasetFolderRecord(others.records_path, read_bytes, (".txt",))[0] == others[0]


def test_empty_classes_are_said_in_torchvisions_words(tree: Path, tmp_path: Path) -> None:
    for extensions in (".scan", (".scan", ".png")):
        texts = []
        for kind in (DatasetFolder, DatasetFolderRecord):
            with pytest.raises(FileNotFoundError) as caught:
                kind(tree, read_bytes, extensions)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
        DatasetFolderRecord(tree, read_bytes, extensions, allow_empty=True)
    tree.rename(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match=r"^Found no valid file for the classes d\. .* are: \.scan$"):
        DatasetFolderRecord(tree, read_bytes, ".scan")
