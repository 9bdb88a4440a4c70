"""Repair: a damaged record set becomes the bytes that it was, copied or pulled or prepared again."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordzoo
from recordzoo.errors import CorruptRecordError, ManifestError, NotPreparedError, OtherSourceError, TermsError
from recordzoo.preparing import ensure
from recordzoo.recipes import folder
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.made_from import BESIDE
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from recordzoo.repair import repair
from tests.copying import killed
from tests.fakes import cub200, imagenet, lists
from tests.fakes.folder import write_tree
from tests.fakes.server import FileServer
from tests.faults import fault
from tests.preparing import contents
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


def set_bytes(records: Path) -> dict[str, Any]:
    """The set's files, without those that say where it came from."""
    return {name: data for name, data in contents(records).items() if name not in BESIDE}


def inodes(records: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in records.iterdir() if path.name not in (*BESIDE, "manifest.json")}


def damage_a_value(records: Path) -> None:
    flip(*place_of(records, 0))


def damage_a_value_with_LMDB(records: Path) -> None:
    damage_a_value(records)


def delete_a_shard(records: Path) -> None:
    place_of(records, 0)[0].unlink()


def cut_a_shard(records: Path) -> None:
    cut(place_of(records, 0)[0], 5000)


def replace_a_shard_by_a_link(records: Path) -> None:
    shard = place_of(records, 0)[0]
    shard.rename(records.parent / "elsewhere")
    shard.symlink_to(records.parent / "elsewhere")


def damage_the_marks(records: Path) -> None:
    flip(records / "image.marks", 0)


def damage_an_array(records: Path) -> None:
    flip(records / "target.npy", -1)


def damage_an_index(records: Path) -> None:
    flip(records / "image.index.npy", -1)


def delete_names(records: Path) -> None:
    (records / "names_offsets.npy").unlink()


def damage_an_array_and_a_shard(records: Path) -> None:
    damage_a_value(records)
    flip(records / "names.npy", -1)


DAMAGES = [
    damage_a_value,
    damage_a_value_with_LMDB,
    delete_a_shard,
    cut_a_shard,
    replace_a_shard_by_a_link,
    damage_the_marks,
    damage_an_array,
    damage_an_index,
    delete_names,
    damage_an_array_and_a_shard,
]
each_damage = pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)


def test_what_has_no_damage_needs_no_raw_data(photos: Path) -> None:
    shutil.rmtree(photos.parent / "photos")
    inode = photos.stat().st_ino
    done = repair(photos)
    assert (done.report.damaged, done.source) == ([], "")
    assert photos.stat().st_ino == inode


def test_without_a_manifest_it_is_no_record_set(photos: Path) -> None:
    (photos / "manifest.json").unlink()
    with pytest.raises(ManifestError, match="is not a record set"):
        repair(photos)


