"""`merge`: the records of several sets as one, compared record by record; its links; what does not fit; faults."""

import json
import os
import re
import shutil

import numpy as np
import pytest

import recordzoo
from recordzoo import RecordReader
from recordzoo.errors import ArgumentError, CorruptRecordError, OtherSourceError, RecordError
from recordzoo.records.verify import verify
from tests.combining import assert_holds, every, write_set
from tests.disks import mounted
from tests.fakes.records import edit_manifest, flip, flip_byte, place_of
from tests.fakes.server import FileServer
from tests.preparing import prepared
from tests.running import run

pytestmark = pytest.mark.slow

BROKEN = b"\xff\xd8\xff"
"""A JPEG that ends in its header."""


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Two sets with the same classes; a directory with nothing else in it."""
    folder = tmp_path_factory.mktemp("sets")
    return folder, write_set(folder / "a.records"), write_set(folder / "b.records", 9, seed=1)


def merged(paths, output, **options):
    return RecordReader(recordzoo.merge([str(path) for path in paths], output, **options))


def shards(reader):
    return [reader.folder / shard.name for shard in reader.manifest.shards]


def inodes(*readers):
    return [path.stat().st_ino for reader in readers for path in shards(reader)]


def is_whole(reader):
    return verify(reader.path, full=True).problems == []


class TestWhatIsMade:
    def test_all_records_in_order_each_as_it_was(self, sets, tmp_path):
        _, a, b = sets
        new = merged([a.path, b.path], tmp_path / "c.records")
        assert_holds(new, every(a, b))
        assert is_whole(new)
        assert inodes(new) == inodes(a, b)
        assert len(a.manifest.shards) > 1
        written = sum(path.stat().st_size for path in new.folder.iterdir() if path.stat().st_nlink == 1)
        assert written < 20_000 < sum(path.stat().st_size for path in shards(new))
        assert new.manifest.classes == ("cat", "dog", "owl")
        assert {name: new.split(name).tolist() for name in new.manifest.splits} == {
            name: [*a.split(name).tolist(), *(b.split(name) + 12).tolist()] for name in ("train", "val", "small")
        }
        names = [f"{number:04d}.jpg" for number in range(12)]
        assert list(new.names) == [*(f"a/{name}" for name in names[:9]), *names[9:], *(f"b/{n}" for n in names[:9])]
        assert new.marks("image") == a.marks("image") + b.marks("image")

    def test_again_nothing_is_done_and_other_sets_are_refused(self, sets, tmp_path):
        _, a, b = sets
        paths = [a.path, b.path]
        before = merged(paths, tmp_path / "c.records").folder.stat().st_ino
        assert merged(paths, tmp_path / "c.records").folder.stat().st_ino == before
        with pytest.raises(OtherSourceError, match=r"was not made of these records of b.records, a.records"):
            merged(paths[::-1], tmp_path / "c.records")
        assert merged(paths, tmp_path / "c.records").folder.stat().st_ino == before


class TestClasses:
    def test_united_by_name_labels_are_numbered_anew(self, sets, tmp_path):
        _, a, _ = sets
        b = write_set(tmp_path / "b.records", seed=2, classes=("owl", "ant", "cat"))
        new = merged([a.path, b.path], tmp_path / "c.records", classes="union")
        assert new.manifest.classes == ("cat", "dog", "owl", "ant")
        assert_holds(new, every(a, b))
        assert np.bincount(new.array("target")).tolist() == [8, 4, 8, 4]

    def test_other_classes_are_refused_without_it(self, sets, tmp_path):
        cases = {
            "different classes: owl, ant are in one of them only. Pass --classes": ("cat", "dog", "ant"),
            "the same names in another order. Pass --classes": ("dog", "cat", "owl"),
            "one of them has no class names.$": None,
        }
        for number, (text, classes) in enumerate(cases.items()):
            b = write_set(tmp_path / f"b{number}.records", classes=classes)
            with pytest.raises(ArgumentError, match=text):
                merged([sets[1].path, b.path], tmp_path / "c.records")

    def test_without_names_nothing_can_be_united(self, tmp_path):
        sets = [write_set(tmp_path / f"{name}.records", classes=None).path for name in "ab"]
        assert merged(sets, tmp_path / "c.records").manifest.classes is None
        with pytest.raises(ArgumentError, match=r"a.records has no class names"):
            merged(sets, tmp_path / "d.records", classes="union")

    def test_a_label_that_is_no_class_is_named(self, sets, tmp_path):
        path = shutil.copytree(sets[1].path, tmp_path / "a.records")
        edit_manifest(path, lambda document: document["fields"]["target"].update(names=["dog", "cat"]))
        with pytest.raises(recordzoo.errors.SourceError, match="has the class 2, and there are only 2 classes"):
            merged([sets[1].path, path], tmp_path / "c.records", classes="union")


class TestSplits:
    def test_a_set_as_a_split(self, sets, tmp_path):
        paths = [str(reader.path) for reader in sets[1:]]
        new = merged(paths, tmp_path / "c.records", splits={paths[0]: "train", paths[1]: "test"})
        assert {name: new.split(name).tolist() for name in new.manifest.splits} == {
            "train": list(range(12)),
            "test": list(range(12, 21)),
        }
        with pytest.raises(ArgumentError, match="names 'c', which is none of the sets"):
            merged(paths, tmp_path / "d.records", splits={"c": "train"})
        with pytest.raises(ArgumentError, match="'No Split' is no name of a split"):
            merged(paths, tmp_path / "d.records", splits={paths[0]: "No Split"})


class TestWhatDoesNotFit:
    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"without": ["note"]}, "the field 'note' is bytes in the first, absent in the second"),
            ({"mask": np.zeros((20, 20, 1))}, "raw float32 with 2 dimensions in the first, raw float64 with 3"),
            ({"weight": 1.5}, r"the field 'weight' is float32 \[2\] in the first, float64 \[\] in the second"),
        ],
    )
    def test_fields_are_named(self, sets, tmp_path, other, said):
        path = write_set(tmp_path / "b.records", 3, **other).path
        with pytest.raises(ArgumentError, match=f"cannot be merged: .*{said}"):
            merged([sets[1].path, path], tmp_path / "c.records")

    def test_one_shape_and_several_fit(self, tmp_path):
        a = write_set(tmp_path / "a.records", 3, mask=np.zeros((20, 20), np.float32))
        b = write_set(tmp_path / "b.records", 3)
        assert (a.manifest.blobs["mask"].shape, b.manifest.blobs["mask"].shape) == ((20, 20), None)
        assert_holds(merged([a.path, b.path], tmp_path / "c.records"), every(a, b))
        assert merged([a.path, a.path], tmp_path / "d.records").manifest.blobs["mask"].shape == (20, 20)

    def test_arguments(self, sets, tmp_path):
        folder, a, _ = sets
        for wrong, said in (([], "is empty"), (str(a.path), "must be a list")):
            with pytest.raises(ArgumentError, match=said):
                recordzoo.merge(wrong, tmp_path / "c.records")
        with pytest.raises(ArgumentError, match=r"is one of the record sets that are read"):
            recordzoo.merge([a.path], a.path)
        with pytest.raises(ArgumentError, match="made on this machine"):
            recordzoo.merge([a.path], "s3://bucket/c.records")
        with pytest.raises(ArgumentError, match="Unknown value 'both' for argument classes"):
            recordzoo.merge([a.path], tmp_path / "c.records", classes="both")
        with pytest.raises(RecordError):
            recordzoo.merge([folder], tmp_path / "c.records")


class TestFaults:
    def test_a_damaged_array_is_never_merged(self, sets, tmp_path):
        path = shutil.copytree(sets[1].path, tmp_path / "a.records")
        flip_byte(path / "target.npy", -1)
        with pytest.raises(CorruptRecordError, match=r"target.npy is damaged"):
            merged([path, sets[2].path], tmp_path / "c.records")
        assert os.listdir(tmp_path) == ["a.records"]


@pytest.fixture
def own(tmp_path):
    """Two sets that a test may change."""
    return write_set(tmp_path / "a.records"), write_set(tmp_path / "b.records", 9, seed=1)


class TestLinks:
    def test_the_sets_stay_as_they_are(self, own, tmp_path):
        before = [{file.name: file.read_bytes() for file in each.folder.iterdir()} for each in own]
        recordzoo.merge([each.path for each in own], tmp_path / "c.records")
        assert [{file.name: file.read_bytes() for file in each.folder.iterdir()} for each in own] == before

    def test_any_of_them_is_deleted(self, own, tmp_path):
        a, b = own
        new = RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records"))
        shutil.rmtree(a.folder)
        assert is_whole(new)
        shutil.rmtree(new.folder)
        assert is_whole(RecordReader(b.path))

    def test_a_shard_that_two_sets_have_is_there_once(self, own, tmp_path):
        a, b = own
        once = RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records"))
        new = RecordReader(recordzoo.merge([once.path, a.path], tmp_path / "d.records"))
        assert inodes(new) == inodes(a, b)
        assert_holds(new, every(a, b, a))
        assert is_whole(new)

    def test_broken_images_keep_their_reasons_under_their_new_names(self, tmp_path):
        (tmp_path / "0.jpg").write_bytes(BROKEN)
        (tmp_path / "list.txt").write_text("0.jpg 1\n")
        one = RecordReader(prepared(tmp_path / "list.txt"))
        copy = shutil.copytree(one.path, tmp_path / "other.records")
        new = RecordReader(recordzoo.merge([one.path, copy], tmp_path / "c.records"))
        (reason,) = one.manifest.bad.values()
        assert new.manifest.bad == {"list/0.jpg": reason, "other/0.jpg": reason}

    def test_an_index_that_leads_nowhere(self, own, tmp_path):
        a, b = own
        edit_manifest(a.folder, lambda document: document.update(shards=document["shards"][:1]))
        with pytest.raises(CorruptRecordError, match="names a shard that does not exist"):
            recordzoo.merge([a.path, b.path], tmp_path / "c.records")
        assert not (tmp_path / "c.records").exists()


def test_another_file_system(own, tmp_path):
    a, b = own
    with mounted(tmp_path / "other", "size=64m") as volume:
        made = run("merge", a.path, b.path, "--output", volume.path / "c.records", cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        size = sum(shard.size_bytes for each in own for shard in each.manifest.shards)
        assert "of shards were copied, not linked" in made.stderr
        new = RecordReader(volume.path / "c.records")
        assert sum(path.stat().st_size for path in shards(new)) == size
        assert {path.stat().st_nlink for path in shards(new)} == {1}
        assert_holds(new, every(a, b))
        flip_byte(*place_of(a.path, 5))
        with pytest.raises(CorruptRecordError, match=r"shard-0000\d.lmdb is damaged"):
            recordzoo.merge([a.path], volume.path / "d.records")
        assert not (volume.path / "d.records").exists()


def test_info_tells_shared_bytes_from_own_ones_and_of_what_a_set_is(own, tmp_path):
    a, b = own
    new = merged([a.path, b.path], tmp_path / "c.records")
    of = [{"name": r.path.name, "digest": r.digest, "records": len(r)} for r in (a, b)]
    assert new.manifest.metadata["made_of"] == {"sets": of, "classes": "equal", "shards": "linked"}
    size = sum(shard.size_bytes for each in own for shard in each.manifest.shards)

    def measured():
        return json.loads(run("info", "c.records", "--json", cwd=tmp_path).stdout)["record_set"]["bytes"]

    assert (measured()["shared"], measured()["shards"]) == (size, size)
    assert f"made of:  a.records, 12 records, digest {a.digest}\n" in run("info", "c.records", cwd=tmp_path).stdout
    shutil.rmtree(a.path)
    shutil.rmtree(b.path)
    assert measured()["shared"] == 0


@pytest.mark.usefixtures("own_cache")
def test_sets_at_urls(sets, tmp_path):
    folder, a, b = sets
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with FileServer(files) as server:
        new = merged([f"{server.url}/a.records", b.path], tmp_path / "c.records")
        other = merged([f"{server.url}/a.records", f"{server.url}/b.records"], tmp_path / "d.records")
        same = merged([f"{server.url}/a.records"], tmp_path / "same.records", splits={f"{server.url}/a.records": "x"})
    assert_holds(new, every(a, b))
    assert verify(new.path, full=True).problems == verify(same.path, full=True).problems == []
    assert new.digest == other.digest == merged([a.path, b.path], tmp_path / "e.records").digest
    assert server.url not in json.dumps(new.manifest.metadata)


def test_the_command(sets, tmp_path):
    folder, a, b = sets
    words = ["merge", a.path, b.path, "--output", "c.records", "--split-of", f"{a.path}=train", "--json"]
    result = run(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["digest"] == RecordReader(tmp_path / "c.records").digest
    assert re.search(r"ready, 21 records in .*c\.records, made in", result.stderr)
    assert RecordReader(tmp_path / "c.records").manifest.splits == {"train": 18, "val": 3, "small": 5}
    again = run(*words, cwd=tmp_path)
    assert json.loads(again.stdout)["was_ready"]
    assert again.stderr.endswith("c.records, unchanged\n")
    other = run("merge", b.path, a.path, "--output", "c.records", cwd=tmp_path)
    assert (other.returncode, "Name another output, or delete it first." in other.stderr) == (1, True)
    refused = run("merge", "a", "b", "--output", "c.records", "--split-of", "x=train", cwd=folder)
    assert (refused.returncode, "it must be SET=SPLIT" in refused.stderr) == (2, True)


def test_damage_reaches_all_sets_that_share_a_shard(own, tmp_path):
    a, b = own
    new = RecordReader(recordzoo.merge([a.path, b.path], tmp_path / "c.records"))
    shard, offset = place_of(a.path, 5)
    flip(shard, 8 * offset)  # a disk's fault: no other file takes its place
    for each in (a, new):
        assert any("0005.jpg" in problem for problem in verify(each.path, full=True).problems)
    assert is_whole(b)
