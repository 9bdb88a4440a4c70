"""`benchmarks.formats`: every format gives the same images. No time is tested."""

import gc
import zlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks.formats import NAMES
from benchmarks.formats.base import Finish, Reading, find_format, size_bytes
from benchmarks.formats.pictures import gather, samples_of
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
