"""Damaged and hostile record sets: an error or the right bytes, never others, never a dead process, never foreign code.

The cases are made, read and verified by `tests.fakes.damage` in other processes, under an audit hook.
"""

import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordzoo.errors import CorruptRecordError
from recordzoo.records import shard as layout
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import RecordReader
from recordzoo.records.writer import strangers
from tests import fuzz
from tests.fakes import mutants
from tests.fakes.damage import good_set
from tests.fakes.records import some_values, write_records
from tests.running import printed, python


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return good_set(tmp_path_factory.mktemp("good") / "good.records")


def run(group: str, good: Path, work: Path, how: str, first: int = 0, step: int = 1) -> list[str]:
    """Run cases of a group in a process of their own; return what was wrong and, first, the case that it died of."""
    words = ("-W", "error", "-m", "tests.fakes.damage", group, good, work, how, first, step)
    done = python(*words, timeout_s=1200)
    lines = done.stdout.splitlines()
    wrong, case = [], "before the first case"
    for line in lines:
        if line.startswith("case "):
            case = line
        elif line.startswith("wrong "):
            wrong.append(f"{case}: {line}")
    if done.returncode or lines[-1:] != ["end"]:
        wrong.insert(0, f"{case}: died with {done.returncode}: {done.stderr[-3000:]}")
    return wrong


GROUPS = ["cuts", "replacements", "flips", "manifests", "forgeries"]


@pytest.mark.parametrize("group", [*GROUPS[:1], *(pytest.param(group, marks=pytest.mark.slow) for group in GROUPS[1:])])
def test_reading_gives_an_error_or_the_right_bytes(good: Path, tmp_path: Path, group: str) -> None:
    """Every 4th cut, every 10th of the others; the slow test reads all of them, and checks them fully."""
    assert run(group, good, tmp_path, "quick", 0, 4 if group == "cuts" else 10) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("group", GROUPS)
def test_a_full_check_survives_and_finds_all(good: Path, tmp_path: Path, group: str, part: int) -> None:
    assert run(group, good, tmp_path, "full", part, 2) == []


class TestExtra:
    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("manifest.json")])
    def test_what_is_no_file_is_as_if_it_were_not_there(self, good: Path, tmp_path: Path, make: Any) -> None:
        folder = tmp_path / "x.records"
        shutil.copytree(good, folder)
        assert RecordReader(folder).extra("tree.json") is None
        make(folder / "tree.json")
        assert RecordReader(folder).extra("tree.json") is None

    @pytest.mark.timeout(60)
    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
    def test_names_of_others_are_told_without_the_manifest(self, good: Path, tmp_path: Path, make: Any) -> None:
        folder = tmp_path / "x.records"
        shutil.copytree(good, folder)
        (folder / "manifest.json").unlink()
        make(folder / "manifest.json")
        (folder / "notes.txt").write_text("mine")
        assert strangers(folder) == ["notes.txt"]

    def test_a_file_that_is_too_large_is_not_read(self, good: Path, tmp_path: Path) -> None:
        folder = tmp_path / "x.records"
        shutil.copytree(good, folder)
        (folder / "tree.json").write_bytes(b"12345")
        assert RecordReader(folder).extra("tree.json") == b"12345"
        assert RecordReader(folder).extra("tree.json", 5) == b"12345"
        assert RecordReader(folder).extra("tree.json", 4) is None

    @pytest.mark.parametrize(
        "text", ['{"a": Infinity}', '{"/etc": 1, "../x": 1, "a\\u0000b": 1}', "[1]", "[" * 100_000, '{"a": 1e999}']
    )
    def test_a_strangers_tree_file_is_ignored(self, tmp_path: Path, text: str) -> None:
        """The file in which `ImageFolderRecord` remembers when a tree's directories changed."""
        from recordzoo.preparing.changes import find_changes

        folder = write_records(tmp_path / "x.records", some_values(3))
        document = f'{{"root": "{tmp_path}", "directories": {text}}}'
        (folder / "tree.json").write_text(document)
        assert not find_changes(RecordReader(folder), tmp_path)


