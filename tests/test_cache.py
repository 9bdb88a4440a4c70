"""`recordzoo cache`: only what recordzoo wrote is found, and only that is ever deleted."""

import hashlib
import json
import os
import re
import shutil
import time
from pathlib import Path

import filelock
import pytest

from recordzoo import catalogue
from recordzoo.base import settings
from recordzoo.base.process import Lock
from recordzoo.errors import RemoteError
from recordzoo.net import url as url_module
from recordzoo.net.cache import Cache
from recordzoo.preparing import raw as downloads
from recordzoo.records.manifest import SetKind
from recordzoo.records.reader import RecordReader, is_record_set
from tests.fakes.records import some_values, write_records
from tests.fakes.server import FileServer
from tests.running import run
from tests.terminals import run_on_terminal

DAY_S = 86_400.0
RAW_FILE = catalogue.entry("semeion").files[0]


def a_set(place: Path, *, age_days: float = 0) -> Path:
    """Write a record set; last used so many days ago."""
    path = write_records(place, [b"one", b"two" * 1000], kind=SetKind.FOLDER)
    when = time.time() - age_days * DAY_S
    for file in path.iterdir():
        os.utime(file, (when, when))
    return path


def a_build(place: Path) -> Path:
    path = place.with_name(f"{place.name}.build")
    (path / "set").mkdir(parents=True)
    (path / "plan.json").write_text("{}")
    (path / "u00000-s0000.lmdb").write_bytes(b"x" * 1000)
    (path / "lock").touch()
    return path


