"""`recordzoo cache`: only what recordzoo wrote is found, and only that is ever deleted."""

import hashlib
import json
import os
import re
import shutil
import threading
import time
from pathlib import Path

import filelock
import pytest
from PIL import Image

from recordzoo import catalogue
from recordzoo.base import roots
from recordzoo.base.owner import Owner
from recordzoo.base.progress import format_bytes
from recordzoo.cli import cache
from recordzoo.cli.cache import choose, remove
from recordzoo.cli.written import Item, Kind, Shared, find_items, item_at, size_of, why_not_downloaded
from recordzoo.errors import ArgumentError
from recordzoo.net import url as url_module
from recordzoo.net.cache import Cache
from recordzoo.preparing import downloads
from recordzoo.records.kinds import SetKind
from recordzoo.records.made_from import BESIDE
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.remote_directory import remove_cached
from tests.fakes.records import some_values, write_records
from tests.fakes.server import FileServer
from tests.faults import fault
from tests.running import run
from tests.terminals import drawn_by
from tests.urls import with_own_cache

DAY_S = 86_400.0
GONE = "gone_0-4194304-1-abcdef01"  # of a host that cannot be asked
RAW_FILE = catalogue.entry("semeion").files[0]
"""Anybody can download it, and its size is known."""


def a_set(place: Path, *, tree: Path | None = None, age_days: float = 0) -> Path:
    """Write a record set of a tree; last used so many days ago."""
    path = write_records(place, [b"one", b"two" * 1000], kind=SetKind.FOLDER)
    if tree is not None:
        (path / "tree.json").write_text(json.dumps({"root": str(tree), "directories": {}}))
    when = time.time() - age_days * DAY_S
    for file in path.iterdir():
        os.utime(file, (when, when))
    return path


def a_build(place: Path, owner: str = GONE, *, silent_s: float = 3600) -> Path:
    path = place.with_name(f"{place.name}.build.{owner}")
    (path / "set").mkdir(parents=True)
    (path / "plan.json").write_text("{}")
    (path / "u00000-s0000.lmdb").write_bytes(b"x" * 1000)
    (path / "heartbeat").touch()
    when = time.time() - silent_s
    os.utime(path / "heartbeat", (when, when))
    return path