class TestPreparedAgain:
    @fault(
        "C16",
        "files of a record set are damaged, cut or gone: a bad disk, a copy that ended early, `rm`",
        "`verify` names them; `verify --repair` copies or pulls them again, or prepares the set again: the same bytes",
    )
    @pytest.mark.slow
    @each_damage
    def test_of_a_tree(self, damage: Callable[[Path], None], photos: Path) -> None:
        whole = set_bytes(photos)
        damage(photos)
        done = repair(photos, workers=1)
        assert set_bytes(photos) == whole
        assert verify(photos, full=True).damaged == []
        assert (done.source, done.was_copied) == (str(photos.parent / "photos"), False)
        assert set(os.listdir(photos.parent)) - {"elsewhere"} == {"photos", "photos.records"}

    @pytest.mark.slow
    def test_the_raw_data_may_lie_elsewhere(self, photos: Path, tmp_path: Path) -> None:
        whole = set_bytes(photos)
        damage_a_value(photos)
        (photos.parent / "photos").rename(tmp_path / "moved")
        with pytest.raises(NotPreparedError, match=rf"photos.records is damaged.*{tmp_path}/photos'.*\(--root\)"):
            repair(photos)
        assert set_bytes(photos) != whole
        repair(photos, root=tmp_path / "moved", workers=1)
        assert set_bytes(photos) == whole

    @pytest.mark.slow
    @pytest.mark.parametrize("how", ["changed", "gone"])
    def test_raw_data_that_has_changed_repairs_nothing(self, how: str, photos: Path) -> None:
        damage_a_value(photos)
        before = contents(photos)
        path = photos.parent / "photos" / RecordReader(photos).names[0]
        path.write_bytes(b"another") if how == "changed" else path.unlink()
        with pytest.raises(OtherSourceError, match=r"Nothing was replaced.*prepare .*photos --refresh"):
            repair(photos, workers=1)
        assert contents(photos) == before
        assert sorted(os.listdir(photos.parent)) == ["photos", "photos.records"]

    @pytest.mark.parametrize("damage", [lambda path: flip(path, 300), lambda path: cut(path, 100)], ids=["bit", "cut"])
    def test_a_damaged_manifest(self, damage: Callable[[Path], None], photos: Path) -> None:
        damage(photos / "manifest.json")
        with pytest.raises(ManifestError, match=r"Move .*photos.records away and prepare the data again"):
            repair(photos)

    @pytest.mark.slow
    @pytest.mark.parametrize("options", [{"num_shards": 3}, {"shard_bytes": 9000, "shuffle_seed": 4}])
    def test_a_list(self, options: dict[str, Any], tmp_path: Path) -> None:
        lists.write_images(tmp_path)
        listed = lists.write_list(tmp_path / "list.txt", lists.plain())
        (records,) = recordzoo.prepare(listed, workers=1, **options)
        whole = set_bytes(records)
        delete_a_shard(records)
        repair(records, workers=1)
        assert set_bytes(records) == whole

    @pytest.mark.slow
    @pytest.mark.parametrize("options", [{}, {"num_shards": 3}, {"shard_bytes": 7000}], ids=["", "shards", "bytes"])
    def test_no_shard_is_left(self, options: dict[str, Any], tmp_path: Path) -> None:
        records = ensure(folder.recipe(), write_tree(tmp_path / "photos"), workers=1, **options)
        whole = contents(records)
        for path in records.glob("*.lmdb"):
            path.unlink()
        repair(records, workers=1)
        assert contents(records) == whole

    @pytest.mark.slow
    @pytest.mark.parametrize("original", ["records", "tree"])
    def test_a_variant(self, original: str, photos: Path) -> None:
        tree = photos.parent / "photos"
        shutil.rmtree(tree if original == "records" else photos)
        made = ensure(folder.recipe(), tree, variant="8", workers=1, shard_bytes=6000)
        whole = set_bytes(made)
        delete_a_shard(made)
        repair(made, workers=1)
        assert set_bytes(made) == whole

    @pytest.mark.slow
    def test_an_archive(self, tmp_path: Path) -> None:
        cub200.build(3, 8).write_archive(tmp_path)
        birds = ensure(dataset_recipe("cub200"), tmp_path, check_hash=False, shard_bytes=9000, workers=1)
        whole = contents(birds)
        for shard in sorted(birds.glob("*.lmdb"))[1:3]:
            shard.unlink()
        repair(birds, workers=1)
        assert contents(birds) == whole
        delete_a_shard(birds)
        server = tmp_path / "server" / "cub200"
        server.mkdir(parents=True)
        (tmp_path / cub200.ARCHIVE).rename(server / cub200.ARCHIVE)
        with pytest.raises(NotPreparedError, match=rf"Pass --download to fetch {cub200.ARCHIVE} \(1.15 GB, sha256"):
            repair(birds)
        with FileServer(server.parent) as served:
            repair(birds, download=True, mirror=served.url, workers=1)
        assert contents(birds) == whole

    @pytest.mark.slow
    def test_an_archive_with_terms(self, tmp_path: Path) -> None:
        imagenet.build().write_train_archive(tmp_path)
        imagenet.build().write_devkit(tmp_path)
        records = ensure(dataset_recipe("imagenet", "train"), tmp_path, check_hash=False, workers=1, shard_bytes=6000)
        delete_a_shard(records)
        (tmp_path / imagenet.TRAIN_ARCHIVE).rename(tmp_path / "aside")
        with pytest.raises(NotPreparedError, match=rf"(?s)looked for .*{imagenet.TRAIN_ARCHIVE}"):
            repair(records)
        with pytest.raises(TermsError, match=imagenet.TRAIN_ARCHIVE):
            repair(records, download=True)

    def test_records_of_a_program(self, tmp_path: Path) -> None:
        with recordzoo.RecordWriter(tmp_path / "own.records") as writer:
            for number in range(9):
                writer.write({"data": np.full(5000, number, np.uint8).tobytes()})
        flip(*place_of(tmp_path / "own.records", 3, "data"))
        with pytest.raises(NotPreparedError, match=r"what it was made from is not known.*If a program wrote"):
            repair(tmp_path / "own.records")


