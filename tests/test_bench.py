"""`recordzoo bench`: what is run, what the numbers are made of, and what is said of mistakes. No time is tested."""

import io
import json
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from recordzoo import RecordLoader, zoo
from recordzoo.cli import bench as comparison
from recordzoo.cli.bench import (
    EXACT,
    FAST,
    FILES,
    FILES_OURS,
    STOCK,
    Images,
    Task,
    compare,
    find_images,
    load_transform,
    table,
)
from recordzoo.errors import ArgumentError
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.folders import FolderRecipe
from recordzoo.records.reader import RecordReader
from tests.fakes import folder, voc
from tests.fakes.coco import coco
from tests.running import run

OWN_TRANSFORM = """
from torchvision import transforms as T

crop = T.Compose([T.Resize((8, 8)), T.ToTensor()])
number = 3

def fails(image):
    raise KeyError("no such colour")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A tree with its records beside it, and a person's own transforms."""
    place = tmp_path_factory.mktemp("bench")
    folder.write_tree(place / "photos")
    ensure(FolderRecipe(), place / "photos", prepare=True)
    (place / "own.py").write_text(OWN_TRANSFORM)
    return place / "photos"


def quick(path, *options, cwd):
    """Measure each loader once on as little as can be, without worker processes."""
    return run("bench", path, "--repeats", 1, "--workers", 0, *options, cwd=cwd)


@pytest.mark.slow
class TestCommand:
    def test_all_loaders_run_on_a_tree_with_records(self, tree):
        result = quick(tree, "--json", "--batch-size", 4, cwd=tree.parent)
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)["bench"]
        assert (found["records"], found["tree"]) == (f"{tree}.records", str(tree))
        assert (found["num_images"], found["batch_size"], found["workers"]) == (500, 4, 0)
        assert [each["loader"] for each in found["loaders"]] == [FILES, FILES_OURS, STOCK, EXACT, FAST]
        for each in found["loaders"]:
            assert each["problem"] is None
            assert each["rounds"] == [each["images_per_s"]]
            assert each["images_per_s"] > 0

    def test_files_need_no_records(self, tmp_path):
        folder.write_tree(tmp_path / "photos")
        result = quick("photos", "--images", 3, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert [row[: len(FILES_OURS)].strip() for row in result.stdout.splitlines()[1:3]] == [FILES, FILES_OURS]
        assert [path.name for path in tmp_path.iterdir()] == ["photos"]

    def test_a_transform_that_fails_is_told_for_each_loader(self, tree):
        result = quick(f"{tree}.records", "--transform", "own.py:fails", "--images", 5, cwd=tree.parent)
        assert result.returncode == 1
        for loader in (FILES, FILES_OURS, STOCK, EXACT, FAST):
            assert f"{loader} did not run: KeyError: 'no such colour'" in result.stdout


class TestTransform:
    @pytest.mark.parametrize(
        ("transform", "said"),
        [
            ("own.py", "--transform own.py cannot be imported as MODULE:NAME or FILE.py:NAME: "),
            ("own.py:squash", "AttributeError: module 'own' has no attribute 'squash'"),
            ("own.py:number", "'number' is of type int, which cannot be called"),
            ("nowhere:crop", "nowhere:crop cannot be imported .*: ModuleNotFoundError: No module named 'nowhere'"),
        ],
    )
    def test_a_transform_that_is_none(self, tree, transform, said, monkeypatch):
        monkeypatch.chdir(tree.parent)
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(ArgumentError, match=said):
            load_transform(transform)


def test_what_is_not_there_is_not_measured(tmp_path):
    tree, records = tmp_path / "photos", tmp_path / "photos.records"
    folder.write_tree(tree)
    assert find_images(str(tree), None) == (tree, None)
    ensure(FolderRecipe(), tree, prepare=True)
    assert find_images(str(records), None) == find_images(str(tree), None) == (tree, records)
    tree.rename(tmp_path / "elsewhere")
    assert find_images(str(records), None) == (None, records)
    assert Task(None, records).loaders == [STOCK, EXACT, FAST]


def test_loaders_are_measured_in_turn_and_every_second_round_backwards(monkeypatch):
    asked = []

    def measured(_, loader, given):
        asked.append(loader)
        if loader == EXACT:
            raise KeyError("no such colour")
        return 100.0 * len(asked)

    monkeypatch.setattr(comparison, "in_fresh_process", measured)
    results = compare(Task(None, Path("x.records")), 3, lambda told: None)
    assert asked == [STOCK, EXACT, FAST, FAST, STOCK, STOCK, FAST]
    assert [result.images_per_s for result in results] == [500, None, 400]
    assert results[1].problem == "KeyError: 'no such colour'"
    assert [line.split()[-1] for line in table(results).splitlines()[1:]] == ["1.00x", "run", "0.80x"]


class TestOtherTargets:
    """Sets whose classes have no labels, or no "target" at all."""

    @pytest.mark.parametrize(
        ("label", "write"), [("voc.2012", voc.build().write_tree), ("coco.val2017", coco.write_archive)]
    )
    def test_their_images_are_measured(self, label, write, tmp_path):
        write(tmp_path)
        (made,) = zoo.prepare(label, tmp_path, check_hash=False, workers=1)
        reader = RecordReader(made)
        dataset = Images(reader.path, lambda image: torch.tensor(image.size))
        assert 0 < len(dataset) <= len(reader)
        for loader in (DataLoader(dataset, 4), RecordLoader(dataset, 4, shuffle=False, num_workers=0)):
            sizes, targets = map(torch.cat, zip(*loader, strict=True))
            positions = dataset._selection.all_positions().tolist()
            stored = [Image.open(io.BytesIO(reader.read("image", position))).size for position in positions]
            assert sizes.tolist() == list(map(list, stored))
            assert set(targets.tolist()) == {0}

    def test_labels_stay_labels(self, tree):
        reader = RecordReader(Path(f"{tree}.records"))
        dataset = Images(reader.path, lambda image: 0)
        assert [target for _, target in dataset] == reader.array("target").tolist()
