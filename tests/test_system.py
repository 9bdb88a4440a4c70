"""`recordzoo.base`: what differs between systems, each part tried with and without what POSIX has."""

import errno
import ntpath
import os
from pathlib import Path

import pytest

from recordzoo.base import files
from recordzoo.base import text as names
from recordzoo.errors import PrepareError
from recordzoo.preparing.publish import Output, disk_error
from recordzoo.records import arrays


class TestReading:
    @pytest.mark.parametrize("has_flags", [True, False])
    def test_no_link_is_followed(self, has_flags: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not has_flags:
            monkeypatch.setattr(files, "_NOT_THROUGH_LINKS", 0)
        (tmp_path / "file").write_bytes(b"abc")
        (tmp_path / "link").symlink_to("file")
        with pytest.raises(OSError, match="symbolic links") as caught:
            files.open_file(tmp_path / "link")
        assert caught.value.errno == errno.ELOOP
        os.close(files.open_file(tmp_path / "file"))


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
            files.move(tmp_path / "a", tmp_path / "b")
        err = disk_error(caught.value, Output(tmp_path / "x.records"))
        assert type(err) is PrepareError
        assert f"{tmp_path / 'a'} is in use" in str(err)
        assert "close the datasets and programs" in str(err)

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
        (tmp_path / "link").symlink_to("elsewhere")
        for name in ("full", "link"):
            with pytest.raises(FileExistsError):
                files.rename(tmp_path / "made", tmp_path / name)
        files.rename(tmp_path / "made", tmp_path / "empty")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "empty", "full", "link"]


def in_use(path: Path | None = None) -> PermissionError:
    """Make the error that Windows gives for a file that a program has open."""
    err = PermissionError(errno.EACCES, "The process cannot access the file", str(path))
    err.winerror = 32  # type: ignore[attr-defined]  # typeshed has it on Windows only
    return err


class TestNames:
    @pytest.mark.parametrize(
        ("name", "kept"),
        [
            ("1.jpg", "1.jpg"),
            ("..\\..\\evil.jpg", ".._.._evil.jpg"),
            ('a:b*?"<>|.jpg', "a_b______.jpg"),
            ("com1.jpg", "_com1.jpg"),
            ("...", "_"),
            ("ä ö. ", "ä ö"),
        ],
    )
    def test_names_of_files(self, name: str, kept: str) -> None:
        assert names.as_file_name(name, windows=True) == kept
        assert names.as_file_name(name, windows=False) == name

    def test_devices(self) -> None:
        found = ["cat/nul.jpg", "con", "a\\LPT1", "cat/aux /1.jpg", "cat/console.jpg"]
        assert [name for name in found if names.is_device(name, windows=True)] == found[:4]
        assert not any(names.is_device(name, windows=False) for name in found)

    @pytest.mark.parametrize(
        "name", ["..\\x.jpg", "a\\..\\..\\x.jpg", "\\x.jpg", "C:x.jpg", "\\\\server\\share\\x", "a/nul", "/x", "../x"]
    )
    def test_names_that_lead_out_there(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(arrays.os, "sep", "\\")
        monkeypatch.setattr(arrays.os.path, "splitdrive", ntpath.splitdrive)
        monkeypatch.setattr(arrays, "is_device", lambda name: names.is_device(name, windows=True))
        assert arrays.leads_out(name)
        assert not arrays.leads_out("a\\b/c.jpg")

    def test_words_of_command_lines(self) -> None:
        words = ["C:\\data\\my photos", "D:\\x", "a&b", ""]
        assert [names.quote(word, windows=True) for word in words] == ['"C:\\data\\my photos"', "D:\\x", '"a&b"', '""']
        assert [names.quote(word, windows=False) for word in ("my photos", "x")] == ["'my photos'", "x"]
