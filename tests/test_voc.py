"""Pascal VOC beyond the contract: years, two classes over one set, lists that are missing or wrong."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from torchvision.datasets import VOCDetection, VOCSegmentation
from torchvision.datasets.voc import DATASET_YEAR_DICT

from recordzoo import VOCDetectionRecord, VOCSegmentationRecord, catalogue
from recordzoo.datasets.pairs_recipe import voc_folder
from recordzoo.errors import FolderError, NotPreparedError, OtherSourceError, SourceError
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from tests.contract import Difference, all_samples, plain, same_outcome
from tests.fakes import voc


def test_facts_are_torchvisions() -> None:
    for part, facts in DATASET_YEAR_DICT.items():
        (remote,) = catalogue.entry("voc").raw_files(part)
        (url,) = remote.urls  # before 0.27, torchvision names the same host otherwise
        assert urlsplit(url).path == urlsplit(facts["url"]).path
        assert remote.md5 == facts["md5"]
        assert voc_folder(part) == Path(facts["base_dir"]).as_posix()
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
    for fake in (train, test):
        fake.write_tree(tmp_path / "theirs")
        (fake.write_tree if source == "tree" else fake.write_archive)(tmp_path / "ours")

    class Record(VOCDetectionRecord):
        raw_files = (*train.remote_files(), *test.remote_files())

    for image_set in ("train", "trainval", "test"):
        theirs = VOCDetection(tmp_path / "theirs", "2007", image_set)
        ours = Record(tmp_path / "ours", "2007", image_set)
        assert [target for _, target in ours] == [target for _, target in theirs]
    train_names = RecordReader(tmp_path / "ours" / "voc2007.records").names
    test_names = RecordReader(tmp_path / "ours" / "voc2007-test.records").names
    assert not set(train_names) & set(test_names)
    assert len(test_names) == (6 if source == "tree" else 7)  # the fake archive has an image that no list names


def test_stored_bytes(tmp_path: Path) -> None:
    files = voc.members()
    ours = VOCDetectionRecord(voc.build().write_tree(tmp_path), image_set="val")
    base = voc_folder("2012")
    for index, path in enumerate(ours.images):
        stem = Path(path).stem
        assert ours.read(index) == files[f"{base}/JPEGImages/{stem}.jpg"]
        assert ours.read(index, "annotation") == files[f"{base}/Annotations/{stem}.xml"]


def test_missing_list(tmp_path: Path) -> None:
    root = voc.build().write_tree(tmp_path)
    (root / voc_folder("2012") / "ImageSets" / "Segmentation" / "val.txt").unlink()
    with pytest.raises(NotPreparedError, match=r"ImageSets/Segmentation/val\.txt was missing when .*refresh=True"):
        VOCSegmentationRecord(root, image_set="val")


def _main_only(base: Path) -> None:
    shutil.rmtree(base / "ImageSets" / "Segmentation")
    (base / "ImageSets" / "Main" / "trainval.txt").unlink()


def _segmentation_only(base: Path) -> None:
    shutil.rmtree(base / "ImageSets" / "Main")
    shutil.rmtree(base / "Annotations")
    (base / "ImageSets" / "Segmentation" / "trainval.txt").unlink()


def _own_lists(base: Path) -> None:
    """Lists of other images than the original's: all of `train` that are there, none of `val`."""
    stems = sorted(path.stem for path in (base / "JPEGImages").iterdir())
    shutil.rmtree(base / "ImageSets")
    for kind in ("Main", "Segmentation"):
        (base / "ImageSets" / kind).mkdir(parents=True)
        (base / "ImageSets" / kind / "train.txt").write_text("".join(f"{stem}\n" for stem in stems[::-1]))


def _missing_image(base: Path) -> None:
    stem = (base / "ImageSets" / "Segmentation" / "val.txt").read_text().split()[0]
    (base / "JPEGImages" / f"{stem}.jpg").unlink()


def _missing_annotation(base: Path) -> None:
    stem = (base / "ImageSets" / "Main" / "val.txt").read_text().split()[0]
    (base / "Annotations" / f"{stem}.xml").unlink()


