"""A record set at a URL through this machine's cache: fetched once, verified, bounded; else a request a value."""

import logging
import os
import pickle
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordzoo.errors import CorruptRecordError, ManifestError, RecordError
from recordzoo.net import store as store_module
from recordzoo.net import url as url_module
from recordzoo.net.store import Store
from recordzoo.records import remote as remote_shards
from recordzoo.records.reader import RecordReader
from tests.disks import mounted
from tests.fakes.records import flip_byte, some_names, some_values, write_records
from tests.fakes.server import Fault, FileServer
from tests.preparing import wait_for
from tests.running import exit_code, fork, printed, python
from tests.users import become

VALUES = some_values(60)
NAMES = some_names(60)
SHARDS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a record set of six shards."""
    root = tmp_path_factory.mktemp("served")
    write_records(root / "fake.records", VALUES, names=NAMES, per_shard=10)
    return root


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> Iterator[None]:
    """Pieces that are small, a cache of the test's own, and no login of another test."""
    monkeypatch.setattr(store_module, "PIECE_BYTES", 64 << 10)
    yield
    url_module._secrets.clear()


def address(server: FileServer) -> str:
    return f"{server.url}/fake.records"


def shard(number: int) -> str:
    return f"fake.records/shard-{number:05d}.lmdb"


def shard_bytes(folder: Path) -> list[int]:
    return [(folder / shard(number)).stat().st_size for number in range(SHARDS)]


def whole_downloads(server: FileServer, folder: Path) -> list[float]:
    """How often each shard was sent."""
    return [server.sent(shard(number)) / size for number, size in enumerate(shard_bytes(folder))]


def assert_right(reader: RecordReader) -> None:
    """Read all values, as a loader reads a batch."""
    reader.hint("image", range(60))
    assert [reader.read("image", position) for position in range(60)] == VALUES


def position_in(folder: Path, number: int) -> int:
    """Return the position of a record of a shard."""
    index = RecordReader(folder / "fake.records").array("image.index")
    return int(np.flatnonzero(index["shard"] == number)[0])


def shards_in(cache: Path) -> set[str]:
    return {path.name for path in cache.glob("*/shard-*")}


def test_a_reader_at_a_url_reads_what_the_one_on_the_disk_does(folder, tmp_path):
    local = RecordReader(folder / "fake.records")
    with FileServer(folder) as server:
        reader = RecordReader(address(server) + "/")
        assert [request.path for request in server.log] == ["fake.records/manifest.json"]
        assert (str(reader.path), repr(reader)) == (address(server), f"RecordReader({address(server)!r})")
        assert reader.digest == local.digest
        assert list(reader.names) == list(local.names)
        assert (reader.array("target") == local.array("target")).all()
        assert bytes(reader.marks("image")) == bytes(local.marks("image"))
        assert [dict(record) for record in reader] == [dict(record) for record in local]
        assert whole_downloads(server, folder) == [1] * SHARDS
        before = len(server.log)
        again = RecordReader(address(server))
        assert_right(again)
        assert list(again.names) == list(local.names)
        assert [request.path for request in server.log[before:]] == ["fake.records/manifest.json"]
    assert shards_in(tmp_path / "cache") == {f"shard-{number:05d}.lmdb" for number in range(SHARDS)}


def test_a_pickled_reader_opens_from_the_cache_alone(folder):
    with FileServer(folder) as server:
        reader = RecordReader(address(server), cache_bytes=1 << 30)
        assert_right(reader)
        reader.array("target")
        data = pickle.dumps(reader)
    twin = pickle.loads(data)  # the server is gone
    assert twin.digest == reader.digest
    assert_right(twin)


def test_what_is_in_the_cache_opens_offline(folder, monkeypatch):
    with FileServer(folder) as server:
        assert_right(RecordReader(address(server)))
    monkeypatch.setenv("RECORDZOO_OFFLINE", "1")
    assert_right(RecordReader(address(server)))
    shutil.rmtree(os.environ["RECORDZOO_CACHE_DIR"])
    with pytest.raises(RecordError, match="RECORDZOO_OFFLINE is set"):
        RecordReader(address(server))


