"""`export`: the engine, tried with trees of class folders, and a tree and a zip as torchvision reads them."""

import csv
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import ImageFolder

import recordzoo
from recordzoo.custom.writer import RecordWriter
from recordzoo.errors import ArgumentError, CorruptRecordError, DiskSpaceError, OtherSourceError, PrepareError
from recordzoo.exporting import work
from recordzoo.exporting.job import NOTE_NAME
from recordzoo.formats import WRITTEN
from recordzoo.formats.folder import class_folders, unique
from tests.exporting import CLASSES, SHARD_BYTES, damaged, files, given, write
from tests.fakes.records import write_records
from tests.faults import fault
from tests.preparing import REPOSITORY

EXPORT = {"to": "folder", "shard_bytes": SHARD_BYTES, "workers": 1}


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
        found = unique(names, ["cat"] * len(names))
        assert found[:7] == [
            "cat/1.jpg", "cat/b_1.jpg", "cat/2.JPEG", "cat/2.png", "cat/_.3.jpg", "cat/plain", "cat/PLAIN-2.jpg",
        ]  # fmt: skip
        assert len(found[7]) == 4 + 193
        assert unique(["a.b/c.d.jpg", "x/../y", "/abs/z.png"], [""] * 3, whole=True, dots=False) == [
            "a.b/c_d.jpg", "x/_../y", "abs/z.png",
        ]  # fmt: skip
        assert class_folders(["crane", "a/b", "..", "Crane"]) == ["crane", "a_b", "_..", "Crane-2"]

    @pytest.mark.slow
    def test_one_split_has_no_folder_of_its_own(self, there: Path, tmp_path: Path) -> None:
        recordzoo.export(there, tmp_path / "val", split="val", **EXPORT)
        assert {name for name in files(tmp_path / "val") if name.count("/") > 1} == set()
        assert len(ImageFolder(str(tmp_path / "val"), allow_empty=True)) == 8

    @pytest.mark.slow
    def test_without_classes_there_is_a_table(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.records", splits=False, classes=None)
        root = recordzoo.export(path, tmp_path / "flat", **EXPORT)
        with open(root / "labels.csv", encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file)
        assert head == ["file_name", "label"]
        assert [int(label) for _, label in rows] == given(path).labels[""]
        assert [(root / name).read_bytes() for name, _ in rows] == given(path).images[""]

    @pytest.mark.slow
    def test_pixels_become_png_files(self, tmp_path: Path) -> None:
        pixels = np.random.default_rng(0).integers(0, 255, (3, 5, 6, 3), np.uint8)
        with RecordWriter(tmp_path / "a.records", classes=["x"]) as writer:
            for number in range(3):
                writer.write({"name": f"{number}.jpg", "image": pixels[number], "target": 0})
        root = recordzoo.export(tmp_path / "a.records", tmp_path / "tree", **EXPORT)
        assert sorted(os.listdir(root / "x")) == ["0.png", "1.png", "2.png"]
        assert np.array_equal([np.asarray(image) for image, _ in ImageFolder(str(root))], pixels)

    @pytest.mark.slow
    def test_any_number_of_processes_write_the_same(self, there: Path, tmp_path: Path) -> None:
        one = files(recordzoo.export(there, tmp_path / "one", **EXPORT))
        assert files(recordzoo.export(there, tmp_path / "two", **{**EXPORT, "workers": 2})) == one


class TestZip:
    @pytest.mark.slow
    def test_unpacked_it_is_the_tree(self, there: Path, tmp_path: Path) -> None:
        path = recordzoo.export(there, tmp_path / "a.zip", to="zip", workers=2)
        with zipfile.ZipFile(path) as archive:
            assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
            assert archive.testzip() is None
            archive.extractall(tmp_path / "unpacked")
        assert_tree(tmp_path / "unpacked", there)
        tree = files(recordzoo.export(there, tmp_path / "tree", **EXPORT))
        assert {NOTE_NAME: tree[NOTE_NAME], **files(tmp_path / "unpacked")} == tree

    @pytest.mark.slow
    def test_it_is_left_alone_or_replaced_as_a_folder_is(self, there: Path, tmp_path: Path) -> None:
        path = tmp_path / "a.zip"
        recordzoo.export(there, path, to="zip")
        made = path.stat().st_ino
        recordzoo.export(there, path, to="zip")
        assert path.stat().st_ino == made
        with pytest.raises(OtherSourceError, match="Pass --refresh"):
            recordzoo.export(there, path, to="zip", split="val")
        recordzoo.export(there, path, to="zip", split="val", refresh=True)
        assert sorted(os.listdir(tmp_path)) == ["a.zip"]
        path.write_bytes(b"mine")
        with pytest.raises(OtherSourceError, match="is no export of recordzoo"):
            recordzoo.export(there, path, to="zip", refresh=True)
        with pytest.raises(ArgumentError, match=r"ends in \.zip"):
            recordzoo.export(there, tmp_path / "a", to="zip")


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
        assert sorted(name for name in files(root) if "/" in name) == [
            "trainval/0000.jpg", "trainval/0001.jpg", "trainval/0002.jpg", "val/0002.jpg",
        ]  # fmt: skip

    def test_samples_of_none_are_the_rest(self, tmp_path: Path) -> None:
        root = recordzoo.export(self.splits(tmp_path, train=[5, 0]), tmp_path / "tree", **EXPORT)
        assert sorted(os.listdir(root / "train")) == ["0000.jpg", "0005.jpg"]
        assert sorted(os.listdir(root / "rest")) == ["0001.jpg", "0002.jpg", "0003.jpg", "0004.jpg"]


class TestSomethingIsThere:
    @pytest.mark.slow
    def test_the_same_export_is_left_alone(self, there: Path, tmp_path: Path) -> None:
        root = recordzoo.export(there, tmp_path / "tree", **EXPORT)
        made = root.stat().st_ino
        assert recordzoo.export(there, root, **EXPORT) == root
        assert root.stat().st_ino == made

    @pytest.mark.slow
    @fault("E6")
    def test_another_is_replaced_only_if_asked(self, there: Path, tmp_path: Path) -> None:
        root = recordzoo.export(there, tmp_path / "tree", **EXPORT)
        before = files(root)
        with pytest.raises(OtherSourceError, match="Pass --refresh"):
            recordzoo.export(there, root, **{**EXPORT, "split": "val"})
        assert files(root) == before
        recordzoo.export(there, root, refresh=True, split="val", **EXPORT)
        assert not (root / "train").exists()
        assert sorted(os.listdir(tmp_path)) == ["tree"]

    @pytest.mark.slow
    @pytest.mark.parametrize("refresh", [False, True])
    @fault(
        "E6",
        "the output is there, and is something else",
        "an error; only another export is replaced, and only with `--refresh`",
    )
    def test_what_is_no_export_never(self, there: Path, tmp_path: Path, refresh: bool) -> None:
        (tmp_path / "thesis").mkdir()
        (tmp_path / "thesis" / "a.txt").write_text("mine")
        with pytest.raises(OtherSourceError, match="is no export of recordzoo"):
            recordzoo.export(there, tmp_path / "thesis", refresh=refresh, **EXPORT)
        assert files(tmp_path / "thesis") == {"a.txt": b"mine"}

    def test_places_that_cannot_be(self, there: Path, tmp_path: Path) -> None:
        for place, text in ((there, "is in the record set"), ("s3://bucket/x", "is a URL")):
            with pytest.raises(ArgumentError, match=text):
                recordzoo.export(there, place, **EXPORT)
        with pytest.raises(ArgumentError, match=r"Did you mean folder\?"):
            recordzoo.export(there, tmp_path / "x", to="foldr")


class TestInterrupted:
    @fault(
        "E2",
        "a finished file of an unfinished export is cut or another one is put beside it",
        "it is written again; the other one is not in the output",
    )
    def test_a_file_that_was_cut_meanwhile_is_written_again(self, there: Path, tmp_path: Path, monkeypatch) -> None:
        root = tmp_path / "tree"
        write_all = work.write
        monkeypatch.setattr(work, "write", lambda *given: (write_all(*given), interrupt()))
        with pytest.raises(KeyboardInterrupt):
            recordzoo.export(there, root, **EXPORT)
        assert not root.exists()
        monkeypatch.setattr(work, "write", write_all)
        (build,) = tmp_path.glob("tree.build.free-*/set")
        cut = next(iter(sorted(build.glob("train/*/*"))))
        cut.write_bytes(cut.read_bytes()[:-1])
        (build / "train" / "odd.jpg").write_bytes(b"not counted")
        recordzoo.export(there, root, **EXPORT)
        assert_tree(root, there)
        assert not (root / "train" / "odd.jpg").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("to", WRITTEN)
    @fault("E3", "a record is damaged", "an error that names it; no output")
    def test_a_damaged_record_is_an_error_and_there_is_no_output(self, to: str, there: Path, tmp_path: Path) -> None:
        path = damaged(Path(shutil.copytree(there, tmp_path / "a.records")), 7)
        output = tmp_path / ("out.zip" if to == "zip" else "out")
        with pytest.raises(CorruptRecordError, match=r"image 7 \(raw/1/002.png\) is damaged"):
            recordzoo.export(path, output, to=to, workers=1)
        assert not output.exists()

    @pytest.mark.slow
    @fault("E3")
    def test_so_it_is_in_a_process_of_ours(self, there: Path, tmp_path: Path) -> None:
        path = damaged(Path(shutil.copytree(there, tmp_path / "a.records")), 7)
        with pytest.raises(CorruptRecordError, match=r"image 7 \(raw/1/002.png\) is damaged"):
            recordzoo.export(path, tmp_path / "tree", **{**EXPORT, "workers": 2})
        assert not (tmp_path / "tree").exists()

    @fault(
        "E4",
        "the disk is too small, or becomes full",
        "an error before or while writing, with the bytes that are missing; what is finished is kept",
    )
    def test_too_little_room(self, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("recordzoo.publish.space.free_bytes", lambda folder: 1000)
        with pytest.raises(DiskSpaceError, match=r"has 1 kB free, and .* are needed: .* more"):
            recordzoo.export(there, tmp_path / "tree", **EXPORT)
        assert not (tmp_path / "tree").exists()

    @pytest.mark.slow
    @fault("E4")
    def test_no_files_may_be_so_large(self, there: Path, tmp_path: Path) -> None:
        """The real system refuses the write."""
        script = f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{_LIMITED}"
        done = subprocess.run(
            [sys.executable, "-c", script, str(there), str(tmp_path / "out")],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "DiskSpaceError" in done.stderr, done
        assert "What is finished is kept" in done.stderr
        assert not (tmp_path / "out").exists()


def interrupt() -> None:
    raise KeyboardInterrupt


_LIMITED = """
import sys
from recordzoo.exporting.job import export
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
export(sys.argv[1], sys.argv[2], to="webdataset", workers=1)
"""


@pytest.mark.slow
def test_a_set_at_a_url(there: Path, tmp_path: Path) -> None:
    recordzoo.push(there, "memory://exported")
    root = recordzoo.export("memory://exported/a.records", tmp_path / "tree", **EXPORT)
    assert_tree(root, there)


def test_a_set_without_images(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "a.records") as writer:
        writer.write({"target": 1})
    with pytest.raises(OtherSourceError, match="holds no image; only image files"):
        recordzoo.export(tmp_path / "a.records", tmp_path / "tree", **EXPORT)


@pytest.mark.parametrize("to", ["tfrecord", "parquet"])
def test_without_the_package(to: str, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PrepareError, match=rf"pip install 'recordzoo\[{to}\]'"):
        recordzoo.export(there, tmp_path / "out", to=to)
