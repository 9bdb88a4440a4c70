"""`recordzoo bench --formats`: every format gives the same images, and what the tables say. No time is tested."""

import contextlib
import dataclasses
import gc
import json
import pickle
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import IterableDataset

from recordzoo.bench.formats import NAMES, compare, measure
from recordzoo.bench.formats.base import Finish, Format, Place, Reading, find_format, map_loader
from recordzoo.bench.formats.compare import Plan
from recordzoo.bench.formats.page import chart_path, write_page
from recordzoo.bench.formats.pictures import gather, samples_of
from recordzoo.bench.formats.results import Comparing, Result, Speeds
from recordzoo.bench.formats.tables import not_measured, notes, tables
from recordzoo.cli.bench_formats import document, formats_of
from recordzoo.errors import ArgumentError, DiskSpaceError, FolderError, OtherSourceError, RecordZooError
from recordzoo.preparing import ensure
from recordzoo.recipes.folder import recipe
from tests.fakes.mongo import serving
from tests.fakes.pictures import encoded, jpeg, picture
from tests.running import run
from tests.test_json import check

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
    gather(tree, None, 100, source)
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
    """Where a format is written; with what a package or a server would be that the tests have not."""
    streaming, util = types.ModuleType("streaming"), types.ModuleType("streaming.base.util")
    streaming.MDSWriter, streaming.StreamingDataset = FakeWriter, FakeStreaming
    util.clean_stale_shared_memory = lambda: None
    for name, module in {"streaming": streaming, "streaming.base": streaming, "streaming.base.util": util}.items():
        monkeypatch.setitem(sys.modules, name, module)
    (tmp_path / "format").mkdir()
    with serving() as mongo:
        yield Place(tmp_path / "format", f"mongodb://{mongo.address}")
        assert mongo.collections == {}  # the database was dropped


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
    assert made.size_bytes(place) >= sum(map(_size, samples_of(source)))
    made.clear(place)
    assert not place.folder.exists()


def _size(sample):
    return Path(sample[0]).stat().st_size


@pytest.mark.parametrize("name", ["files", "records", "sqlite"])
def test_images_are_decoded_by_pillow(name, tmp_path, source):
    made, place = find_format(name), Place(tmp_path)
    made.write(samples_of(source), place)
    (tmp_path / "own.py").write_text("def sizes(image):\n    return image.mode, *image.size\n")
    reading = Reading("images", "sequential", batch_size=1, transform=f"{tmp_path / 'own.py'}:sizes")
    found = [(mode[0], int(width), int(height)) for (mode, width, height), _ in made.read(place, reading)]
    expected = []
    for path, _ in samples_of(source):
        with Image.open(path) as image:
            expected.append(("RGB", *image.size))
    assert found == expected


class TestGather:
    def test_of_a_tree_and_of_its_records(self, tree, source, tmp_path):
        ensure(recipe(), tree, records_dir=tmp_path / "photos.records", prepare=True)
        gather(tmp_path / "photos.records", None, 100, tmp_path / "again")
        assert crcs(tmp_path / "again") == crcs(source)
        assert sorted(crcs(source)) == sorted(crcs(tree))
        assert {path.suffix for path in (tmp_path / "again").rglob("*.*")} == {".jpg", ".png"}

    def test_some_are_the_same_ones_each_time(self, tree, tmp_path):
        for name in "ab":
            gather(tree, None, 7, tmp_path / name)
        assert crcs(tmp_path / "a") == crcs(tmp_path / "b")
        assert len(crcs(tmp_path / "a")) == 7

    def test_pixels_and_nothing_are_refused(self, tree, tmp_path):
        pixels = ensure(recipe(), tree, records_dir=tmp_path / "raw.records", prepare=True, variant="8-raw")
        with pytest.raises(OtherSourceError, match="stores pixels"):
            gather(pixels, None, 3, tmp_path / "pixels")
        (tmp_path / "empty" / "cat").mkdir(parents=True)
        with pytest.raises(FolderError, match="There are no images"):
            gather(tmp_path / "empty", None, 3, tmp_path / "nothing")


