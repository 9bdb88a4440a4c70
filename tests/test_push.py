"""`push` through the real client to the real server: what arrives, in which order, and what faults do."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from typing_extensions import override

import recordzoo
from recordzoo.base.progress import LogProgress
from recordzoo.errors import ArgumentError, CorruptRecordError, OtherSourceError, RemoteError
from recordzoo.net import store
from recordzoo.net.url import Url
from recordzoo.records.reader import RecordReader
from recordzoo.sets.push import CLAIM_NAME
from tests.copying import MANIFEST_NAME, assert_no_secret, copied_files, killed, shard, write_set
from tests.fakes.records import flip_byte, write_records
from tests.fakes.s3 import EXPIRED, SLOW_DOWN, Fault
from tests.running import python, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("short_pauses")]


@pytest.fixture
def path(tmp_path):
    return write_set(tmp_path / "a.records")


def arrived(s3, key="a.records"):
    """The files below a key, by name."""
    names = s3.keys()
    return {name.rpartition("/")[2]: s3.get(name) for name in names if name.startswith(f"{key}/")}


def puts(s3):
    """The files of record sets that were sent; a push's claim is none."""
    sent = [each.path.rpartition("/")[2] for each in s3.server.requests("", "PUT") if "uploads" not in each.query]
    return [name for name in sent if name != CLAIM_NAME]


class TestWhatArrives:
    def test_all_files_the_manifest_last_and_nothing_of_this_machine(self, s3, path):
        assert recordzoo.push(path, f"{s3.url}/data") == f"{s3.url}/data/a.records"
        assert arrived(s3, "data/a.records") == copied_files(path)
        assert puts(s3)[-1] == MANIFEST_NAME
        assert len(puts(s3)) == len(copied_files(path))

    def test_again_nothing_is_sent(self, s3, path):
        for options in ({}, {}, {"verify": True}):
            recordzoo.push(path, s3.url, **options)
        assert len(puts(s3)) == len(copied_files(path))
        assert len(s3.server.requests(shard(0), "GET")) == 1  # --verify read it back

    def test_a_file_that_is_lost_or_cut_there_is_sent_again(self, s3, path):
        recordzoo.push(path, f"{s3.url}/b.records")
        s3.delete(f"b.records/{shard(1)}")
        s3.put(f"b.records/{shard(2)}", b"cut")
        s3.server.forget()
        recordzoo.push(path, f"{s3.url}/b.records")
        assert sorted(puts(s3)) == [shard(1), shard(2)]
        assert arrived(s3, "b.records") == copied_files(path)

    @pytest.mark.parametrize("verify", [False, True])
    def test_other_bytes_of_the_same_size_are_sent_again(self, s3, path, verify):
        recordzoo.push(path, s3.url)
        right = s3.get(f"a.records/{shard(1)}")
        s3.put(f"a.records/{shard(1)}", bytes(len(right)))
        s3.server.forget()
        recordzoo.push(path, s3.url, verify=verify)
        assert puts(s3) == [shard(1)]
        assert arrived(s3) == copied_files(path)

    def test_a_large_file_goes_in_parts_and_its_checksum_is_known(self, s3, tmp_path, monkeypatch):
        monkeypatch.setattr(store, "_PART_BYTES", 5 << 20)
        large = write_records(tmp_path / "large.records", [bytes([number]) * (3 << 20) for number in range(5)])
        recordzoo.push(large, s3.url)
        assert len(s3.server.requests(f"{shard(0)}.*partNumber=", "PUT")) > 2
        assert arrived(s3, "large.records") == copied_files(large)
        assert s3.server.requests(shard(0), "GET") == []  # nothing had to be read back


class TestAnotherSetIsThere:
    def test_it_is_refused_and_kept(self, s3, path, tmp_path):
        other = write_set(tmp_path / "other" / "a.records", seed=1)
        recordzoo.push(other, s3.url)
        with pytest.raises(OtherSourceError, match=r"another record set .* at s3://bucket-\d+/a.records. Pass --repl"):
            recordzoo.push(path, s3.url)
        assert arrived(s3) == copied_files(other)

    def test_it_is_replaced_its_manifest_first(self, s3, path, tmp_path):
        recordzoo.push(write_set(tmp_path / "other" / "a.records", seed=1, count=18), s3.url)
        s3.put("a.records/notes.txt", b"of the user's")
        s3.server.forget()
        recordzoo.push(path, s3.url, replace=True)
        changes = [each for each in s3.server.log if each.method in ("PUT", "DELETE") and CLAIM_NAME not in each.path]
        assert (changes[0].method, changes[0].path.rpartition("/")[2]) == ("DELETE", MANIFEST_NAME)
        assert arrived(s3) == {**copied_files(path), "notes.txt": b"of the user's"}
        assert s3.server.requests(shard(0), "GET") == []  # what is replaced is not read

    @pytest.mark.parametrize("step", ["push.sent:4", "push.complete"])
    def test_old_files_are_removed_also_after_a_kill(self, s3, path, tmp_path, step):
        recordzoo.push(write_set(tmp_path / "other" / "a.records", seed=1, count=18), s3.url)
        s3.put("a.records/users.npy", b"of the user's")
        killed(step, "push", path, s3.url, "--replace", cwd=tmp_path)
        assert MANIFEST_NAME not in arrived(s3)
        assert run("push", path, s3.url, cwd=tmp_path).returncode == 0
        assert arrived(s3) == {**copied_files(path), "users.npy": b"of the user's"}


