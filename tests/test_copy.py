"""`copy`: a record set at another place of this machine; from and to URLs it is `pull` and `push`."""

import json
import os
from pathlib import Path

import pytest

import recordzoo
from recordzoo.errors import ArgumentError, CorruptRecordError, ManifestError, OtherSourceError, PrepareError
from recordzoo.net.part import Part
from recordzoo.records.reader import RecordReader
from tests.copying import copied_files, shard, write_set
from tests.fakes import folder
from tests.fakes.records import flip, flip_byte, place_of
from tests.running import run, run_advice


@pytest.fixture
def there(tmp_path):
    """A record set."""
    return write_set(tmp_path / "source" / "a.records")


@pytest.fixture
def here(tmp_path):
    """An empty directory."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def all_files(path: Path) -> dict[str, bytes]:
    """All but `copied.json`, which only a copy has."""
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "copied.json"}


class TestWhatAppears:
    def test_all_files_also_those_that_say_where_the_raw_data_is(self, there, here):
        (there / "notes.txt").write_text("somebody's own")
        path = recordzoo.copy(there, here, verify=True)
        assert path == here / "a.records"
        (there / "notes.txt").unlink()
        assert all_files(path) == all_files(there)
        assert "tree.json" in all_files(path)
        assert json.loads((path / "copied.json").read_bytes()) == {
            "from": str(there),
            "digest": RecordReader(path).digest,
        }
        assert not any((path / name).samefile(there / name) for name in all_files(path))
        assert [each.name for each in here.iterdir()] == ["a.records"]

    @pytest.mark.slow
    def test_the_copy_of_a_tree_is_opened_and_copied_again_as_the_set_is(self, tmp_path):
        folder.write_tree(tmp_path / "photos")
        assert run("prepare", "photos", cwd=tmp_path).returncode == 0
        assert run("copy", "photos", "disk/birds.records", cwd=tmp_path).returncode == 0
        images = [recordzoo.open(tmp_path / name) for name in ("photos.records", "disk/birds.records")]
        assert images[0].samples != []
        assert [image.tobytes() for image, _ in images[0]] == [image.tobytes() for image, _ in images[1]]
        flip_byte(*place_of(tmp_path / "disk/birds.records", 1))
        assert run_advice(run("verify", "disk/birds.records", "--full", cwd=tmp_path), tmp_path).startswith("copy ")
        assert copied_files(tmp_path / "disk/birds.records") == copied_files(tmp_path / "photos.records")

    def test_again_nothing_is_copied(self, there, here):
        words = "copy", there, here / "b.records", "--json"
        first, again = (json.loads(run(*words, cwd=here).stdout) for _ in range(2))
        assert (first["was_ready"], first["copied_bytes"]) == (False, first["size_bytes"])
        assert (again["was_ready"], again["copied_bytes"]) == (True, 0)

    def test_a_set_that_is_replaced_meanwhile_is_not_called_damaged(self, there, here):
        """What is copied is the set that was found: its directory is held open."""
        before = copied_files(there)

        class Replacing(recordzoo.Progress):
            def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
                there.rename(here / "old")
                write_set(there, seed=1)

        assert copied_files(recordzoo.copy(there, here, progress=Replacing())) == before

    def test_from_and_to_a_url(self, there, here):
        assert recordzoo.copy(there, "memory://sets") == "memory://sets/a.records"
        assert copied_files(recordzoo.copy("memory://sets", here, verify=True)) == copied_files(there)
        with pytest.raises(ArgumentError, match=r"are both URLs. Pull the record set first.*pull memory://sets"):
            recordzoo.copy("memory://sets", "memory://others")

    def test_there_is_none_or_it_is_the_same(self, there, here):
        with pytest.raises(ManifestError):
            recordzoo.copy(here, here / "b.records")
        with pytest.raises(ArgumentError, match="is the record set itself"):
            recordzoo.copy(there, there.parent)
        (here / "link.records").symlink_to(there)
        with pytest.raises(ArgumentError, match="is the record set itself"):
            recordzoo.copy(there, here / "link.records", replace=True)
        with pytest.raises(ArgumentError, match="Argument workers is 0; it must be at least 1"):
            recordzoo.copy(there, here, workers=0)


class TestSomethingIsHere:
    def test_another_set_is_replaced_only_if_asked(self, there, here):
        other = all_files(write_set(here / "a.records", seed=1))
        with pytest.raises(OtherSourceError, match=r"holds another record set. Pass --replace"):
            recordzoo.copy(there, here)
        assert all_files(here / "a.records") == other
        recordzoo.copy(there, here, replace=True)
        assert all_files(here / "a.records") == all_files(there)

    def test_a_damaged_copy_of_the_right_size_is_found_by_verify(self, there, here):
        path = recordzoo.copy(there, here)
        flip(path / shard(1), 200_000)
        assert recordzoo.copy(there, here) == path
        with pytest.raises(OtherSourceError, match="a damaged copy of this record set"):
            recordzoo.copy(there, here, verify=True)
        recordzoo.copy(there, here, verify=True, replace=True)
        assert all_files(path) == all_files(there)


class TestFaults:
    @pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
    def test_nothing_is_published_of_a_damaged_set(self, there, here, how):
        path = there / shard(1)
        data = path.read_bytes()
        path.unlink() if how == "gone" else path.write_bytes(data[:-1] + (b"" if how == "cut" else b"?"))
        with pytest.raises((CorruptRecordError, ManifestError), match=str(path)):
            recordzoo.copy(there, here)
        assert not (here / "a.records").exists()
        path.write_bytes(data)
        assert all_files(recordzoo.copy(there, here)) == all_files(there)

    @pytest.mark.timeout(60)
    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
    def test_something_else_in_the_place_of_a_shard_is_not_read(self, there, here, make):
        (there / shard(1)).unlink()
        make(there / shard(1))
        for place in (here / "b.records", "memory://planted/b.records"):
            with pytest.raises(CorruptRecordError, match=shard(1)):
                recordzoo.copy(there, place)

    def test_a_copy_with_a_link_in_the_place_of_a_shard_is_damaged(self, there, here):
        path = recordzoo.copy(there, here)
        (path / shard(2)).rename(here / "elsewhere")
        (path / shard(2)).symlink_to(here / "elsewhere")
        with pytest.raises(OtherSourceError, match="a damaged copy of this record set"):
            recordzoo.copy(there, here)

    def test_a_disk_that_gives_back_other_bytes(self, there, here, monkeypatch):
        sync = Part.sync

        def damaging(part):
            sync(part)
            if part.path.name == shard(2):
                flip(part.path, 100_000)

        monkeypatch.setattr(Part, "sync", damaging)
        with pytest.raises(PrepareError, match=rf"{shard(2)} reads back otherwise than it was written"):
            recordzoo.copy(there, here, verify=True)
        assert not (here / "a.records").exists()


def test_the_command_says_what_it_does(there, here):
    words = "copy", there, here
    assert "would copy 8 files (" in run(*words, "--dry-run", cwd=here).stdout
    assert list(here.iterdir()) == []
    assert run(*words, "--verify", cwd=here).stdout.startswith(f"copied to {here}/a.records: 8 files (")
    again = run(*words, cwd=here).stdout
    assert f"{here}/a.records is complete already: 8 files (" in again
    assert f"To compare every byte, run: recordzoo verify {here}/a.records --full" in again
    assert "compare every byte" not in run(*words, "--verify", cwd=here).stdout
