"""Trees: torchvision's order, the archive's names, and no surprise from what changes or cannot be read."""

import logging
import os
import pickle
import re
import socket
from pathlib import Path

import pytest
from torchvision.datasets.folder import make_dataset

from recordzoo.errors import FolderError, SourceError
from recordzoo.raw.member import Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.declared import is_class_image
from tests.fakes.folder import write_tree
from tests.users import bound_by_permissions


def read(source: Source, target_bytes: int = 1 << 30) -> list[tuple[str, bytes]]:
    units = pickle.loads(pickle.dumps(source.units(target_bytes)))
    return [(member.name, member.read()) for unit in units for member in unit.members()]


FILES = {"b.txt": b"1", "a/z.jpg": b"22", "a/b.jpg": b"5", "a/c/y.jpg": b"", "a-b/x.jpg": b"333", "a.jpg/w.jpg": b"4"}


def test_order_is_that_of_sorted_walk(tmp_path):
    write_tree(tmp_path, FILES)
    names = [name for name, _ in read(TreeSource(tmp_path))]
    assert names == ["b.txt", "a/b.jpg", "a/z.jpg", "a-b/x.jpg", "a.jpg/w.jpg", "a/c/y.jpg"]
    assert dict(read(TreeSource(tmp_path))) == FILES
    assert [name for name, _ in read(TreeSource(tmp_path, ["b.txt", "a/z.jpg"]))] == ["b.txt", "a/z.jpg"]
    (tmp_path / "link").symlink_to("a-b")
    assert ("link/x.jpg", b"333") in read(TreeSource(tmp_path))


def test_units_are_greedy(tmp_path):
    for index, size in enumerate([10, 10, 20, 30, 10, 0]):
        (tmp_path / str(index)).write_bytes(bytes(size))
    source = TreeSource(tmp_path)
    assert [unit.size_bytes for unit in source.units(25)] == [20, 20, 30, 10]
    assert [name for name, _ in read(source, 25)] == list("012345")


@pytest.mark.parametrize("target", [".", "..", "../..", "../../c/d"])
def test_link_loop_is_named(tmp_path, target):
    write_tree(tmp_path, {"c/d/f": b"1"})
    (tmp_path / "c" / "d" / "loop").symlink_to(target)
    with pytest.raises(FolderError, match=f"^{tmp_path}/c/d/loop: leads back to {tmp_path}.*Remove the link"):
        TreeSource(tmp_path).units(1)


def test_special_files_are_passed_over_unopened(tmp_path, caplog, monkeypatch):
    write_tree(tmp_path, {"f": b"1"})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    monkeypatch.chdir(tmp_path)  # a socket's path may have 108 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with caplog.at_level(logging.WARNING, "recordzoo"):
            assert read(TreeSource(tmp_path)) == [("f", b"1")]
    (line,) = caplog.messages
    assert line.startswith(f"{tmp_path}: passed over 3 that are no regular files")
    assert line.endswith("device (special file), pipe (special file), socket (special file)")


def test_all_problems_at_once(tmp_path):
    write_tree(tmp_path, {"c/f": b"1"})
    for index in range(25):
        (tmp_path / "c" / f"{index:02}").symlink_to("gone")
    (tmp_path / "c" / "self").symlink_to("self")
    with pytest.raises(SourceError) as caught:
        TreeSource(tmp_path).fingerprint()
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}: 26 files or directories cannot be read: c/00 (No such file or directory), c/0")
    assert "c/19 (No such file or directory) and 6 more." in text
    assert caught.value.problems[25] == "c/self (Too many levels of symbolic links)"
    with pytest.raises(FolderError, match=r"gone: the directory cannot be listed \(No such file"):
        TreeSource(tmp_path / "gone").units(1)
    with pytest.raises(SourceError, match=r"2 files .*: x \(No such file .*\), a\x00b \(.*embedded null .*\)"):
        TreeSource(tmp_path, ["c/f", "x", "a\0b"]).units(1)


def test_no_permission(tmp_path, monkeypatch):
    write_tree(tmp_path, {"a/f": b"1", "b/g": b"2"})
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # another user may not enter what is above
    (tmp_path / "a").chmod(0)
    with bound_by_permissions(), pytest.raises(SourceError, match=r"a \(Permission denied\)"):
        TreeSource(Path()).units(1)
    (tmp_path / "a").chmod(0o755)
    (tmp_path / "b" / "g").chmod(0)
    with bound_by_permissions(), pytest.raises(SourceError, match=r"b/g: .*\(Permission denied\)"):
        read(TreeSource(Path()))


def change_to_fifo(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: path.write_bytes(b"12345"), "had 4 bytes when it was listed and has more now"),
        (lambda path: path.write_bytes(b"123"), "had 4 bytes when it was listed and has 3 bytes now"),
        (lambda path: path.unlink(), "cannot be read now (No such file or directory)"),
        (change_to_fifo, "has 0 bytes now"),
    ],
)
def test_changed_since_it_was_listed(tmp_path, change, text):
    write_tree(tmp_path, {"f": b"1234"})
    units = TreeSource(tmp_path).units(1)
    change(tmp_path / "f")
    with pytest.raises(SourceError, match=f"^{tmp_path}/f: .*{re.escape(text)}"):
        next(units[0].members()).read()


def test_a_directory_that_is_called_an_image(tmp_path):
    write_tree(tmp_path, {"a/1.jpg/x.jpg": b"1", "a/2.jpg": b"2", "b.jpg/3.jpg": b"3"})
    names = [name for name, _ in read(TreeSource(tmp_path, wanted=is_class_image))]
    assert names == ["a/2.jpg", "a/1.jpg/x.jpg", "b.jpg/3.jpg"]
    theirs = make_dataset(tmp_path, {"a": 0, "b.jpg": 1}, extensions=(".jpg",))
    assert names == [os.path.relpath(path, tmp_path) for path, _ in theirs]


def test_what_is_not_wanted_is_not_looked_at(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"one")
    (tmp_path / "a" / ".#1.jpg.lock").symlink_to("nobody@nowhere.1")
    with pytest.raises(SourceError, match="lock"):
        TreeSource(tmp_path).fingerprint()
    assert read(TreeSource(tmp_path, wanted=is_class_image)) == [("a/1.jpg", b"one")]