class Meanwhile(LogProgress):
    """Does something while a push is under way: it has sent nothing yet."""

    def __init__(self, action):
        super().__init__()
        self.action, self.is_done = action, False

    @override
    def begin(self, stage, total_bytes=None, done_bytes=0):
        super().begin(stage, total_bytes, done_bytes)
        if not self.is_done:
            self.is_done = True
            self.action()


@pytest.fixture(params=["s3", "file", "memory"])
def place(request, tmp_path):
    """A folder to push to, in each kind of store that creates a file only if there is none."""
    if request.param == "s3":
        return request.getfixturevalue("s3").url
    return (tmp_path / "store").as_uri() if request.param == "file" else f"memory://{tmp_path.name}"


def stored(place, name="a.records"):
    """The files of a set in any store, without the claim of a push that is under way."""
    there = store.Store(Url.parse(place) / name)
    return {name: there.read(name, 1 << 30) for name in there.entries() if name != CLAIM_NAME}


class TestAtTheSameTime:
    def test_the_second_changes_nothing(self, place, path, tmp_path):
        other = write_set(tmp_path / "other" / "a.records", seed=1)

        def push_the_other():
            with pytest.raises(OtherSourceError, match=r"Another record set is being pushed to .*--replace"):
                recordzoo.push(other, place)

        recordzoo.push(path, place, progress=Meanwhile(push_the_other))
        assert stored(place) == copied_files(path)

    def test_the_same_set_may_be_pushed_by_several(self, place, path):
        recordzoo.push(path, place, progress=Meanwhile(lambda: recordzoo.push(path, place)))
        assert stored(place) == copied_files(path)
        assert CLAIM_NAME not in store.Store(Url.parse(place) / "a.records").entries()

    def test_a_set_that_is_published_after_the_first_look_is_kept(self, place, path, tmp_path, monkeypatch):
        other, create, pushes = write_set(tmp_path / "other" / "a.records", seed=1), store.Store.create, []

        def push_and_create(self, name, data):
            if not pushes:
                pushes.append(other)
                recordzoo.push(other, place)
            create(self, name, data)

        monkeypatch.setattr(store.Store, "create", push_and_create)
        with pytest.raises(OtherSourceError, match="There is another record set"):
            recordzoo.push(path, place)
        assert store.Store(Url.parse(place) / "a.records").entries().keys() == copied_files(other).keys()
        assert stored(place) == copied_files(other)

    def test_the_claim_is_taken_by_replace_and_the_first_publishes_nothing(self, place, path, tmp_path):
        other = write_set(tmp_path / "other" / "a.records", seed=1)
        with pytest.raises(OtherSourceError, match="Another record set is being pushed"):
            recordzoo.push(path, place, progress=Meanwhile(lambda: recordzoo.push(other, place, replace=True)))
        assert stored(place) == copied_files(other)

    def test_three_processes(self, s3, tmp_path):
        paths = [write_set(tmp_path / str(seed) / "a.records", seed=seed, count=30) for seed in range(3)]
        with ThreadPoolExecutor(3) as pool:
            pushes = list(pool.map(lambda path: python("-m", "recordzoo", "push", path, s3.url, "--json"), paths))
        codes = [each.returncode for each in pushes]
        assert sorted(codes) == [0, 1, 1], pushes
        assert ["OtherSourceError" in each.stderr for each in pushes] == [code == 1 for code in codes]
        assert arrived(s3) == copied_files(paths[codes.index(0)])

    def test_an_interrupted_push_of_another_set_is_named_and_replaced(self, s3, path, tmp_path):
        other = write_set(tmp_path / "other" / "a.records", seed=1, count=18)
        killed("push.sent:4", "push", other, s3.url, "--workers", 1, cwd=tmp_path)
        with pytest.raises(OtherSourceError, match="or its push was interrupted"):
            recordzoo.push(path, s3.url)
        recordzoo.push(path, s3.url, replace=True)
        assert arrived(s3) == copied_files(path)

    def test_a_server_without_conditional_writes(self, s3, path):
        s3.server.fail("PUT", f"{CLAIM_NAME}|{MANIFEST_NAME}", Fault(501, "NotImplemented"), times=1)
        recordzoo.push(path, s3.url)
        assert arrived(s3) == copied_files(path)


