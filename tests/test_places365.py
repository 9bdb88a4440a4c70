"""Places365, beyond the contract: what differs from other datasets of lists."""

from pathlib import Path

import pytest

import recordzoo
from tests.contract import DECLARED, Pair


def build(folder: Path, source: str) -> Pair:
    (row,) = [each for each in DECLARED if each.name == "Places365"]
    return row.build(folder, source)


def test_a_list_that_was_changed(tmp_path: Path) -> None:
    """torchvision refuses it, too."""
    pair = build(tmp_path, "tree")
    path = pair.our_root / "places365_val.txt"
    path.write_bytes(path.read_bytes() + b"Places365_val_00000007.jpg 3\n")
    with pytest.raises(RuntimeError, match="does not exist or is corrupted"):
        pair.theirs(pair.our_root, "val")
    with pytest.raises(recordzoo.errors.SourceError, match=r"places365_val\.txt is damaged: its MD5 is"):
        pair.ours(pair.our_root, "val")


def test_a_loader_takes_images_by_themselves_while_transforms_are_the_other_two(tmp_path: Path) -> None:
    pair = build(tmp_path, "archive")
    dataset = pair.ours(pair.our_root, "val", transform=len)
    assert dataset.batch_source().problem == ""
    dataset.transform = None  # which torchvision does not look at
    assert "its transforms are not" in dataset.batch_source().problem


def test_only_the_archives_of_a_split_and_size_are_needed(tmp_path: Path) -> None:
    pair = build(tmp_path, "archive")
    needed = {"filelist_places365-standard.tar", "val_256.tar"}
    for path in pair.our_root.iterdir():
        if path.name not in needed:
            path.unlink()
    assert len(pair.ours(pair.our_root, "val", small=True)) == 6
    with pytest.raises(
        recordzoo.errors.NotPreparedError, match=r"val_large/, filelist_places365-standard\.tar, val_large\.tar"
    ):
        pair.ours(pair.our_root, "val")