def test_the_cache_is_bounded_and_what_was_used_least_recently_goes_first(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "served")
    write_records(tmp_path / "served" / "other.records", some_values(60, seed=7), names=NAMES, per_shard=10)
    limit = sum(shard_bytes(folder)) * 4 // 3
    with FileServer(tmp_path / "served") as server:
        first, other = (RecordReader(f"{server.url}/{name}.records", cache_bytes=limit) for name in ("fake", "other"))
        assert_right(first)
        of_first, of_other = (tmp_path / "cache" / reader.digest for reader in (first, other))
        wait_for(lambda: len(list(of_first.glob("shard-*"))) == SHARDS, "that all shards are there")
        for number in range(SHARDS):
            os.utime(of_first / f"shard-{number:05d}.lmdb", (number, number))
        assert len(list(other)) == 60
        wait_for(lambda: len(list(of_other.glob("shard-*"))) == SHARDS, "the other's")  # it fits, and is newer
    kept = {path.name for path in of_first.glob("shard-*")}
    assert kept == {f"shard-{number:05d}.lmdb" for number in range(SHARDS - len(kept), SHARDS)}
    assert sum(path.stat().st_size for path in (tmp_path / "cache").glob("*/shard-*")) <= limit


def test_a_shard_that_is_evicted_while_it_is_read_stays_readable(folder, tmp_path):
    with FileServer(folder) as server:
        reader = RecordReader(address(server))
        assert_right(reader)
        sent = sum(whole_downloads(server, folder))
        for path in (tmp_path / "cache").glob("*/shard-*"):
            path.unlink()
        assert [reader.read("image", position) for position in range(60)] == VALUES
        assert sum(whole_downloads(server, folder)) == sent


@pytest.mark.parametrize("kind", ["a link", "a directory", "another user's", "another user's bytes"])
def test_what_cannot_be_used_in_the_cache_is_not_waited_for(folder, monkeypatch, caplog, kind):
    if "user" in kind and os.getuid() != 0:
        pytest.skip("only root may become another user")
    local = RecordReader(folder / "fake.records")
    with FileServer(folder) as server, tempfile.TemporaryDirectory() as name:  # pytest's are private
        assert_right(RecordReader(address(server)))  # imports what the other user may not
        before = server.sent(shard(2))
        monkeypatch.setenv("RECORDZOO_CACHE_DIR", f"{name}/cache")
        digest = Path(name, "cache", local.digest)
        digest.mkdir(parents=True)
        for path in (digest.parent.parent, digest.parent, digest):
            path.chmod(0o1777)
        for taken in (digest / "shard-00002.lmdb", digest / "target.npy"):
            if kind == "a link":
                taken.symlink_to(folder / "fake.records" / taken.name)
            elif kind == "a directory":
                taken.mkdir()
            else:
                shutil.copyfile(folder / "fake.records" / taken.name, taken)
                flip_byte(taken, -1)
                taken.chmod(0o600 if kind == "another user's" else 0o644)

        def read() -> None:
            caplog.clear()
            reader = RecordReader(address(server))
            assert_right(reader)
            assert_right(reader)
            assert (reader.array("target") == local.array("target")).all()
            assert len(caplog.messages) == 2
            for text in ("values are fetched one by one", "target.npy is kept in memory"):
                assert re.search(rf"{text}.*(not a file that|has other bytes).*\. Delete it, or set", caplog.text)

        if "user" in kind:
            assert exit_code(fork(lambda: (become(65534, 65534), read()))) == 0
        else:
            read()
        rows = local.array("image.index")
        assert server.sent(shard(2)) - before == 2 * rows["length"][rows["shard"] == 2].sum()
        assert len(list(digest.glob("shard-*"))) == SHARDS


