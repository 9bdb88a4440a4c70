"""`recordzoo.base`: what differs between systems, each part tried with and without what POSIX has."""

import ast
import errno
import ntpath
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recordzoo.base import files
from recordzoo.base import process as processes
from recordzoo.base import text as names
from recordzoo.base.files import existing
from recordzoo.errors import PrepareError
from recordzoo.preparing.publish import Output, disk_error
from recordzoo.records import arrays, manifest
from tests import posix
from tests.running import python

PACKAGE = Path(__file__).parent.parent / "recordzoo"
SYSTEM = {PACKAGE / "base" / f"{name}.py" for name in ("files", "process", "settings", "text")}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path not in SYSTEM)
OF_MODULES = {
    "os": posix.FUNCTIONS | posix.FLAGS | {"rename", "replace", "supports_dir_fd", "symlink", "name"},
    "signal": posix.SIGNALS,
    "mmap": posix.MAP_FLAGS,
    "sys": {"platform"},
    "ctypes": {"WinDLL", "windll"},
}
"""Attributes that only these modules of `base` use. Renames behave otherwise on Windows; links need rights there."""


def absent_somewhere(path: Path) -> set[str]:
    """Find what a module uses that some systems lack."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in OF_MODULES.get(node.value.id, ()):
                found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {f"{node.module}.{a.name}" for a in node.names if a.name in OF_MODULES.get(node.module or "", ())}
            found |= {node.module or ""} & posix.MODULES
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & posix.MODULES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            text = node.value
            if re.fullmatch(r"/(proc|sys|dev)/\S*", text) or text in posix.FLAGS | posix.FUNCTIONS - {"sync", "wait"}:
                found.add(repr(text))
    return found


def test_only_those_of_base_ask_for_what_some_systems_lack() -> None:
    assert {path: found for path in MODULES if (found := absent_somewhere(path))} == {}


def test_the_walk_above_finds_something() -> None:
    words = (PACKAGE / "base" / "files.py").read_text(encoding="utf-8")
    assert all(word in words for word in ('"pread"', "posix_fadvise", "os.rename", "/proc/"))


class TestReading:
    def test_several_threads_read_one_descriptor(self, tmp_path: Path) -> None:
        data = os.urandom(64 << 10)
        (tmp_path / "file").write_bytes(data)
        fd = files.open_file(tmp_path / "file")
        try:
            with ThreadPoolExecutor(8) as pool:
                places = [(offset * 37) % len(data) for offset in range(2000)]
                read = list(pool.map(lambda place: files.seek_and_read(fd, 100, place), places))
        finally:
            os.close(fd)
        assert read == [data[place : place + 100] for place in places]

    @pytest.mark.parametrize("has_flags", [True, False])
    def test_no_link_is_followed(self, has_flags: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not has_flags:
            monkeypatch.setattr(files, "_NOT_THROUGH_LINKS", 0)
        (tmp_path / "file").write_bytes(b"abc")
        (tmp_path / "link").symlink_to("file")
        with pytest.raises(OSError, match="symbolic links") as caught:
            files.open_file(tmp_path / "link")
        assert caught.value.errno == errno.ELOOP
        with pytest.raises(OSError, match="symbolic links"):
            files.open_to_write(tmp_path / "link")
        assert (tmp_path / "file").read_bytes() == b"abc"
        os.close(files.open_file(tmp_path / "file"))
        assert files.is_link(tmp_path / "link")
        assert not files.is_link(tmp_path / "file")
        assert not files.is_link(tmp_path / "nothing")

    def test_a_directory_that_is_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "_HAS_DIRECTORIES", False)
        assert files.open_directory(tmp_path) is None
        with pytest.raises(FileNotFoundError):
            files.open_directory(tmp_path / "nothing")

    def test_a_file_number_of_128_bits_fits_64(self) -> None:
        class Status:
            st_ino = (5 << 64) + 7

        assert files.inode(Status()) == 5 ^ 7  # type: ignore[arg-type]  # that is all it looks at
        assert files.inode(os.stat(PACKAGE)) == os.stat(PACKAGE).st_ino


class TestRenaming:
    def test_what_is_in_use_is_tried_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "_WAITS_S", (0, 0, 0))
        rename, refused = os.rename, []

        def busy(source: Path, target: Path) -> None:
            if len(refused) < 3:
                refused.append(in_use())
                raise refused[-1]
            rename(source, target)

        monkeypatch.setattr(os, "rename", busy)
        (tmp_path / "a").write_text("x")
        files.rename(tmp_path / "a", tmp_path / "b")
        assert (tmp_path / "b").read_text() == "x"

    def test_at_last_it_is_an_error_that_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "_WAITS_S", (0, 0))

        def busy(source: Path, target: Path) -> None:
            raise in_use(source)

        monkeypatch.setattr(os, "replace", busy)
        with pytest.raises(PermissionError) as caught:
            files.replace(tmp_path / "a", tmp_path / "b")
        err = disk_error(caught.value, Output(tmp_path / "x.records"), 0)
        assert type(err) is PrepareError
        assert f"{tmp_path / 'a'} is in use" in str(err)
        assert "close the datasets and programs" in str(err)

    def test_other_refusals_are_not_tried_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = []

        def refuse(source: Path, target: Path) -> None:
            calls.append(source)
            raise PermissionError(errno.EACCES, "no")

        monkeypatch.setattr(os, "rename", refuse)
        with pytest.raises(PermissionError):
            files.rename(tmp_path / "a", tmp_path / "b")
        assert len(calls) == 1

    def test_on_windows_an_empty_target_gives_way(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "WINDOWS", True)
        rename = os.rename

        def as_there(source: Path, target: Path) -> None:
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, "exists", str(target))
            rename(source, target)

        monkeypatch.setattr(os, "rename", as_there)
        for name in ("made", "empty", "full", "elsewhere"):
            (tmp_path / name).mkdir()
        (tmp_path / "full" / "file").touch()
        with pytest.raises(FileExistsError):
            files.rename(tmp_path / "made", tmp_path / "full")
        (tmp_path / "link").symlink_to("elsewhere")
        with pytest.raises(FileExistsError):
            files.rename(tmp_path / "made", tmp_path / "link")
        files.rename(tmp_path / "made", tmp_path / "empty")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "empty", "full", "link"]


def in_use(path: Path | None = None) -> PermissionError:
    """Make the error that Windows gives for a file that a program has open."""
    err = PermissionError(errno.EACCES, "The process cannot access the file", str(path))
    err.winerror = 32  # type: ignore[attr-defined]  # typeshed has it on Windows only
    return err


def test_a_file_is_cut_behind_its_last_page_and_never_made_longer(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abcdef")
    files.cut(tmp_path / "file", 8)
    assert (tmp_path / "file").read_bytes() == b"abcdef"
    files.cut(tmp_path / "file", 4)
    assert (tmp_path / "file").read_bytes() == b"abcd"


def test_a_drive_that_does_not_exist_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert existing(Path("/nowhere/at/all")) == Path("/")


class TestNames:
    @pytest.mark.parametrize(
        ("name", "kept"),
        [
            ("1.jpg", "1.jpg"),
            ("..\\..\\evil.jpg", ".._.._evil.jpg"),
            ('a:b*?"<>|.jpg', "a_b______.jpg"),
            ("NUL", "_NUL"),
            ("com1.jpg", "_com1.jpg"),
            ("...", "_"),
            ("ä ö. ", "ä ö"),
        ],
    )
    def test_names_of_files(self, name: str, kept: str) -> None:
        assert names.as_file_name(name, windows=True) == kept
        assert names.as_file_name(name, windows=False) == name

    @pytest.mark.parametrize(
        ("name", "is_one"),
        [("cat/nul.jpg", True), ("con", True), ("a\\LPT1", True), ("cat/aux /1.jpg", True), ("cat/console.jpg", False)],
    )
    def test_devices(self, name: str, is_one: bool) -> None:
        assert names.is_device(name, windows=True) == is_one
        assert not names.is_device(name, windows=False)

    @pytest.mark.parametrize(
        "name", ["..\\x.jpg", "a\\..\\..\\x.jpg", "\\x.jpg", "C:x.jpg", "\\\\server\\share\\x", "a/nul", "/x", "../x"]
    )
    def test_names_that_lead_out_there(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(arrays.os, "sep", "\\")
        monkeypatch.setattr(arrays.os.path, "splitdrive", ntpath.splitdrive)
        monkeypatch.setattr(arrays, "is_device", lambda name: names.is_device(name, windows=True))
        assert arrays.leads_out(name)
        assert not arrays.leads_out("a\\b/c.jpg")

    def test_names_of_fields(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = ("age", "nul", "split", "Age", "names", "")
        assert list(filter(manifest.is_field_name, given)) == (["age"] if names.WINDOWS else ["age", "nul"])
        monkeypatch.setattr(manifest, "is_device", lambda name: names.is_device(name, windows=True))
        assert list(filter(manifest.is_field_name, given)) == ["age"]

    def test_words_of_command_lines(self) -> None:
        words = ["C:\\data\\my photos", "D:\\x", "a&b", ""]
        assert [names.quote(word, windows=True) for word in words] == ['"C:\\data\\my photos"', "D:\\x", '"a&b"', '""']
        assert [names.quote(word, windows=False) for word in ("my photos", "x")] == ["'my photos'", "x"]


class TestProcesses:
    def test_dying(self) -> None:
        code = "from recordzoo.base.process import die\ntry: die()\nfinally: print('not reached')"
        done = python("-c", code)
        assert (done.stdout, bool(done.returncode)) == ("", True)

    def test_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        assert processes.cores() == os.cpu_count()
        monkeypatch.setattr(os, "cpu_count", lambda: None)
        assert processes.cores() == 1
