"""Datasets whose annotation file is an argument: where it is read from, and whose images it is about."""

import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader
from torchvision.datasets import CocoCaptions, CocoDetection, Flickr8k

import recordzoo
from recordzoo import CocoCaptionsRecord, CocoDetectionRecord, Flickr8kRecord
from recordzoo.errors import ArgumentError, RecordError
from tests.contract import outcome, plain, same_outcome
from tests.fakes import coco, flickr
from tests.fakes.fake import Fake


def samples(dataset: Any) -> list[Any]:
    return [plain(dataset[index], Path("/")) for index in range(len(dataset))]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Where torchvision's classes read."""
    return coco.coco.write_tree(tmp_path / "theirs")


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A folder with nothing but the record set."""
    root = coco.coco.write_archive(tmp_path / "ours")
    recordzoo.prepare("coco.val2017", root, check_hash=False, workers=1)
    for name in coco.coco.files:
        (root / name).unlink()
    assert os.listdir(root) == ["val2017.records"]
    return root


@pytest.mark.parametrize("root", ["val2017", "val2017.records"])
@pytest.mark.parametrize("given", [None, "instances_val2017.json", "gone/instances_val2017.json"])
def test_the_record_set_is_enough(
    tree: Path, prepared: Path, root: str, given: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = CocoDetection(tree / "val2017", tree / "annotations" / "instances_val2017.json")
    ours = CocoDetectionRecord(prepared / root, given)
    assert ours.ids == theirs.ids
    assert ours.coco.dataset == theirs.coco.dataset
    assert samples(ours) == samples(theirs)
    data = pickle.dumps(ours)
    assert len(data) < 2048
    assert capsys.readouterr().out.count("index created!") == 2
    assert samples(pickle.loads(data)) == samples(theirs)
    assert capsys.readouterr().out == ""


def test_each_class_has_its_own_default(tree: Path, prepared: Path) -> None:
    theirs = CocoCaptions(tree / "val2017", tree / "annotations" / "captions_val2017.json")
    assert samples(CocoCaptionsRecord(prepared / "val2017")) == samples(theirs)
    keypoints = CocoDetectionRecord(prepared / "val2017", "person_keypoints_val2017.json")
    assert any("keypoints" in each for _, target in keypoints for each in target)
    assert type(recordzoo.open(prepared / "val2017.records")) is CocoDetectionRecord


def test_a_file_on_the_disk_comes_first(tree: Path) -> None:
    path = tree / "annotations" / "instances_val2017.json"
    assert len(CocoDetectionRecord(tree / "val2017", path)) == 5
    path.write_bytes(coco.FEW.data)
    with pytest.warns(UserWarning, match=r"out of date: .* annotations/instances_val2017\.json has another size"):
        assert len(CocoDetectionRecord(tree / "val2017", path)) == 2
    assert len(CocoDetectionRecord(tree / "val2017", str(path))) == 2
    assert len(CocoDetectionRecord(tree / "val2017", "instances_val2017.json")) == 5


def test_an_annotation_file_that_changes_is_noticed_by_who_reads_it_again(tree: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(coco.FEW.data)
    data = pickle.dumps(CocoDetectionRecord(tree / "val2017", path))
    path.write_bytes(coco.INSTANCES.data)
    with pytest.raises(RecordError, match=r"mine\.json has changed since the dataset was opened"):
        pickle.loads(data)


def test_images_of_any_folder(tree: Path, tmp_path: Path) -> None:
    photos = tmp_path / "my" / "photos"
    (photos / "b").mkdir(parents=True)
    ids = (139, 632)
    for id, folder in zip(ids, ("", "b/"), strict=True):
        shutil.copy(tree / "val2017" / f"{id:012d}.jpg", photos / f"{folder}{id}.jpg")
    found = coco.document([{"id": 1, "image_id": 632, "caption": "one"}], ids)
    for image, folder in zip(found["images"], ("", "b/"), strict=True):
        image["file_name"] = f"{folder}{image['id']}.jpg"
    annotations = tmp_path / "mine.json"
    annotations.write_text(json.dumps(found))
    for theirs, ours in ((CocoDetection, CocoDetectionRecord), (CocoCaptions, CocoCaptionsRecord)):
        assert samples(ours(photos, annotations)) == samples(theirs(photos, annotations))
    assert sorted(os.listdir(photos.parent)) == ["photos", "photos.records"]
    expected = samples(CocoCaptions(photos, annotations))
    shutil.rmtree(photos)
    assert samples(CocoCaptionsRecord(photos, annotations)) == expected
    with pytest.raises(ArgumentError, match=r"photos\.records holds no annotation files: pass an annotation file"):
        CocoDetectionRecord(photos)


def test_a_tree_without_annotation_files(tree: Path) -> None:
    shutil.rmtree(tree / "annotations")
    expected = samples(CocoDetection(tree / "val2017", coco.INSTANCES))
    assert samples(CocoDetectionRecord(tree / "val2017", coco.INSTANCES)) == expected
    with pytest.raises(ArgumentError, match=r"called instances_val2017\.json or .* prepare again with refresh=True"):
        CocoDetectionRecord(tree / "val2017")
    (tree / "annotations").mkdir()
    (tree / "annotations" / coco.INSTANCES.name).write_bytes(coco.INSTANCES.data)
    assert samples(CocoDetectionRecord(tree / "val2017", refresh=True)) == expected


def test_images_that_are_missing(tree: Path) -> None:
    (tree / "val2017" / "000000000285.jpg").unlink()
    theirs = CocoDetection(tree / "val2017", coco.INSTANCES)
    ours = CocoDetectionRecord(tree / "val2017", coco.INSTANCES)
    index = theirs.ids.index(285)
    assert isinstance(error := outcome(tree, lambda: theirs[index]), FileNotFoundError)
    assert same_outcome(error, outcome(tree, lambda: ours[index]))
    assert list(DataLoader(ours, 2, sampler=[0, 2], collate_fn=len)) == [2]


def test_a_missing_package_is_said_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = coco.coco.write_archive(tmp_path)
    monkeypatch.setitem(sys.modules, "pycocotools.coco", None)
    with pytest.raises(ImportError) as caught:
        CocoDetectionRecord(root / "val2017")
    assert "pip install pycocotools" in caught.value.__notes__[0]
    assert set(os.listdir(root)) == set(coco.coco.files)


@pytest.mark.parametrize("fake", [flickr.flickr8k, flickr.flickr30k], ids=lambda fake: fake.dataset)
def test_captions_of_the_record_set(fake: Fake, tmp_path: Path) -> None:
    (case,) = fake.cases
    root = fake.write_archive(tmp_path)
    (made,) = recordzoo.prepare(fake.dataset, root, check_hash=False, workers=1)
    for name in fake.files:
        (root / name).unlink()
    ours = getattr(recordzoo, case.name)(root / case.folder)
    assert made == ours.records_path == root / f"{case.folder}.records"
    assert len(ours) == (4 if fake is flickr.flickr8k else 3)  # Karpathy's has not all; one image has no captions
    for (_, captions), name in zip(ours, map(os.path.basename, ours.ids), strict=True):
        assert all(name[:3] in caption for caption in captions)
    assert samples(pickle.loads(pickle.dumps(ours))) == samples(ours)


def test_flickr8k_reads_all_captions_files(tmp_path: Path) -> None:
    fake = flickr.flickr8k
    root = fake.write_tree(tmp_path) / "Flicker8k_Dataset"
    by_file = {file: Flickr8kRecord(root, file) for file in (flickr.PAGE, flickr.TOKENS, flickr.KARPATHY)}
    assert by_file[flickr.PAGE].ids == by_file[flickr.TOKENS].ids
    assert set(by_file[flickr.KARPATHY].ids) < set(by_file[flickr.PAGE].ids)
    assert by_file[flickr.TOKENS][0][1][0] == "Caption 0 of a café , 100 ."


def test_a_page_with_captions_of_an_image_that_is_missing(tmp_path: Path) -> None:
    root = flickr.flickr8k.write_tree(tmp_path) / "Flicker8k_Dataset"
    next(root.glob("667626_*.jpg")).unlink()
    with pytest.raises(IndexError):
        Flickr8k(root, flickr.PAGE)
    with pytest.raises(IndexError, match=r"There is no image 667626_\*\.jpg in .*Flicker8k_Dataset"):
        Flickr8kRecord(root, flickr.PAGE)
