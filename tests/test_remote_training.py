"""Epochs over record sets at URLs: shards are fetched ahead, each once; workers, ranges, warnings."""

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Subset

import recordzoo
from recordzoo import ImageFolderRecord, RecordLoader, RecordReader, RecordSampler
from recordzoo.errors import ArgumentError, NotPreparedError
from recordzoo.loader.order import SampledOrders
from recordzoo.loader.processes import Tasks
from recordzoo.loader.source import BatchSource
from recordzoo.records import spans
from recordzoo.sampling import ahead as ahead_module
from recordzoo.sampling.ahead import ahead_of
from tests.fakes.pictures import encoded
from tests.fakes.records import write_records
from tests.fakes.server import FileServer
from tests.urls import with_own_cache

COUNT, PER_SHARD = 96, 8
SHARDS = COUNT // PER_SHARD


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a record set of images in twelve shards, stored in an order of their own."""
    root = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(0)
    values = [
        encoded(Image.fromarray(rng.integers(0, 255, (24, 24, 3), np.uint8)), "png") + bytes(30_000)
        for _ in range(COUNT)
    ]
    arrays = {"target": np.arange(COUNT) % 3}
    write_records(
        root / "fake.records", values, per_shard=PER_SHARD, classes=("a", "b", "c"), arrays=arrays, encoding="image"
    )
    return root


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with_own_cache(monkeypatch, tmp_path)
    yield
    ahead_module._warned.clear()


def address(server: FileServer) -> str:
    return f"{server.url}/fake.records"


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(folder.glob("fake.records/shard-*"))]


def sent(server: FileServer) -> list[int]:
    """How many bytes of each shard were sent."""
    return [server.sent(f"fake.records/shard-{number:05d}.lmdb") for number in range(SHARDS)]


def cache_of(folder: Path, num_shards: float) -> int:
    return int(num_shards * max(sizes(folder))) + 20_000


def tensors(image):
    return torch.from_numpy(np.array(image))


def seen(loader) -> list[bytes]:
    """The images of an epoch, sorted."""
    return sorted(image.numpy().tobytes() for images, _ in loader for image in images)


@pytest.fixture(scope="module")
def images(folder) -> list[bytes]:
    """All images, sorted."""
    dataset = recordzoo.open(folder / "fake.records", transform=tensors)
    return sorted(dataset[i][0].numpy().tobytes() for i in range(COUNT))


def blocks(dataset, **changes) -> RecordSampler:
    """Blocks as large as shards, two of them mixed at a time by each of two virtual ranks."""
    arguments = {"shuffle": "block", "block_bytes": 8 * 30_500, "window": 1, "virtual_ranks": 2, "seed": 3}
    return RecordSampler(dataset, **(arguments | changes))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "processes", "sampler"])
@pytest.mark.parametrize("shuffle", ["block", False])
def test_an_epoch_reads_each_shard_once_from_a_cache_that_cannot_hold_all(folder, images, kind, shuffle):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=cache_of(folder, 9))
        assert dataset._selection.reader.remote.holds == "some"
        stored = storage_order(dataset)
        shown = Subset(dataset, stored) if shuffle is False else dataset
        sampler = blocks(shown) if shuffle else RecordSampler(shown, shuffle=False)
        if kind == "sampler":
            loader = DataLoader(shown, batch_size=4, sampler=sampler)
        else:
            loader = RecordLoader(shown, batch_size=4, sampler=sampler, num_workers=2, workers=kind)
        assert seen(loader) == images
        # Cuts between blocks do not lie at the shards' ends, so that a shard may be in use at two times.
        assert sum(sent(server)) <= 1.5 * sum(sizes(folder))
        assert all(each and each % size == 0 for each, size in zip(sent(server), sizes(folder), strict=True))


def test_worker_processes_wait_for_planned_shards_until_the_last_batch(folder):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=cache_of(folder, 9))
        reader = dataset._selection.reader
        tasks = Tasks(dataset, BatchSource(dataset), num_workers=2, num_hinted=8)
        tasks.begin(SampledOrders(blocks(dataset), 4, drop_last=False).begin())
        assert [task.planned for task in tasks] == [{reader.digest}] * (COUNT // 4)


@pytest.mark.parametrize("num_shards", [0, 9])
def test_choosing_workers_fetches_a_few_values_once(folder, num_shards):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=cache_of(folder, num_shards))
        text = str(RecordLoader(dataset, batch_size=4, num_workers=2))
        assert "threads at once take" in text
        values = dataset._selection.reader.array("image.index")["length"]
        assert 0 < sum(sent(server)) <= 8 * values.max()


def storage_order(dataset) -> list[int]:
    index = dataset._selection.reader.array("image.index")
    return np.lexsort((index["offset"], index["shard"])).tolist()


def test_shards_are_fetched_before_they_are_read(folder, tmp_path):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), cache_bytes=cache_of(folder, 9))
        stored = Subset(dataset, storage_order(dataset))
        epoch = RecordSampler(stored, shuffle=False).begin()
        ahead = ahead_of(stored, epoch, False)
        ahead.advance(0)
        wait_for(lambda: len(list((tmp_path / "cache").glob("*/shard-*"))) == 4)  # half of the cache
        ahead.advance(2 * PER_SHARD + 1)
        wait_for(lambda: sent(server)[5] > 0)
        assert sent(server)[8:] == [0] * 4


def wait_for(done) -> None:
    event = threading.Event()
    for _ in range(4000):
        if done():
            return
        event.wait(0.005)
    raise AssertionError("it did not happen")


def test_a_set_that_the_cache_can_hold_is_fetched_whole_and_later_epochs_ask_for_nothing(folder, images):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors)
        loader = RecordLoader(dataset, batch_size=8, shuffle=True, seed=0)
        assert seen(loader) == images
        assert sent(server) == sizes(folder)
        before = len(server.log)
        assert seen(loader) == images
        assert len(server.log) == before


@pytest.mark.slow
@pytest.mark.parametrize("cache_bytes", [None, 0])
def test_forked_workers_of_a_stock_loader(folder, images, cache_bytes):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=cache_bytes)
        dataset[0]  # this process has connections
        sampler = RecordSampler(dataset, shuffle="block")
        loader = DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=2, multiprocessing_context="fork")
        assert seen(loader) == images
        if cache_bytes is None:
            assert sent(server) == sizes(folder)


def test_blocks_without_a_cache_are_fetched_by_few_requests_and_each_byte_once(folder, images):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=0)
        dataset._selection.reader.array("image.index")
        before = len(server.log)
        loader = RecordLoader(dataset, batch_size=8, sampler=blocks(dataset), num_workers=2, workers="threads")
        assert seen(loader) == images
        assert len(server.log) - before <= 4 * SHARDS
        assert sum(sent(server)) <= 1.1 * sum(sizes(folder))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*each image is a request of its own:UserWarning")
@pytest.mark.parametrize("shuffle", [True, "block"])
def test_without_a_cache_worker_processes_fetch_their_own_values_and_once(folder, images, shuffle):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=0)
        sampler = blocks(dataset) if shuffle == "block" else RecordSampler(dataset, shuffle=True)
        loader = RecordLoader(dataset, batch_size=8, sampler=sampler, num_workers=3, workers="processes")
        assert seen(loader) == images
        assert sum(sent(server)) <= 1.1 * sum(sizes(folder))


def test_shuffling_more_than_the_cache_can_hold_warns_once(folder, images):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=cache_of(folder, 5))
        loader = RecordLoader(dataset, batch_size=8, shuffle=True, seed=1, workers="threads")
        with pytest.warns(
            UserWarning, match=r'each image is a request of its own\. Set RECORDZOO_CACHE_BYTES .*"block"'
        ):
            assert seen(loader) == images
        assert sum(sent(server)) <= 1.2 * sum(sizes(folder))
        assert seen(loader) == images  # warnings are errors


def test_concatenated_datasets_are_fetched_ahead(folder, images):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors)
        both = ConcatDataset([recordzoo.open(folder / "fake.records", transform=tensors), dataset])
        assert seen(RecordLoader(both, batch_size=8, shuffle=True)) == sorted(images * 2)
        assert sent(server) == sizes(folder)


@pytest.mark.slow
def test_too_many_values_ahead_are_forgotten_and_fetched_again(folder, images, monkeypatch):
    monkeypatch.setattr(spans, "AHEAD_BYTES", 100_000)
    with FileServer(folder) as server:
        reader = RecordReader(address(server), cache_bytes=0)
        reader.hint("image", range(COUNT))
        assert reader.remote._ahead.num_bytes <= 100_000
        local = RecordReader(folder / "fake.records")
        assert [reader.read("image", i) for i in range(COUNT)] == [local.read("image", i) for i in range(COUNT)]


def test_what_is_not_at_a_url_and_what_cannot_be_there(folder):
    with FileServer(folder) as server:
        with pytest.raises(
            NotPreparedError, match=r"cub200\.records/manifest\.json or .* Prepare it on a disk, then run: "
        ):
            recordzoo.CUB200Record(server.url)
        for options in ({"download": True}, {"refresh": True}, {"prepare": True}):
            with pytest.raises(ArgumentError, match=r"has no meaning at .* nothing is prepared at a URL"):
                recordzoo.CUB200Record(server.url, **options)
        with pytest.raises(NotPreparedError, match=r"recordzoo push fake-256\.records "):
            ImageFolderRecord(address(server), variant="256")
        with pytest.raises(ArgumentError, match="Pass the URL as a string"):
            ImageFolderRecord(Path(address(server)))
        assert str(ImageFolderRecord(f"{server.url}/fake").records_path) == address(server)
        assert server.url in str(ImageFolderRecord(address(server)).samples[0][0])
        shown = ImageFolderRecord(address(server).replace("://", "://me:geheim@"))
        assert "geheim" not in repr(shown) + str(shown.samples[0]) + str(shown.root)
        assert b"geheim" not in pickle.dumps(shown)
