"""`prepare` with the name of a raw file, or of a dataset that a folder has, too: never another dataset unasked."""

from pathlib import Path

import pytest

import recordzoo
from recordzoo.errors import ArgumentError, SourceError
from tests.fakes import cub200
from tests.fakes.archives import tar
from tests.fakes.folder import image_bytes, write_tree
from tests.preparing import prepared
from tests.running import run


def write_tar(path: Path, files: dict[str, bytes]) -> Path:
    path.write_bytes(tar(files))
    return path


@pytest.mark.parametrize(
    ("name", "dataset"), [("ILSVRC2012_img_train.tar", "imagenet"), ("food-101.tar.gz", "food101")]
)
def test_a_raw_file_of_the_zoo_is_read_as_another_tools_only_if_asked_for(
    name: str, dataset: str, tmp_path: Path
) -> None:
    path = write_tar(tmp_path / name, {f"{number}.jpg": image_bytes("a.jpg", number) for number in range(3)})
    for given in (path, tmp_path):  # the file, or the folder that holds it
        with pytest.raises(ArgumentError, match=rf"{name} is a raw file of {dataset}.*--from") as caught:
            prepared(given)
        assert f"recordzoo prepare {dataset} --root {tmp_path}" in str(caught.value)
    assert len(recordzoo.RecordReader(prepared(path, from_="webdataset"))) == 3


def test_a_name_that_anybody_uses_is_read(tmp_path: Path) -> None:
    """Raw files of the zoo are called images.tar, train.zip, ...: only one of their size is such a file."""
    with pytest.raises(SourceError, match=r"is no WebDataset: none of its samples has an image.* end in tar"):
        prepared(write_tar(tmp_path / "images.tar", {"a.tar": b"x" * 512, "b.tar": b"y" * 512}))
    samples = {f"{number}.jpg": image_bytes("a.jpg", number) for number in range(3)}
    assert len(recordzoo.RecordReader(prepared(write_tar(tmp_path / "images.tar", samples)))) == 3


class TestFolderOfADatasetsName:
    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def test_a_folder_without_its_raw_data_is_asked_about(self, tmp_path: Path) -> None:
        write_tree(tmp_path / "coco")
        with pytest.raises(ArgumentError, match=r"recordzoo prepare coco --root") as caught:
            recordzoo.prepare("coco", download=True)
        assert "recordzoo prepare ./coco" in str(caught.value)
        assert run("prepare", "coco", cwd=tmp_path).returncode == 2
        assert sorted(path.name for path in tmp_path.iterdir()) == ["coco"]

    def test_with_a_root_elsewhere_the_name_is_certain(self, tmp_path: Path) -> None:
        write_tree(tmp_path / "cub200")
        (tmp_path / "data").mkdir()
        cub200.build(3, 3).write_archive(tmp_path / "data")
        made = recordzoo.prepare("cub200", tmp_path / "data", check_hash=False)
        assert made == [tmp_path / "data" / "cub200.records"]

    @pytest.mark.parametrize("left", ["beans/train.zip", "beans/train.zip.part", "beans.train.records.build/lock"])
    def test_what_the_zoo_left_there_is_no_question(self, left: str, tmp_path: Path) -> None:
        (tmp_path / "beans").mkdir()
        (tmp_path / left).parent.mkdir(exist_ok=True)
        (tmp_path / left).write_bytes(b"x")
        with pytest.raises(recordzoo.errors.RecordZooError) as caught:
            recordzoo.prepare("beans")
        assert "./beans" not in str(caught.value)

    def test_a_path_is_no_name(self, tmp_path: Path) -> None:
        write_tree(tmp_path / "coco")
        assert prepared("./coco") == prepared(Path("coco")) == tmp_path / "coco.records"
