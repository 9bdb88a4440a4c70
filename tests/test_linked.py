"""Sets that share shards: what is linked, what a link means, and where there are none."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import recordzoo
from recordzoo import RecordReader
from recordzoo.base.bars import default_progress
from recordzoo.errors import ArgumentError, CorruptRecordError, NotPreparedError, RecordError
from recordzoo.preparing.linking import LinkJob
from recordzoo.recipes.from_sets.combined import CombinedRecipe, combined_again
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.records.verify import verify
from tests.combining import assert_holds, every, write_set
from tests.disks import mounted
from tests.fakes.folder import bad_image, write_tree
from tests.fakes.records import edit_manifest, flip_byte, place_of
from tests.fakes.server import FileServer
from tests.faults import fault
from tests.preparing import prepared
from tests.running import run

pytestmark = pytest.mark.slow


@pytest.fixture
def sets(tmp_path: Path) -> tuple[RecordReader, RecordReader]:
    return write_set(tmp_path / "a.records"), write_set(tmp_path / "b.records", 9, seed=1)


def shards(reader: RecordReader) -> list[Path]:
    return [reader.folder / shard.name for shard in reader.manifest.shards]


def inodes(*readers: RecordReader) -> list[int]:
    return [path.stat().st_ino for reader in readers for path in shards(reader)]


def is_whole(reader: RecordReader) -> bool:
    return verify(reader.path, full=True).problems == []


class TestMerge:
    def test_it_has_the_shards_and_the_records_of_all_sets(self, sets, tmp_path):
        a, b = sets
        new = RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records"))
        assert inodes(new) == inodes(a, b)
        assert len(a.manifest.shards) > 1
        assert [each.hash for each in new.manifest.shards] == [s.hash for r in sets for s in r.manifest.shards]
        assert_holds(new, every(a, b))
        assert new.marks("image") == a.marks("image") + b.marks("image")
        assert new.manifest.splits == {"train": 14, "val": 7, "small": 10}
        assert is_whole(new)
        written = sum(path.stat().st_size for path in new.folder.iterdir() if path.stat().st_nlink == 1)
        assert written < 20_000 < sum(path.stat().st_size for path in shards(new))

    def test_the_same_values_as_when_they_are_copied(self, sets, tmp_path):
        paths = [reader.path for reader in sets]
        linked = RecordReader(recordzoo.merge(paths, tmp_path / "c.records"))
        copied = RecordReader(recordzoo.merge(paths, tmp_path / "d.records", num_shards=3, workers=1))
        assert {path.stat().st_nlink for path in shards(copied)} == {1}
        for name in {*linked.manifest.arrays} - {"image.index", "words.index", "mask.index", "note.index"}:
            assert linked.array(name).tolist() == copied.array(name).tolist()
        assert linked.manifest.fields == copied.manifest.fields
        assert linked.manifest.bad == copied.manifest.bad

    def test_any_of_them_is_deleted(self, sets, tmp_path):
        a, b = sets
        new = RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records"))
        shutil.rmtree(a.folder)
        assert is_whole(new)
        shutil.rmtree(new.folder)
        assert is_whole(RecordReader(b.path))

    def test_it_is_moved_copied_and_pushed(self, sets, tmp_path):
        new = RecordReader(recordzoo.merge([each.path for each in sets], tmp_path / "c.records"))
        moved = new.folder.rename(tmp_path / "moved.records")
        copied = RecordReader(recordzoo.copy(moved, tmp_path / "copied.records"))
        assert {path.stat().st_nlink for path in shards(copied)} == {1}
        recordzoo.push(moved, f"file://{tmp_path}/pushed.records")
        assert verify(tmp_path / "pushed.records", full=True).problems == []
        assert copied.digest == new.digest == RecordReader(tmp_path / "pushed.records").digest

    def test_a_shard_that_two_sets_have_is_there_once(self, sets, tmp_path):
        a, b = sets
        once = RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records"))
        new = RecordReader(recordzoo.merge([once.path, a.path], tmp_path / "d.records"))
        assert inodes(new) == inodes(a, b)
        assert_holds(new, every(a, b, a))
        assert is_whole(new)

    def test_broken_images_keep_their_reasons_under_their_new_names(self, tmp_path):
        (tmp_path / "0.jpg").write_bytes(bad_image())
        (tmp_path / "list.txt").write_text("0.jpg 1\n")
        one = RecordReader(prepared(tmp_path / "list.txt"))
        copy = shutil.copytree(one.path, tmp_path / "other.records")
        new = RecordReader(recordzoo.merge([one.path, copy], tmp_path / "c.records"))
        (reason,) = one.manifest.bad.values()
        assert new.manifest.bad == {"list/0.jpg": reason, "other/0.jpg": reason}

    def test_shapes_that_differ(self, tmp_path):
        a = write_set(tmp_path / "a.records", 3, mask=np.zeros((20, 20), np.float32))
        b = write_set(tmp_path / "b.records", 3)
        assert_holds(RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records")), every(a, b))
        same = RecordReader(recordzoo.merge([a.path, a.path], tmp_path / "d.records"))
        assert same.manifest.blobs["mask"].shape == (20, 20)

    def test_a_set_that_is_gone_or_another_one(self, sets, tmp_path):
        a, b = sets
        recipe = combined_again(RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records")))
        shutil.rmtree(a.path)
        with pytest.raises(NotPreparedError, match=r"not all of a.records, b.records are there"):
            LinkJob(recipe, default_progress(), replace=True).run()
        shutil.copytree(b.path, a.path)
        with pytest.raises(RecordError, match="was replaced by another record set"):
            LinkJob(recipe, default_progress(), replace=True).run()
        assert is_whole(RecordReader(tmp_path / "c.records"))

    def test_an_index_that_leads_nowhere(self, sets, tmp_path):
        a, b = sets
        edit_manifest(a.folder, lambda document: document.update(shards=document["shards"][:1]))
        with pytest.raises(CorruptRecordError, match="names a shard that does not exist"):
            recordzoo.merge([a.path, b.path], tmp_path / "c.records")
        assert not (tmp_path / "c.records").exists()


class TestAppend:
    def test_the_set_has_more_records_and_is_exchanged(self, sets, tmp_path):
        a, b = sets
        kept = shutil.copytree(a.path, tmp_path / "kept" / "a.records")
        old = inodes(a, b)
        assert recordzoo.append(a.path, b.path) == a.path
        new = RecordReader(a.path)
        assert inodes(new) == old
        assert_holds(new, every(RecordReader(kept), b))
        assert list(new.names)[:12] == list(RecordReader(kept).names)
        assert list(new.names)[12:] == [f"b/{name}" for name in b.names]
        assert new.manifest.splits == {"train": 14, "val": 7, "small": 10}
        shutil.rmtree(b.path)
        assert is_whole(new)
        assert sorted(os.listdir(tmp_path)) == ["a.records", "kept"]

    def test_a_second_time_nothing_is_added(self, sets):
        a, b = sets
        recordzoo.append(a.path, b.path)
        once = RecordReader(a.path).digest
        recordzoo.append(a.path, b.path)
        assert RecordReader(a.path).digest == once
        recordzoo.append(a.path, write_set(a.path.with_name("c.records"), 2, seed=3).path)
        assert len(RecordReader(a.path)) == 12 + 9 + 2

    def test_new_classes_come_behind(self, sets, tmp_path):
        a = sets[0]
        more = write_set(tmp_path / "more.records", 4, seed=5, classes=("owl", "ant"))
        new = RecordReader(recordzoo.append(a.path, more.path, output=tmp_path / "new.records", split="train"))
        assert new.manifest.classes == ("cat", "dog", "owl", "ant")
        assert new.array("target").tolist() == [*a.array("target").tolist(), 2, 3, 2, 3]
        assert new.split("train").tolist() == [*a.split("train").tolist(), 12, 13, 14, 15]
        assert_holds(new, every(a, more))
        assert len(RecordReader(a.path)) == 12

    def test_a_directory_of_images_is_prepared_first(self, tmp_path):
        first, second = write_tree(tmp_path / "photos"), write_tree(tmp_path / "more")
        a = RecordReader(prepared(first))
        recordzoo.append(a.path, second)
        new = RecordReader(a.path)
        assert len(new) == 2 * len(a)
        assert [new.read("image", p) for p in range(len(new))] == 2 * [new.read("image", p) for p in range(len(a))]
        assert is_whole(RecordReader(tmp_path / "more.records"))

    def test_what_cannot_be(self, sets, tmp_path):
        a, _ = sets
        with pytest.raises(ArgumentError, match="'No Split' is no name of a split"):
            recordzoo.append(a.path, a.path, split="No Split")
        other = write_set(tmp_path / "other.records", 3, without=["note"])
        with pytest.raises(ArgumentError, match="the field 'note' is bytes in the first, absent"):
            recordzoo.append(a.path, other.path)
        with pytest.raises(ArgumentError, match="has no class names"):
            recordzoo.append(a.path, write_set(tmp_path / "d.records", 3, classes=None).path)
        files = {f"b.records/{file.name}": file.read_bytes() for file in sets[1].folder.iterdir()}
        with FileServer(files) as server, pytest.raises(ArgumentError, match="only sets of one machine share shards"):
            recordzoo.append(a.path, f"{server.url}/b.records")
        assert RecordReader(a.path).digest == a.digest

    def test_another_process_was_faster(self, sets, tmp_path):
        a, b = sets
        more = write_set(tmp_path / "more.records", 2, seed=7)
        recipe = CombinedRecipe([SetPart(a), SetPart(b)], a.folder, is_linked=True, keeps_names=True)
        recordzoo.append(a.path, more.path)
        with pytest.raises(RecordError, match="was replaced by another record set"):
            LinkJob(recipe, default_progress(), replace=True).run()
        assert len(RecordReader(a.path)) == 14
        assert sorted(os.listdir(tmp_path)) == ["a.records", "b.records", "more.records"]

    def test_the_command(self, sets, tmp_path):
        words = ["append", "a.records", "b.records", "--json"]
        first = run(*words, cwd=tmp_path)
        assert first.returncode == 0, first.stderr
        said = json.loads(first.stdout)
        assert (said["records"], said["was_ready"]) == (21, False)
        assert said["digest"] == RecordReader(tmp_path / "a.records").digest
        assert json.loads(run(*words, cwd=tmp_path).stdout)["was_ready"]
        shown = run("info", "a.records", cwd=tmp_path).stdout
        assert f"made of:  b.records, 9 records, digest {sets[1].digest}\n" in shown


@fault(
    "K17", "sets that share shards are on two file systems", "the shards are copied and compared; the command says so"
)
def test_another_file_system(sets, tmp_path):
    a, b = sets
    with mounted(tmp_path / "other", "size=64m") as volume:
        made = run("merge", a.path, b.path, "--output", volume.path / "c.records", cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        size = sum(shard.size_bytes for each in sets for shard in each.manifest.shards)
        assert "of shards were copied, not linked" in made.stderr
        new = RecordReader(volume.path / "c.records")
        assert sum(path.stat().st_size for path in shards(new)) == size
        assert {path.stat().st_nlink for path in shards(new)} == {1}
        assert_holds(new, every(a, b))
        flip_byte(*place_of(a.path, 5))
        with pytest.raises(CorruptRecordError, match=r"shard-0000\d.lmdb is damaged"):
            recordzoo.merge([a.path], volume.path / "d.records")
        assert not (volume.path / "d.records").exists()


@fault(
    "H22",
    "a shard that several sets share is damaged",
    "`verify --full` finds it in each of them, and `info` says what is shared",
)
def test_damage_reaches_all_sets_that_share_a_shard(sets, tmp_path):
    a, b = sets
    new = RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records"))
    shard, offset = place_of(a.path, 5)
    with open(shard, "r+b") as file:  # a disk's fault: no other file takes its place
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    for each in (a, new):
        assert any("0005.jpg" in problem for problem in verify(each.path, full=True).problems)
    assert is_whole(b)


def test_info_tells_shared_bytes_from_own_ones(sets, tmp_path):
    a, b = sets
    recordzoo.merge([a.path, b.path], tmp_path / "c.records")
    size = sum(shard.size_bytes for each in sets for shard in each.manifest.shards)
    found = json.loads(run("info", "c.records", "--json", cwd=tmp_path).stdout)["record_set"]["bytes"]
    assert (found["shared"], found["shards"]) == (size, size)
    assert "with other record sets (hard links), own: " in run("info", "c.records", cwd=tmp_path).stdout
    shutil.rmtree(a.path)
    shutil.rmtree(b.path)
    assert "hard links" not in run("info", "c.records", cwd=tmp_path).stdout
