"""Damaged record sets: `verify` names the files, and the command that makes the same set again."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordzoo
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes import folders as flat
from recordzoo.recipes import folders as folder
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.writer import BESIDE
from tests.fakes import cub200, lists
from tests.fakes.folder import write_tree
from tests.fakes.records import flip_byte, place_of
from tests.fakes.server import FileServer
from tests.preparing import contents
from tests.running import run, run_advice

pytestmark = pytest.mark.slow


def set_bytes(records: Path) -> dict[str, Any]:
    """The set's files, without those that say where it came from."""
    return {name: data for name, data in contents(records).items() if name not in BESIDE}


def damage_a_value(records: Path) -> None:
    flip_byte(*place_of(records, 0))


def delete_a_shard(records: Path) -> None:
    place_of(records, 0)[0].unlink()


def damage_the_names(records: Path) -> None:
    flip_byte(records / "names.npy", -1)


def tree(root: Path) -> Path:
    return ensure(folder.FolderRecipe(), write_tree(root / "my photos"), shard_bytes=6000, workers=1)


def without_classes(root: Path) -> Path:
    return ensure(flat.FlatRecipe(), write_tree(root / "photos"), num_shards=3, workers=1)


def elsewhere(root: Path) -> Path:
    return ensure(folder.FolderRecipe(), write_tree(root / "photos"), records_dir=root / "other.records", workers=1)


def variant(root: Path) -> Path:
    return ensure(folder.FolderRecipe(), write_tree(root / "photos"), variant="8", workers=1)


def shuffled_list(root: Path) -> Path:
    lists.write_images(root)
    listed = lists.write_list(root / "list.txt", [*lists.plain(), ("gone.jpg", 1)])
    return recordzoo.prepare(listed, workers=1, shard_bytes=9000, shuffle_seed=4, on_error="skip")[0]


def archive(root: Path) -> Path:
    cub200.build(3, 8).write_tree(root)
    return ensure(dataset_recipe("cub200"), root, shard_bytes=9000, workers=1)


@pytest.mark.parametrize("damage", [damage_a_value, delete_a_shard, damage_the_names], ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    "prepare", [tree, without_classes, elsewhere, variant, shuffled_list, archive], ids=lambda each: each.__name__
)
def test_it_is_prepared_again(prepare: Callable[[Path], Path], damage: Callable[[Path], None], tmp_path: Path) -> None:
    records = prepare(tmp_path)
    whole = set_bytes(records)
    damage(records)
    found = run("verify", records, "--full", cwd=tmp_path)
    assert found.returncode == 5
    assert "shard-0000" in found.stdout or "names.npy" in found.stdout
    assert run_advice(found, tmp_path).startswith("prepare ")
    assert set_bytes(records) == whole


def test_data_that_was_moved_with_its_set(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    tree(tmp_path / "old")
    moved = (tmp_path / "old").rename(tmp_path / "new") / "my photos.records"
    whole = set_bytes(moved)
    damage_a_value(moved)
    run_advice(run("verify", moved, "--full", cwd=tmp_path), tmp_path)
    assert set_bytes(moved) == whole


@pytest.mark.parametrize("damage", [damage_a_value, delete_a_shard, damage_the_names], ids=lambda each: each.__name__)
@pytest.mark.parametrize("how", ["copied", "pulled"])
def test_it_is_copied_again(how: str, damage: Callable[[Path], None], tmp_path: Path) -> None:
    origin = tree(tmp_path)
    shutil.rmtree(tmp_path / "my photos")
    with FileServer({f"sets/photos.records/{path.name}": path.read_bytes() for path in origin.iterdir()}) as server:
        if how == "copied":
            records = Path(recordzoo.copy(origin, tmp_path / "here"))
        else:
            records = recordzoo.pull(f"{server.url}/sets/photos.records", tmp_path / "here")
        whole = set_bytes(records)
        damage(records)
        found = run("verify", records, "--full", cwd=tmp_path)
        assert run_advice(found, tmp_path).startswith("copy ")
    assert set_bytes(records) == whole


def test_a_copy_whose_original_is_gone_is_prepared_again(tmp_path: Path) -> None:
    origin = tree(tmp_path)
    records = Path(recordzoo.copy(origin, tmp_path / "here"))
    whole = set_bytes(records)
    shutil.rmtree(origin)
    damage_a_value(records)
    assert run_advice(run("verify", records, "--full", cwd=tmp_path), tmp_path).startswith("prepare ")
    assert set_bytes(records) == whole


class TestNoCommand:
    def test_a_damaged_manifest(self, tmp_path: Path) -> None:
        origin = tree(tmp_path)
        copied = Path(recordzoo.copy(origin, tmp_path / "here"))
        for records, said in ((origin, "then prepare the data again."), (copied, f"/{copied.name}'")):
            flip_byte(records / "manifest.json", 300)
            found = run("verify", records, cwd=tmp_path)
            assert found.returncode == 5
            assert f"Move {records} away, then " in found.stderr
            assert found.stderr.endswith(f"{said}\n")

    def test_raw_data_that_is_gone(self, tmp_path: Path) -> None:
        records = tree(tmp_path)
        (tmp_path / "my photos").rename(tmp_path / "away")
        delete_a_shard(records)
        found = run("verify", records, cwd=tmp_path)
        assert f"put its raw data back to {tmp_path / 'my photos'} and run: " in found.stderr

    def test_a_set_of_sets(self, tmp_path: Path) -> None:
        merged = recordzoo.merge([tree(tmp_path)], tmp_path / "merged.records")
        damage_the_names(merged)
        found = run("verify", merged, cwd=tmp_path)
        assert "Move it away, then run merge, split or subset again." in found.stderr

    def test_records_of_a_program(self, tmp_path: Path) -> None:
        with recordzoo.RecordWriter(tmp_path / "own.records") as writer:
            for number in range(9):
                writer.write({"data": np.full(5000, number, np.uint8).tobytes()})
        flip_byte(*place_of(tmp_path / "own.records", 3, "data"))
        found = run("verify", "own.records", "--full", cwd=tmp_path)
        assert "Run the command or the program again that made it, with --refresh (refresh=True)." in found.stderr
