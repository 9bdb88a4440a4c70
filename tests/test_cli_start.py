"""What a newcomer meets first on the command line: no arguments, wrong places, misspelt paths, Ctrl-C."""

import shutil

import pytest
from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.transforms import PILToTensor

from recordzoo import ImageFolderRecord, RecordLoader
from recordzoo.records.reader import RecordReader
from tests.fakes import folder
from tests.running import run


@pytest.fixture
def photos(tmp_path):
    """A class-per-folder tree, called photos."""
    return folder.write_tree(tmp_path / "photos")


def says(result, code, text):
    """Check an exit code and that one line on stderr says this text."""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert result.returncode == code, result.stderr
    assert text in line


def test_an_option_for_one_of_several_is_taken(photos, tmp_path):
    assert run("prepare", "cub200", "photos", "--from", "flat", "--dry-run", cwd=tmp_path).returncode == 0


class TestGoneTree:
    @pytest.fixture(autouse=True)
    def gone(self, photos, tmp_path):
        assert run("prepare", "photos", cwd=tmp_path).returncode == 0
        photos.rename(tmp_path / "elsewhere")

    @pytest.mark.parametrize("name", ["photos", "./photos", "photos/"])
    def test_its_records_are_found(self, tmp_path, name):
        for command in ("info", "show", "verify"):
            result = run(command, name, cwd=tmp_path)
            assert result.returncode == 0, result.stderr
        result = run("prepare", name, cwd=tmp_path)
        assert result.returncode == 0
        assert "ready, " in result.stderr

    def test_it_cannot_be_made_again(self, tmp_path):
        says(run("prepare", "photos", "--refresh", cwd=tmp_path), 3, "photos does not exist")

    def test_a_list_that_is_gone_is_not_ready(self, tmp_path):
        (tmp_path / "photos.records").rename(tmp_path / "all.records")
        says(run("prepare", "all.csv", cwd=tmp_path), 3, "all.csv does not exist")
        assert run("info", "all.csv", cwd=tmp_path).returncode == 0


