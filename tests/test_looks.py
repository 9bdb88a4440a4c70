"""What looks annotated is no class folders without a word: folders and zips, for `prepare` and `ImageFolderRecord`."""

import contextlib
import re
import shutil
import warnings
from pathlib import Path

import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet
from torchvision.datasets import ImageFolder

import recordzoo
from recordzoo import ImageFolderRecord
from recordzoo.errors import FolderError, OtherSourceError, SourceError
from recordzoo.records.reader import RecordReader
from tests.preparing import prepared

pytestmark = pytest.mark.filterwarnings("ignore:.*look like splits")

COCO = '{"version": "1.0", "images": [{"id": 1, "file_name": "1.jpg"}], "annotations": []}'
NAMES = "are usual names of folders of annotated images"

Files = dict[str, str]
"""Names of files, and what they hold: "RGB", "L", "P": an image of this mode; otherwise a text."""


def images(*folders: str, count: int = 3, ending: str = ".jpg", mode: str = "RGB") -> Files:
    return {f"{folder}/{number}{ending}": mode for folder in folders for number in range(count)}


LOOKS: dict[str, tuple[Files, str]] = {
    "cats and dogs": (images("cat", "dog"), ""),
    "splits": (images("train/cat", "train/dog", "val/cat", "val/dog"), ""),
    "facts beside": ({**images("cat", "dog"), "train.txt": "cat/1.jpg", "info.json": '{"images": 3}', "a.csv": ""}, ""),
    "one folder and a list": ({**images("x"), "a.csv": ""}, "a.csv is there, and one folder with images, x"),
    "a folder around all": (images("all/cat", "all/dog"), "its images in folders of one folder, all: cat, dog"),
    "a copy of all": (images("a/cat", "a/dog", "cat", "dog"), "has folders of the names of others in a: cat, dog"),
    "Cityscapes": (images("gtFine/train", "leftImg8bit/train"), NAMES),
    "CamVid": (images("train", "trainannot"), "trainannot has the name of a folder with masks"),
    "CreateML": ({**images("a", "b"), "a/x.json": '[{"coordinates": {"x": 1}}]'}, "a/x.json has the keys of a tool"),
    "a readme in a class": ({**images("cat", "dog"), "cat/README.txt": "cats"}, ""),
    "masks with a word": ({"imgs/1.jpg": "RGB", "masks/1_mask.png": "L"}, NAMES),
    "img_dir": ({**images("train/img_dir"), **images("train/ann_dir", ending=".png", mode="L")}, NAMES),
    "only images": (images("images"), "images is the usual name of a folder of annotated images"),
    "ultralytics": ({**images("cat", "dog"), "data.yaml": "names: [cat]"}, "there is data.yaml"),
    "masks of one ending": (
        {**images("photos", ending=".png"), **images("truth", ending=".png", mode="P")},
        "have images of the same names, and those of one have one channel or a palette",
    ),
    "one usual name": (images("photos", "labels"), "have images of the same names"),
    "pairs": (images("input", "target"), "have images of the same names"),
    "Pascal VOC beside": ({**images("cat", "dog"), "cat/1.xml": "<annotation/>"}, "cat/1.xml has the name of an image"),
    "Supervisely's folders": (
        {**images("ours/img", "x"), "ours/ann/1.jpg.json": "{}"},
        "ours/ann/1.jpg.json has the name of an image",
    ),
    "one folder too deep": ({**images("birds/images", "birds/masks", "x")}, "birds/ has images in images and masks"),
    "masks beside": ({**images("a", "b"), "a/1_mask.jpg": "L"}, "a/1_mask.jpg has the name of a mask"),
    "VIA": (
        {**images("a", "b"), "b/v.json": '{"1": {"regions": [{"shape_attributes": {}}]}}'},
        "has the keys of a tool",
    ),
    "Label Studio": ({**images("a", "b"), "x.json": '[{"result": [{"from_name": "label"}]}]'}, "keys of a tool"),
    "CVAT for images": ({**images("a", "b"), "annotations.xml": "<annotations>\n  <version>1.1"}, "the keys of a tool"),
    "boxes": ({**images("a", "b"), "a/_annotations.csv": "filename,class,xmin,ymin,xmax,ymax"}, "the keys of a tool"),
    "folders in classes": (images("cat/images", "dog/images"), ""),
    "COCO beside": ({**images("cat", "dog"), "notes/x.json": COCO}, r"the keys of COCO \(--annotations notes/x"),
}


READ = {"Pascal VOC beside": "voc", "masks with a word": "masks", "img_dir": "masks"}  # folders; zips are refused


