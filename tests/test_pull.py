"""`pull` through the real client from the real server: what appears, and what faults do."""

import json

import pytest

import recordzoo
from recordzoo.errors import ArgumentError, CorruptRecordError, NotPreparedError, OtherSourceError, RemoteError
from recordzoo.net import store
from recordzoo.records.verify import verify
from tests.copying import copied_files, killed, shard, write_set
from tests.fakes.s3 import EXPIRED, Fault
from tests.fakes.server import FileServer
from tests.running import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("short_pauses")]


@pytest.fixture
def there(s3, tmp_path):
    """A record set in the bucket; the files that it has here."""
    path = write_set(tmp_path / "source" / "a.records")
    s3.put_folder(path, "data/a.records")
    return copied_files(path)


@pytest.fixture
def here(tmp_path):
    """An empty directory."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def gets(s3, name):
    return s3.server.requests(f"a.records/{name}", "GET")


class TestWhatAppears:
    def test_the_set_whole_and_checked(self, s3, there, here):
        path = recordzoo.pull(f"{s3.url}/data/a.records", here)
        assert path == here / "a.records"
        assert copied_files(path) == there
        assert verify(path, full=True).problems == []
        assert [each.name for each in here.iterdir()] == ["a.records"]

    @pytest.mark.parametrize("source", ["data", "data/a.records", "data/"])
    @pytest.mark.parametrize("target", ["b.records", "c/b.records"])
    def test_under_another_name(self, s3, there, here, source, target):
        assert recordzoo.pull(f"{s3.url}/{source}", here / target) == here / target
        assert copied_files(here / target) == there

    def test_again_nothing_is_fetched(self, s3, there, here):
        recordzoo.pull(f"{s3.url}/data", here)
        s3.server.forget()
        assert recordzoo.pull(f"{s3.url}/data", here) == here / "a.records"
        assert gets(s3, "shard") == []

    def test_marks_that_are_damaged_or_absent_are_left_out(self, s3, there, here):
        s3.put("data/a.records/image.marks", there.pop("image.marks")[::-1])
        assert copied_files(recordzoo.pull(f"{s3.url}/data", here / "1")) == there
        s3.delete("data/a.records/image.marks")
        assert copied_files(recordzoo.pull(f"{s3.url}/data", here / "2")) == there

    def test_of_several_sets_one_is_named(self, s3, there, here):
        s3.put("data/b.records/manifest.json", b"{}")
        with pytest.raises(ArgumentError, match=r"several record sets.*/data/a.records, s3://.*/data/b.records"):
            recordzoo.pull(f"{s3.url}/data", here)

    @pytest.mark.parametrize("url", ["", "/data/b.records", "/else"])
    def test_there_is_none(self, s3, there, here, url):
        with pytest.raises(NotPreparedError, match=f"There is no record set at {s3.url}{url}: it has no manifest.json"):
            recordzoo.pull(f"{s3.url}{url}", here)
        assert list(here.iterdir()) == []


class TestSomethingIsHere:
    def test_something_else_is_left_alone(self, s3, there, here):
        (here / "a.records").mkdir()
        (here / "a.records" / "thesis.txt").write_text("mine")
        for replace in (False, True):
            with pytest.raises(OtherSourceError, match="is no record set that can be read"):
                recordzoo.pull(f"{s3.url}/data", here, replace=replace)
        assert [each.name for each in (here / "a.records").iterdir()] == ["thesis.txt"]


class TestInterrupted:
    def test_the_part_of_a_file_is_kept(self, s3, there, here, monkeypatch):
        name, size = shard(2), len(there[shard(2)])
        monkeypatch.setattr(store, "PIECE_BYTES", 16 << 10)
        monkeypatch.setattr(store, "PARALLEL", 1)
        s3.server.fail("GET", rf"{name}", Fault())
        s3.server.fail("GET", rf"{name}", EXPIRED, times=None)
        with pytest.raises(RemoteError):
            recordzoo.pull(f"{s3.url}/data/a.records", here, workers=1)
        kept = (here / "a.records.build" / "set" / name).stat().st_size
        assert 0 < kept < size
        s3.server.forget()
        recordzoo.pull(f"{s3.url}/data/a.records", here)
        assert min(int(each.range.split("=")[1].split("-")[0]) for each in gets(s3, name)) == kept
        assert gets(s3, shard(1)) == []
        assert copied_files(here / "a.records") == there

    @pytest.mark.parametrize("damage", [lambda data: bytes(len(data)), lambda data: data + b"?" * 999999])
    def test_what_was_kept_is_compared_again(self, s3, there, here, damage):
        killed("pull.fetched:7", "pull", f"{s3.url}/data", here, "--workers", 1, cwd=here)
        build = here / "a.records.build" / "set"
        for kept in build.iterdir():
            kept.write_bytes(damage(kept.read_bytes()))
        (build / shard(3)).write_bytes(damage(there[shard(3)]))
        assert run("pull", f"{s3.url}/data", here, cwd=here).returncode == 0
        assert copied_files(here / "a.records") == there
        assert [each.name for each in here.iterdir()] == ["a.records"]


class TestFaults:
    @pytest.mark.parametrize("how", ["flipped", "cut", "replaced"])
    def test_an_object_that_stays_wrong_is_named(self, s3, there, here, how):
        data = there[shard(1)]
        wrong = {"flipped": data[:-1] + b"?", "cut": data[:-5000], "replaced": there[shard(0)] + b"?"}[how]
        s3.put(f"data/a.records/{shard(1)}", wrong)
        with pytest.raises((CorruptRecordError, RemoteError), match=f"{s3.url}/data/a.records/{shard(1)}"):
            recordzoo.pull(f"{s3.url}/data", here)
        assert not (here / "a.records").exists()
        s3.put(f"data/a.records/{shard(1)}", data)
        assert copied_files(recordzoo.pull(f"{s3.url}/data", here)) == there


class TestOtherPlaces:
    def test_a_web_server_that_lists_nothing_and_wants_a_login(self, tmp_path, here, caplog):
        caplog.set_level("DEBUG", "recordzoo")
        path = write_set(tmp_path / "a.records")
        files = {f"data/a.records/{name}": data for name, data in copied_files(path).items()}
        with FileServer(files) as server:
            url = server.url.replace("://", "://user:the-password@") + "/data/a.records"
            result = run("pull", url, here, "--json", cwd=tmp_path)
            assert run("pull", f"{url}x", here, cwd=tmp_path).returncode == 3
            assert all(each.headers["Authorization"].startswith("Basic ") for each in server.log)
        assert copied_files(here / "a.records") == copied_files(path)
        assert json.loads(result.stdout)["url"] == f"{server.url}/data/a.records"
        for text in (caplog.text, result.stdout, result.stderr, *map(str, here.rglob("*"))):
            assert "the-password" not in text

    def test_no_directory_of_this_machine(self):
        with pytest.raises(ArgumentError, match="pulled into a directory of this machine"):
            recordzoo.pull("s3://bucket/a.records", "s3://bucket/b.records")