class TestInterrupted:
    def test_what_was_sent_is_not_sent_again(self, s3, path, tmp_path):
        killed("push.sent:4", "push", path, s3.url, "--workers", 1, cwd=tmp_path)
        assert MANIFEST_NAME not in arrived(s3)
        assert len(puts(s3)) == 4
        assert run("pull", f"{s3.url}/a.records", cwd=tmp_path).returncode == 3  # not a set yet
        done = run("push", path, s3.url, cwd=tmp_path)
        assert done.returncode == 0
        assert re.search(r"a.records: 9 files \(.*\), 5 files \(.*\) of them now", done.stdout)
        assert sorted(puts(s3)) == sorted(copied_files(path))
        assert arrived(s3) == copied_files(path)


class TestFaults:
    def test_errors_of_the_server_pass(self, s3, path):
        for each in (Fault(500), SLOW_DOWN, Fault(503), Fault(lost=True)):
            s3.server.fail("PUT", r"shard-|npy", each)
        s3.server.fail("GET", "list-type", Fault(500))
        recordzoo.push(path, s3.url)
        assert arrived(s3) == copied_files(path)

    def test_expired_credentials_are_one_error_at_once(self, s3, path, tmp_path, caplog):
        caplog.set_level("DEBUG", "recordzoo")
        s3.server.fail("PUT", "", EXPIRED, times=None)
        with pytest.raises(RemoteError) as caught:
            recordzoo.push(path, s3.url, workers=1)
        assert len(s3.server.requests("", "PUT")) == 1
        assert "access was refused (ExpiredToken" in str(caught.value)
        assert s3.url in str(caught.value)
        result = run("push", path, s3.url, "--json", cwd=tmp_path)
        assert result.returncode == 4
        assert json.loads(result.stderr)["error"]["type"] == "RemoteError"
        assert_no_secret(caplog.text, caught.value, result.stdout, result.stderr, path)

    def test_what_does_not_arrive_is_not_published(self, s3, path, monkeypatch):
        """The server keeps another object than was sent: here, somebody else writes one over it each time."""
        put = store.Store.put

        def put_and_lose(self, local, name, *rest):
            put(self, local, name, *rest)
            if name == shard(0):
                s3.put(f"a.records/{name}", bytes(local.stat().st_size))

        monkeypatch.setattr(store.Store, "put", put_and_lose)
        with pytest.raises(CorruptRecordError, match=f"{s3.url}/a.records/{shard(0)} is not what was sent"):
            recordzoo.push(path, s3.url)
        assert MANIFEST_NAME not in arrived(s3)

    def test_a_damaged_set_is_not_published(self, s3, path):
        flip_byte(path / shard(2), -1)
        with pytest.raises(CorruptRecordError, match=rf"{shard(2)} is missing or damaged.*verify .*--full"):
            recordzoo.push(path, s3.url)
        assert shard(2) not in arrived(s3)
        assert MANIFEST_NAME not in arrived(s3)


class TestOtherPlaces:
    @pytest.mark.parametrize("kind", ["file", "memory"])
    def test_a_folder_with_a_question_mark(self, path, tmp_path, kind):
        url = f"{(tmp_path / 'store').as_uri() if kind == 'file' else 'memory://store'}/what?"
        recordzoo.push(path, url)
        assert stored(url) == copied_files(path)
        assert RecordReader(f"{url}/a.records").digest == RecordReader(path).digest
        assert kind == "memory" or (tmp_path / "store" / "what?" / "a.records" / MANIFEST_NAME).exists()

    def test_a_bucket_that_does_not_exist(self, s3, path, tmp_path):
        url = "s3://no-such-bucket/a.records"
        for action in (
            lambda: recordzoo.push(path, url),
            lambda: recordzoo.pull(url, tmp_path),
            lambda: RecordReader(url),
        ):
            with pytest.raises(
                RemoteError, match=r"s3://no-such-bucket/.* there is no such bucket\. Check the address"
            ):
                action()

    def test_a_store_without_checksums(self, path, tmp_path):
        """There, what an earlier push left is read back before it is taken for the same."""
        url = (tmp_path / "store").as_uri()
        recordzoo.push(path, url)
        there = tmp_path / "store" / "a.records"
        assert copied_files(there) == copied_files(path)
        (there / MANIFEST_NAME).unlink()
        (there / shard(1)).write_bytes(bytes((there / shard(1)).stat().st_size))
        assert json.loads(run("push", path, url, "--json", cwd=tmp_path).stdout)["sent_files"] == 1
        assert copied_files(there) == copied_files(path)
        assert RecordReader(there).digest == RecordReader(path).digest

    @pytest.mark.parametrize("url", ["https://example.org/data", "a/path", "s3://bucket/what?/data"])
    def test_no_place_to_push_to(self, url, path):
        with pytest.raises(ArgumentError, match=r"cannot be written to|is no URL|followed by a query"):
            recordzoo.push(path, url)
