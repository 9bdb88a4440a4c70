"""Pascal VOC beyond the contract: years, two classes over one set, lists that are missing or wrong."""

from pathlib import Path

import pytest
from torchvision.datasets import VOCDetection, VOCSegmentation
from torchvision.datasets.voc import DATASET_YEAR_DICT

from recordzoo import VOCDetectionRecord, VOCSegmentationRecord, catalogue
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, SourceError
from recordzoo.recipes.voc import base_folder, recipe
from recordzoo.records.reader import RecordReader
from tests.contract import plain
from tests.fakes import voc


def test_facts_are_torchvisions() -> None:
    for part, facts in DATASET_YEAR_DICT.items():
        (remote,) = catalogue.entry("voc").raw_files(part)
        assert remote.urls == (facts["url"],)
        assert remote.md5 == facts["md5"]
        assert base_folder(part) == Path(facts["base_dir"]).as_posix()
        # torchvision stores 2008's archive under the name of 2012's, where the one overwrites the other.
        assert remote.name == (facts["filename"] if part != "2008" else "VOCtrainval_14-Jul-2008.tar")
    assert {part.name for part in catalogue.entry("voc").parts} == set(DATASET_YEAR_DICT)


@pytest.mark.parametrize("year", ["2007", "2008", "2011"])
def test_years(tmp_path: Path, year: str) -> None:
    voc.build(year).write_tree(tmp_path)
    for theirs, ours in (
        (VOCDetection(tmp_path, year, "val"), VOCDetectionRecord(tmp_path, year, "val")),
        (VOCSegmentation(tmp_path, year, "val"), VOCSegmentationRecord(tmp_path, year, "val")),
    ):
        assert list(ours.images) == theirs.images
        assert list(ours.targets) == theirs.targets
        assert [plain(sample, tmp_path) for sample in ours] == [plain(sample, tmp_path) for sample in theirs]
    assert [path.name for path in tmp_path.glob("*.records")] == [f"voc{year}.records"]


@pytest.mark.parametrize("source", ["tree", "archive"])
def test_both_parts_of_2007(tmp_path: Path, source: str) -> None:
    """Both archives unpack into one folder; each part has its own images all the same, from either source."""
    train, test = voc.build("2007", 9, seed=1), voc.build("2007-test", 7, seed=2)
    names = set(train.files) & set(test.files)
    assert not any("JPEGImages" in name for name in names)
    for fake in (train, test):
        fake.write_tree(tmp_path / "theirs")
        if source == "tree":
            fake.write_tree(tmp_path / "ours")
        else:
            fake.write_archive(tmp_path / "ours")

    class Record(VOCDetectionRecord):
        raw_files = (train.remote(), test.remote())

    for image_set in ("train", "trainval", "test"):
        theirs = VOCDetection(tmp_path / "theirs", "2007", image_set)
        ours = Record(tmp_path / "ours", "2007", image_set)
        assert [target for _, target in ours] == [target for _, target in theirs]
    train_names = RecordReader(tmp_path / "ours" / "voc2007.records").names
    test_names = RecordReader(tmp_path / "ours" / "voc2007-test.records").names
    assert not set(train_names) & set(test_names)
    assert len(test_names) == (6 if source == "tree" else 7)  # the fake archive has an image that no list names


def test_stored_bytes(tmp_path: Path) -> None:
    fake = voc.build()
    ours = VOCDetectionRecord(fake.write_tree(tmp_path), image_set="val")
    base = base_folder("2012")
    for index, path in enumerate(ours.images):
        stem = Path(path).stem
        assert ours.read(index) == fake.files[f"{base}/JPEGImages/{stem}.jpg"]
        assert ours.read(index, "annotation") == fake.files[f"{base}/Annotations/{stem}.xml"]
    with pytest.raises(KeyError):
        ours.read(0, "no field")


def test_missing_annotation(tmp_path: Path) -> None:
    fake = voc.build()
    theirs_root, ours_root = fake.write_tree(tmp_path / "a"), fake.write_tree(tmp_path / "b")
    stem = Path(VOCDetection(theirs_root).images[1]).stem
    for root in (theirs_root, ours_root):
        (root / base_folder("2012") / "Annotations" / f"{stem}.xml").unlink()
    theirs, ours = VOCDetection(theirs_root), VOCDetectionRecord(ours_root)
    assert len(theirs) == len(ours)
    for ds in (theirs, ours):
        with pytest.raises(FileNotFoundError, match=f"{stem}.xml"):
            ds[1]


def test_missing_list(tmp_path: Path) -> None:
    fake = voc.build()
    root = fake.write_tree(tmp_path)
    (root / base_folder("2012") / "ImageSets" / "Segmentation" / "val.txt").unlink()
    with pytest.raises(NotPreparedError, match=r"no list ImageSets/Segmentation/val\.txt"):
        VOCSegmentationRecord(root, image_set="val")
    assert len(VOCSegmentationRecord(root, image_set="train")) > 0


def test_list_of_an_absent_image(tmp_path: Path) -> None:
    fake = voc.build()
    root = fake.write_tree(tmp_path)
    with open(root / base_folder("2012") / "ImageSets" / "Main" / "val.txt", "a") as file:
        file.write("2099_000001\n")
    with pytest.raises(SourceError, match="main-val are missing, the first is 2099_000001"):
        VOCDetectionRecord(root)
    assert not list(tmp_path.glob("*.records"))


def test_another_year_as_root(tmp_path: Path) -> None:
    VOCDetectionRecord(voc.build("2011").write_tree(tmp_path), "2011")
    with pytest.raises(OtherSourceError, match=r"voc\.2011"):
        VOCDetectionRecord(tmp_path / "voc2011.records", "2012")


def test_unknown_part() -> None:
    with pytest.raises(ArgumentError, match="argument part"):
        recipe("2013")
