"""Paths that are not UTF-8, of files and of all that lies around them; and the root of the file system."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import recordzoo
from recordzoo import ImageFolderRecord
from recordzoo.errors import ArgumentError
from recordzoo.own.targets import resolve
from recordzoo.records.reader import RecordReader
from tests.fakes import folder, lists, voc
from tests.preparing import prepared
from tests.running import run

ODD = os.fsdecode(b"ph\xfetos \xe9")
MEMBER = os.fsdecode(b"c\xe4t/\xff1.jpg")
FILES = {MEMBER: folder.image_bytes("a.jpg", 1), "dog/b.png": folder.image_bytes("b.png", 2)}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return folder.write_tree(tmp_path / ODD / "above", FILES)


def test_paths_below_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python expands "~", as torchvision does, and so do commands (a shell leaves it in ``--root=~/zoo``)."""
    home = tmp_path / "home"
    folder.write_tree(home / "photos", FILES)
    monkeypatch.setenv("HOME", os.fspath(home))
    monkeypatch.chdir(tmp_path)
    recordzoo.prepare("~/photos")
    assert run("prepare", "~/photos", "--output=~/other.records", cwd=tmp_path).returncode == 0
    for place in ("~/photos.records", Path("~/other.records")):
        assert recordzoo.verify(place, full=True).ok
        assert len(RecordReader(place)) == len(recordzoo.open(place)) == len(FILES)
        assert len(ImageFolderRecord(place)) == len(FILES)
    recordzoo.copy("~/photos.records", "~/copy.records")
    recordzoo.merge(["~/copy.records", "~/other.records"], "~/merged.records")
    ImageFolderRecord("~/photos", records_dir="~/third.records", prepare=True)
    made = {"copy", "merged", "other", "photos", "third"}
    assert {path.stem for path in home.glob("*.records")} == made
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.slow
def test_all_commands(tree: Path, tmp_path: Path) -> None:
    """As processes of their own, which have to write such names to their own streams."""
    records, options = f"{tree}.records", {"cwd": tmp_path, "apart": True}
    result = run("prepare", tree, **options)
    said = os.fspath(tree).encode("utf-8", "backslashreplace").decode()
    assert (result.returncode, said in result.stderr) == (0, True), result.stderr
    for words in (["info", records], ["show", tree], ["prepare", "--dry-run", tree], ["prepare", tree, "--format=png"]):
        result = run(*words, **options)
        assert result.returncode == 0, result.stderr
    document = json.loads(run("verify", "--full", "--json", records, **options).stdout)
    assert (document["path"], document["ok"]) == (records, True)
    assert json.loads(run("info", "--json", tree, **options).stdout)["record_set"]["tree"] == str(tree)
    result = run("prepare", tree, "--refresh", "--workers", 2, "--shards", 2, **options)
    assert result.returncode == 0, result.stderr
    result = run("prepare", f"{tree}/none", "--json", **options)
    assert (result.returncode, json.loads(result.stderr)["error"]["details"]["path"]) == (3, f"{tree}/none")


def test_datasets(tree: Path) -> None:
    dataset = ImageFolderRecord(tree)
    assert [Path(path).relative_to(tree).as_posix() for path, _ in dataset.samples] == sorted(FILES)
    assert dataset.classes == sorted(name.partition("/")[0] for name in FILES)
    assert [dataset.read(position) for position in range(2)] == [FILES[name] for name in sorted(FILES)]
    (tree / MEMBER).write_bytes(FILES["dog/b.png"] + b"longer")
    with pytest.warns(UserWarning, match="has another size"):
        ImageFolderRecord(tree)


@pytest.mark.parametrize("what", ["list", "voc", "convert"])
def test_what_else_makes_records(what: str, tmp_path: Path) -> None:
    home = tmp_path / ODD
    home.mkdir()
    place = home / "my.records"
    if what == "list":
        lists.write_images(home)
        prepared(lists.write_list(home / "list.txt", lists.plain()), place)
    elif what == "voc":
        voc.build().write_tree(home)
        assert run("prepare", "voc.2012", "--root", home, "--output", place, cwd=tmp_path).returncode == 0
    else:
        recordzoo.convert([{"image": np.zeros((4, 4, 3), np.uint8), "target": n} for n in range(3)], place)
    reader = RecordReader(place)
    assert all(reader.read("image", position) for position in range(len(reader)))
    assert run("verify", "--full", place, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("root", ["/", "//", "/usr/.."])
def test_the_root_of_the_file_system_is_not_searched(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"the root of the file system\. Name a directory"):
        ImageFolderRecord(root)
    monkeypatch.setattr(os, "scandir", lambda *_: pytest.fail("it was searched"))
    with pytest.raises(ArgumentError, match="cannot lie beside it"):
        resolve(root, Path())
