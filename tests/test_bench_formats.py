"""`benchmarks.formats`: every format gives the same images, and what the tables say. No time is tested."""

import contextlib
import dataclasses
import gc
import pickle
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import IterableDataset

from benchmarks import pages
from benchmarks.formats import NAMES, compare, measure
from benchmarks.formats.base import Finish, Reading, find_format, map_loader, size_bytes
from benchmarks.formats.page import SECTION, render
from benchmarks.formats.pictures import gather, samples_of
from benchmarks.formats.results import Comparing, Result, Speeds
from benchmarks.formats.tables import HEAD
from recordzoo.cli import bench as bench_task
from recordzoo.errors import RecordZooError
from tests.fakes.pictures import encoded, jpeg, picture

NUM_IMAGES = 20


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Twenty generated pictures in three classes; every fifth is a PNG."""
    tree, rng = tmp_path_factory.mktemp("formats") / "photos", np.random.default_rng(0)
    for number in range(NUM_IMAGES):
        image = picture(rng, 20 + number, 16)
        ending, data = ("png", encoded(image, "PNG")) if number % 5 == 0 else ("jpg", jpeg(image))
        path = tree / "cba"[number % 3] / f"{number}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tree


@pytest.fixture(scope="module")
def source(tree, tmp_path_factory):
    """The same pictures as formats are given them."""
    source = tmp_path_factory.mktemp("gathered") / "source"
    gather(tree, 100, source)
    return source


class FakeStreaming(IterableDataset):
    """What `mds` uses of MosaicML Streaming, which is too large for the tests: a pickled list, shuffled or not."""

    def __init__(self, *, local, shuffle, batch_size):
        self.samples = pickle.loads((Path(local) / "samples").read_bytes())
        if shuffle:
            self.samples = self.samples[::-1]

    def __iter__(self):
        return iter(self.samples)


class FakeWriter(contextlib.ExitStack):
    def __init__(self, *, out, columns):
        super().__init__()
        Path(out).mkdir()
        self.samples = []
        self.write = self.samples.append
        self.callback(lambda: (Path(out) / "samples").write_bytes(pickle.dumps(self.samples)))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where a format is written; with what a package would be that the tests have not."""
    streaming, util = types.ModuleType("streaming"), types.ModuleType("streaming.base.util")
    streaming.MDSWriter, streaming.StreamingDataset = FakeWriter, FakeStreaming
    util.clean_stale_shared_memory = lambda: None
    for name, module in {"streaming": streaming, "streaming.base": streaming, "streaming.base.util": util}.items():
        monkeypatch.setitem(sys.modules, name, module)
    (tmp_path / "format").mkdir()
    return tmp_path / "format"


def crcs(source):
    return [(zlib.crc32(Path(path).read_bytes()), label) for path, label in samples_of(source)]


@pytest.mark.filterwarnings("ignore:unclosed file.*tar'>:ResourceWarning")  # webdataset leaves them open
@pytest.mark.filterwarnings("ignore:Number of elements in the iterator is less than the queue size")  # of tfrecord
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in NAMES])
def test_every_format_gives_the_same_images(name, place, source, monkeypatch):
    monkeypatch.setattr(Finish, "__call__", lambda self, data: zlib.crc32(data))
    made = find_format(name)
    made.write(samples_of(source), place)
    for reading in (Reading("bytes", order, batch_size=3) for order in ("sequential", "random")):
        loader = made.read(place, reading)
        for _ in range(2):  # each epoch
            found = [pair for images, labels in loader for pair in zip(images.tolist(), labels.tolist(), strict=True)]
            assert sorted(found) == sorted(crcs(source))
            assert (found == crcs(source)) == (not reading.shuffled)
        del loader
        gc.collect()
    assert size_bytes(place) >= sum(map(_size, samples_of(source)))


def _size(sample):
    return Path(sample[0]).stat().st_size


@pytest.mark.parametrize("name", ["files", "records", "sqlite"])
def test_images_are_decoded_by_pillow(name, tmp_path, source, monkeypatch):
    monkeypatch.setattr(bench_task, "load_transform", lambda name: _mode_and_size)
    made = find_format(name)
    made.write(samples_of(source), tmp_path)
    reading = Reading("images", "sequential", batch_size=1)
    found = [(mode[0], int(width), int(height)) for (mode, width, height), _ in made.read(tmp_path, reading)]
    expected = []
    for path, _ in samples_of(source):
        with Image.open(path) as image:
            expected.append(("RGB", *image.size))
    assert found == expected


def _mode_and_size(image):
    return image.mode, *image.size


def test_some_are_the_same_ones_each_time(tree, source, tmp_path):
    assert sorted(crcs(source)) == sorted(crcs(tree))
    for name in "ab":
        gather(tree, 7, tmp_path / name)
    assert crcs(tmp_path / "a") == crcs(tmp_path / "b")
    assert len(crcs(tmp_path / "a")) == 7


