"""Repair: a damaged record set becomes the bytes that it was; what is not damaged is neither read nor written again."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordzoo.errors import ManifestError, NotPreparedError, OtherSourceError, SourceError, TermsError
from recordzoo.preparing import ensure
from recordzoo.recipes import folder, listing
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from recordzoo.repairing import repair
from tests.fakes import cub200, imagenet, lists, mnist
from tests.fakes.folder import write_tree
from tests.fakes.records import edit_manifest
from tests.fakes.server import FileServer
from tests.faults import fault
from tests.preparing import REPOSITORY, contents
from tests.running import run


class NoWalk:
    """Instead of LMDB in a child process, which takes a second to start; the hashes find all damage of these tests."""

    def __init__(self, path: Path, digest: str) -> None: ...

    def __enter__(self) -> "NoWalk":
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, shard: int, size_bytes: int) -> list[str]:
        return []


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_QUIET", "1")
    if "with_LMDB" not in request.node.name:
        monkeypatch.setattr("recordzoo.records.verify.LmdbWalk", NoWalk)


def flip(path: Path, offset: int) -> None:
    """Flip a bit of a file, in another inode: that of a good copy stays as it is."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.unlink()
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:size])


def place_of(records: Path, position: int, field: str = "image") -> tuple[Path, int]:
    """The shard of a value, and where in it the value begins."""
    reader = RecordReader(records)
    row = reader.array(f"{field}.index")[position]
    return records / reader.manifest.shards[row["shard"]].name, int(row["offset"])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree and its record set of several shards."""
    root = tmp_path_factory.mktemp("prepared")
    ensure(folder.recipe(), write_tree(root / "photos"), shard_bytes=6000, workers=1)
    return root.rename(root.with_name("moved"))  # the place that the set knows is gone


@pytest.fixture
def photos(prepared: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    return tmp_path / "photos.records"


def damage_a_value(records: Path) -> None:
    flip(*place_of(records, 0))


def damage_a_head(records: Path) -> None:
    flip(place_of(records, 0)[0], 17)


def damage_both_heads(records: Path) -> None:
    for page in (0, 4096):
        flip(place_of(records, 0)[0], page + 17)


def delete_a_shard(records: Path) -> None:
    place_of(records, 0)[0].unlink()


def cut_a_shard(records: Path) -> None:
    cut(place_of(records, 0)[0], 5000)


def replace_a_shard_by_a_link(records: Path) -> None:
    shard = place_of(records, 0)[0]
    shard.unlink()
    shard.symlink_to("elsewhere")


def damage_the_marks(records: Path) -> None:
    flip(records / "image.marks", 0)


def damage_a_value_with_LMDB(records: Path) -> None:
    damage_a_value(records)


OF_SHARDS: dict[Callable[[Path], None], int | None] = {  # how many values are read from the tree; None: some
    damage_a_value: 1,
    damage_a_value_with_LMDB: 1,
    damage_a_head: 0,
    damage_both_heads: 0,
    delete_a_shard: None,
    cut_a_shard: None,
    replace_a_shard_by_a_link: None,
    damage_the_marks: 0,
}


@fault(
    "C16",
    "files of a record set are damaged, cut or gone: a bad disk, a copy that ended early, `rm`",
    "`verify` names them; `verify --repair` makes them again, the same bytes, from raw data and undamaged values",
)
@pytest.mark.slow
@pytest.mark.parametrize("damage", OF_SHARDS, ids=lambda damage: damage.__name__)
def test_shards_of_a_tree(damage: Callable[[Path], None], photos: Path) -> None:
    whole = contents(photos)
    inodes = {path.name: path.stat().st_ino for path in photos.iterdir()}
    damage(photos)
    done = repair(photos)
    assert contents(photos) == whole
    assert verify(photos, full=True).damaged == []
    assert sorted(os.listdir(photos.parent)) == ["photos", "photos.records"]
    kept = inodes.keys() - set(done.files)
    assert {name: inodes[name] for name in kept} == {name: (photos / name).stat().st_ino for name in kept}
    if (expected := OF_SHARDS[damage]) is not None:
        assert done.num_values == expected
        assert bool(done.source) == bool(expected)
    else:
        assert done.num_values is not None
        assert done.num_values > 1


def test_only_the_file_of_the_damaged_value_is_needed(photos: Path) -> None:
    whole = contents(photos)
    damage_a_value(photos)
    name = RecordReader(photos).names[0]
    data = (photos.parent / "photos" / name).read_bytes()
    shutil.rmtree(photos.parent / "photos")
    (photos.parent / "photos" / name).parent.mkdir(parents=True)
    (photos.parent / "photos" / name).write_bytes(data)
    assert repair(photos).num_values == 1
    assert contents(photos) == whole


def test_what_has_no_damage_needs_no_raw_data(photos: Path) -> None:
    shutil.rmtree(photos.parent / "photos")
    inode = photos.stat().st_ino
    done = repair(photos)
    assert (done.files, done.num_values, done.source) == ((), 0, "")
    assert photos.stat().st_ino == inode


@pytest.mark.slow
def test_the_raw_data_may_lie_elsewhere(photos: Path, tmp_path: Path) -> None:
    whole = contents(photos)
    damage_a_value(photos)
    (photos.parent / "photos").rename(tmp_path / "moved")
    with pytest.raises(NotPreparedError, match=r"1 damaged value \(.*\) must come from its raw data.*--root"):
        repair(photos)
    assert contents(photos) != whole
    repair(photos, root=tmp_path / "moved")
    assert contents(photos) == whole


@pytest.mark.slow
def test_raw_data_that_has_changed_repairs_nothing(photos: Path) -> None:
    damage_a_value(photos)
    before = contents(photos)
    name = RecordReader(photos).names[0]
    (photos.parent / "photos" / name).write_bytes(b"another")
    with pytest.raises(SourceError, match=rf"does not hold 1 of the 1 damaged values as they were stored \({name}\)"):
        repair(photos)
    assert contents(photos) == before
    (_,) = photos.parent.glob("*.build.*")  # nobody's; the next run uses or removes it
    (photos.parent / "photos" / name).unlink()


@pytest.mark.slow
def test_what_a_person_put_there_stays(photos: Path) -> None:
    (photos / "README").write_text("mine")
    (photos / "notes").mkdir()
    (photos / "notes" / "a").write_text("b")
    (photos / "link").symlink_to("README")
    whole = contents(photos)
    damage_a_value(photos)
    repair(photos)
    assert contents(photos) == whole
    assert os.readlink(photos / "link") == "README"


OF_ALL: dict[str, Callable[[Path], None]] = {
    "array": lambda records: flip(records / "target.npy", -1),
    "index": lambda records: flip(records / "image.index.npy", -1),
    "names that are gone": lambda records: (records / "names_offsets.npy").unlink(),
    "array and shard": lambda records: [flip(records / "names.npy", -1), damage_a_value(records)][0],
    "manifest": lambda records: flip(records / "manifest.json", 300),
    "manifest that is cut": lambda records: cut(records / "manifest.json", 100),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", OF_ALL.values(), ids=OF_ALL.keys())
def test_arrays_and_the_manifest(damage: Callable[[Path], None], photos: Path) -> None:
    whole = contents(photos)
    damage(photos)
    done = repair(photos, workers=1)
    found = contents(photos)
    assert {**found, "tree.json": ""} == {**whole, "tree.json": ""}  # it says where the tree is and when it changed
    assert done.num_values is None
    assert done.source == str(photos.parent / "photos")
    assert sorted(os.listdir(photos.parent)) == ["photos", "photos.records"]


@pytest.mark.slow
@pytest.mark.parametrize("file", ["target.npy", "manifest.json"])
def test_another_tree_does_not_replace_what_is_there(file: str, photos: Path) -> None:
    flip(photos / file, -10)
    before = contents(photos)
    (image,) = sorted((photos.parent / "photos").rglob("*.jpeg"))[:1]
    image.unlink()
    with pytest.raises(OtherSourceError, match=r"Nothing was replaced.*prepare .*photos --refresh"):
        repair(photos, workers=1)
    assert contents(photos) == before
    assert sorted(os.listdir(photos.parent)) == ["photos", "photos.records"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"num_shards": 3}, {"shard_bytes": 9000, "shuffle_seed": 4}])
@pytest.mark.parametrize("damage", ["shard", "array"])
def test_lists(options: dict[str, Any], damage: str, tmp_path: Path) -> None:
    from recordzoo import prepare_list

    lists.write_images(tmp_path)
    path = lists.write_list(tmp_path / "list.txt", lists.plain())
    records = prepare_list(path, workers=1, **options)
    whole = contents(records)
    if damage == "shard":
        delete_a_shard(records)
    else:
        flip(records / "target.npy", -1)
    repair(records, workers=1)
    assert contents(records) == whole


@pytest.mark.slow
def test_no_shard_is_left(tmp_path: Path) -> None:
    records = ensure(folder.recipe(), write_tree(tmp_path / "photos"), workers=1)
    whole = contents(records)
    for path in records.glob("*.lmdb"):
        path.unlink()
    repair(records)
    assert contents(records) == whole


@pytest.mark.slow
def test_a_number_of_shards_is_found_out(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "photos")
    records = ensure(folder.recipe(), tree, num_shards=3, workers=1)
    whole = contents(records)
    delete_a_shard(records)
    repair(records)
    assert contents(records) == whole
    flip(records / "target.npy", -1)
    repair(records, workers=1)
    assert contents(records) == whole


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """A record set of an archive, in several shards; the archive is beside it."""
    cub200.build(3, 8).write_archive(tmp_path)
    return ensure(dataset_recipe("cub200"), tmp_path, check_hash=False, shard_bytes=9000, workers=1)


@pytest.mark.slow
def test_an_archive(birds: Path) -> None:
    whole = contents(birds)
    assert len(RecordReader(birds).manifest.shards) > 3
    for shard in sorted(birds.glob("*.lmdb"))[1:3]:
        shard.unlink()
    done = repair(birds)
    assert contents(birds) == whole
    assert len(done.files) == 2
    flip(birds / "bbox.npy", -1)
    repair(birds, workers=1)
    assert contents(birds) == whole


@pytest.mark.slow
def test_an_archive_that_is_gone(birds: Path, tmp_path: Path) -> None:
    whole = contents(birds)
    delete_a_shard(birds)
    server = tmp_path / "server" / "cub200"
    server.mkdir(parents=True)
    (birds.parent / cub200.ARCHIVE).rename(server / cub200.ARCHIVE)
    with pytest.raises(NotPreparedError, match=rf"Pass --download to fetch {cub200.ARCHIVE} \(1.15 GB, sha256"):
        repair(birds)
    with FileServer(server.parent) as served:
        repair(birds, download=True, mirror=served.url, check_hash=False)
    assert contents(birds) == whole


@pytest.mark.slow
def test_an_archive_with_terms(tmp_path: Path) -> None:
    imagenet.build().write_train_archive(tmp_path)
    imagenet.build().write_devkit(tmp_path)
    records = ensure(dataset_recipe("imagenet", "train"), tmp_path, check_hash=False, workers=1, shard_bytes=6000)
    whole = contents(records)
    delete_a_shard(records)
    (tmp_path / imagenet.TRAIN_ARCHIVE).rename(tmp_path / "aside")
    with pytest.raises(TermsError):
        repair(records, download=True)
    (tmp_path / "aside").rename(tmp_path / imagenet.TRAIN_ARCHIVE)
    repair(records)
    assert contents(records) == whole


@pytest.mark.slow
def test_arrays_of_images(tmp_path: Path) -> None:
    fake = mnist._mnist("mnist", "MNISTRecord", 1)
    fake.write_archive(tmp_path)
    records = ensure(dataset_recipe("mnist"), tmp_path, check_hash=False, workers=1, shard_bytes=5000)
    whole = contents(records)
    assert len(RecordReader(records).manifest.shards) > 2
    delete_a_shard(records)
    assert (repair(records).num_values or 0) > 1
    assert contents(records) == whole


@pytest.mark.slow
@pytest.mark.parametrize("original", ["records", "tree"])
def test_a_variant(original: str, photos: Path) -> None:
    tree = photos.parent / "photos"
    shutil.rmtree(tree if original == "records" else photos)
    made = ensure(folder.recipe(), tree, variant="8", workers=1, shard_bytes=6000)
    whole = contents(made)
    delete_a_shard(made)
    repair(made)
    assert contents(made) == whole


def test_records_of_a_program_keep_their_values(tmp_path: Path) -> None:
    """Where no raw data is known, what the shard still holds is enough for damage outside of its values."""
    from recordzoo import RecordWriter

    with RecordWriter(tmp_path / "own.records") as writer:
        for number in range(9):
            writer.write({"data": np.full(5000, number, np.uint8).tobytes()})
    records = tmp_path / "own.records"
    whole = contents(records)
    flip(records / "shard-00000.lmdb", 4096 + 17)
    assert repair(records).num_values == 0
    assert contents(records) == whole
    flip(*place_of(records, 3, "data"))
    with pytest.raises(NotPreparedError, match=r"what own\.records was made from is not known"):
        repair(records)


def test_without_a_manifest_it_is_no_record_set(photos: Path) -> None:
    (photos / "manifest.json").unlink()
    with pytest.raises(ManifestError, match="is not a record set"):
        repair(photos)


def test_a_shard_that_does_not_come_out_the_same_is_not_published(photos: Path) -> None:
    def another(manifest: dict[str, Any]) -> None:
        manifest["shards"][0]["blake2b"] = "0" * 64

    edit_manifest(photos, another)
    before = contents(photos)
    with pytest.raises(Exception, match="another version of recordzoo or LMDB wrote it"):
        repair(photos)
    assert contents(photos) == before


KILLED_AT = [
    *("build.claimed", "shard.written", "set.arrays_written", "set.manifest_written", "set.published"),
]


@pytest.mark.slow
@pytest.mark.parametrize("step", KILLED_AT)
def test_killed_half_way(step: str, photos: Path) -> None:
    whole = contents(photos)
    damage_a_value(photos)
    damaged = contents(photos)
    program = f"from pathlib import Path; from recordzoo.repairing import repair; repair(Path({os.fspath(photos)!r}))"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "RECORDZOO_KILL_AT": step}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert contents(photos) == (whole if step == "set.published" else damaged)
    repair(photos)
    assert contents(photos) == whole
    if step != "set.published":
        assert sorted(os.listdir(photos.parent)) == ["photos", "photos.records"]


class TestCommand:
    def test_it_says_what_it_did(self, photos: Path) -> None:
        whole = contents(photos)
        damage_a_value(photos)
        found = run("verify", "photos", "--full", cwd=photos.parent)
        assert found.returncode == 5
        assert found.stderr.endswith("To make again what is damaged, run: recordzoo verify photos.records --repair\n")
        done = run("verify", "photos", "--repair", cwd=photos.parent)
        assert (done.returncode, contents(photos)) == (0, whole), done.stderr
        assert done.stdout == (
            "photos.records: repaired. shard-00000.lmdb was made again: 1 damaged value came from "
            f"{photos.parent / 'photos'}, the others from the damaged files; every other file is unchanged. "
            "The hashes are those in the manifest.\n"
        )
        again = run("verify", "photos", "--repair", cwd=photos.parent)
        assert again.stdout.startswith("photos.records: ok, nothing to repair. Every byte of ")

    def test_json(self, photos: Path) -> None:
        damage_a_value(photos)
        found = json.loads(run("verify", "photos", "--full", "--json", cwd=photos.parent).stdout)
        assert found["damaged"] == ["shard-00000.lmdb"]
        done = json.loads(run("verify", "photos", "--repair", "--json", cwd=photos.parent).stdout)
        assert done["ok"] is True
        assert done["repaired"]["files"] == ["shard-00000.lmdb"]
        assert done["repaired"]["values"] == 1
        assert done["problems"] == found["problems"]
        assert done["digest"] == RecordReader(photos).digest

    def test_missing_raw_data_is_exit_code_3(self, photos: Path) -> None:
        damage_a_value(photos)
        shutil.rmtree(photos.parent / "photos")
        result = run("verify", "photos.records", "--repair", cwd=photos.parent)
        assert result.returncode == 3
        assert "must come from its raw data" in result.stderr

    @pytest.mark.parametrize("option", [["--download"], ["--accept-terms"], ["--root", "."]])
    def test_options_of_a_repair_alone(self, option: list[str], photos: Path) -> None:
        result = run("verify", "photos.records", *option, cwd=photos.parent)
        assert result.returncode == 2
        assert "they need --repair" in result.stderr


def test_only_the_units_concerned_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tar of tars, the first image of a unit shows which shards hold it; other units are not read further."""
    from recordzoo.repairing import values

    monkeypatch.setattr(values, "_UNIT_BYTES", 1)  # a unit for each inner tar
    read: list[int] = []
    original = values.Search._read
    monkeypatch.setattr(
        values.Search, "_read", lambda self, unit: (read.append(unit.size_bytes), original(self, unit))[1]
    )
    imagenet.build().write_train_archive(tmp_path)
    records = ensure(dataset_recipe("imagenet", "train"), tmp_path, check_hash=False, workers=1, shard_bytes=1500)
    whole = contents(records)
    reader = RecordReader(records)
    assert len(reader.manifest.shards) > 3
    classes = {name.partition("/")[0] for name in reader.names}
    (records / reader.manifest.shards[-1].name).unlink()
    repair(records)
    assert contents(records) == whole
    assert 0 < len(read) < len(classes)


def test_a_list_recipe_keeps_its_options() -> None:
    assert listing.recipe(3, {"num_shards": 2}).written == {"shuffle_seed": 3, "num_shards": 2}