def test_the_cache_may_be_deleted_during_a_fetch(folder, tmp_path, monkeypatch):
    pieces = Store.pieces

    def deleting(*arguments: Any) -> Iterator[bytes]:
        for piece in pieces(*arguments):
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)
            yield piece

    monkeypatch.setattr(Store, "pieces", deleting)
    with FileServer(folder) as server:
        assert_right(RecordReader(address(server)))


def test_with_a_small_cache_each_value_is_a_request_and_a_batchs_are_made_at_once(folder, tmp_path, monkeypatch):
    with FileServer(folder) as server:
        all_there, content = threading.Barrier(30, timeout=20), server.content

        def together(path: str) -> bytes | None:
            if "shard-" in path:
                all_there.wait()
            return content(path)

        monkeypatch.setattr(server, "content", together)
        reader = RecordReader(address(server), cache_bytes=sum(shard_bytes(folder)) - 1)
        assert_right(reader)
        assert sum(server.sent(shard(number)) for number in range(SHARDS)) == sum(map(len, VALUES))
        assert sum(len(server.requests(shard(number))) for number in range(SHARDS)) == 60
    assert not shards_in(tmp_path / "cache")


def test_single_values_are_requests_until_their_shard_pays(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_shards, "SINGLE_VALUES", 5)
    rows = RecordReader(folder / "fake.records").array("image.index")
    with FileServer(folder) as server:
        reader = RecordReader(address(server))
        for count, position in enumerate(np.flatnonzero(rows["shard"] == 3).tolist()):
            assert reader.read("image", position) == VALUES[position]
            assert shards_in(tmp_path / "cache") == (set() if count < 5 else {"shard-00003.lmdb"})
        assert len(server.requests(shard(3))) == 5 + -(-shard_bytes(folder)[3] // (64 << 10))


def test_values_in_order_fetch_the_next_shards_too(folder, tmp_path):
    with FileServer(folder) as server:
        RecordReader(address(server)).hint("image", [position_in(folder, 1)])
        wanted = {f"shard-{number:05d}.lmdb" for number in (1, 2, 3)}
        wait_for(lambda: shards_in(tmp_path / "cache") == wanted, "that the next shards are there")


@pytest.mark.slow
def test_many_processes_fetch_each_file_once(folder, tmp_path):
    code = "import sys\nfrom recordzoo import RecordReader\nreader = RecordReader(sys.argv[1])\n"
    code += "reader.hint('image', range(60))\nprint(sum(len(reader.read('image', i)) for i in range(60)))"
    with FileServer(folder) as server, ThreadPoolExecutor(3) as pool:
        outputs = list(pool.map(lambda _: printed(code, address(server)), range(3)))
        assert whole_downloads(server, folder) == [1] * SHARDS
        assert len(server.requests("fake.records/image.index.npy")) == 1
    assert outputs == [f"{sum(map(len, VALUES))}\n"] * 3


@pytest.mark.slow
def test_a_download_that_was_killed_is_gone_on_with(folder, tmp_path):
    number, position = 5, position_in(folder, 5)
    size = shard_bytes(folder)[number]
    code = "import sys\nfrom recordzoo import RecordReader\nreader = RecordReader(sys.argv[1])\n"
    code += f"reader.hint('image', [{position}])\nreader.read('image', {position})"
    prelude = "from recordzoo.net import store\nstore.PIECE_BYTES = 16384\n"
    with FileServer(folder) as server:
        done = python("-c", prelude + code, address(server), RECORDZOO_KILL_AT="cache.received:4")
        assert done.returncode == -signal.SIGKILL
        (part,) = (part for part in (tmp_path / "cache").glob("*/.shard-*.part"))
        there = part.stat().st_size
        assert 0 < there < size
        before = server.sent(shard(number))
        reader = RecordReader(address(server))
        reader.hint("image", [position])
        assert reader.read("image", position) == VALUES[position]
        assert server.sent(shard(number)) - before == size - there
    assert not list((tmp_path / "cache").glob("*/.shard-*.part"))


def test_wrong_bytes_are_never_used(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "served")
    for number in range(SHARDS):
        flip_byte(tmp_path / "served" / shard(number), 9000)
    message = r"shard-0000\d\.lmdb is damaged: its bytes are not those of"
    with FileServer(tmp_path / "served") as server, pytest.raises(CorruptRecordError, match=message):
        assert_right(RecordReader(address(server)))
    assert not shards_in(tmp_path / "cache")


def test_a_set_that_is_replaced_in_mid_epoch_says_so(folder, tmp_path):
    root = tmp_path / "served"
    shutil.copytree(folder, root)
    with FileServer(root) as server:
        readers = [RecordReader(address(server)), RecordReader(address(server), cache_bytes=0)]
        for reader in readers:
            reader.array("image.index")
        shutil.rmtree(root / "fake.records")
        write_records(root / "fake.records", some_values(60, seed=5), per_shard=10)
        for reader in readers:
            with pytest.raises(RecordError, match=r"was replaced by another record set since it was opened\. Open"):
                assert_right(reader)
        with pytest.raises(RecordError, match="was replaced by another record set"):
            RecordReader(address(server), digest="0" * 64)
        shutil.rmtree(root / "fake.records")
        with pytest.raises(RecordError, match="was removed since it was opened"):
            readers[1].read("image", 4)
        with pytest.raises(ManifestError, match="there is no record set at this address"):
            RecordReader(address(server))


def test_what_is_damaged_in_the_cache_is_fetched_again(folder, tmp_path):
    with FileServer(folder) as server:
        assert_right(RecordReader(address(server)))
        RecordReader(address(server)).array("target")
        for path in [*(tmp_path / "cache").glob("*/shard-*"), *(tmp_path / "cache").glob("*/target.npy")]:
            data = bytearray(path.read_bytes())
            data[4096 if path.suffix == ".lmdb" else -8 :] = bytes(len(data) - 4096 if path.suffix == ".lmdb" else 8)
            path.write_bytes(data)
        reader = RecordReader(address(server))
        assert_right(reader)
        assert (reader.array("target") == RecordReader(folder / "fake.records").array("target")).all()


def test_an_array_that_is_not_the_manifests_is_refused(folder):
    fault = Fault(body=b"x" * 5000)
    with FileServer(folder, {"fake.records/target.npy": [fault] * 9}) as server, pytest.raises(RecordError):
        RecordReader(address(server)).array("target")


@pytest.mark.slow
@pytest.mark.parametrize(("size", "reads_ranges"), [("600k", False), ("64k", True)])
def test_a_full_disk_evicts_then_reads_ranges(folder, tmp_path, monkeypatch, caplog, size, reads_ranges):
    monkeypatch.setenv("RECORDZOO_CACHE_BYTES", "1e9")  # more than there is
    with mounted(tmp_path / "small", f"size={size}") as volume, FileServer(folder) as server:
        monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(volume.path / "cache"))
        with caplog.at_level(logging.WARNING):
            assert_right(RecordReader(address(server)))
            wait_for(lambda: not list(volume.path.glob("cache/*/.*.part")), "the end of all downloads")
        assert bool(shards_in(volume.path / "cache")) == (not reads_ranges)
    assert ("values are fetched one by one" in caplog.text) == reads_ranges


def test_no_login_is_in_a_pickle_or_an_error(folder, tmp_path, monkeypatch):
    with FileServer(folder) as server:
        url = address(server).replace("://", "://me:geheim@") + "?sig=geheim"
        reader = RecordReader(url)
        assert_right(reader)
        assert server.log[-1].headers["Authorization"].startswith("Basic ")
        assert server.log[-1].query == "sig=geheim"
        assert b"geheim" not in pickle.dumps(reader)
        assert_right(pickle.loads(pickle.dumps(reader)))  # this process knows the login
        monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(tmp_path / "empty"))  # shards may still come into the other one
        server.fail(shard(0), [Fault(status=403)] * 99)
        with pytest.raises(RecordError) as caught:
            assert_right(RecordReader(url, cache_bytes=0))
        assert "geheim" not in f"{caught.value} {caught.value.details} {reader!r} {reader.path}"
