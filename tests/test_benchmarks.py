"""The benchmarks: what scripts import is there, every format gives the same images, the page has the stored numbers.

No time is tested.
"""

import gc
import importlib
import json
import re
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as lines
from benchmarks import files_or_records, pages, recipes_page, scaling, small_images, zoo
from benchmarks.formats import NAMES
from benchmarks.formats.base import Finish, Reading, find_format, size_bytes
from benchmarks.formats.pictures import gather, samples_of
from benchmarks.object_storage import page as object_storage
from benchmarks.peers import page
from benchmarks.scale import page as scale
from tests.fakes.pictures import encoded, jpeg, picture

FOLDER = Path(__file__).parent.parent / "benchmarks"
IMPORT = re.compile(r"^\s*from ((?:recordzoo|benchmarks)[\w.]*) import (\w+(?:, \w+)*)", re.MULTILINE)


@pytest.mark.parametrize("script", [path for path in FOLDER.rglob("*.py") if ".venv" not in path.as_posix()], ids=str)
def test_what_a_benchmark_imports_is_there(script: Path) -> None:
    for module, names in IMPORT.findall(script.read_text(encoding="utf-8")):
        for name in names.split(", "):
            is_there = hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None
            assert is_there, f"{module} has no {name}"


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


def test_sections_and_chart_are_those_of_the_stored_numbers() -> None:
    made = page.render() | object_storage.render() | recipes_page.render()
    made |= {scale.SECTION: scale.render(), zoo.SECTION: zoo.render(), lines.SECTION: lines.render()}
    for script in (files_or_records, scaling, small_images):
        if script.NUMBERS.exists():  # those of a script that was not run yet are of no machine
            made[script.SECTION] = script.section(json.loads(script.NUMBERS.read_text(encoding="utf-8")))
    chart = (pages.DOCS / recipes_page.CHART).read_text(encoding="utf-8")
    for name, text in made.items():
        found = chart if name == recipes_page.CHART else pages.read_section(name)
        assert found.strip() == text.strip(), f"{name} is stale"