@pytest.mark.slow
def test_formats_that_are_measured_missing_and_failing(tree, tmp_path, monkeypatch):
    """In this process: a process for each measurement would import torch a dozen times."""
    monkeypatch.setattr(compare, "in_fresh_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(compare, "find_format", changed)
    monkeypatch.setattr(measure, "AT_LEAST_S", 0)
    names = ("files", "tfrecord", "sqlite", "records")
    said = []
    found = compare.compare(tree, tmp_path, num_images=20, repeats=1, tell=said.append, names=names, workers=[0])
    files, tfrecord, sqlite, records = found.results
    assert set(files.runs) == set(records.runs) == {("bytes", 0), ("images", 0)}
    assert tfrecord.left_out == "no_such_package is not installed. Run: pip install tfrecord"
    assert sqlite.problem == "OSError: full"
    assert "1/1 SQLite: OSError: full" in said
    assert (found.num_images, found.image_bytes) == (20, sum(map(_size, samples_of(tree))))
    assert list(tmp_path.iterdir()) == []


def fails(samples, place):
    raise OSError("full")


def changed(name):
    """A format with a package that is not there, and one that fails."""
    changes = {"tfrecord": {"packages": ("no_such_package",)}, "sqlite": {"write": fails}}
    return dataclasses.replace(find_format(name), **changes.get(name, {}))


@pytest.mark.slow
class TestMeasure:
    def test_all_numbers_are_there(self, tmp_path, source, monkeypatch):
        monkeypatch.setattr(measure, "AT_LEAST_S", 0)
        made, place = find_format("onefile"), tmp_path / "place"
        num_bytes = sum(map(_size, samples_of(source)))
        took, size = measure.write(made, place, source)
        assert took > 0
        assert num_bytes < size < 2 * num_bytes + 8192
        found = measure.measure(made, place, Reading(), NUM_IMAGES, num_bytes)
        assert list(found) == ["bytes", "images"]
        for speeds in found.values():
            assert speeds.sequential > 0
            assert speeds.random > 0
            assert (speeds.cold is not None) == measure.CAN_FORGET

    def test_an_epoch_with_other_images_is_refused(self, tmp_path, source):
        made, place = find_format("onefile"), tmp_path / "place"
        measure.write(made, place, source)
        with pytest.raises(RecordZooError, match="An epoch gave 20 images instead of 21"):
            measure.measure(made, place, Reading(), NUM_IMAGES + 1, 0)
        with pytest.raises(RecordZooError, match="bytes instead of 7"):
            measure.measure(made, place, Reading(), NUM_IMAGES, 7)


def a_comparison(*results, **changes):
    facts = Comparing(20, 1000, [0, 2], 3, 64, "Crop()", True, 0.0, 2, results)
    return dataclasses.replace(facts, **changes)


def a_result(name, *speeds, **changes):
    runs = {
        (task, workers): [Speeds(s, 2 * s, s / 2, 1e6) for s in speeds]
        for task in ("bytes", "images")
        for workers in (0, 2)
    }
    return Result(find_format(name), **{"size_bytes": 2000, "write_s": [1.0, 3.0, 2.0], "runs": runs, **changes})


class TestTables:
    found = a_comparison(
        a_result("files", 100.0, 100.0, 100.0),
        a_result("webdataset", 50.0, 200.0, 100.0),
        a_result("records", 110.0, 120.0, 130.0),
        a_result("hdf5", left_out="h5py is not installed", runs={}, write_s=[]),
        a_result("lmdb", problem="KeyError: 1", runs={}, write_s=[]),
    )

    def test_the_section_has_medians_and_what_is_missing(self):
        section = render(dataclasses.replace(self.found, load=1.5), "python -m benchmarks.formats")[SECTION]
        assert "| files (ImageFolder) | 2.00x | 2.00 | 200 | 50 | 50 |" in section
        assert "| WebDataset \\* | 2.00x | 2.00 | 200 | 50 | 50 |" in section
        assert "| records | 2.00x | 2.00 | 240 | 60 | 60 |" in section
        assert "load average was 1.5" in section
        assert "HDF5 was not measured: h5py is not installed." in section
        assert "LMDB (folder2lmdb) was not measured: KeyError: 1." in section
        assert "`python -m benchmarks.formats`; " in section

    def test_the_page_has_the_head_of_the_script(self):
        assert pages.read_section(SECTION).startswith(pages.table(HEAD, [], numbers=True))


def test_a_loader_of_a_map_reads_all_in_order():
    assert [batch.tolist() for batch in map_loader(range(5), Reading(order="sequential", batch_size=2))] == [
        [0, 1],
        [2, 3],
        [4],
    ]