def _odd_lines(base: Path) -> None:
    """What editors leave: an empty line, blanks, DOS line ends, no last line end, a name twice and one with a blank."""
    stem = (base / "ImageSets" / "Main" / "val.txt").read_text().split()[0]
    for kind in ("Main", "Segmentation"):
        lines = f"\r\n  {stem} \r\n\r\nno such image\r\n{stem}\r\n2099_000001"
        (base / "ImageSets" / kind / "val.txt").write_bytes(lines.encode())


def _folders(base: Path) -> None:
    """Files in folders of their own, as people sort them by source."""
    for path in [*(base / "JPEGImages").iterdir(), *(base / "Annotations").iterdir()]:
        (path.parent / "cam.1").mkdir(exist_ok=True)
        path.rename(path.parent / "cam.1" / path.name)
    for path in (base / "ImageSets" / "Main").glob("[tv]*.txt"):
        path.write_text("".join(f"cam.1/{line}\n" for line in path.read_text().split()))


IN_OTHER_WORDS = (Difference("", "", "ours name what makes the records again"),)
TREES = (_main_only, _segmentation_only, _own_lists, _missing_image, _missing_annotation, _odd_lines, _folders)


@pytest.mark.parametrize("year", ["2007", "2012"])
@pytest.mark.parametrize("change", TREES)
def test_trees_that_torchvision_reads(tmp_path: Path, change: Callable[[Path], None], year: str) -> None:
    """Whatever torchvision opens, we open, with the same samples and the same kinds of errors for the same of them."""
    roots = [voc.build(year).write_tree(tmp_path / name) for name in ("theirs", "ours")]
    for root in roots:
        change(root / voc_folder(year))
    pairs = ((VOCDetection, VOCDetectionRecord), (VOCSegmentation, VOCSegmentationRecord))
    opened = 0
    for image_set, (theirs, ours) in itertools.product(("train", "val", "trainval"), pairs):
        a, b = _seen(theirs, roots[0], year, image_set), _seen(ours, roots[1], year, image_set)
        opened += not isinstance(a[0], Exception)
        assert len(a) == len(b)
        assert all(same_outcome(x, y, IN_OTHER_WORDS) for x, y in zip(a, b, strict=True)), f"{image_set}: {a} / {b}"
    assert opened >= 2


def _seen(kind: Callable[..., Any], root: Path, year: str, image_set: str) -> list[Any]:
    try:
        dataset = kind(root, year, image_set)
    except Exception as err:  # noqa: BLE001 - any difference is what is looked for
        return [err]
    return [plain(dataset.images, root), plain(dataset.targets, root), *all_samples(dataset, root)]


def test_what_is_missing_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = voc.build().write_tree(tmp_path)
    _odd_lines(root / voc_folder("2012"))
    train = VOCDetectionRecord(root)
    val = VOCDetectionRecord(root, image_set="val")
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any("4 of the 6 files JPEGImages/*.jpg that ImageSets/Main/val.txt lists are missing" in s for s in said)
    assert len(said) == len(set(said)) == 4  # two lists, of two kinds of files each
    with pytest.raises(FolderError, match=r"2099_000001\.jpg was missing when .*refresh=True"):
        val[5]
    with pytest.raises(LookupError):
        val.read(5)
    assert len(list(train)) == len(VOCDetection(root))
    assert verify(val.records_path, full=True).ok


def test_trees_that_are_refused(tmp_path: Path) -> None:
    base = voc.build().write_tree(tmp_path) / voc_folder("2012")
    (base / "ImageSets" / "Main" / "val.txt").write_text("../../secret\n")
    with pytest.raises(SourceError, match=r"the list main-val names '\.\./\.\./secret', outside of JPEGImages/"):
        VOCDetectionRecord(tmp_path)
    shutil.rmtree(base / "JPEGImages")
    with pytest.raises(SourceError, match="no images under JPEGImages/"):
        VOCDetectionRecord(tmp_path)
    assert not list(tmp_path.glob("*.records"))


def test_another_year_as_root(tmp_path: Path) -> None:
    VOCDetectionRecord(voc.build("2011").write_tree(tmp_path), "2011")
    with pytest.raises(OtherSourceError, match=r"voc\.2011"):
        VOCDetectionRecord(tmp_path / "voc2011.records", "2012")
