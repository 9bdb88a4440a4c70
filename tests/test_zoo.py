"""Datasets by name from Python, and the package's front door."""

import doctest
import inspect
import pydoc
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordzoo
import recordzoo.datasets
from recordzoo import catalogue, zoo
from recordzoo.catalogue import search
from tests.fakes import cub200, folder, voc
from tests.fakes.catalogued import catalogued
from tests.fakes.pictures import jpeg, picture
from tests.test_rooms import modules_after


def test_a_dataset_is_prepared_and_then_left_alone(tmp_path: Path) -> None:
    cub200.build(4, 6).write_tree(tmp_path)
    made = recordzoo.prepare("cub200", tmp_path, workers=1)
    assert made == [tmp_path / "cub200.records"]
    digest = recordzoo.RecordReader(made[0]).digest
    assert recordzoo.prepare("cub200", tmp_path) == made
    assert recordzoo.RecordReader(made[0]).digest == digest
    elsewhere = tmp_path / "elsewhere.records"
    assert recordzoo.prepare("cub200", str(tmp_path), output=elsewhere, workers=1) == [elsewhere]


def test_a_dataset_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(recordzoo.errors.ArgumentError, match="Did you mean cub200"):
        recordzoo.info("cub-20")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for name, output, kind, text in (
        ("imagenet.nothing", None, recordzoo.errors.ArgumentError, "imagenet"),
        ("imagenet", "x.records", recordzoo.errors.ArgumentError, r"one record set.*imagenet\.train, imagenet\.val"),
        ("photos", None, recordzoo.errors.FolderError, "photos has no class folders, no images, and no files"),
        ("cub200", None, recordzoo.errors.NotPreparedError, "no raw data"),
    ):
        with pytest.raises(kind, match=text):
            recordzoo.prepare(name, output=output, download=False)


@pytest.mark.parametrize("name", catalogued())
def test_each_record_set_is_opened_by_the_class_that_made_it(name: str, tmp_path: Path) -> None:
    fake = catalogued()[name]
    fake.write_archive(tmp_path)
    entry = catalogue.entry(name)
    held = set(fake.files)
    parts = [part.name for part in entry.parts if held.issuperset(file.name for file in entry.raw_files(part.name))]
    assert parts
    for part in parts:
        (made,) = recordzoo.prepare(entry.label(part), tmp_path, check_hash=False, incomplete=True, workers=1)
        reader = recordzoo.RecordReader(made)
        for field, spec in reader.manifest.fields.items():
            if spec.kind == "class" and spec.names is not None:
                labels = reader.array(field)
                assert -1 <= labels.min() <= labels.max() < len(spec.names)
        if "image" not in reader.manifest.blobs:  # masks that belong to the images of another set
            continue
        opened = recordzoo.open(made)
        assert type(opened).__name__ == entry.class_names[0]
        assert opened.records_path == made
        assert len(opened) > 0
        opened[0]


def test_a_missing_package_is_said_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = catalogued()["pcam"]
    fake.write_archive(tmp_path)
    (made,) = recordzoo.prepare("pcam.test", tmp_path, check_hash=False, workers=1)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(recordzoo.errors.PrepareError, match=r"pcam\.val: .* h5py, which is not installed"):
        recordzoo.prepare("pcam.val", tmp_path / "elsewhere")
    assert len(recordzoo.open(made)) == 5  # what is converted is read without it


def test_other_record_sets_are_opened(tmp_path: Path) -> None:
    tree = folder.write_tree(tmp_path / "photos")
    ours = recordzoo.ImageFolderRecord(tree)
    opened = recordzoo.open(ours.records_path, transform=len)
    assert (type(opened), len(opened), opened.transform) == (recordzoo.ImageFolderRecord, len(ours), len)
    made = recordzoo.convert(ours, tmp_path / "own.records")
    assert type(recordzoo.open(made)).__name__ == "RecordDataset"
    assert [target for _, target in recordzoo.open(made)] == ours.targets
    assert recordzoo.verify(made, full=True).ok
    with pytest.raises(recordzoo.errors.ManifestError, match=r"is not a record set, but holds .*\.records\. Pass "):
        recordzoo.open(tmp_path)
    with recordzoo.RecordWriter(tmp_path / "texts.records") as writer:
        writer.write({"text": "no image"})
    with pytest.raises(recordzoo.errors.OtherSourceError, match='has no "image"'):
        recordzoo.open(tmp_path / "texts.records")
    with pytest.raises(recordzoo.errors.OtherSourceError, match="holds no images"):
        recordzoo.CocoDetectionRecord(tmp_path / "texts.records", "instances_val2017.json")
    for call in (recordzoo.open, recordzoo.RecordReader):
        with pytest.raises(recordzoo.errors.ManifestError, match=r"no manifest\.json.* recordzoo\.prepare\('.*photos'"):
            call(tree)


