"""`export`: each format as others read it and as `prepare` reads it back; the engine, tried with class folders.

By webdataset and datasets: tests/frameworks/test_export.py.
"""

import csv
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torchvision.datasets import ImageFolder
from typing_extensions import override

import recordzoo
from recordzoo.base.progress import SilentProgress
from recordzoo.errors import ArgumentError, CorruptRecordError, OtherSourceError, PrepareError, SourceError
from recordzoo.formats.export import WRITERS
from recordzoo.own.writer import RecordWriter
from recordzoo.records.reader import RecordReader
from tests import warm
from tests.copying import killed
from tests.exporting import CLASSES, SHARD_BYTES, Given, damaged, files, given, write
from tests.fakes.records import write_records
from tests.foreign import pairs
from tests.preparing import Notes, prepared

EXPORT = {"to": "folder", "shard_bytes": SHARD_BYTES}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record set with two splits."""
    return write(tmp_path_factory.mktemp("export") / "a.records")


def read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


def assert_tree(root: Path, path: Path) -> None:
    """ImageFolder reads each split of a record set from a tree: the bytes, the labels, the classes."""
    wanted = given(path)
    for split in wanted.images:
        folder = ImageFolder(str(root / split), loader=read_bytes, allow_empty=True)
        assert tuple(folder.classes) == CLASSES
        found = sorted((label, image) for image, label in folder)
        assert found == sorted(zip(wanted.labels[split], wanted.images[split], strict=True))


class TestFolder:
    def test_image_folder_reads_it(self, there: Path, tmp_path: Path) -> None:
        assert recordzoo.export(there, tmp_path / "tree", **EXPORT) == tmp_path / "tree"
        assert_tree(tmp_path / "tree", there)
        assert json.loads((tmp_path / "tree" / "classes.json").read_text()) == list(CLASSES)
        assert sorted(os.listdir(tmp_path)) == ["tree"]

    def test_names_are_kept_where_they_are_unique(self, tmp_path: Path) -> None:
        names = ["a/1.jpg", "b/1.jpg", "b/2.JPEG", "c/2.png", "../x/.3.jpg", "plain", "PLAIN.jpg", "a/" + 300 * "l"]
        with RecordWriter(tmp_path / "a.records", classes=["crane", "a/b", "..", "Crane"]) as writer:
            for name in names:
                writer.write({"name": name, "image": pairs(1)[0][0], "target": 3})
        root = recordzoo.export(tmp_path / "a.records", tmp_path / "tree", **EXPORT, progress=(said := Notes()))
        assert said.notes[0].endswith("their classes: 'a_b' ('a/b'), '_..' ('..'), 'Crane-2' ('Crane').")
        assert said.notes[1].startswith("ImageFolder numbers classes by name, but")
        assert sorted(path.name for path in root.iterdir()) == ["Crane-2", "_..", "a_b", "classes.json", "crane"]
        *found, longest = sorted(os.listdir(root / "Crane-2"), key=len)
        assert set(found) == {"1.jpg", "b_1.jpg", "2.JPEG", "2.png", "_.3.jpg", "plain.jpg", "PLAIN-2.jpg"}
        assert len(longest) == 193 + len(".jpg")

    def test_keys_of_webdataset_end_at_the_first_dot(self, tmp_path: Path) -> None:
        with RecordWriter(tmp_path / "a.records") as writer:
            for name in ["a.b/c.d.jpg", "x/../y", "/abs/z.png", "abs/z.jpg"]:
                writer.write({"name": name, "image": pairs(1)[0][0], "target": 0})
        root = recordzoo.export(tmp_path / "a.records", tmp_path / "tars", to="webdataset")
        with tarfile.open(root / "data-000000.tar") as archive:
            names = [name for name in archive.getnames() if name.endswith(".jpg")]
        assert names == ["a.b/c_d.jpg", "x/_../y.jpg", "abs/z.jpg", "abs_z.jpg"]

    @pytest.mark.slow
    def test_one_split_has_no_folder_of_its_own(self, there: Path, tmp_path: Path) -> None:
        recordzoo.export(there, tmp_path / "val", split="val", **EXPORT)
        assert {name for name in files(tmp_path / "val") if name.count("/") > 1} == set()
        assert len(ImageFolder(str(tmp_path / "val"), allow_empty=True)) == 8

    @pytest.mark.slow
    def test_without_classes_there_is_a_table(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.records", splits=False, classes=None)
        root = recordzoo.export(path, tmp_path / "flat", **EXPORT)
        head, *rows = csv.reader((root / "labels.csv").read_text("utf-8").splitlines())
        assert head == ["file_name", "label"]
        found = [(int(label), (root / name).read_bytes()) for name, label in rows]
        assert found == [*zip(given(path).labels[""], given(path).images[""], strict=True)]
        path = one_sample(tmp_path / "texts.records", name="1.jpg", target="a cat", image=found[0][1])
        root = recordzoo.export(path, tmp_path / "texts", **EXPORT)
        assert (root / "labels.csv").read_text().splitlines() == ["file_name,label", "1.jpg,a cat"]
        path = one_sample(tmp_path / "many.records", target=np.arange(3), image=found[0][1])
        recordzoo.export(path, tmp_path / "many", **EXPORT, progress=(said := Notes()))
        assert said.notes == ["The labels are neither numbers nor texts, and are not written; --to parquet has them."]

    @pytest.mark.slow
    def test_pixels_become_png_files(self, tmp_path: Path) -> None:
        pixels = np.random.default_rng(0).integers(0, 255, (3, 5, 6, 3), np.uint8)
        with RecordWriter(tmp_path / "a.records", classes=["x"]) as writer:
            for number in range(3):
                writer.write({"name": f"{number}.jpg", "target": 0, "image": pixels[number]})
        root = recordzoo.export(tmp_path / "a.records", tmp_path / "tree", **EXPORT)
        assert sorted(os.listdir(root / "x")) == ["0.png", "1.png", "2.png"]
        assert np.array_equal([np.asarray(image) for image, _ in ImageFolder(str(root))], pixels)


class TestSplits:
    def splits(self, tmp_path: Path, **splits: list[int]) -> Path:
        found = {name: np.array(positions, np.int64) for name, positions in splits.items()}
        values = [b"\xff\xd8\xff%d" % number for number in range(6)]
        return write_records(tmp_path / "a.records", values, encoding="image", splits=found)

    def test_those_that_share_samples_are_named(self, tmp_path: Path) -> None:
        path = self.splits(tmp_path, train=[0, 1], trainval=[0, 1, 2], val=[2])
        with pytest.raises(ArgumentError, match=r"shares samples .* one or several of train, trainval, val"):
            recordzoo.export(path, tmp_path / "tree", **EXPORT)
        with pytest.raises(ArgumentError, match=r"Did you mean train\?"):
            recordzoo.export(path, tmp_path / "tree", split="trian", **EXPORT)
        root = recordzoo.export(path, tmp_path / "tree", split=["val", "trainval"], **EXPORT)
        assert files(root).keys() == {"labels.csv", "val/0002.jpg", *(f"trainval/000{n}.jpg" for n in range(3))}

    def test_samples_of_none_are_the_rest(self, tmp_path: Path) -> None:
        root = recordzoo.export(self.splits(tmp_path, train=[5, 0]), tmp_path / "tree", **EXPORT)
        assert sorted(os.listdir(root / "train")) == ["0000.jpg", "0005.jpg"]
        assert sorted(os.listdir(root / "rest")) == ["0001.jpg", "0002.jpg", "0003.jpg", "0004.jpg"]


class TestSomethingIsThere:
    @pytest.mark.parametrize(
        "make",
        [
            Path.mkdir,
            lambda place: place.write_text("mine"),
            lambda place: place.symlink_to("nowhere"),
            lambda place: write(place, count=3),
        ],
    )
    def test_it_stays(self, make: Any, there: Path, tmp_path: Path) -> None:
        place = tmp_path / "thesis"
        make(place)
        before = files(place)
        with pytest.raises(OtherSourceError, match=r"thesis is there already"):
            recordzoo.export(there, place, **EXPORT)
        assert (files(place), os.listdir(tmp_path)) == (before, ["thesis"])

    def test_places_that_cannot_be(self, there: Path, tmp_path: Path) -> None:
        for place, text in ((there, "is in the record set"), ("s3://bucket/x", "is a URL")):
            with pytest.raises(ArgumentError, match=text):
                recordzoo.export(there, place, **EXPORT)
        with pytest.raises(ArgumentError, match=r"Did you mean folder\?"):
            recordzoo.export(there, tmp_path / "x", to="foldr")


class TestInterrupted:
    def test_it_begins_again(self, there: Path, tmp_path: Path) -> None:
        class Interrupts(SilentProgress):
            @override
            def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            recordzoo.export(there, tmp_path / "tree", progress=Interrupts(), **EXPORT)
        assert list(tmp_path.iterdir()) == []
        killed("export.complete", "export", there, "--to", "folder", "--output", "tree", cwd=tmp_path)
        (left,) = tmp_path.iterdir()
        assert left.name.startswith("tree.export-")
        recordzoo.export(there, tmp_path / "tree", **EXPORT)
        assert_tree(tmp_path / "tree", there)

    @pytest.mark.slow
    @pytest.mark.parametrize("to", WRITERS)
    def test_a_damaged_record_is_an_error_and_there_is_no_output(self, to: str, there: Path, tmp_path: Path) -> None:
        path = damaged(Path(shutil.copytree(there, tmp_path / "a.records")), 7)
        with pytest.raises(CorruptRecordError, match=r"image 7 \(raw/1/002.png\) is damaged"):
            recordzoo.export(path, tmp_path / "out", to=to)
        assert sorted(os.listdir(tmp_path)) == ["a.records", "damaged.records"]

    @pytest.mark.slow
    def test_no_files_may_be_so_large(self, there: Path, tmp_path: Path) -> None:
        """The real system refuses the write."""
        done = warm.run(_LIMITED_EXPORT, str(there), str(tmp_path / "out"))
        assert "DiskSpaceError" in done.stderr, done
        assert "Nothing is kept" in done.stderr
        assert not (tmp_path / "out").exists()


_LIMITED_EXPORT = """
import resource, signal, sys
import recordzoo
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
recordzoo.export(sys.argv[1], sys.argv[2], to="webdataset")
"""


@pytest.mark.slow
def test_a_set_at_a_url(there: Path, tmp_path: Path) -> None:
    recordzoo.push(there, "memory://exported")
    root = recordzoo.export("memory://exported/a.records", tmp_path / "tree", **EXPORT)
    assert_tree(root, there)


def test_without_the_package(there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PrepareError, match=r"pip install 'recordzoo\[formats\]'"):
        recordzoo.export(there, tmp_path / "out", to="parquet")
    assert list(tmp_path.iterdir()) == []


# Read back by `prepare`


def samples(of: Given) -> dict[str, list[tuple[bytes, int]]]:
    """The image and the label of each sample, by split."""
    return {split: list(zip(images, of.labels[split], strict=True)) for split, images in of.images.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("to", "format"), [("parquet", "huggingface"), ("webdataset", "webdataset")])
def test_imported_again_it_is_the_same(to: str, format: str, tmp_path: Path) -> None:
    """One class has no images. Names come back from a field."""
    path = write(tmp_path / "a.records", classes=(*CLASSES, "fox"))
    root = recordzoo.export(path, tmp_path / to, to=to, shard_bytes=SHARD_BYTES)
    fields = {"name": "name"} if to == "parquet" else {}
    again = prepared(root, tmp_path / "again.records", from_=format, fields=fields, workers=1)
    assert RecordReader(again).manifest.classes == (*CLASSES, "fox")
    assert samples(given(again)) == samples(given(path))
    assert not fields or list(RecordReader(again).names) == list(RecordReader(path).names)


def test_classes_beside_that_are_none(tmp_path: Path) -> None:
    root = recordzoo.export(write(tmp_path / "a.records"), tmp_path / "out", to="webdataset")
    for text, message in {
        '["a", "b"]': "label 4 has no name; 2 classes have one",
        "[": r"classes\.json is no JSON",
        "[1]": r"classes\.json is no list",
    }.items():
        (root / "classes.json").write_text(text)
        with pytest.raises(SourceError, match=message):
            prepared(root, tmp_path / "again.records", workers=1)


def one_sample(path: Path, **fields: Any) -> Path:
    with RecordWriter(path) as writer:
        writer.write({"target": 1, **fields})
    return path


def test_images_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(OtherSourceError, match="holds no image; only image files"):
        recordzoo.export(one_sample(tmp_path / "a.records"), tmp_path / "out", to="folder")
    path = one_sample(tmp_path / "b.records", image=np.zeros((4, 4, 2), np.uint8))
    with pytest.raises(OtherSourceError, match=r"record 0 \(.*\): an array uint8\[4, 4, 2\] is no im"):
        recordzoo.export(path, tmp_path / "out", to="webdataset")


@pytest.mark.parametrize("to", ["parquet", "webdataset"])
def test_half_of_a_letter(tmp_path: Path, to: str) -> None:
    """JSON has it as an escape; UTF-8 has it not, and a column of such texts is JSON."""
    path = one_sample(tmp_path / "a.records", image=pairs(1)[0][0], caption="a\ud83d")
    back = RecordReader(prepared(recordzoo.export(path, tmp_path / "out", to=to), tmp_path / "back.records", workers=1))
    if to == "webdataset":
        assert back.value("json", 0)["caption"] == "a\ud83d"
    else:
        assert back.value("caption", 0) == "a\ud83d"
