"""`info`, `verify`, `show` and the others at a URL: what they say, what they ask of the server, what they refuse."""

import json

import pytest

import recordzoo
from recordzoo.errors import RemoteError
from tests.browsing import served
from tests.copying import MANIFEST_NAME, assert_no_secret, shard, write_set
from tests.fakes import folder
from tests.fakes.s3 import EXPIRED, SLOW_DOWN, Fault
from tests.running import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]


@pytest.fixture
def url(s3, tmp_path):
    """The URL of a record set with four shards."""
    s3.put_folder(write_set(tmp_path / "a.records"), "data/a.records")
    return f"{s3.url}/data/a.records"


@pytest.fixture
def photos(s3, tmp_path):
    """The URL of a record set of images; the tree lies here."""
    folder.write_tree(tmp_path / "photos")
    assert run("prepare", "photos", cwd=tmp_path).returncode == 0
    assert run("push", "photos", f"{s3.url}/data", cwd=tmp_path).returncode == 0
    s3.server.forget()
    return f"{s3.url}/data/photos.records"


def cached(tmp_path):
    return {path.name for path in (tmp_path / "cache").rglob("*.lmdb")}


class TestVerify:
    def test_by_a_web_server_that_lists_names_without_sizes(self, tmp_path):
        write_set(tmp_path / "web" / "a.records")
        with served(tmp_path / "web") as address:
            for full in (False, True):
                assert recordzoo.verify(f"{address}a.records", full=full).problems == []
            (tmp_path / "web" / "a.records" / shard(0)).write_bytes(b"cut")
            (problem,) = recordzoo.verify(f"{address}a.records").problems
            assert "has 3 bytes instead of" in problem

    def test_full_reads_every_byte_once_and_keeps_none(self, s3, url, tmp_path):
        result = run("verify", url, "--full", cwd=tmp_path)
        assert result.returncode == 0
        assert "Every byte of 9 files" in result.stdout
        read = sum(each.sent for each in s3.server.requests(r"shard-|\.npy", "GET"))
        heads = 4 * 8192
        assert read - heads == sum(path.stat().st_size for path in (tmp_path / "a.records").glob("*.[ln][mp]*"))
        assert cached(tmp_path) == set()

    def test_damage_is_named(self, s3, url):
        data = bytearray(s3.get(f"data/a.records/{shard(1)}"))
        data[9000] ^= 1
        s3.put(f"data/a.records/{shard(1)}", bytes(data))
        s3.put("data/a.records/target.npy", s3.get("data/a.records/target.npy")[::-1])
        s3.put(f"data/a.records/{shard(2)}", b"short")
        s3.delete(f"data/a.records/{shard(3)}")
        s3.put("data/a.records/notes.txt", b"")
        quick, full = recordzoo.verify(url), recordzoo.verify(url, full=True)
        assert sorted(quick.damaged) == [shard(2), shard(3), "target.npy"]
        assert sorted(full.damaged) == [shard(1), shard(2), shard(3), "target.npy"]
        assert f"{url}/{shard(3)} is missing." in full.problems
        assert f"{url}/{shard(2)} has 5 bytes instead of" in "".join(full.problems)
        assert full.notes[:1] == ["notes.txt is not named in the manifest; nothing reads it as data."]
        assert full.checked["records"] == 3  # of the one shard that is whole

    def test_the_server_is_asked_not_the_cache(self, s3, url, tmp_path):
        assert len(list(recordzoo.RecordReader(url))) == 12
        assert cached(tmp_path) != set()
        s3.delete(f"data/a.records/{shard(0)}")
        result = run("verify", url, "--json", cwd=tmp_path)
        assert result.returncode == 5
        assert json.loads(result.stdout)["damaged"] == [shard(0)]

    def test_errors_of_the_server_pass_or_are_no_damage(self, s3, url):
        for each in (Fault(500), SLOW_DOWN, Fault(drop_after=10)):
            s3.server.fail("GET", r"shard-|npy", each)
        assert recordzoo.verify(url, full=True).ok
        s3.server.fail("GET", shard(2), EXPIRED, times=None)
        with pytest.raises(RemoteError, match="access was refused") as caught:
            recordzoo.verify(url, full=True)
        assert_no_secret(caught.value)

    def test_there_is_no_record_set(self, s3, tmp_path):
        assert run("verify", f"{s3.url}/none.records", cwd=tmp_path).returncode == 3
        s3.put(f"bad.records/{MANIFEST_NAME}", b"{}")
        assert recordzoo.verify(f"{s3.url}/bad.records").damaged == [MANIFEST_NAME]


class TestLooking:
    def test_info_is_that_of_the_set_here(self, s3, photos, tmp_path):
        here = json.loads(run("info", "photos", "--json", cwd=tmp_path).stdout)["record_set"]
        there = json.loads(run("info", f"{s3.url}/data", "--json", cwd=tmp_path).stdout)["record_set"]
        assert there["path"] == photos
        of_this_machine = {"path", "tree", "variants"}
        assert {key: there[key] for key in there.keys() - of_this_machine} == {
            key: here[key] for key in here.keys() - of_this_machine
        }
        assert cached(tmp_path) == set()

    def test_a_server_that_fails_does_not_count_as_unreadable_images(self, s3, photos, tmp_path):
        s3.server.fail("GET", "shard-", EXPIRED, times=None)
        for command in ("info", "show"):
            result = run(command, photos, cwd=tmp_path)
            assert (result.returncode, result.stdout) == (4, "")
            assert "access was refused" in result.stderr

    def test_show_writes_the_same_images(self, photos, tmp_path):
        for name, source in (("here", "photos"), ("there", photos)):
            result = run("show", source, "--number", 5, "--output", f"{name}.png", cwd=tmp_path)
            assert result.returncode == 0
        assert (tmp_path / "here.png").read_bytes() == (tmp_path / "there.png").read_bytes()
        assert cached(tmp_path) == set()