@pytest.fixture
def in_this_process(monkeypatch):
    """Measure here: a process for each measurement would import torch a dozen times."""
    monkeypatch.setattr(compare, "in_fresh_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(measure, "AT_LEAST_S", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
class TestCommand:
    def test_tables_and_a_page(self, tree, tmp_path):
        options = ("--formats", "sqlite,records", "--repeats", 1, "--workers", 0, "--images", 20)
        result = run("bench", tree, *options, "--page", tmp_path / "own.md", "--work", tmp_path, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        for part in ("Size and writing", "Bytes alone, 0 workers: images a second", "Decoded images, 0 workers"):
            assert part in result.stdout
        page = (tmp_path / "own.md").read_text(encoding="utf-8")
        assert "recordzoo bench photos --formats files,sqlite,records --images 20 --repeats 1 --workers 0" in page
        assert str(tmp_path) not in page
        assert sorted(path.name for path in tmp_path.iterdir()) == ["own-bytes.png", "own-images.png", "own.md"]

    def test_a_transform_that_fails_and_a_missing_package(self, tree, tmp_path, monkeypatch):
        (tmp_path / "own.py").write_text("def fails(image):\n    raise KeyError('no such colour')\n")
        monkeypatch.setattr(compare, "find_format", lambda name: _without(name, "tfrecord"))
        options = ("--formats", "tfrecord", "--transform", "own.py:fails", "--repeats", 1, "--workers", 0, "--json")
        result = run("bench", tree, *options, cwd=tmp_path)
        assert result.returncode == 1
        files, tfrecord = check("bench-formats", result.stdout)["bench_formats"]["formats"]
        assert "KeyError: 'no such colour'" in files["problem"]
        assert tfrecord["left_out"] == "no_such_package is not installed. Run: pip install tfrecord"
        assert [each.name for each in tree.parent.iterdir()] == ["photos"]


def _without(name, absent):
    made = find_format(name)
    return dataclasses.replace(made, packages=("no_such_package",)) if name == absent else made


class TestMistakes:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("--formats tfrecords", "there is no 'tfrecords'"),
            ("--formats all --output chart.png", "--output does not go with --formats"),
            ("--formats all --page page.html", "--page page.html does not end with .md"),
            ("--formats all --work nowhere", "--work nowhere is no directory"),
            ("--page page.md", "--page goes with --formats"),
            ("--mongo mongodb://h", "--mongo goes with --formats"),
        ],
    )
    def test_what_does_not_go_together(self, words, said, tree):
        result = run("bench", tree, *words.split(), cwd=tree.parent)
        assert result.returncode == 2
        assert said in result.stderr

    def test_nothing_there(self, tmp_path):
        assert run("bench", "./nowhere", "--formats", "all", cwd=tmp_path).returncode == 3

    def test_names(self):
        assert formats_of("all") == list(NAMES)
        assert formats_of("records, lmdb") == ["files", "lmdb", "records"]
        with pytest.raises(ArgumentError, match="Did you mean sqlite"):
            formats_of("sqllite")

    @pytest.mark.usefixtures("in_this_process")
    def test_too_little_room(self, tree, tmp_path, monkeypatch):
        monkeypatch.setattr(compare, "free_bytes", lambda folder: 1000)
        plan = Plan(tree, None, NAMES, tmp_path, 5, [0], 1)
        with pytest.raises(DiskSpaceError, match="--work DIR"):
            compare.compare(plan, print)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