def sparse(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.fixture(autouse=True)
def no_other_roots(tmp_path, monkeypatch, own_cache):
    """Other tests' record sets are in none of the known roots, and not in the cache."""
    monkeypatch.setenv("RECORDZOO_STATE", str(tmp_path / "state"))


@pytest.fixture
def data(tmp_path):
    """A directory with one of each thing that recordzoo writes, and what others wrote."""
    data = tmp_path / "data"
    a_set(data / "photos.records")
    (data / "photos" / "cat").mkdir(parents=True)
    (data / "photos" / "cat" / "1.jpg").write_bytes(b"mine")
    a_build(data / "birds.records")
    downloads.write_mark(sparse(data / RAW_FILE.name, RAW_FILE.size_bytes))
    return data


@pytest.fixture
def others(data, tmp_path):
    """What others wrote beside it, with names as ours."""
    elsewhere = a_set(tmp_path / "elsewhere" / "linked.records")
    (data / "linked.records").symlink_to(elsewhere)
    (data / "app").mkdir()
    (data / "app" / "manifest.json").write_text("{}")
    (data / "arrays.records").mkdir()
    (data / "arrays.records" / "mine.npy").write_bytes(b"mine")
    (data / "notes.build").mkdir()
    (data / "notes.build" / "notes.txt").write_text("mine")
    (data / "film.mkv.part").write_bytes(b"mine")
    (data / "ILSVRC2012_img_val.tar").write_bytes(b"mine")
    file = catalogue.entry("cifar10").files[0]
    sparse(data / file.name, file.size_bytes)  # which anybody can download
    return data


def listed(*places, cwd):
    """The items that `cache ls` lists in these roots."""
    result = run("cache", "ls", *places, "--json", cwd=cwd)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["items"]


def delete(*names, cwd):
    return run("cache", "rm", *names, "--yes", cwd=cwd)


def snapshot(*folders):
    return sorted(str(path) for folder in folders for path in folder.rglob("*"))


class TestList:
    def test_each_kind_is_found_and_nothing_else(self, data, others):
        assert {Path(item["path"]).name: item["kind"] for item in listed(data, cwd=data)} == {
            "photos.records": "record set",
            "birds.records.build": "interrupted build",
            RAW_FILE.name: "raw file",
        }
        found = {item["kind"]: item["size_bytes"] for item in listed(data, cwd=data)}
        assert found["record set"] == sum(path.stat().st_size for path in (data / "photos.records").iterdir())
        assert found["interrupted build"] >= 1002
        assert found["raw file"] == RAW_FILE.size_bytes

    def test_looking_does_not_count_as_use(self, tmp_path):
        path = a_set(tmp_path / "old.records", age_days=50)
        for days in (50, 50, 3):
            if days == 3:
                os.utime(path / "shard-00000.lmdb", (time.time() - 3 * DAY_S, 0))  # read, not written
            (item,) = listed(tmp_path, cwd=tmp_path)
            assert item["last_used"][:10] == time.strftime("%Y-%m-%d", time.gmtime(time.time() - days * DAY_S))

    def test_two_levels_below_a_root_are_searched(self, tmp_path):
        a_set(tmp_path / "a" / "b" / "found.records")
        a_set(tmp_path / "a" / "b" / "c" / "deep.records")
        assert [item["name"] for item in listed(tmp_path, tmp_path / "a", cwd=tmp_path)] == ["found", "deep"]
        assert [item["name"] for item in listed(tmp_path, cwd=tmp_path)] == ["found"]

    def test_a_raw_file_is_ours_only_with_our_mark(self, tmp_path):
        path = sparse(tmp_path / "train.tar", 100)
        downloads.mark_path(path).write_text("downloaded by recordzoo: 100 1 1\n")  # of another file
        assert listed(tmp_path, cwd=tmp_path) == []
        downloads.write_mark(path)
        assert [item["kind"] for item in listed(tmp_path, cwd=tmp_path)] == ["raw file"]

    def test_known_roots_are_listed(self, data, tmp_path):
        settings.remember_root(data)
        result = run("cache", "ls", cwd=tmp_path)
        names = [line.split()[0] for line in result.stdout.splitlines()]
        assert names == ["NAME", "photos", "birds", RAW_FILE.name]
        assert re.fullmatch(r"1 record set, 1 interrupted build, 1 raw file, .+\n", result.stderr)


class TestRemove:
    def test_a_set_is_deleted_and_nothing_beside_it(self, data, others):
        before = snapshot(data, others.parent / "elsewhere")
        assert delete(data / "photos.records", cwd=data).returncode == 0
        after = [path for path in before if "photos.records" not in path]
        assert snapshot(data, others.parent / "elsewhere") == after

    def test_each_kind_is_deleted(self, data):
        items = listed(data, cwd=data)
        assert delete(*(item["path"] for item in items), cwd=data).returncode == 0
        assert [path.name for path in data.iterdir()] == ["photos"]

    def test_a_tree_means_the_set_beside_it(self, data):
        assert delete("photos", cwd=data).returncode == 0
        assert not (data / "photos.records").exists()
        assert (data / "photos" / "cat" / "1.jpg").read_bytes() == b"mine"
        assert (delete("photos", cwd=data).returncode, (data / "photos").is_dir()) == (3, True)

    def test_what_others_wrote_is_refused(self, data, others):
        before = snapshot(data)
        for name in ("app", "arrays.records", "notes.build", "film.mkv.part", "ILSVRC2012_img_val.tar"):
            result = delete(name, cwd=data)
            assert result.returncode in (2, 3), name
        assert "is not deleted: it is no record set" in result.stderr
        assert snapshot(data) == before

    def test_a_deletion_that_was_killed_can_be_repeated(self, data, monkeypatch):
        remove_tree = shutil.rmtree

        def killed(path):
            raise KeyboardInterrupt

        monkeypatch.setattr(shutil, "rmtree", killed)
        assert delete("photos.records", cwd=data).returncode == 130
        monkeypatch.setattr(shutil, "rmtree", remove_tree)
        assert not (data / "photos.records").exists()
        (left,) = (item for item in listed(data, cwd=data) if item["name"] == "photos")
        assert left["kind"] == "interrupted build"
        assert delete(left["path"], cwd=data).returncode == 0
        assert not list(data.glob("photos.records*"))

    def test_what_holds_files_of_others_is_left(self, data):
        for name in ("photos.records", "birds.records.build"):
            (data / name / "notes.txt").write_text("mine")
            before = snapshot(data)
            result = delete(name, cwd=data)
            assert (result.returncode, snapshot(data)) == (1, before)
            assert "it holds files that recordzoo did not write (notes.txt); move them away" in result.stderr

    def test_a_link_is_refused(self, data, others):
        result = delete("linked.records", cwd=data)
        assert (result.returncode, "linked.records is a link" in result.stderr) == (2, True)
        assert is_record_set(others.parent / "elsewhere" / "linked.records")
        (data / "through").symlink_to(others.parent / "elsewhere")
        assert [item for item in listed(data, cwd=data) if "linked" in item["path"]] == []

    def test_what_is_being_prepared_is_left(self, data):
        build = a_build(data / "photos.records")
        lock = Lock(build / "lock")
        assert lock.try_acquire()
        for name in ("photos.records", "photos.records.build"):
            result = delete(name, cwd=data)
            assert result.returncode == 1
            assert "another thread of this process works on it" in result.stderr
        lock.release()
        assert is_record_set(data / "photos.records")
        assert build.exists()

    @pytest.mark.parametrize(
        ("options", "code", "said"),
        [
            (["--dry-run"], 0, "Would delete 1 record set, 1 raw file, "),
            ([], 2, "There is no terminal to ask on: pass --yes, or --dry-run to only look.\n"),
        ],
    )
    def test_nothing_is_deleted_without_yes(self, data, options, code, said):
        before = snapshot(data)
        result = run("cache", "rm", "photos.records", RAW_FILE.name, *options, cwd=data)
        assert (result.returncode, snapshot(data), said in result.stderr) == (code, before, True)
        assert "photos.records" in result.stdout

    @pytest.mark.slow
    def test_only_yes_is_yes(self, data):
        for answer in ("\n", "n\n"):
            with pytest.raises(AssertionError, match=r"Nothing is deleted\."):  # exit code 1
                run_on_terminal("cache", "rm", data / "photos.records", streams=("stdout", "stderr"), typed=answer)
            assert is_record_set(data / "photos.records")


VALUES = some_values(20)


@pytest.fixture
def served(tmp_path):
    """A server with a record set of two shards."""
    write_records(tmp_path / "served" / "birds.records", VALUES, per_shard=10)
    with FileServer(tmp_path / "served") as server:
        yield server
    url_module._secrets.clear()


def read_all(reader):
    reader.hint("image", range(len(VALUES)))
    return [reader.read("image", position) for position in range(len(VALUES))]


class TestCachedSets:
    """Files of sets at URLs, in the node's cache."""

    def test_one_is_listed_with_its_address_size_and_last_use(self, served, tmp_path):
        reader = RecordReader(f"{served.url}/birds.records")
        assert read_all(reader) == VALUES
        folder = tmp_path / "cache" / reader.digest
        (item,) = listed(tmp_path / "cache", cwd=tmp_path)
        assert (item["kind"], item["path"], item["name"]) == ("cached set", str(folder), str(reader.path))
        assert item["size_bytes"] > sum(map(len, VALUES))
        settings.remember_root(tmp_path / "served")
        assert [each["name"] for each in listed(cwd=tmp_path)] == [item["name"], "birds"]

    @pytest.mark.parametrize("how", ["address", "path"])
    def test_one_is_deleted_while_a_reader_has_it_open(self, served, tmp_path, how):
        address = f"{served.url}/birds.records"
        reader = RecordReader(address)
        assert reader.read("image", 0) == VALUES[0]  # one of two shards
        result = delete(address + "/" if how == "address" else tmp_path / "cache" / reader.digest, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "Deleted 1 cached set, " in result.stderr
        assert list((tmp_path / "cache").iterdir()) == []
        assert read_all(reader) == read_all(RecordReader(address)) == VALUES
        assert listed(tmp_path / "cache", cwd=tmp_path)[0]["name"] == address

    def test_what_is_being_fetched_is_left(self, served, tmp_path):
        reader = RecordReader(f"{served.url}/birds.records")
        part = tmp_path / "cache" / reader.digest / ".shard-00001.lmdb.100.part"
        part.write_bytes(b"half")
        with filelock.FileLock(part.with_name(".shard-00001.lmdb.lock")):
            result = delete(reader.path, cwd=tmp_path)
            assert (result.returncode, "another process works on it" in result.stderr) == (1, True)
            assert not Cache().remove_set(reader.digest)
            assert part.read_bytes() == b"half"
            assert [item["name"] for item in listed(tmp_path / "cache", cwd=tmp_path)] == [str(reader.path)]
        assert delete(reader.path, cwd=tmp_path).returncode == 0
        assert not part.parent.exists()

    def test_an_address_that_is_not_there(self, served, tmp_path):
        result = delete(f"{served.url}/birts.records", cwd=tmp_path)
        assert (result.returncode, f"birts.records is not in the cache {tmp_path}/cache." in result.stderr) == (3, True)

    @pytest.mark.timeout(60)
    def test_what_others_put_in_the_place_of_its_files_is_not_waited_for(self, served, tmp_path, monkeypatch):
        address = f"{served.url}/birds.records"
        digest = RecordReader(address).digest
        folder = tmp_path / "cache" / digest
        size = RecordReader(address).manifest.shards[1].size_bytes
        for name in ("manifest.json", next(folder.glob("*.address")).name, f".shard-00001.lmdb.{size}.part"):
            (folder / name).unlink(missing_ok=True)
            os.mkfifo(folder / name)
        with monkeypatch.context() as offline:
            offline.setenv("RECORDZOO_OFFLINE", "1")
            with pytest.raises(RemoteError, match="RECORDZOO_OFFLINE is set"):
                RecordReader(address)
        assert listed(tmp_path / "cache", cwd=tmp_path) == []
        reader = RecordReader(address)
        assert read_all(reader) == VALUES
        assert not (folder / "shard-00001.lmdb").exists()

    def test_files_of_others_in_the_cache_are_left(self, served, tmp_path):
        digest = RecordReader(f"{served.url}/birds.records").digest
        cache = tmp_path / "cache"
        (cache / digest / "notes.txt").write_text("mine")
        other = hashlib.sha256(b"").hexdigest()  # as other programs call their folders
        (cache / other).mkdir()
        (cache / other / "manifest.json").write_text("{}")
        before = snapshot(cache)
        (item,) = listed(cache, cwd=tmp_path)
        assert item["path"] == str(cache / digest)
        result = delete(item["path"], cwd=tmp_path)
        assert "it holds files that recordzoo did not write (notes.txt)" in result.stderr
        assert snapshot(cache) == before
        assert delete(cache / other, cwd=tmp_path).returncode == 2
