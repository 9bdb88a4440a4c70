"""How far a conversion is: counted in raw data, so that it ends where it should, whatever is written."""

from typing import Any

import pytest
from PIL import Image

from recordzoo import RecordReader
from recordzoo.base.progress import SilentProgress
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.recipes.folders import FolderRecipe
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


def test_an_archive_ends_at_its_total(tmp_path):
    cub200.build(3, 3).write_archive(tmp_path)
    heard = Heard()
    ensure(dataset_recipe("cub200", ""), tmp_path, prepare=True, check_hash=False, progress=heard)
    total, done = heard.stages[-1][1:]
    assert done == total > 0
