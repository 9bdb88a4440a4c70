"""How far a conversion is: counted in raw data, so that it ends where it should, whatever is written."""

import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from PIL import Image

from recordzoo import RecordReader, convert
from recordzoo.base.progress import SilentProgress
from recordzoo.preparing.convert import ShardFacts
from recordzoo.preparing.preparation import ensure
from recordzoo.preparing.workers import PoolProgress
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.recipes.folders import FolderRecipe
from recordzoo.records.manifest import ShardSpec
from tests.fakes import cub200, folder


class Heard(SilentProgress):
    """Keeps what is told."""

    def __init__(self) -> None:
        super().__init__()
        self.images = 0
        self.stages: list[list[Any]] = []  # Any: name, total, done

    def begin(self, stage, total_bytes=None, done_bytes=0):
        self.stages.append([stage, total_bytes, done_bytes])

    def advance(self, num_bytes=0, num_images=0):
        assert num_bytes >= 0
        self.images += num_images
        self.stages[-1][2] += num_bytes
        assert self.stages[-1][2] <= self.stages[-1][1]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("variant", [None, "8", "8-raw", "full-png"])
def test_a_conversion_ends_at_its_total(tmp_path, workers, variant):
    tree = folder.write_tree(tmp_path / "photos")
    for number in range(40):
        Image.effect_noise((64, 64), 50).save(tree / "cat" / f"noise{number}.png")
    heard = Heard()
    options = {"workers": workers, "variant": variant, "progress": heard, "shard_bytes": 20_000}
    ensure(FolderRecipe(), tree, prepare=True, **options)
    (stage,) = heard.stages
    assert stage[0] == f"converting photos{f'-{variant}' if variant else ''}"
    assert stage[2] == stage[1] > 0
    assert heard.images == len(RecordReader(tmp_path / f"{stage[0].split()[1]}.records"))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_sample_with_a_long_label_is_one_image(tmp_path, workers):
    samples = [(folder.image_bytes(f"{number}.png", number), {"caption": "a" * number}) for number in range(40)]
    heard = Heard()
    convert(samples, tmp_path / "captions.records", workers=workers, progress=heard, shard_bytes=20_000)
    assert heard.images == 40


def test_an_archive_ends_at_its_total(tmp_path):
    cub200.build(3, 3).write_archive(tmp_path)
    heard = Heard()
    ensure(dataset_recipe("cub200", ""), tmp_path, prepare=True, check_hash=False, progress=heard)
    total, done = heard.stages[-1][1:]
    assert done == total > 0


def test_what_is_written_is_an_estimate_within_the_unit(tmp_path):
    heard = Heard()
    heard.begin("", 300)
    meter = PoolProgress(tmp_path, 2.0, heard)
    (tmp_path / "u00000-00000.abc.tmp").write_bytes(bytes(100))
    (tmp_path / "u00000-00000.npz").write_bytes(bytes(1000))
    (tmp_path / "u00002-00000.lmdb").write_bytes(bytes(1000))
    meter.look({0: 100, 1: 100, 2: 100})
    assert heard.stages[-1][2] == 50 + 0 + 100
    for number in range(3):
        meter.finished([ShardFacts(number, 0, ShardSpec("", 100, 5, 4096, 1, ""), 5, True, "")], 100)
    assert heard.stages[-1][2] == 300


@pytest.mark.parametrize(("look_s", "pause_s"), [(0.001, 0.25), (2.0, 38.0)])
def test_looks_at_a_slow_disk_are_rare(
    look_s: float, pause_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look waits nineteen times as long as the last one took, and at least a quarter of a second."""
    progress = Mock()
    shard = tmp_path / "u00000-00000.abc.tmp"
    (tmp_path / "u00001-00000.lmdb").symlink_to(tmp_path / "nothing")  # of a unit that does not run
    meter = PoolProgress(tmp_path, 1.0, progress)
    times = iter([100.0, 100.0 + look_s, 100.0 + look_s + 0.9 * pause_s, *[100.0 + look_s + 1.1 * pause_s] * 2])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    for size, reported in ((10, 10), (20, 0), (30, 20)):
        shard.write_bytes(bytes(size))
        progress.advance.reset_mock()
        meter.look({0: 1000})
        assert sum(call.args[0] for call in progress.advance.call_args_list) == reported
