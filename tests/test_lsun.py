"""LSUNRecord and LSUNClassRecord beside what the contract compares: the databases, their names and their places."""

from pathlib import Path

import pytest

import recordzoo
from recordzoo import catalogue
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, SourceError
from tests.contract import LSUNRecord
from tests.fakes.catalogued import catalogued
from tests.fakes.legacy import write_lmdb
from tests.fakes.lsun import FakeClassRecord

FAKE = catalogued()["lsun"]
CLASSES = ["tower_train", "church_outdoor_val"]


@pytest.mark.parametrize("source", ["tree", "archive"])
def test_records_stand_for_databases_that_are_gone(tmp_path: Path, source: str) -> None:
    root = (FAKE.write_tree if source == "tree" else FAKE.write_archive)(tmp_path / "lsun")
    before = [sample[0].tobytes() for sample in LSUNRecord(root, CLASSES)]
    for path in root.glob("*_lmdb*"):
        path.rename(tmp_path / path.name)
    after = LSUNRecord(root, CLASSES)
    assert [image.tobytes() for image, _ in after] == before
    assert [after[index][1] for index in range(len(after))] == [0] * len(after.dbs[0]) + [1] * len(after.dbs[1])
    assert not list(tmp_path.rglob("_cache_*"))


def test_bytes_of_a_sample_are_those_of_its_database(tmp_path: Path) -> None:
    ours = LSUNRecord(FAKE.write_tree(tmp_path), CLASSES)
    first, second = ours.dbs
    assert ours.records_path == tmp_path
    assert ours.read(0) == first.read(0)
    assert ours.read(len(first) + 1) == second.read(1)
    assert ours.read(-1) == first.read(-1)  # as torchvision counts
    with pytest.raises(IndexError):
        ours.read(len(ours))
    assert [label for _, label in ours.__getitems__([len(first), 0])] == [1, 0]
    second.keys[0] = b"no such key"
    with pytest.raises(KeyError, match="no such key"):
        second[0]


def test_a_record_set_of_another_dataset_is_refused(tmp_path: Path) -> None:
    path = recordzoo.EuroSATRecord(catalogued()["eurosat"].write_tree(tmp_path)).records_path
    with pytest.raises(OtherSourceError, match=r"is a record set of eurosat, not of lsun"):
        FakeClassRecord(str(path))


def test_only_the_small_parts_are_prepared_with_the_dataset() -> None:
    entry = catalogue.entry("lsun")
    assert len(entry.default_parts) == 10
    assert all(part.endswith("_val") for part in entry.default_parts)
    assert (entry.size_bytes or 0) < 60e6


def test_several_record_sets_have_no_one_place(tmp_path: Path) -> None:
    FAKE.write_tree(tmp_path)
    place = tmp_path / "elsewhere" / "tower.records"
    with pytest.raises(ArgumentError, match="records_dir names one record set"):
        LSUNRecord(tmp_path, CLASSES, records_dir=place)
    assert LSUNRecord(tmp_path, CLASSES[:1], records_dir=place).dbs[0].records_path == place


def test_a_folder_that_is_not_one_of_lsuns(tmp_path: Path) -> None:
    write_lmdb(tmp_path / "cat_lmdb", [(b"key", b"value")])
    with pytest.raises(ArgumentError, match=r"/cat_lmdb is not named like .* are called <category>_<split>_lmdb"):
        FakeClassRecord(str(tmp_path / "cat_lmdb"))
    with pytest.raises(NotPreparedError, match=r"tower_val_lmdb/data\.mdb"):
        FakeClassRecord(str(tmp_path / "tower_val_lmdb"))
    write_lmdb(tmp_path / "tower_val_lmdb", [])
    with pytest.raises(SourceError, match="is empty"):
        FakeClassRecord(str(tmp_path / "tower_val_lmdb"))
