"""Trees: torchvision's order, the archive's names, and no surprise from what changes or cannot be read."""

import io
import logging
import os
import pickle
import socket
import string
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.datasets.folder import make_dataset

from recordzoo.errors import FolderError, SourceError
from recordzoo.raw.archive import ArchiveSource, ChainSource
from recordzoo.raw.member import Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.declared import is_class_image
from tests.fakes.folder import write_tree
from tests.users import bound_by_permissions


def read(source: Source, target_bytes: int = 1 << 30) -> list[tuple[str, bytes]]:
    units = pickle.loads(pickle.dumps(source.units(target_bytes)))
    return [(member.name, member.read()) for unit in units for member in unit.members()]


def walked(base: Path) -> list[str]:
    """torchvision's loop, for a whole tree."""
    found = []
    for root, _, names in sorted(os.walk(base, followlinks=True)):
        found += [os.path.relpath(os.path.join(root, name), base) for name in sorted(names)]
    return found


FILES = {"b.txt": b"1", "a/z.jpg": b"22", "a/c/y.jpg": b"", "a-b/x.jpg": b"333", "a.jpg/w.jpg": b"4"}


def test_order_is_that_of_sorted_walk(tmp_path):
    write_tree(tmp_path, FILES)
    names = [name for name, _ in read(TreeSource(tmp_path))]
    assert names == ["b.txt", "a/z.jpg", "a-b/x.jpg", "a.jpg/w.jpg", "a/c/y.jpg"] == walked(tmp_path)
    assert dict(read(TreeSource(tmp_path))) == FILES


def test_facts(tmp_path):
    source = TreeSource(write_tree(tmp_path, FILES))
    assert (source.archives, source.description, source.size_bytes) == ((), str(tmp_path), 7)
    assert ChainSource([source, source]).archives == ()


def test_given_names_in_given_order(tmp_path):
    write_tree(tmp_path, FILES)
    names = ["a/z.jpg", "b.txt", "a/c/y.jpg"]
    assert read(TreeSource(tmp_path, names)) == [(name, FILES[name]) for name in names]
    assert TreeSource(tmp_path, names) == TreeSource(tmp_path, tuple(names))
    assert read(TreeSource(tmp_path, [])) == []


def test_units_are_greedy(tmp_path):
    for index, size in enumerate([10, 10, 20, 30, 10, 0]):
        (tmp_path / str(index)).write_bytes(bytes(size))
    source = TreeSource(tmp_path)
    assert [unit.size_bytes for unit in source.units(1)] == [10, 10, 20, 30, 10, 0]
    assert [unit.size_bytes for unit in source.units(25)] == [20, 20, 30, 10]
    assert [unit.size_bytes for unit in source.units(40)] == [40, 40]
    assert [unit.size_bytes for unit in source.units(1000)] == [80]
    assert [name for name, _ in read(source, 25)] == list("012345")
    assert all(len(list(unit.members())) for unit in source.units(1))


def test_empty_tree(tmp_path):
    (tmp_path / "folder").mkdir()
    assert TreeSource(tmp_path).units(1) == []
    assert TreeSource(tmp_path).size_bytes == 0


def test_fingerprint(tmp_path):
    write_tree(tmp_path, FILES)
    prints = [TreeSource(tmp_path).fingerprint()]
    assert prints[0] == TreeSource(tmp_path).fingerprint()
    assert prints[0] != TreeSource(tmp_path, ["b.txt"]).fingerprint()
    os.utime(tmp_path / "b.txt", ns=(0, 1))
    prints.append(TreeSource(tmp_path).fingerprint())
    (tmp_path / "b.txt").write_bytes(b"more")
    os.utime(tmp_path / "b.txt", ns=(0, 1))
    prints.append(TreeSource(tmp_path).fingerprint())
    (tmp_path / "b.txt").rename(tmp_path / "b.text")
    prints.append(TreeSource(tmp_path).fingerprint())
    assert len(set(prints)) == 4