class TestSplits:
    @pytest.fixture
    def data(self, tmp_path):
        for name in ("train", "Val"):
            folder.write_tree(tmp_path / "data" / name)
        return tmp_path / "data"

    def test_each_becomes_a_set(self, data, tmp_path):
        result = run("prepare", "data", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert result.stderr.startswith("data has splits and no classes (Val, train): ")
        assert sorted(path.name for path in data.iterdir()) == ["Val", "Val.records", "train", "train.records"]
        assert RecordReader(data / "train.records").manifest.classes == ("Zebra", "cat", "dog")
        assert not (tmp_path / "data.records").exists()
        says(run("info", "data", cwd=tmp_path), 2, f"{data}/Val.records, {data}/train.records")

    def test_one_of_them_or_they_are_classes(self, data, tmp_path):
        result = run("prepare", "data", "--split", "train", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert [path.name for path in data.glob("*.records")] == ["train.records"]
        says(run("prepare", "data", "--split", "test", cwd=tmp_path), 2, "no split 'test'; it has Val, train")
        result = run("prepare", "data", "--from", "classes", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert RecordReader(tmp_path / "data.records").manifest.classes == ("Val", "train")

    def test_one_without_classes_says_both_ways_out(self, data, tmp_path):
        (data / "test").mkdir()
        (data / "test" / "1.jpg").write_bytes(b"a picture")
        (data / "test" / "x.csv").write_text("path,label")
        result = run("prepare", "data", cwd=tmp_path)
        says(result, 3, "data/test. 1 image lies there")
        assert "if x.csv lists them with their labels, run: " in result.stderr
        assert result.stderr.endswith(" --from flat\n")  # a command at the end of a line can be copied
        assert {path.name for path in data.glob("*.records")} == {"Val.records", "train.records"}  # what can be made

    def test_python_takes_them_as_torchvision_does(self, data, tmp_path):
        assert run("prepare", "data", cwd=tmp_path).returncode == 0
        with pytest.warns(UserWarning, match=r"its classes are Val, train, which look like splits.*open .*data/Val"):
            dataset = ImageFolderRecord(data)
        for name in ("Val.records", "train.records"):
            shutil.rmtree(data / name)  # which torchvision takes for classes
        assert dataset.classes == ImageFolder(data).classes
        assert list(dataset.samples) == ImageFolder(data).samples

    def test_other_folders_are_classes(self, tmp_path):
        folder.write_tree(tmp_path / "data")
        (tmp_path / "data" / "cat").rename(tmp_path / "data" / "train")
        assert "splits" not in run("prepare", "data", cwd=tmp_path).stderr
        assert (tmp_path / "data.records").is_dir()


class TestNoImages:
    def test_an_empty_class_is_refused_unless_it_is_allowed(self, photos, tmp_path):
        (photos / "zebra").mkdir()
        says(run("prepare", "photos", cwd=tmp_path), 3, "Found no valid file for the classes zebra")
        assert run("prepare", "photos", "--allow-empty", cwd=tmp_path).returncode == 0
        assert "zebra" in RecordReader(tmp_path / "photos.records").manifest.classes
        for more in ([], ["--dry-run"]):  # records with an empty class are not ready
            says(run("prepare", "photos", *more, cwd=tmp_path), 3, "--allow-empty")
        assert "ready" in run("prepare", "photos", "--allow-empty", cwd=tmp_path).stderr

    def test_record_sets_are_no_classes(self, photos, tmp_path):
        assert run("prepare", "photos", cwd=tmp_path).returncode == 0
        (tmp_path / "photos.records").rename(photos / "old.records")
        (photos / "new.records.build.free-1").mkdir()
        for number in range(2):
            result = run("prepare", "photos", cwd=tmp_path)
            assert result.returncode == 0
            assert "old.records" not in result.stderr
            shutil.copytree(photos / "old.records", photos / f"{number}.records")
        assert ImageFolderRecord(photos).classes == ["Zebra", "cat", "dog"]
        assert RecordReader(tmp_path / "photos.records").manifest.classes == ("Zebra", "cat", "dog")


class TestFlat:
    @pytest.fixture
    def images(self, tmp_path):
        place = tmp_path / "images"
        (place / "more").mkdir(parents=True)
        for number, name in enumerate(["b.png", "a.jpg", "more/c.png", "notes.txt", "more/e.gif"]):
            Image.new("RGB", (8 + number, 6), "red").save(place / name, "png")
        return place

    def test_all_images_without_classes(self, images, tmp_path):
        result = run("prepare", "images", "--from", "flat", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "warning: left out because of their endings: 1 file: more/e.gif" in result.stderr
        dataset = ImageFolderRecord(tmp_path / "images.records")
        names = ("a.jpg", "b.png", "more/c.png")
        assert [path for path, _ in dataset.samples] == [str(images / name) for name in names]
        assert list(dataset.targets) == [-1, -1, -1]
        assert dataset.classes == []
        assert [image.size for image, _ in dataset] == [(9, 6), (8, 6), (10, 6)]
        as_tensors = ImageFolderRecord(tmp_path / "images.records", PILToTensor())
        batches = list(RecordLoader(as_tensors, batch_size=1, num_workers=1))
        assert [target.tolist() for _, target in batches] == [[-1]] * 3

    def test_it_can_be_seen_and_varied(self, images, tmp_path):
        assert run("prepare", "images", "--from", "flat", cwd=tmp_path).returncode == 0
        assert run("show", "images", cwd=tmp_path).returncode == 0
        assert "records:   3" in run("info", "images", cwd=tmp_path).stdout
        result = run("prepare", "images", "--from", "flat", "--short-side", 4, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert [image.size for image, _ in ImageFolderRecord(tmp_path / "images-4.records")] == [(6, 4), (5, 4), (6, 4)]

    def test_changes_are_said(self, images, tmp_path):
        assert run("prepare", "images", "--from", "flat", cwd=tmp_path).returncode == 0
        assert "warning" not in run("prepare", "images", "--from", "flat", cwd=tmp_path).stderr
        (images / "d.png").write_bytes((images / "b.png").read_bytes())
        again = run("prepare", "images", "--from", "flat", cwd=tmp_path)
        assert f"warning: {images}.records is out of date: in {images}, d.png is new." in again.stderr
        assert "recordzoo prepare images --from flat --refresh" in again.stderr
        assert "ready, 4 records" in run("prepare", "images", "--from", "flat", "--refresh", cwd=tmp_path).stderr

    def test_it_is_not_taken_for_classes(self, images, photos, tmp_path):
        assert run("prepare", "photos", "--from", "flat", cwd=tmp_path).returncode == 0
        says(run("prepare", "photos", cwd=tmp_path), 1, "holds images without classes, not images in classes")
        assert run("prepare", "photos", "--refresh", cwd=tmp_path).returncode == 0
        says(run("prepare", "photos", "--from", "flat", cwd=tmp_path), 1, "holds images in classes")


def test_a_file_that_cannot_be_written_is_the_person_s_own(photos, tmp_path):
    assert run("prepare", "photos", cwd=tmp_path).returncode == 0
    result = run("show", "photos", "--output", "none/photos.png", cwd=tmp_path)
    assert result.stderr.splitlines()[-1] == "error: none/photos.png: No such file or directory"