def test_a_prepared_dataset_is_opened_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cub200.build(4, 6).write_tree(tmp_path)
    with pytest.raises(recordzoo.errors.NotPreparedError, match="There is no record set for cub200"):
        recordzoo.open("cub200", root=tmp_path)
    (made,) = recordzoo.prepare("cub200", tmp_path, workers=1)
    opened = recordzoo.open("cub200", root=tmp_path, split="test")
    assert (type(opened), opened.split, opened.records_path) == (recordzoo.CUB200Record, "test", made)
    monkeypatch.chdir(tmp_path)
    assert len(recordzoo.open("cub200")) == len(recordzoo.open(made))


def test_of_several_record_sets_the_arguments_choose_one(tmp_path: Path) -> None:
    for year in ("2007", "2012"):
        voc.build(year).write_archive(tmp_path)
        recordzoo.prepare(f"voc.{year}", tmp_path, check_hash=False, workers=1)
    with pytest.raises(recordzoo.errors.ArgumentError, match=r"several record sets .* voc\.2012, voc\.2007\. Name one"):
        recordzoo.open("voc", root=tmp_path)
    assert recordzoo.open("voc", root=tmp_path, year="2007").records_path == tmp_path / "voc2007.records"
    assert recordzoo.open("voc.2012", root=tmp_path).records_path == tmp_path / "voc2012.records"