def test_links_count_as_what_they_point_to(tmp_path):
    outside = write_tree(tmp_path / "outside", {"f.jpg": b"1", "deep/g.jpg": b"2"})
    base = write_tree(tmp_path / "base", {"c/h.jpg": b"3"})
    (base / "c" / "link.jpg").symlink_to(outside / "f.jpg")
    (base / "folder").symlink_to(outside)
    (base / "again").symlink_to(outside)  # twice, but no loop
    wanted = {"again/f.jpg": b"1", "again/deep/g.jpg": b"2", "c/h.jpg": b"3", "c/link.jpg": b"1"}
    wanted |= {"folder/f.jpg": b"1", "folder/deep/g.jpg": b"2"}
    assert dict(read(TreeSource(base))) == wanted
    assert [name for name, _ in read(TreeSource(base))] == walked(base)


@pytest.mark.parametrize("target", [".", "..", "../..", "../../c/d"])
def test_link_loop_is_named(tmp_path, target):
    write_tree(tmp_path, {"c/d/f": b"1"})
    (tmp_path / "c" / "d" / "loop").symlink_to(target)
    with pytest.raises(FolderError) as caught:
        TreeSource(tmp_path).units(1)
    assert str(caught.value).startswith(f"{tmp_path}/c/d/loop: leads back to {tmp_path}")
    assert "Remove the link" in str(caught.value)


def test_two_links_that_make_a_loop(tmp_path):
    write_tree(tmp_path, {"a/f": b"1", "b/g": b"2"})
    (tmp_path / "a" / "to_b").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "to_a").symlink_to(tmp_path / "a")
    with pytest.raises(FolderError, match="the tree has no end"):
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
    assert line.endswith("device, pipe, socket")


def test_all_problems_at_once(tmp_path):
    write_tree(tmp_path, {"c/f": b"1"})
    for index in range(25):
        (tmp_path / "c" / f"{index:02}").symlink_to("gone")
    (tmp_path / "c" / "self").symlink_to("self")
    with pytest.raises(SourceError) as caught:
        TreeSource(tmp_path).fingerprint()
    text = str(caught.value)
    assert text.startswith(
        f"{tmp_path}: 26 files or directories cannot be read: c/00 (No such file or directory), c/01"
    )
    assert "c/19 (No such file or directory) and 6 more." in text
    assert len(caught.value.problems) == 26
    assert caught.value.problems[-1] == "c/self (Too many levels of symbolic links)"
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


def test_no_such_directory(tmp_path):
    with pytest.raises(FolderError, match=r"gone: the directory cannot be listed \(No such file"):
        TreeSource(tmp_path / "gone").units(1)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FolderError, match=r"\(Not a directory\)"):
        TreeSource(tmp_path / "file").units(1)


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
    with pytest.raises(SourceError) as caught:
        next(units[0].members()).read()
    assert str(caught.value).startswith(f"{tmp_path}/f: ")
    assert text in str(caught.value)


def test_fifo_that_somebody_writes_to(tmp_path):
    write_tree(tmp_path, {"f": b"1234"})
    units = TreeSource(tmp_path).units(1)
    change_to_fifo(tmp_path / "f")
    writer = os.open(tmp_path / "f", os.O_RDWR)
    try:
        with pytest.raises(SourceError, match="has 0 bytes now"):
            next(units[0].members()).read()
    finally:
        os.close(writer)


def test_too_large_is_refused_when_it_is_read(tmp_path):
    write_tree(tmp_path, {"f": b"1234", "g": b"123"})
    os.truncate(tmp_path / "f", (2 << 30) + 1)  # holes: it takes no room
    big, small = (member for unit in TreeSource(tmp_path).units(100) for member in unit.members())
    assert small.read() == b"123"
    with pytest.raises(SourceError, match="2,147,483,649 bytes; 1,073,741,824 are the limit"):
        big.read()


