"""Epochs over record sets at URLs: each shard once, or each value once; workers, warnings."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import recordzoo
from recordzoo import ImageFolderRecord, RecordLoader, RecordReader, RecordSampler
from recordzoo.errors import ArgumentError, NotPreparedError
from tests.fakes.pictures import encoded
from tests.fakes.records import write_records
from tests.fakes.server import FileServer

pytestmark = pytest.mark.usefixtures("own_cache")

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


def assert_fetched_whole(server, folder) -> None:
    """Each shard was fetched once; before that, a thread may have read a value that was not announced yet."""
    assert all(num_bytes >= size for num_bytes, size in zip(sent(server), sizes(folder), strict=True))
    assert sum(sent(server)) <= 1.1 * sum(sizes(folder))


def loader_of(kind, dataset, shuffle):
    """A loader of batches of 4 by threads, by processes, or torch's own."""
    sampler = blocks(dataset) if shuffle == "block" else RecordSampler(dataset, shuffle=shuffle, seed=1)
    if kind == "sampler":
        return DataLoader(dataset, batch_size=4, sampler=sampler)
    return RecordLoader(dataset, batch_size=4, sampler=sampler, num_workers=2, workers=kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "processes", "sampler"])
@pytest.mark.parametrize("shuffle", ["block", True, False])
def test_a_set_that_the_cache_can_hold_is_fetched_once_and_later_epochs_ask_for_nothing(folder, images, kind, shuffle):
    with FileServer(folder) as server:
        loader = loader_of(kind, recordzoo.open(address(server), transform=tensors), shuffle)
        assert seen(loader) == images
        assert_fetched_whole(server, folder)
        before = len(server.log)
        assert seen(loader) == images
        assert len(server.log) == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*each image is a request of its own:UserWarning")
@pytest.mark.parametrize("kind", ["threads", "processes", "sampler"])
@pytest.mark.parametrize("shuffle", ["block", True, False])
def test_with_a_smaller_cache_each_value_is_fetched_once_an_epoch(folder, images, kind, shuffle):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=cache_of(folder, SHARDS - 1))
        assert seen(loader_of(kind, dataset, shuffle)) == images
        lengths = RecordReader(folder / "fake.records").array("image.index")["length"]
        requests = sum(len(server.requests(f"fake.records/shard-{number:05d}.lmdb")) for number in range(SHARDS))
        assert requests == COUNT if kind == "processes" else COUNT <= requests <= 1.1 * COUNT
        assert lengths.sum() <= sum(sent(server)) <= 1.1 * lengths.sum()


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
            assert_fetched_whole(server, folder)


def test_an_epoch_of_more_than_the_cache_can_hold_warns_once(folder, images):
    with FileServer(folder) as server:
        dataset = recordzoo.open(address(server), transform=tensors, cache_bytes=cache_of(folder, 5))
        loader = RecordLoader(dataset, batch_size=8, shuffle="block", seed=1, workers="threads")
        with pytest.warns(
            UserWarning, match=r"each image is a request of its own\. Set RECORDZOO_CACHE_BYTES .*or pull"
        ):
            assert seen(loader) == images
        assert seen(loader) == images  # warnings are errors
        off = recordzoo.open(address(server), transform=tensors, cache_bytes=0)
        assert seen(RecordLoader(off, batch_size=8, shuffle=True, workers="threads")) == images


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
