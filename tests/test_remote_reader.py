"""A record set at a URL through the node's cache: fetched once, verified, bounded; by ranges where there is no room."""

import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typing_extensions import override

from recordzoo.errors import CorruptRecordError, ManifestError, RecordError
from recordzoo.net import store as store_module
from recordzoo.net import url as url_module
from recordzoo.net.cache import Cache
from recordzoo.net.store import Store
from recordzoo.net.url import Url
from recordzoo.records.reader import RecordReader
from tests.disks import mounted
from tests.fakes.records import some_names, some_values, write_records
from tests.fakes.server import Fault, FileServer
from tests.faults import fault
from tests.urls import with_own_cache

VALUES = some_values(60)
NAMES = some_names(60)
SHARDS = 6
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a record set of six shards."""
    root = tmp_path_factory.mktemp("served")
    write_records(root / "fake.records", VALUES, names=NAMES, per_shard=10)
    return root


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A cache of the test's own, no pauses, no proxy."""
    with_own_cache(monkeypatch, tmp_path)
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
    assert [reader.read("image", position) for position in range(60)] == VALUES


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


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_any_file_system_of_fsspec_will_do(kind, folder, tmp_path):
    url = f"file://{folder}/fake.records"
    if kind == "memory":
        fsspec = pytest.importorskip("fsspec")
        url = "memory://bucket/fake.records"
        fsspec.filesystem("memory").put(f"{folder}/fake.records", "/bucket/fake.records", recursive=True)
    assert_right(RecordReader(url))
    assert len(shards_in(tmp_path / "cache")) == SHARDS


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
    sizes = shard_bytes(folder)
    with FileServer(folder) as server:
        reader = RecordReader(address(server), cache_bytes=10_000 + sum(sizes) * 4 // 6)
        assert reader.remote.holds == "some"
        for number in range(SHARDS):
            reader.remote.bring([number])
            wait_for(lambda number=number: reader._directory.is_here(f"shard-{number:05d}.lmdb"))
            assert sum(kept.size_bytes for kept in Cache.default().files()) <= 10_000 + sum(sizes) * 4 // 6
    kept = shards_in(tmp_path / "cache")
    assert "shard-00005.lmdb" in kept
    assert "shard-00000.lmdb" not in kept
    assert 2 <= len(kept) < SHARDS


def wait_for(done, limit_s: float = 20.0) -> None:
    event = threading.Event()
    for _ in range(int(limit_s / 0.005)):
        if done():
            return
        event.wait(0.005)
    raise AssertionError("it did not happen")


def test_a_shard_that_is_evicted_while_it_is_read_stays_readable(folder, tmp_path):
    with FileServer(folder) as server:
        reader = RecordReader(address(server))
        assert_right(reader)
        sent = sum(whole_downloads(server, folder))
        for path in (tmp_path / "cache").glob("*/shard-*"):
            path.unlink()
        assert_right(reader)
        assert sum(whole_downloads(server, folder)) == sent


def test_the_whole_cache_may_be_deleted_at_any_time(folder, tmp_path):
    with FileServer(folder) as server:
        reader = RecordReader(address(server))
        reader.read("image", 3)
        shutil.rmtree(tmp_path / "cache")
        assert_right(reader)
        assert_right(RecordReader(address(server)))


class Deleting(Store):
    """Somebody deletes the cache whenever a piece was received."""

    @override
    def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
        for piece in super().pieces(name, size_bytes, start):
            shutil.rmtree(Cache.default().folder)
            yield piece


@pytest.mark.slow
@fault(
    "S9",
    "somebody deletes the node's cache while a file is fetched into it",
    "nothing: what was fetched is used, and fetched again by the next reader",
)
def test_the_cache_may_be_deleted_during_a_fetch(folder):
    with FileServer(folder) as server:
        reader = RecordReader(address(server))
        reader._directory.store = Deleting(Url.parse(address(server)))
        assert_right(reader)
        reader.array("image.index")
        assert_right(RecordReader(address(server)))


@pytest.mark.slow
@pytest.mark.parametrize("hinted", [True, False])
def test_without_a_cache_values_are_read_by_ranges_and_a_batch_by_few(folder, tmp_path, hinted):
    with FileServer(folder) as server:
        reader = RecordReader(address(server), cache_bytes=0)
        assert reader.remote.holds == "none"
        reader.array("image.index")
        before = len(server.log)
        if hinted:
            reader.hint("image", range(60))
        assert_right(reader)
        requests = len(server.log) - before
        assert requests <= SHARDS if hinted else requests == 60
        assert not shards_in(tmp_path / "cache")
        assert not reader.remote._ahead.spans
        assert reader.remote._ahead.num_bytes == 0


def test_values_in_a_row_fetch_their_shard(folder, monkeypatch):
    from recordzoo.records import remote_shards

    monkeypatch.setattr(remote_shards, "IN_A_ROW", 3)
    index = RecordReader(folder / "fake.records").array("image.index")
    order = np.lexsort((index["offset"], index["shard"]))
    with FileServer(folder) as server:
        reader = RecordReader(address(server), cache_bytes=sum(shard_bytes(folder)) * 4 // 6)
        for position in order:
            assert reader.read("image", int(position)) == VALUES[position]
        for number in range(SHARDS):
            assert server.sent(shard(number)) >= (folder / shard(number)).stat().st_size
            assert len(server.requests(shard(number))) < 10


@pytest.mark.slow
def test_many_processes_fetch_each_file_once(folder, tmp_path):
    code = (
        "import sys\nfrom recordzoo import RecordReader\nreader = RecordReader(sys.argv[1])\n"
        "print(sum(len(reader.read('image', i)) for i in range(60)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with FileServer(folder) as server:
        children = [
            subprocess.Popen(
                [sys.executable, "-c", code, address(server)], env=environment, stdout=subprocess.PIPE, text=True
            )
            for _ in range(3)
        ]
        outputs = [child.communicate(timeout=60)[0] for child in children]
        assert whole_downloads(server, folder) == [1] * SHARDS
        assert len(server.requests("fake.records/image.index.npy")) == 1
    assert outputs == [f"{sum(map(len, VALUES))}\n"] * 3


def test_forked_processes_read_each_through_connections_of_its_own(folder):
    with FileServer(folder) as server:
        readers = [RecordReader(address(server)), RecordReader(address(server), cache_bytes=0)]
        for reader in readers:
            reader.hint("image", [1, 2])
            assert reader.read("image", 1) == VALUES[1]
        children = []
        for _ in range(2):
            child = os.fork()
            if not child:
                try:
                    for reader in readers:
                        assert_right(reader)
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]


@pytest.mark.slow
def test_a_download_that_was_killed_is_gone_on_with(folder, tmp_path):
    code = "import sys\nfrom recordzoo import RecordReader\nRecordReader(sys.argv[1]).read('image', 0)"
    position = 0
    number = int(RecordReader(folder / "fake.records").array("image.index")["shard"][position])
    size = shard_bytes(folder)[number]
    prelude = "from recordzoo.net import store\nstore.PIECE_BYTES = 16384\n"
    with FileServer(folder) as server:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "RECORDZOO_KILL_AT": "cache.received:4"}
        done = subprocess.run([sys.executable, "-c", prelude + code, address(server)], env=environment)
        assert done.returncode == -signal.SIGKILL
        (part,) = (part for part in (tmp_path / "cache").glob("*/.shard-*.part"))
        there = part.stat().st_size
        assert 0 < there < size
        before = server.sent(shard(number))
        assert RecordReader(address(server)).read("image", position) == VALUES[position]
        assert server.sent(shard(number)) - before == size - there
    assert not list((tmp_path / "cache").glob("*/.shard-*.part"))


@pytest.mark.parametrize("times", [1, 99])
def test_wrong_bytes_are_fetched_once_more_and_never_used(folder, tmp_path, times):
    wrong = [bytearray((folder / shard(number)).read_bytes()) for number in range(SHARDS)]
    for data in wrong:
        data[9000] ^= 1
    pieces = [-(-size // (64 << 10)) for size in shard_bytes(folder)]
    faults = {shard(n): [Fault(body=bytes(wrong[n]))] * (pieces[n] * times) for n in range(SHARDS)}
    with FileServer(folder, faults) as server:
        reader = RecordReader(address(server))
        if times == 1:
            assert_right(reader)
            return
        with pytest.raises(CorruptRecordError, match=r"shard-0000\d\.lmdb is damaged: its bytes are not those of"):
            reader.read("image", 0)
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
@pytest.mark.parametrize(("size", "reads_ranges"), [("600k", False), ("100k", True)])
def test_a_full_disk_evicts_then_reads_ranges(folder, tmp_path, monkeypatch, caplog, size, reads_ranges):
    monkeypatch.setenv("RECORDZOO_CACHE_BYTES", "1e9")  # more than there is
    with mounted(tmp_path / "small", f"size={size}") as volume, FileServer(folder) as server:
        monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(volume.path / "cache"))
        with caplog.at_level(logging.WARNING):
            assert_right(RecordReader(address(server)))
        assert not list(volume.path.glob("cache/*/.*.part"))
        assert bool(shards_in(volume.path / "cache")) == (not reads_ranges)
    assert ("values are fetched one by one" in caplog.text) == reads_ranges


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_done_without(folder, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(tmp_path / "file"))
    with FileServer(folder) as server, caplog.at_level(logging.WARNING):
        reader = RecordReader(address(server))
        assert_right(reader)
        assert list(reader.names) == NAMES
    assert "is kept in memory" in caplog.text


def test_no_login_is_in_a_pickle_an_error_or_the_log(folder, tmp_path, caplog):
    with FileServer(folder) as server, caplog.at_level(logging.DEBUG, "recordzoo"):
        url = address(server).replace("://", "://me:geheim@") + "?sig=geheim"
        reader = RecordReader(url)
        assert_right(reader)
        assert server.log[-1].headers["Authorization"].startswith("Basic ")
        assert server.log[-1].query == "sig=geheim"
        assert b"geheim" not in pickle.dumps(reader)
        assert_right(pickle.loads(pickle.dumps(reader)))  # this process knows the login
        shutil.rmtree(tmp_path / "cache")
        server.fail(shard(0), [Fault(status=403)] * 99)
        with pytest.raises(RecordError) as caught:
            assert_right(RecordReader(url, cache_bytes=0))
        assert "geheim" not in f"{caught.value} {caught.value.details} {reader!r} {reader.path}"
    assert "geheim" not in caplog.text
    for path in (tmp_path / "cache").rglob("*"):
        assert "geheim" not in path.name
        if path.is_file():
            assert b"geheim" not in path.read_bytes()


def test_nothing_of_it_is_imported_unless_it_is_used(folder):
    code = (
        "import sys, recordzoo\nrecordzoo.RecordReader(sys.argv[1]).read('image', 0)\n"
        "import recordzoo.cli\n"
        "assert not {'fsspec', 's3fs', 'aiohttp', 'filelock', 'botocore'} & set(sys.modules), sys.modules.keys()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, str(folder / "fake.records")], env=environment, check=True)