def test_names_that_are_no_text(tmp_path):
    name = os.fsdecode(b"caf\xe9.jpg")
    try:
        (tmp_path / name).write_bytes(b"1")
    except OSError as err:
        pytest.skip(f"this file system takes only UTF-8 names: {err}")
    source = TreeSource(tmp_path)
    assert read(source) == [("caf\udce9.jpg", b"1")]
    assert source.fingerprint()
    with tarfile.open(tmp_path / "t.tar", "w", encoding="utf-8", errors="surrogateescape") as archive:
        archive.add(tmp_path / name, name)
    assert read(ArchiveSource(tmp_path / "t.tar")) == read(TreeSource(tmp_path, [name]))


PART = st.text(string.ascii_lowercase[:4] + "-._ é", min_size=1, max_size=3).filter(lambda part: part.strip(".") != "")
TREES = st.dictionaries(st.lists(PART, min_size=2, max_size=4).map("/".join), st.binary(max_size=700), max_size=12)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TREES)
def test_archives_equal_the_tree_and_torchvision_lists_it_so(files):
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        base.mkdir()
        for name, data in files.items():
            try:
                write_tree(base, {name: data})
            except (NotADirectoryError, FileExistsError, IsADirectoryError):
                continue  # "a" is a file and "a/b" wants it to be a directory
        from_tree = read(TreeSource(base))
        assert [name for name, _ in from_tree] == walked(base)
        assert_torchvision_order(base, [name for name, _ in from_tree])
        for mode in ("w", "w:gz"):
            with tarfile.open(Path(folder, "tar"), mode) as archive:
                archive.add(base, ".")
            assert sorted(read(ArchiveSource(Path(folder, "tar")))) == sorted(from_tree)
        with zipfile.ZipFile(Path(folder, "zip"), "w") as archive:
            for path in base.rglob("*"):
                archive.write(path, path.relative_to(base))
        assert sorted(read(ArchiveSource(Path(folder, "zip")))) == sorted(from_tree)
        with tarfile.open(Path(folder, "tar")) as archive:  # what the standard library sees in it
            found = {Path(i.name).as_posix(): archive.extractfile(i).read() for i in archive if i.isreg()}
        assert found == dict(from_tree)


def assert_torchvision_order(base: Path, names: list[str]) -> None:
    classes = sorted(entry.name for entry in os.scandir(base) if entry.is_dir())
    if not classes:
        return
    indexes = {name: index for index, name in enumerate(classes)}
    samples = make_dataset(base, indexes, is_valid_file=lambda _: True, allow_empty=True)
    for name in classes:
        theirs = [os.path.relpath(path, base) for path, index in samples if index == indexes[name]]
        assert [found for found in names if found.split("/")[0] == name] == theirs


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.text(min_size=1, max_size=150), st.binary(max_size=1100), max_size=5), st.sampled_from([1, 2])
)
def test_tar_agrees_with_tarfile(files, format):
    """Names that no file system would take, as tarfile writes and reads them (GNU and pax headers)."""
    files = {name.replace("/", "_"): data for name, data in files.items() if name.strip("./") and "\0" not in name}
    files = {name: data for name, data in files.items() if name[1:2] != ":" and name[0] != "\\"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format, encoding="utf-8") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with tempfile.NamedTemporaryFile() as file:
        file.write(buffer.getvalue())
        file.flush()
        assert dict(read(ArchiveSource(Path(file.name)))) == files


def test_a_directory_that_is_called_an_image(tmp_path):
    write_tree(tmp_path, {"a/1.jpg/x.jpg": b"1", "a/2.jpg": b"2", "b.jpg/3.jpg": b"3"})
    names = [name for name, _ in read(TreeSource(tmp_path, wanted=is_class_image))]
    assert names == ["a/2.jpg", "a/1.jpg/x.jpg", "b.jpg/3.jpg"]
    assert_torchvision_order(tmp_path, names)


def test_what_is_not_wanted_is_not_looked_at(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"one")
    (tmp_path / "a" / ".#1.jpg.lock").symlink_to("nobody@nowhere.1")
    with pytest.raises(SourceError, match="lock"):
        TreeSource(tmp_path).fingerprint()
    assert read(TreeSource(tmp_path, wanted=is_class_image)) == [("a/1.jpg", b"one")]