class TestCopiedAgain:
    @pytest.fixture(params=["copied", "pulled"])
    def copied(self, request: pytest.FixtureRequest, photos: Path, tmp_path: Path) -> Iterator[tuple[Path, Any]]:
        """A copy of the set, and the server that it was pulled from, if one is there."""
        shutil.rmtree(photos.parent / "photos")
        if request.param == "copied":
            yield Path(recordzoo.copy(photos, tmp_path / "here")), None
            return
        with FileServer({f"sets/photos.records/{path.name}": path.read_bytes() for path in photos.iterdir()}) as server:
            yield recordzoo.pull(f"{server.url}/sets/photos.records", tmp_path / "here"), server

    @pytest.mark.slow
    @each_damage
    def test_only_damaged_files_are_fetched(
        self, damage: Callable[[Path], None], copied: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path, server = copied
        whole, before = contents(path), inodes(path)
        # A second name keeps each inode in use: otherwise a fetched file could get the number of the one it replaces.
        shutil.copytree(path, tmp_path_factory.mktemp("held") / path.name, copy_function=os.link)
        damage(path)
        damaged = set(verify(path, full=True).damaged)
        asked = len(server.log) if server else 0
        done = repair(path)
        assert done.was_copied
        assert set(done.report.damaged) == damaged
        assert contents(path) == whole
        assert {name for name, inode in inodes(path).items() if inode != before[name]} == damaged
        if server:
            fetched = {request.path.rpartition("/")[2] for request in server.log[asked:] if request.sent}
            assert fetched == {*damaged, "manifest.json"}
        assert set(os.listdir(path.parent)) <= {"photos.records", "elsewhere"}

    def test_a_damaged_manifest(self, copied: tuple[Path, Any]) -> None:
        path, _ = copied
        whole, before = contents(path), inodes(path)
        cut(path / "manifest.json", 100)
        repair(path)
        assert contents(path) == whole
        assert inodes(path) == before

    def test_a_set_that_was_renamed_since(self, copied: tuple[Path, Any], tmp_path: Path) -> None:
        path = copied[0].rename(tmp_path / "renamed")
        whole = contents(path)
        delete_a_shard(path)
        repair(path)
        assert contents(path) == whole

    @pytest.mark.slow
    def test_a_kill_changes_nothing_of_what_is_there(self, copied: tuple[Path, Any]) -> None:
        """Kept files have two names while the new set is put together."""
        path, _ = copied
        whole = contents(path)
        delete_a_shard(path)
        damaged = contents(path)
        killed("set.manifest_written", "verify", path, "--repair", cwd=path.parent)
        assert contents(path) == damaged
        flip(path / "image.marks", 0)
        repair(path)
        assert contents(path) == whole
        assert os.listdir(path.parent) == ["photos.records"]

    def test_another_set_is_there_now(self, photos: Path, tmp_path: Path) -> None:
        path = Path(recordzoo.copy(photos, tmp_path / "here"))
        delete_a_shard(path)
        before = contents(path)
        ensure(folder.recipe(), write_tree(tmp_path / "photos", {"a/b.jpg": b"c"}), refresh=True, workers=1)
        with pytest.raises(OtherSourceError, match="from which it was copied, holds another record set now"):
            repair(path)
        assert contents(path) == before

    def test_the_original_is_damaged_too(self, photos: Path, tmp_path: Path) -> None:
        path = Path(recordzoo.copy(photos, tmp_path / "here"))
        delete_a_shard(path)
        before = contents(path)
        damage_a_value(photos)
        with pytest.raises(CorruptRecordError, match=rf"{photos}/shard.* is damaged.*verify .*--repair"):
            repair(path)
        assert contents(path) == before

    @pytest.mark.slow
    @pytest.mark.parametrize("is_itself", [True, False])
    def test_without_the_original_it_is_prepared_again(self, is_itself: bool, photos: Path, tmp_path: Path) -> None:
        path = Path(recordzoo.copy(photos, tmp_path / "here"))
        whole = set_bytes(path)
        shutil.rmtree(photos)
        path = path.rename(photos) if is_itself else path
        delete_a_shard(path)
        assert repair(path, root=None if is_itself else tmp_path / "photos", workers=1).was_copied is False
        assert set_bytes(path) == whole

    def test_no_secret_of_a_url_is_stored(self, photos: Path, tmp_path: Path) -> None:
        with FileServer({f"photos.records/{path.name}": path.read_bytes() for path in photos.iterdir()}) as server:
            url = f"{server.url}/photos.records"
            path = recordzoo.pull(url.replace("//", "//me:secret@") + "?signature=hidden", tmp_path / "here")
            assert json.loads((path / "copied.json").read_text())["from"] == url


class TestCommand:
    def test_it_says_what_it_did(self, photos: Path) -> None:
        whole = set_bytes(photos)
        damage_a_value(photos)
        found = run("verify", "photos", "--full", cwd=photos.parent)
        assert found.returncode == 5
        assert found.stderr.endswith("To repair it, run: recordzoo verify photos.records --repair\n")
        done = run("verify", "photos", "--repair", cwd=photos.parent)
        assert (done.returncode, set_bytes(photos)) == (0, whole), done.stderr
        assert done.stdout == (
            "photos.records: repaired. shard-00000.lmdb was made again: the whole set was prepared from photos. "
            "The hashes are those in the manifest.\n"
        )
        again = run("verify", "photos", "--repair", cwd=photos.parent)
        assert again.stdout.startswith("photos.records: ok, nothing to repair. Every byte of ")

    def test_json(self, photos: Path, tmp_path: Path) -> None:
        recordzoo.copy(photos, tmp_path / "copy.records")
        damage_a_value(tmp_path / "copy.records")
        found = json.loads(run("verify", "copy.records", "--full", "--json", cwd=tmp_path).stdout)
        assert found["damaged"] == ["shard-00000.lmdb"]
        done = json.loads(run("verify", "copy.records", "--repair", "--json", cwd=tmp_path).stdout)
        assert done["ok"] is True
        assert done["repaired"] == {"files": ["shard-00000.lmdb"], "source": str(photos)}
        assert done["problems"] == found["problems"]
        assert done["digest"] == RecordReader(photos).digest

    def test_missing_raw_data_is_exit_code_3(self, photos: Path) -> None:
        damage_a_value(photos)
        shutil.rmtree(photos.parent / "photos")
        result = run("verify", "photos.records", "--repair", cwd=photos.parent)
        assert result.returncode == 3
        assert "Pass the place of the raw data (--root)" in result.stderr

    @pytest.mark.parametrize("option", [["--download"], ["--accept-terms"], ["--root", "."]])
    def test_options_of_a_repair_alone(self, option: list[str], photos: Path) -> None:
        result = run("verify", "photos.records", *option, cwd=photos.parent)
        assert result.returncode == 2
        assert "they need --repair" in result.stderr