def write(root: Path, files: Files) -> None:
    for number, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content in ("RGB", "L", "P"):
            Image.new(content, (8, 9), number).save(path)
        else:
            path.write_text(content)


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("name", LOOKS)
def test_what_looks_annotated(name: str, form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files, why = LOOKS[name]
    root = tmp_path / "ours"
    write(root, files)
    data = root if form == "folder" else Path(shutil.make_archive(str(root), "zip", tmp_path, "ours"))
    if not why:
        for made in recordzoo.prepare(data, workers=1):
            assert RecordReader(made).manifest.classes == ("cat", "dog")
        assert "looks annotated" not in caplog.text
        return
    if form == "folder" and name in READ:
        assert RecordReader(prepared(data, workers=1)).manifest.metadata["annotations"] == READ[name]
        return
    with pytest.raises(SourceError, match=rf"{why}.*prepare .*ours\S* --from classes"):
        recordzoo.prepare(data, workers=1)
    if form == "zip":
        with contextlib.suppress(FolderError):  # images that lie in no folder
            (made,) = recordzoo.prepare(data, workers=1, from_="classes")
            assert RecordReader(made).manifest.dataset == "zip"
    else:
        ours, theirs = (kind(root, allow_empty=True) for kind in (ImageFolderRecord, ImageFolder))
        assert (ours.classes, ours.targets) == (theirs.classes, theirs.targets)
        assert re.search(rf"its folders are classes here. It .*{why}", caplog.text)
        shutil.rmtree(f"{root}.records")
        made = prepared(data, workers=1, from_="classes", allow_empty=True)
        assert RecordReader(made).manifest.classes == tuple(theirs.classes)
        if "train/img_dir/0.jpg" not in files:
            assert prepared(data, allow_empty=True) == made  # once it is there


def test_what_may_not_be_meant_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "recordzoo")
    files = {"b/x/.c/1.jpg": "RGB", "b/1.gif": "P", "b/2.jpg?w=3": "", "3.png": "P"}
    write(tmp_path / "ours", {**images("a/x", "b/x"), **files})
    assert recordzoo.open(prepared(tmp_path / "ours")).targets == ImageFolder(tmp_path / "ours").targets
    ImageFolderRecord(tmp_path / "ours", refresh=True)
    for said in ("have 1 image, .* b/x/.c/1.jpg", "class of a/x/0.jpg is 'a'", "3 files: 3.png, b/1.gif, b/2.jpg?"):
        assert len(re.findall(said, caplog.text)) == 2


DIVIDED = {
    "train2017 val2017": "train2017, val2017",
    "training_set/cat test_set/cat": "test_set, training_set",
    "trainA trainB": "trainA, trainB",
    "train test cat": "test, train",
    "images_part_1/cat images_part_2/cat": "images_part_1, images_part_2",
    "bullet_train car pregnancy_test tram bus": "",
}


@pytest.mark.parametrize("folders", DIVIDED)
def test_folders_that_are_named_like_splits_or_parts(folders: str, tmp_path: Path) -> None:
    for place, folder in enumerate(folders.split(), 1):
        write(tmp_path, images(f"ours/{folder}", count=place))
    packed, found = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "ours")), DIVIDED[folders]
    for data in (tmp_path / "ours", packed):
        if found:
            with pytest.raises(SourceError, match=f"{data.name} looks divided: {found} are named like splits or"):
                recordzoo.prepare(data, workers=1)
        made = prepared(data, workers=1, from_="classes" if found else None)
        assert RecordReader(made).manifest.classes == tuple(ImageFolder(tmp_path / "ours").classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ImageFolderRecord(tmp_path / "ours")
    assert bool(found) == any("which look like splits" in str(each.message) for each in caught)


def test_splits_whose_class_numbers_differ(tmp_path: Path) -> None:
    """ImageFolder over each split gives c another number; the tree, as a zip of it, has one numbering."""
    root = tmp_path / "ours"
    write(root, images("train/a", "train/b", "train/c", "val/a", "val/c"))
    assert [ImageFolder(root / split).class_to_idx["c"] for split in ("train", "val")] == [2, 1]
    write(root, {"test/1.jpg": "RGB"})
    data = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", root))
    for each in (root, data):
        reader = RecordReader(prepared(each, workers=1))
        assert reader.path == each.with_name(f"{each.stem}.records")
        assert (reader.manifest.classes, reader.manifest.splits) == (("a", "b", "c"), {"test": 1, "train": 9, "val": 6})
        for split in ("train", "val"):
            ours, theirs = recordzoo.open(reader.path, split=split), ImageFolder(root / split)
            found, expected = ([each.classes[label] for label in each.targets] for each in (ours, theirs))
            assert found == expected
            assert [image.tobytes() for image, _ in ours] == [image.tobytes() for image, _ in theirs]
        assert recordzoo.open(reader.path, split="test").targets == [-1]
    with pytest.raises(OtherSourceError, match="--refresh"):
        prepared(root, workers=1, from_="classes")
    shutil.rmtree(root / "test")
    alone = recordzoo.open(prepared(root / "val", workers=1))
    assert alone.class_to_idx == ImageFolder(root / "val").class_to_idx
    prepared(root, split="train", workers=1)
    assert len(recordzoo.prepare(root, workers=1)) == 2  # both are there


def test_splits_that_lack_the_last_classes(tmp_path: Path) -> None:
    write(tmp_path / "ours", {**images("train/a", "train/b", "val/a", "test"), "meta/list.txt": "x"})
    with pytest.raises(SourceError, match=r"looks divided: test, train, val are .*prepare each by itself: .*/test"):
        recordzoo.prepare(tmp_path / "ours", workers=1, allow_empty=True)  # a folder without images
    shutil.rmtree(tmp_path / "ours/meta")
    with pytest.raises(FolderError, match="test"):
        recordzoo.prepare(tmp_path / "ours", workers=1)
    shutil.rmtree(tmp_path / "ours/test")
    assert len(recordzoo.prepare(tmp_path / "ours", workers=1)) == 2


def test_a_parquet_table_of_the_images_beside_it(tmp_path: Path) -> None:
    write(tmp_path, images("ours"))
    parquet.write_table(pyarrow.table({"file_name": ["0.jpg"], "label": ["a"]}), tmp_path / "ours/metadata.parquet")
    with pytest.raises(FolderError, match=r"if metadata.parquet lists them .* To store .* --from flat$"):
        recordzoo.prepare(tmp_path / "ours", workers=1)