UNREADABLE = """
import os, sys
import recordzoo.records.reader, recordzoo.records.verify
from recordzoo.errors import RecordError
from tests.users import become
if os.getuid() == 0:
    become(65534, 65534)
print(recordzoo.records.verify.verify(sys.argv[1]).problems)
try:
    recordzoo.records.reader.RecordReader(sys.argv[1]).read("image", 0)
except RecordError as err:
    print(err)
"""


def test_a_file_that_may_not_be_opened_is_named() -> None:
    """As another user where this one is root, who may open anything."""
    with tempfile.TemporaryDirectory() as name:  # pytest's folders are private
        Path(name).chmod(0o755)
        folder = write_records(Path(name) / "x.records", some_values(3))
        (folder / "shard-00000.lmdb").chmod(0)
        lines = printed(UNREADABLE, folder).splitlines()
    assert len(lines) == 2
    assert all("shard-00000.lmdb cannot be opened: Permission denied" in line for line in lines)


# Random manifests and pages, the same ones each time; `tests.fuzz` tries others each time.


@pytest.mark.slow
@settings(max_examples=400)
@given(data=st.data())
def test_any_change_to_a_manifest_is_read_or_refused(good: Path, scratch: Path, data: st.DataObject) -> None:
    scratch.write_bytes(data.draw(mutants.manifests((good / MANIFEST_NAME).read_bytes())))
    fuzz.check_manifest(scratch)


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data())
def test_any_page_is_walked_or_refused(shard_bytes: bytes, scratch: Path, data: st.DataObject) -> None:
    scratch.write_bytes(data.draw(mutants.shards(shard_bytes)))
    fuzz.check_pages(scratch)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "input"


@pytest.fixture(scope="module")
def shard_bytes(good: Path) -> bytes:
    return (good / "shard-00000.lmdb").read_bytes()


@pytest.mark.parametrize("entries", [None, 1 << 60])
def test_a_tree_with_more_values_than_its_file_can_hold_is_not_gathered(
    shard_bytes: bytes, entries: int | None
) -> None:
    """A branch leads to one leaf again and again, in which every node is the same: 500 million values in 1 GiB."""
    page, data = os.sysconf("SC_PAGE_SIZE"), bytearray(shard_bytes)
    nodes = (page - 16 - 20) // 2

    def write(number: int, flags: int, node: bytes) -> None:
        pointers = struct.pack("<H", page - 20) * nodes
        head = struct.pack("<QHHHH", number, 0, flags, 16 + 2 * nodes, page - 20)
        data[number * page : (number + 1) * page] = head + pointers + node

    write(2, 1, struct.pack("<HHHHI8x", 3, 0, 0, 4, 0))
    write(3, 2, struct.pack("<HHHHI8x", 0, 0, 0, 4, 0))
    for head in (0, page):
        struct.pack_into("<Q", data, head + 16 + 24 + 48 + 40, 2)  # the root
        if entries is not None:
            struct.pack_into("<Q", data, head + 16 + 24 + 48 + 32, entries)
    taken = []

    def read(begin: int, end: int) -> bytes:
        taken.append(begin)
        return bytes(data[begin:end])

    with pytest.raises(CorruptRecordError, match="values"):
        layout.walk(read, 1 << 30, "here")
    assert len(taken) < 100


def test_a_tree_that_shares_its_pages_is_not_walked_for_ever(shard_bytes: bytes) -> None:
    """A branch page that leads to itself 400 times over would be walked 400 ** 32 times."""
    page = os.sysconf("SC_PAGE_SIZE")
    meta = layout.read_meta(shard_bytes, "here")
    changed = bytearray(shard_bytes)
    for head in (0, page):
        changed[head + 16 + 24 + 96 : head + 16 + 24 + 104] = ((1 << 62) - 1).to_bytes(8, "little")  # its last page
    root = meta.root * page
    lower = int.from_bytes(changed[root + 12 : root + 14], "little")
    for at in range(root + 16, root + lower, 2):
        node = root + int.from_bytes(changed[at : at + 2], "little")
        changed[node : node + 6] = meta.root.to_bytes(6, "little")
    with pytest.raises(CorruptRecordError, match="runs in a circle"):
        layout.walk(lambda begin, end: bytes(changed[begin:end]), len(changed), "here")