def sparse(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.fixture(autouse=True)
def no_other_roots(tmp_path, monkeypatch):
    """Other tests' record sets are in none of the known roots, and not in the cache."""
    with_own_cache(monkeypatch, tmp_path)
    monkeypatch.setenv("RECORDZOO_STATE", str(tmp_path / "state"))


@pytest.fixture
def data(tmp_path):
    """A directory with one of each thing that recordzoo writes, and what others wrote."""
    data = tmp_path / "data"
    a_set(data / "photos.records", tree=data / "photos")
    (data / "photos" / "cat").mkdir(parents=True)
    (data / "photos" / "cat" / "1.jpg").write_bytes(b"mine")
    a_build(data / "birds.records")
    (data / ".birds2.records.lock").write_text("")
    downloaded = sparse(data / RAW_FILE.name, RAW_FILE.size_bytes)
    downloads.mark_path(downloaded).write_text(downloads._identity(downloaded))
    sparse(data / f"{RAW_FILE.name}.part", 100)
    sparse(data / f"{RAW_FILE.name}.bad-0123abcd", 100)
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
    (data / "site.build.prod").mkdir()
    (data / f"notes.build.{GONE}").mkdir()
    (data / f"notes.build.{GONE}" / "notes.txt").write_text("mine")
    (data / ".apt.lock").write_text("")
    (data / ".other.lock").write_text("4123")
    (data / "film.mkv.part").write_bytes(b"mine")
    (data / "ILSVRC2012_img_val.tar").write_bytes(b"mine")
    file = catalogue.entry("cifar10").files[0]
    sparse(data / file.name, file.size_bytes)  # which anybody can download
    return data


def snapshot(*folders):
    return sorted(str(path) for folder in folders for path in folder.rglob("*"))


class TestFind:
    def test_each_kind_is_found_and_nothing_else(self, data, others):
        found = {item.path.name: item.kind for item in find_items([data])}
        assert found == {
            "photos.records": Kind.SET,
            f"birds.records.build.{GONE}": Kind.BUILD,
            ".birds2.records.lock": Kind.LOCK,
            RAW_FILE.name: Kind.RAW,
            f"{RAW_FILE.name}.part": Kind.DOWNLOAD,
            f"{RAW_FILE.name}.bad-0123abcd": Kind.BAD,
        }

    def test_sizes_are_those_of_the_files(self, data):
        found = {item.kind: item.size_bytes for item in find_items([data])}
        assert found[Kind.SET] == sum(path.stat().st_size for path in (data / "photos.records").iterdir())
        assert found[Kind.BUILD] >= 1002
        assert found[Kind.RAW] == RAW_FILE.size_bytes

    def test_looking_does_not_count_as_use(self, tmp_path):
        path = a_set(tmp_path / "old.records", age_days=50)
        for _ in range(2):
            (item,) = find_items([tmp_path])
            assert 49.9 < (time.time() - item.last_used) / DAY_S < 50.1
        os.utime(path / "shard-00000.lmdb", (time.time() - 3 * DAY_S, 0))  # read, not written
        (item,) = find_items([tmp_path])
        assert 2.9 < (time.time() - item.last_used) / DAY_S < 3.1

    def test_two_levels_below_a_root_are_searched(self, tmp_path):
        a_set(tmp_path / "a" / "b" / "found.records")
        a_set(tmp_path / "a" / "b" / "c" / "deep.records")
        assert [item.name for item in find_items([tmp_path, tmp_path / "a"])] == ["found", "deep"]
        assert [item.name for item in find_items([tmp_path])] == ["found"]

    def test_a_raw_file_is_ours_only_with_our_mark(self, tmp_path):
        file = next(file for file in catalogue.entry("imagenet").files if file.size_bytes)
        path = sparse(tmp_path / file.name, file.size_bytes)
        assert find_items([tmp_path]) == []
        downloads.mark_path(path).write_text(f"downloaded by recordzoo: {file.size_bytes} 1 1\n")  # of another file
        assert find_items([tmp_path]) == []
        downloads.mark_path(path).write_text(downloads._identity(path))
        assert [item.kind for item in find_items([tmp_path])] == [Kind.RAW]

    def test_what_cannot_be_made_again_is_marked(self, data):
        tree = next(item for item in find_items([data]) if item.kind is Kind.SET)
        assert tree.kept == ""
        (data / "photos").rename(data / "moved")
        gone = next(item for item in find_items([data]) if item.kind is Kind.SET)
        assert gone.kept == f"what it was made from is gone: {data / 'photos'}"
        own = a_set(data / "own.records")
        assert item_at(own).kept == "recordzoo does not know what it was made from"

    @pytest.mark.parametrize(
        ("dataset", "part", "expected"),
        [
            ("semeion", "", ""),
            ("imagenet", "val", "after accepting terms"),
            ("cityscapes", "fine", "must be downloaded by hand"),
        ],
    )
    def test_of_a_dataset_the_addresses_decide(self, tmp_path, dataset, part, expected):
        found = why_not_downloaded(dataset, part, tmp_path)
        assert found.endswith(expected)
        assert bool(found) == bool(expected)
        for file in catalogue.entry(dataset).files:
            sparse(tmp_path / catalogue.entry(dataset).folder / file.name, 1)
        assert why_not_downloaded(dataset, part, tmp_path) == ""


class TestRemove:
    def test_a_set_is_deleted_and_nothing_beside_it(self, data, others):
        before = snapshot(data, others.parent / "elsewhere")
        result = run("cache", "rm", data / "photos.records", "--yes", cwd=data)
        assert result.returncode == 0, result.stderr
        gone = {*before} - {*snapshot(data, others.parent / "elsewhere")}
        assert {Path(path).parent.name for path in gone} == {"data", "photos.records"}
        assert all("photos.records" in path for path in gone)

    def test_a_tree_means_the_set_beside_it(self, data):
        assert run("cache", "rm", "photos", "--yes", cwd=data).returncode == 0
        assert not (data / "photos.records").exists()
        assert (data / "photos" / "cat" / "1.jpg").read_bytes() == b"mine"
        result = run("cache", "rm", "photos", "--yes", cwd=data)
        assert (result.returncode, (data / "photos").is_dir()) == (2, True)
        assert "photos is not deleted: it is no record set" in result.stderr

    def test_a_name_is_looked_for_in_the_roots(self, data, tmp_path):
        roots.remember(data)
        result = run("cache", "rm", "photo", "--yes", cwd=tmp_path)
        assert (result.returncode, "Did you mean photos?" in result.stderr) == (3, True)
        assert run("cache", "rm", "photos", "--yes", cwd=tmp_path).returncode == 0
        assert not (data / "photos.records").exists()

    def test_the_manifest_goes_first_and_the_rest_is_found_again(self, data, monkeypatch):
        path, deleted = data / "photos.records", []
        unlink = Path.unlink

        def fails_at_the_third(self, *args, **kwargs):
            if self.parent == path:
                if len(deleted) == 2:
                    raise OSError(5, "Input/output error")
                deleted.append(self.name)
            unlink(self, *args, **kwargs)

        monkeypatch.setattr(Path, "unlink", fails_at_the_third)
        assert remove(item_at(path)) == "Input/output error"
        monkeypatch.undo()
        assert deleted[0] == "manifest.json"
        assert not is_record_set(path)
        assert item_at(path).kind is Kind.REMAINS
        assert run("cache", "prune", "--builds", "--root", data, "--yes", cwd=data).returncode == 0
        assert not path.exists()
        assert sorted(path.name for path in data.iterdir()) == [f".{RAW_FILE.name}.recordzoo", "photos", RAW_FILE.name]

    @pytest.mark.parametrize("name", BESIDE)
    def test_what_is_left_of_any_set_is_found(self, data, name):
        path = data / "photos.records"
        (path / name).touch()
        (path / "manifest.json").unlink()
        assert item_at(path).kind is Kind.REMAINS

    @fault("U10")
    def test_a_set_with_files_of_others_is_left(self, data):
        (data / "photos.records" / "notes.txt").write_text("mine")
        result = run("cache", "rm", data / "photos.records", "--yes", cwd=data)
        assert result.returncode == 1
        assert "it holds files that recordzoo did not write (notes.txt); move them away" in result.stderr
        assert is_record_set(data / "photos.records")

    @fault("U10")
    def test_a_link_is_refused(self, data, others):
        result = run("cache", "rm", "linked.records", "--yes", cwd=data)
        assert (result.returncode, "linked.records is a link" in result.stderr) == (2, True)
        assert is_record_set(others.parent / "elsewhere" / "linked.records")
        (data / "through").symlink_to(others.parent / "elsewhere")
        assert [item.path for item in find_items([data]) if "linked" in item.path.name] == []

    @pytest.mark.parametrize("how", ["build", "lock"])
    @fault(
        "U10",
        "a command removes records or downloads that are in use, or not recordzoo's",
        "it leaves them, and says why",
    )
    def test_what_is_being_prepared_is_left(self, data, how):
        owner = str(Owner.current())
        if how == "build":
            a_build(data / "photos.records", owner, silent_s=0)
        else:
            (data / ".photos.records.lock").write_text(owner)
        result = run("cache", "rm", "photos", "--yes", cwd=data)
        assert (result.returncode, f"process {os.getpid()} on" in result.stderr) == (1, False)
        assert "another thread of this process works on it" in result.stderr
        assert is_record_set(data / "photos.records")
        result = run("cache", "prune", "--builds", "--root", data, "--yes", "--json", cwd=data)
        assert all(owner not in item["path"] for item in json.loads(result.stdout)["deleted"])
        assert (data / f"photos.records.build.{owner}").exists() == (how == "build")

    @fault("U10")
    def test_a_living_download_is_left(self, data):
        part = sparse(data / f"{RAW_FILE.name}.part.{Owner.current()}", 100)
        run("cache", "prune", "--builds", "--root", data, "--yes", cwd=data)
        assert [path.name for path in data.glob("*.part*")] == [part.name]

    def test_what_changed_since_it_was_listed_is_left(self, data):
        item = item_at(data / "photos.records")
        (data / "photos.records" / "notes.txt").write_text("mine")
        assert "did not write" in remove(item)
        raw_file = item_at(data / RAW_FILE.name)
        sparse(data / RAW_FILE.name, 5)
        assert remove(raw_file) == "it is not what it was"
        (data / RAW_FILE.name).unlink()
        assert remove(raw_file) == ""


def an_item(name, kind=Kind.SET, size=10, age_days=0.0, **more):
    return Item(kind, Path("/data") / name, name, size, -age_days * DAY_S, **more)


ITEMS = [
    an_item("new", age_days=1),
    an_item("old", age_days=40),
    an_item("older", age_days=50),
    an_item("irreplaceable", age_days=60, kept="its raw data is gone"),
    an_item("busy", age_days=70, used_by="process 1"),
    an_item("raw", Kind.RAW, age_days=40),
    an_item("needed", Kind.RAW, age_days=40, kept="it is not prepared"),
    an_item("cached", Kind.CACHED, age_days=35),
    an_item("fetched", Kind.CACHED, age_days=80, used_by="another process"),
    an_item("build", Kind.BUILD, age_days=2),
    an_item("part", Kind.DOWNLOAD, age_days=30),
]


class TestPrune:
    @pytest.mark.parametrize(
        ("rules", "names"),
        [
            ({"older_than_s": 30 * DAY_S}, ["older", "old", "cached"]),
            ({"sets": True, "older_than_s": 30 * DAY_S}, ["older", "old"]),
            ({"remote": True}, ["cached"]),
            ({"remote": True, "older_than_s": 40 * DAY_S}, []),
            ({"remote": True, "keep_bytes": 15}, ["cached"]),
            ({"raw": True}, ["raw"]),
            ({"builds": True}, ["part", "build"]),
            ({"builds": True, "older_than_s": 7 * DAY_S}, ["part"]),
            ({"keep_bytes": 45}, ["older", "old", "cached"]),
            ({"keep_bytes": 50}, ["older", "old"]),
            ({"sets": True, "keep_bytes": 35}, ["older", "old"]),
            ({"sets": True, "keep_bytes": 40}, ["older"]),
            ({"sets": True, "keep_bytes": 50}, []),
            ({"keep_bytes": 1, "older_than_s": 45 * DAY_S}, ["older"]),
            ({"sets": True, "raw": True, "older_than_s": 30 * DAY_S}, ["older", "old", "raw"]),
        ],
        ids=str,
    )
    def test_the_rules_choose(self, rules, names):
        chosen, left = choose(ITEMS, 0, **rules)
        assert [item.name for item in chosen] == names
        assert {item.name for item, _ in left} <= {"irreplaceable", "busy", "needed", "fetched"}

    @pytest.mark.parametrize("keep_bytes", range(0, 80, 5))
    def test_a_shared_file_counts_until_its_last_name_goes(self, keep_bytes):
        file, other = Shared(1, 2, 10, 5), Shared(1, 3, 5, 2)
        items = [
            an_item("a", age_days=5, size=21, shared=[file, file]),  # as `merge` of a set with itself writes it
            an_item("b", age_days=4, size=17, shared=[file, other]),
            an_item("c", age_days=3, kept="its raw data is gone", shared=[other]),
            an_item("d", age_days=2, size=13, shared=[file]),
            an_item("e", age_days=1, size=12, shared=[file]),
        ]
        remaining = list(items)
        for item in items:
            if not item.kept and size_of(remaining) > keep_bytes:
                remaining.remove(item)
        chosen, _ = choose(items, 0, keep_bytes=keep_bytes)
        assert chosen == [item for item in items if item not in remaining]

    @pytest.mark.parametrize("rules", [{}, {"sets": True}, {"sets": True, "builds": True}])
    def test_rules_that_say_nothing_are_refused(self, rules):
        with pytest.raises(ArgumentError, match="--keep-size 100GB"):
            choose(ITEMS, 0, **rules)

    def test_a_dry_run_deletes_nothing(self, data):
        before = snapshot(data)
        options = ["--raw", "--builds", "--older-than", "0h", "--sets", "--root", data]
        result = run("cache", "prune", *options, "--dry-run", cwd=data)
        assert (result.returncode, snapshot(data)) == (0, before)
        assert "Would delete 1 record set, 4 leftovers, " in result.stderr
        assert "semeion is not prepared" in result.stderr
        assert result.stdout.count("\n") == 6

    def test_without_a_terminal_it_needs_yes(self, data):
        before = snapshot(data)
        result = run("cache", "prune", "--builds", "--root", data, cwd=data)
        assert (result.returncode, snapshot(data)) == (2, before)
        assert result.stderr.endswith("There is no terminal to ask on: pass --yes, or --dry-run to only look.\n")


class Terminal:
    def __init__(self, answer):
        self.answer = answer

    def isatty(self):
        return True

    def readline(self):
        return self.answer


class TestQuestion:
    @pytest.mark.parametrize(
        ("answer", "is_yes"), [("y\n", True), ("YES\n", True), ("\n", False), ("n\n", False), ("", False)]
    )
    def test_only_yes_is_yes(self, monkeypatch, answer, is_yes):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        answers = []
        drawn = drawn_by(lambda: answers.append(cache.confirm("Delete 1 record set (3 kB)?", yes=False)))
        assert (answers, drawn) == ([is_yes], "Delete 1 record set (3 kB)? [y/N] ")

    def test_yes_asks_nothing(self):
        assert cache.confirm("Delete it?", yes=True)


class TestList:
    def test_known_roots_are_listed(self, data, tmp_path, monkeypatch):
        monkeypatch.setenv("RECORDZOO_STATE", str(tmp_path / "state"))
        roots.remember(data)
        result = run("cache", "ls", cwd=tmp_path)
        assert [line.split()[0] for line in result.stdout.splitlines()] == [
            "NAME",
            "photos",
            "birds2",
            "birds",
            "semeion",
            "semeion",
            "semeion",
        ]
        assert re.fullmatch(r"1 record set, .+; 1 raw file, .+; 4 leftovers, .+; .+ in all\n", result.stderr)

    def test_preparing_makes_a_root_known(self, data, tmp_path, monkeypatch):
        monkeypatch.setenv("RECORDZOO_STATE", str(tmp_path / "state"))
        Image.new("RGB", (3, 2)).save(data / "photos" / "cat" / "1.png")
        assert run("prepare", "data/photos", "--output", "sets/some.records", cwd=tmp_path).returncode == 0
        assert roots.known() == [tmp_path / "sets"]
        assert run("cache", "ls", cwd=data).stdout.splitlines()[1].startswith("some ")

    def test_nothing_is_said_to_be_nothing(self, tmp_path):
        (tmp_path / "empty").mkdir()
        result = run("cache", "ls", "--root", "empty", cwd=tmp_path)
        assert result.stderr == f"Nothing that recordzoo wrote was found in {tmp_path}/empty.\n"

    def test_without_a_home_directory_there_is_no_cache(self, data, monkeypatch):
        def no_home():
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.delenv("RECORDZOO_CACHE_DIR")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", no_home)
        result = run("cache", "ls", cwd=data)
        assert (result.returncode, result.stdout.count("\n")) == (0, 7)

    def test_sizes_add_up(self, data):
        result = run("cache", "ls", "--root", data, cwd=data)
        sizes = {kind: format_bytes(sum(sizes)) for kind, sizes in self.sizes(data).items()}
        assert result.stderr == (
            f"1 record set, {sizes['record set']}; 1 raw file, {sizes['raw file']}; "
            f"4 leftovers, {sizes['leftover']}; {sizes['all']} in all\n"
        )
        found = json.loads(run("cache", "ls", "--root", data, "--json", cwd=data).stdout)
        kinds = {of["kind"]: (of["count"], of["size_bytes"]) for of in found["kinds"]}
        assert kinds["raw file"] == (1, RAW_FILE.size_bytes)
        assert (kinds["interrupted download"], kinds["cached set"]) == ((1, 100), (0, 0))
        assert sum(count for count, _ in kinds.values()) == len(found["items"]) == 6
        assert sum(size for _, size in kinds.values()) == found["size_bytes"]

    def sizes(self, data):
        found = {"record set": [], "raw file": [], "leftover": [], "all": []}
        for item in find_items([data]):
            found.get(item.kind.value, found["leftover"]).append(item.size_bytes)
            found["all"].append(item.size_bytes)
        return found


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
        when = time.time() - 50 * DAY_S
        for file in folder.iterdir():
            os.utime(file, (time.time(), when))  # the time of change is that of the last use
        for _ in range(2):
            (item,) = find_items([tmp_path / "cache"])
            assert (item.kind, item.path, item.name) == (Kind.CACHED, folder, f"{served.url}/birds.records")
            assert item.size_bytes == sum(file.stat().st_size for file in folder.iterdir())
            assert item.size_bytes > sum(map(len, VALUES))
            assert 49.9 < (time.time() - item.last_used) / DAY_S < 50.1
        roots.remember(tmp_path / "served")
        result = run("cache", "ls", cwd=tmp_path)
        assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [item.name, "birds"]
        assert result.stderr.startswith("1 record set, ")
        assert "; 1 cached set, " in result.stderr

    def test_no_login_is_listed_or_stored(self, served, tmp_path):
        read_all(RecordReader(served.url.replace("://", "://me:s3cret@") + "/birds.records"))
        result = run("cache", "ls", cwd=tmp_path)
        assert f"{served.url}/birds.records" in result.stdout
        assert "s3cret" not in result.stdout + result.stderr
        stored = [file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file()]
        assert not any(b"s3cret" in data for data in stored)

    @pytest.mark.parametrize("how", ["address", "path", "prune"])
    def test_one_is_deleted_while_a_reader_has_it_open(self, served, tmp_path, how):
        address = f"{served.url}/birds.records"
        reader = RecordReader(address)
        assert reader.read("image", 0) == VALUES[0]  # one of two shards
        name = {"address": address + "/", "path": tmp_path / "cache" / reader.digest}.get(how)
        words = ["prune", "--keep-size", "1"] if name is None else ["rm", name]
        result = run("cache", *words, "--yes", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "Deleted 1 cached set, " in result.stderr
        assert [path.name for path in (tmp_path / "cache").rglob("*")] == ["opened"]
        assert read_all(reader) == read_all(RecordReader(address)) == VALUES
        assert find_items([tmp_path / "cache"])[0].name == address

    def test_a_folder_that_is_deleted_while_it_is_made_is_made_again(self, served, tmp_path, monkeypatch):
        reader = RecordReader(f"{served.url}/birds.records")
        folder, is_dir, steps = tmp_path / "cache" / reader.digest, Path.is_dir, []

        def deleted_before_it_is_looked_at(self):
            if self == folder and not steps:  # in Path.mkdir, after "File exists"
                steps.append("deleted")
                assert remove_cached(Cache.default(), reader.digest)
            return is_dir(self)

        monkeypatch.setattr(Path, "is_dir", deleted_before_it_is_looked_at)
        assert read_all(reader) == VALUES
        assert steps == ["deleted"]

    @pytest.mark.slow
    def test_readers_go_on_while_it_is_deleted_again_and_again(self, served, tmp_path):
        address, found, rounds = f"{served.url}/birds.records", [], 0

        def read():
            found.extend(read_all(RecordReader(address)) == VALUES for _ in range(10))

        digest = RecordReader(address).digest
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            remove_cached(Cache.default(), digest)
            rounds += 1
        assert (found, rounds > 10) == ([True] * 30, True)

    @fault("U10")
    def test_what_is_being_fetched_is_left(self, served, tmp_path):
        reader = RecordReader(f"{served.url}/birds.records")
        part = tmp_path / "cache" / reader.digest / ".shard-00001.lmdb.100.part"
        part.write_bytes(b"half")
        with filelock.FileLock(part.with_name(".shard-00001.lmdb.lock")):
            result = run("cache", "rm", reader.path, "--yes", cwd=tmp_path)
            assert (result.returncode, "another process works on it" in result.stderr) == (1, True)
            result = run("cache", "prune", "--remote", "--yes", cwd=tmp_path)
            assert "another process works on it" in result.stderr
            assert not remove_cached(Cache.default(), reader.digest)
            assert part.read_bytes() == b"half"
            assert run("cache", "ls", cwd=tmp_path).stdout.count(f"{served.url}/birds.records") == 1
        assert run("cache", "prune", "--remote", "--yes", cwd=tmp_path).returncode == 0
        assert not part.parent.exists()

    def test_a_set_that_was_replaced_at_its_address_has_no_name(self, served, tmp_path):
        address = f"{served.url}/birds.records"
        old = RecordReader(address).digest
        shutil.rmtree(tmp_path / "served" / "birds.records")
        write_records(tmp_path / "served" / "birds.records", VALUES[:10], per_shard=10)
        new = RecordReader(address).digest
        found = {item.path.name: item.name for item in find_items([tmp_path / "cache"])}
        assert found == {old: old[:16], new: address}
        assert run("cache", "rm", tmp_path / "cache" / old, "--yes", cwd=tmp_path).returncode == 0
        assert [item.name for item in find_items([tmp_path / "cache"])] == [address]

    def test_an_address_that_is_not_there(self, served, tmp_path):
        RecordReader(f"{served.url}/birds.records")
        result = run("cache", "rm", f"{served.url}/birts.records", "--yes", cwd=tmp_path)
        assert result.returncode == 3
        assert f"birts.records is not in the cache {tmp_path}/cache. Did you mean {served.url}/birds" in result.stderr

    @fault("U10")
    def test_files_of_others_in_the_cache_are_left(self, served, tmp_path):
        digest = RecordReader(f"{served.url}/birds.records").digest
        cache = tmp_path / "cache"
        (cache / digest / "notes.txt").write_text("mine")
        other = hashlib.sha256(b"").hexdigest()  # as other programs call their folders
        (cache / other).mkdir()
        (cache / other / "manifest.json").write_text("{}")
        (cache / "photos").mkdir()
        before = snapshot(cache)
        assert [item.path.name for item in find_items([cache])] == [digest]
        result = run("cache", "prune", "--remote", "--yes", cwd=tmp_path)
        assert "it holds files that recordzoo did not write (notes.txt)" in result.stderr
        assert snapshot(cache) == before
        assert run("cache", "rm", cache / other, "--yes", cwd=tmp_path).returncode == 2

    def test_without_a_manifest_it_is_known_by_its_place(self, served, tmp_path):
        reader = RecordReader(f"{served.url}/birds.records")
        read_all(reader)
        (tmp_path / "cache" / reader.digest / "manifest.json").unlink()
        (item,) = find_items([tmp_path / "cache"])
        assert (item.kind, remove(item)) == (Kind.CACHED, "")
        assert not item.path.exists()