class TestPrepareAnything:
    """`prepare` finds out what it is given; `tests/test_importing.py` and `test_foreign_*` have other tools' files."""

    @pytest.fixture
    def tree(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        return folder.write_tree(tmp_path / "photos")

    def test_a_tree(self, tree: Path) -> None:
        (tree / "README.md").write_text("notes")
        (tree / "labels.csv").write_text("a,b")  # beside class folders it is no table
        (made,) = recordzoo.prepare("photos", workers=1)
        assert made == tree.with_name("photos.records")
        assert recordzoo.prepare(tree) == [made]
        assert recordzoo.open(made).targets == recordzoo.ImageFolderRecord(tree).targets
        with pytest.raises(recordzoo.errors.ArgumentError, match="is a record set already"):
            recordzoo.prepare(made)
        assert recordzoo.prepare(made, variant="4", workers=1) == [tree.with_name("photos-4.records")]

    def test_splits(self, tree: Path) -> None:
        for name in ("train", "val"):
            folder.write_tree(tree.parent / "data" / name)
        assert recordzoo.prepare("data", split="val", workers=1) == [tree.parent / "data" / "val.records"]
        with pytest.raises(recordzoo.errors.ArgumentError, match="output names one record set"):
            recordzoo.prepare("data", output="x.records")

    @pytest.mark.parametrize(
        ("data", "arguments", "said"),
        [
            ("photos", {"from_": "tar"}, "Unknown value 'tar' for argument from_"),
            ("photos", {"fields": {"a": "b"}}, "for other tools' files, and photos is a directory of images"),
            ("cub200", {"from_": "classes"}, "for own data, and cub200 is a dataset"),
            ("hf://datasets/a/b", {}, "is an address: pass output"),
            ("s3://bucket/a", {}, "recordzoo pull s3://bucket/a"),
        ],
    )
    def test_arguments_that_do_not_fit(self, tree: Path, data: str, arguments: dict[str, Any], said: str) -> None:
        with pytest.raises(recordzoo.errors.ArgumentError, match=said):
            recordzoo.prepare(data, **arguments)

    def test_a_record_set_that_is_not_there_is_no_part_of_a_dataset(self, tree: Path) -> None:
        with pytest.raises(recordzoo.errors.NotPreparedError, match=r"cub200\.records does not exist"):
            recordzoo.prepare("cub200.records")
        with pytest.raises(recordzoo.errors.RecordError, match=r"cub200\.records cannot be opened"):
            recordzoo.open("cub200.records")

    def test_a_link_to_the_tree_itself_ends(self, tree: Path) -> None:
        (tree / "train").symlink_to(tree)
        (tree.parent / "empty" / "train").mkdir(parents=True)
        (tree.parent / "empty" / "train" / "train").symlink_to(tree.parent / "empty" / "train")
        with pytest.raises(recordzoo.errors.FolderError):
            recordzoo.prepare("empty")

    def test_nothing_that_is_known(self, tree: Path) -> None:
        (tree.parent / "texts").mkdir()
        (tree.parent / "texts" / "a.doc").write_text("a")
        with pytest.raises(recordzoo.errors.FolderError, match=r"no files of a known format.*recordzoo.convert"):
            recordzoo.prepare("texts")
        with pytest.raises(TypeError, match="'records_dir'; it is called output"):
            recordzoo.prepare("photos", records_dir="x.records")

    def test_images_are_decoded_if_that_is_asked_for(self, tree: Path) -> None:
        whole = jpeg(picture(np.random.default_rng(0), 64, 64))
        (tree / "cat" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
        (as_ever,) = recordzoo.prepare(tree, workers=1)
        assert not recordzoo.RecordReader(as_ever).manifest.bad
        with pytest.raises(recordzoo.errors.PrepareError, match=r"cat/cut\.jpg: OSError: "):
            recordzoo.prepare(tree, workers=1, check_images=True, on_error="raise", refresh=True)
        (made,) = recordzoo.prepare(tree, workers=1, check_images=True, on_error="skip", refresh=True)
        assert "cat/cut.jpg" not in recordzoo.RecordReader(made).names


def test_torchvisions_names_are_answered() -> None:
    assert recordzoo.datasets.CUB200Record is recordzoo.CUB200Record
    with pytest.raises(AttributeError, match=r"no attribute 'CIFAR10'\. Did you mean CIFAR10Record\?"):
        recordzoo.CIFAR10  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'Nothing'$"):
        recordzoo.Nothing  # noqa: B018


def test_examples_run() -> None:
    for module, count in ((zoo, 5), (search, 3)):
        results = doctest.testmod(module)
        assert results.attempted >= count
        assert results.failed == 0


def test_every_public_name_is_there_and_what_the_type_checker_sees() -> None:
    functions = {*recordzoo.ZOO, *recordzoo.OWN, *recordzoo.TRAINING}
    named = {"datasets", "errors", "__version__", *catalogue.class_modules(), *functions}
    assert set(recordzoo.__all__) == named - {"open"}  # `from recordzoo import *` must not replace Python's
    assert named < set(dir(recordzoo))
    for name in named:
        assert getattr(recordzoo, name) is not None


@pytest.mark.parametrize("name", sorted(catalogue.class_modules()))
def test_help_describes_each_argument_of_a_dataset_class(name: str) -> None:
    """The class describes its own, and `ZooDataset.__init__`, whose docstring all inherit, those that many have."""
    kind = getattr(recordzoo, name)
    text = pydoc.plain(pydoc.render_doc(kind))
    described = set(re.findall(r"^[ |]+\**(\w+): \S", text, re.MULTILINE))  # signatures have other lines
    assert set(inspect.signature(kind).parameters) <= described


def test_no_torch_is_needed() -> None:
    code = "import recordzoo; recordzoo.list_datasets(); recordzoo.info('voc'); recordzoo.verify"
    code += "; recordzoo.errors.RecordZooError"  # `errors` is there without an import of its own
    assert not modules_after(code) & {"torch", "torchvision"}


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("CIFAR10Record", {}, "Pass download=True, or run: recordzoo prepare cifar10"),
        ("LSUNRecord", {"classes": ["bedroom_val"]}, "Run: recordzoo prepare lsun.bedroom_val"),
        ("FER2013Record", {}, 'From its page "Data" get fer2013.tar.gz'),
        ("CityscapesRecord", {}, "From https://www.cityscapes-dataset.com/downloads/ get"),
        ("ImageNetRecord", {}, "accept_terms=True, or --accept-terms"),
    ],
)
def test_without_raw_data_the_error_says_what_works(name: str, arguments: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(recordzoo.errors.NotPreparedError, match="no records and no raw data") as caught:
        getattr(recordzoo, name)(tmp_path, **arguments)
    assert told in str(caught.value)
    assert ("download=True" in str(caught.value)) == (name == "CIFAR10Record")
    assert "{folder}" not in str(caught.value)
