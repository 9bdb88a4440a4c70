"""Sets that share shards: what is linked, what a link means, and where there are none."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import recordzoo
from recordzoo import RecordReader
from recordzoo.errors import CorruptRecordError
from recordzoo.records.verify import verify
from tests.combining import assert_holds, every, write_set
from tests.disks import mounted
from tests.fakes.folder import bad_image
from tests.fakes.records import edit_manifest, flip_byte, place_of
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

    def test_the_sets_stay_as_they_are(self, sets, tmp_path):
        before = [{file.name: file.read_bytes() for file in each.folder.iterdir()} for each in sets]
        recordzoo.merge([each.path for each in sets], tmp_path / "c.records")
        assert [{file.name: file.read_bytes() for file in each.folder.iterdir()} for each in sets] == before

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

    def test_an_index_that_leads_nowhere(self, sets, tmp_path):
        a, b = sets
        edit_manifest(a.folder, lambda document: document.update(shards=document["shards"][:1]))
        with pytest.raises(CorruptRecordError, match="names a shard that does not exist"):
            recordzoo.merge([a.path, b.path], tmp_path / "c.records")
        assert not (tmp_path / "c.records").exists()


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