class TestMeasure:
    def test_all_numbers_are_there(self, tmp_path, source, monkeypatch):
        monkeypatch.setattr(measure, "AT_LEAST_S", 0)
        made, place = find_format("onefile"), Place(tmp_path / "place")
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
        measure.clear(made, place)
        assert list(tmp_path.iterdir()) == []

    def test_an_epoch_with_other_images_is_refused(self, tmp_path, source):
        made, place = find_format("onefile"), Place(tmp_path / "place")
        measure.write(made, place, source)
        with pytest.raises(RecordZooError, match="An epoch gave 20 images instead of 21"):
            measure.measure(made, place, Reading(), NUM_IMAGES + 1, 0)
        with pytest.raises(RecordZooError, match="bytes instead of 7"):
            measure.measure(made, place, Reading(), NUM_IMAGES, 7)


def a_comparison(*results, **changes):
    facts = Comparing("photos", 20, 1000, [0, 2], 3, 64, "Crop()", True, 0.0, 2, results)
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
        a_result("mongodb", left_out="it needs a server", runs={}, write_s=[]),
        a_result("lmdb", problem="KeyError: 1", runs={}, write_s=[]),
    )

    def test_medians_and_ratios(self):
        storing, *speeds = tables(self.found)
        assert storing.rows[0] == ("files (ImageFolder)", "2 kB", "2.00x", "2.00 s")
        assert [each.title.partition(":")[0] for each in speeds] == [
            "Bytes alone, 0 workers",
            "Bytes alone, 2 workers",
            "Decoded images, 0 workers",
            "Decoded images, 2 workers",
        ]
        assert [row[:4] for row in speeds[0].rows] == [
            ("files (ImageFolder)", "100", "", "200"),
            ("WebDataset *", "100", "1.00x ?", "200"),
            ("records", "120", "1.20x", "240"),
        ]
        assert speeds[0].rows[2][4:] == ("1.20x", "60", "1.20x", "1 MB")

    def test_notes(self):
        assert "?: the rounds do not agree which is faster." in notes(self.found)
        assert not any("Other work" in line for line in notes(self.found))
        assert "load average was 1.5" in notes(a_comparison(*self.found.results, load=1.5))[-1]
        assert any("--repeats 5" in line for line in notes(a_comparison(*self.found.results, repeats=1)))
        assert not_measured(self.found) == [
            "MongoDB was not measured: it needs a server",
            "LMDB (folder2lmdb) was not measured: KeyError: 1",
        ]

    def test_the_page_has_tables_charts_and_what_is_missing(self, tmp_path):
        write_page(tmp_path / "formats.md", dataclasses.replace(self.found, load=1.5), "recordzoo bench photos")
        page = (tmp_path / "formats.md").read_text(encoding="utf-8")
        assert page.index("**Other work ran on this machine") < page.index("```text\nrecordzoo bench photos\n```")
        assert "| WebDataset \\* | 100 | 1.00x ? | 200 |" in page
        assert "- MongoDB was not measured: it needs a server" in page
        for task in ("images", "bytes"):
            assert f"({chart_path(tmp_path / 'formats.md', task).name})" in page
            with Image.open(chart_path(tmp_path / "formats.md", task)) as chart:
                colours = {colour for _, colour in chart.convert("RGB").getcolors()}
            assert {(13, 148, 136), (139, 143, 152)} <= colours  # records, and the others

    def test_a_format_pickles(self):
        for name in NAMES:
            assert isinstance(pickle.loads(pickle.dumps(find_format(name))), Format)

    def test_the_document_is_what_the_schema_says(self):
        without = a_result("sqlite", runs={("bytes", 0): [Speeds(1.0, 2.0, None, None)]})
        found = dataclasses.replace(self.found, results=[*self.found.results, without], load=None)
        check("bench-formats", json.dumps({"schema_version": 1, "bench_formats": document(found)}))


def test_a_loader_of_a_map_reads_all_in_order():
    assert [batch.tolist() for batch in map_loader(range(5), Reading(order="sequential", batch_size=2))] == [
        [0, 1],
        [2, 3],
        [4],
    ]
