"""`benchmarks.formats`: every format gives the same images, and what the tables say. No time is tested."""

import dataclasses
import gc
import zlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks import pages
from benchmarks.formats import NAMES
from benchmarks.formats.base import Finish, Reading, find_format, size_bytes
from benchmarks.formats.page import SECTION, render
from benchmarks.formats.pictures import gather, samples_of
from benchmarks.formats.results import Comparing, Result, Speeds
from benchmarks.formats.tables import HEAD
from tests.fakes.pictures import encoded, jpeg, picture


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Twenty generated pictures in three classes as formats are given them; every fifth is a PNG."""
    folder, rng = tmp_path_factory.mktemp("formats"), np.random.default_rng(0)
    tree, source = folder / "photos", folder / "source"
    for number in range(20):
        image = picture(rng, 20 + number, 16)
        ending, data = ("png", encoded(image, "PNG")) if number % 5 == 0 else ("jpg", jpeg(image))
        path = tree / "cba"[number % 3] / f"{number}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    gather(tree, 100, source)
    return source


def crcs(source):
    return [(zlib.crc32(Path(path).read_bytes()), label) for path, label in samples_of(source)]


@pytest.mark.filterwarnings("ignore:unclosed file.*tar'>:ResourceWarning")  # webdataset leaves them open
@pytest.mark.filterwarnings("ignore:Number of elements in the iterator is less than the queue size")  # of tfrecord
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "mds"])  # whose package the tests have not
def test_every_format_gives_the_same_images(name, tmp_path, source, monkeypatch):
    monkeypatch.setattr(Finish, "__call__", lambda self, data: zlib.crc32(data))
    made = find_format(name)
    made.write(samples_of(source), tmp_path)
    for reading in (Reading("bytes", order, batch_size=3) for order in ("sequential", "random")):
        loader = made.read(tmp_path, reading)
        for _ in range(2):  # each epoch
            found = [pair for images, labels in loader for pair in zip(images.tolist(), labels.tolist(), strict=True)]
            assert sorted(found) == sorted(crcs(source))
            assert (found == crcs(source)) == (not reading.shuffled)
        del loader
        gc.collect()
    assert size_bytes(tmp_path) >= sum(Path(path).stat().st_size for path, _ in samples_of(source))


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
