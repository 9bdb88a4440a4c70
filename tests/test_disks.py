"""Preparing on disks that are full, limited, read-only or odd: real volumes, real limits, other users."""

import contextlib
import errno
import functools
import os
import resource
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recordzoo
from recordzoo.base import files
from recordzoo.base.progress import format_bytes
from recordzoo.errors import RecordError
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import stored_bytes
from tests import preparing
from tests.disks import failing, mounted
from tests.fakes import simple
from tests.fakes.folder import write_tree
from tests.fakes.server import FileServer
from tests.preparing import (
    SHARD_BYTES,
    Process,
    again,
    assert_made,
    assert_made_again,
    beside,
    builds,
    contents,
    served,
)
from tests.users import bound_by_permissions

slow = functools.partial(pytest.param, marks=pytest.mark.slow)

MANY = simple.values(num_classes=5, per_class=40, mean_bytes=30_000, seed=5)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a set that was made of the larger tree without any trouble."""
    root = tmp_path_factory.mktemp("wanted")
    simple.write(root, "tree", MANY)
    return contents(again(root, "tree", shard_bytes=1 << 20))


def test_a_full_disk(wanted: dict[str, str], tmp_path: Path) -> None:
    """A volume of 20 MB that is too small from the start."""
    simple.write(tmp_path, "tree", MANY)
    with mounted(tmp_path / "volume", "size=20m") as volume:
        target = volume.path / "simple.records"
        options: dict[str, Any] = {"shard_bytes": 1 << 20, "workers": 1, "records_dir": str(target)}
        ballast = volume.fill(leave=1 << 20)
        error = preparing.run(tmp_path, "tree", **options).error
        size = sum(stored_bytes(len(data)) for data in MANY.values())
        assert error["type"] == "DiskSpaceError"
        assert error["missing_bytes"] == pytest.approx(size - (1 << 20), abs=20_000)  # the lock file counts
        assert f"and {format_bytes(size)} are needed: {format_bytes(error['missing_bytes'])} more" in error["text"]
        assert [path.name for path in volume.path.iterdir()] == ["ballast"]
        ballast.unlink()
        assert preparing.run(tmp_path, "tree", **options).digest
        assert contents(target) == wanted


@contextlib.contextmanager
def limited(what: int, limit: int) -> Iterator[None]:
    """Lower a limit that child processes inherit."""
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


def test_a_file_size_limit(whole: dict[str, str], tmp_path: Path) -> None:
    """EFBIG, as of a file system that takes no larger files: no shard of that size is ever counted."""
    simple.write(tmp_path, "stream")
    with limited(resource.RLIMIT_FSIZE, 30_000):
        error = preparing.run(tmp_path, "stream", workers=1).error
    assert error["type"] == "DiskSpaceError"
    assert f"No room left in {tmp_path} (File too large): " in error["text"]
    assert not (tmp_path / "simple.records").exists()
    assert not list(tmp_path.glob("*/*.tmp"))
    assert_made_again(tmp_path, "stream", whole)


@pytest.mark.slow
@pytest.mark.parametrize(("error", "kind"), [("ENOSPC", "DiskSpaceError"), ("EIO", "PrepareError")])
def test_a_download_that_cannot_be_put_on_the_disk(error: str, kind: str, tmp_path: Path) -> None:
    """The first sync is that of the downloaded file. Nobody knows which of its bytes are there: all are dropped."""
    archive = simple.write(tmp_path / "server", "stream")
    root = tmp_path / "root"
    with FileServer(tmp_path / "server") as server:
        options = served(archive, server.url)
        ended = preparing.run(root, "stream", prefix=failing("fsync", error, "1"), **options)
        assert ended.error["type"] == kind
        assert os.strerror(getattr(errno, error)) in ended.error["text"]
        assert [path.name for path in root.iterdir()] == []
        assert preparing.run(root, "stream", **options).digest
        assert [request.range for request in server.log] == [None, None]
    assert (root / archive.name).read_bytes() == archive.read_bytes()
    assert recordzoo.verify(root / "simple.records", full=True).ok


def test_a_shard_that_cannot_be_mapped(whole: dict[str, str], tmp_path: Path) -> None:
    """LMDB maps a shard at its full size while it is written."""
    simple.write(tmp_path, "stream")
    with limited(resource.RLIMIT_AS, 4 << 30):
        error = preparing.run(tmp_path, "stream", workers=1, shard_bytes=8 << 30).error
        assert error["type"] == "PrepareError"
        assert "Cannot allocate memory" in error["text"]
        assert preparing.run(tmp_path, "stream", workers=1).digest
    assert_made(tmp_path, "stream", whole)


def test_no_more_files(wanted: dict[str, str], tmp_path: Path) -> None:
    simple.write(tmp_path, "tree", MANY)
    with mounted(tmp_path / "volume", "size=100m,nr_inodes=12") as volume:
        target = volume.path / "simple.records"
        options: dict[str, Any] = {"shard_bytes": 1 << 20, "workers": 1, "records_dir": str(target)}
        error = preparing.run(tmp_path, "tree", **options).error
        assert error["type"] == "DiskSpaceError", error
        assert "(quota, number of files, ulimit -f)" in error["text"]
        assert not target.exists()
        volume.remount("nr_inodes=100")
        assert preparing.run(tmp_path, "tree", **options).digest
        assert contents(target) == wanted


class TestReadOnly:
    @pytest.mark.slow
    def test_a_volume_that_is_read_only(self, whole: dict[str, str], tmp_path: Path) -> None:
        with mounted(tmp_path / "volume", "size=20m") as volume:
            simple.write(volume.path, "stream")
            options: dict[str, Any] = {"workers": 1, "check": True, "prefix": volume.enter}
            volume.remount("ro")
            error = preparing.run(volume.mounted_at, "stream", **options).error
            assert f"{volume.mounted_at} may not be written to (Read-only file system)" in error["text"]
            volume.remount("rw")
            digest = preparing.run(volume.mounted_at, "stream", **options).digest
            volume.remount("ro")
            ended = preparing.run(volume.mounted_at, "stream", **options)
            assert (ended.digest, ended.log) == (digest, "")
            assert contents(volume.path / "simple.records") == whole

    def test_a_download_into_what_is_read_only(self, tmp_path: Path) -> None:
        archive = simple.write(tmp_path / "server", "stream")
        with mounted(tmp_path / "volume", "size=20m") as volume, FileServer(tmp_path / "server") as server:
            volume.remount("ro")
            options = {**served(archive, server.url), "records_dir": str(tmp_path / "simple.records")}
            error = preparing.run(volume.mounted_at, "stream", prefix=volume.enter, **options).error
            assert error["type"] == "PrepareError"
            assert os.strerror(errno.EROFS) in error["text"]
            assert server.log == []
            volume.remount("rw")
            simple.write(volume.path, "stream")
            (volume.path / f".{archive.name}.recordzoo").touch()  # the mark of the file that this one is a copy of
            volume.remount("ro")
            assert preparing.run(volume.mounted_at, "stream", prefix=volume.enter, **options).digest

    def test_a_volume_that_is_mounted_where_the_records_belong(self, tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        with mounted(tmp_path / "simple.records", "size=20m") as volume:
            error = preparing.run(tmp_path, "stream", prefix=volume.enter, workers=1).error
            assert error["type"] == "PrepareError"
            assert f"{volume.mounted_at} is where another volume is mounted" in error["text"]
            assert list(volume.path.iterdir()) == []
            inside = str(volume.mounted_at / "simple.records")
            assert preparing.run(tmp_path, "stream", prefix=volume.enter, workers=1, records_dir=inside).digest
        assert beside(tmp_path, "stream") == ["simple.records"]


def test_renames_whose_answers_are_lost(whole: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file system at hand forgets its answers, so each rename is done and then asked for once more."""

    def twice(original: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def rename(source: Path, target: Path) -> None:
            original(source, target)
            original(source, target)

        return rename

    simple.write(tmp_path, "stream")
    monkeypatch.setattr(os, "rename", twice(os.rename))
    monkeypatch.setattr(os, "replace", twice(os.replace))
    again(tmp_path, "stream")
    assert_made(tmp_path, "stream", whole)
    for data in (b"old", b"new"):
        files.replace_file(tmp_path / "file", data)
        assert (tmp_path / "file").read_bytes() == data


@pytest.mark.parametrize("same", [True, False])
def test_a_set_that_is_there_is_not_renamed_over(same: bool, tmp_path: Path) -> None:
    archive = simple.write(tmp_path / "server", "stream")
    root = tmp_path / "root"
    with FileServer(tmp_path / "server") as server:
        options = {**served(archive, server.url), "locks": False}
        with Process(root, "stream", stop_at="download.received", **options) as second:
            second.wait_until_stopped()
            first = preparing.run(root, "stream", **options, **({} if same else {"shard_bytes": 2 * SHARD_BYTES}))
            published = (root / "simple.records").stat().st_ino
            second.signal(signal.SIGCONT)
            ended = second.end()
    assert ended.digest == first.digest
    assert (root / "simple.records").stat().st_ino == published
    assert "converting simple" in ended.log
    assert ("was published by another process, from other raw data or options" in ended.log) == (not same)
    assert beside(root, "stream") == ["simple.records"]


class TestPlainFileSystems:
    """What network drives and drives of other systems do not have."""

    @pytest.mark.parametrize("refresh", [False, True])
    def test_without_links(self, refresh: bool, whole: dict[str, str], tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        if refresh:
            again(tmp_path, "stream")
        calls = "link,linkat,symlink,symlinkat" + (",renameat2" if refresh else "")
        options = {"prefix": failing(calls, "EINVAL"), "refresh": refresh, "check": True}
        assert preparing.run(tmp_path, "stream", workers=1, **options).digest
        assert_made(tmp_path, "stream", whole)

    @pytest.mark.parametrize("error", ["EINVAL", slow("EOPNOTSUPP")])
    def test_without_syncing_directories(self, error: str, whole: dict[str, str], tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        assert preparing.run(tmp_path, "stream", prefix=failing("fsync", error, path=tmp_path), workers=1).digest
        assert contents(tmp_path / "simple.records") == whole


class TestPermissions:
    @pytest.mark.parametrize("umask", [0o002, 0o027])
    def test_what_the_umask_allows(self, umask: int, tmp_path: Path) -> None:
        archive = simple.write(tmp_path / "server", "stream")
        root = tmp_path / "root"
        root.mkdir(0o777)
        before = os.umask(umask)
        try:
            with FileServer(tmp_path / "server") as server:
                assert preparing.run(root, "stream", **served(archive, server.url)).digest
        finally:
            os.umask(before)
        target = root / "simple.records"
        assert stat.S_IMODE(target.stat().st_mode) == 0o777 & ~umask
        read_bits = 0o444 & ~umask
        for path in [root / archive.name, *target.iterdir()]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert (path.name, mode & 0o444) == (path.name, read_bits)
            assert mode & ~(0o666 & ~umask) == 0, path.name

    @pytest.mark.slow
    @pytest.mark.parametrize("umask", [0o002, 0o077])
    def test_another_member_of_the_group_goes_on(self, umask: int, whole: dict[str, str], shared: Path) -> None:
        """With what a colleague left if it may, and else without it; the lock file is no obstacle."""
        simple.write(shared, "stream")
        killed = {"env": {"RECORDZOO_KILL_AT": "shard.done:3"}, "workers": 1}
        assert preparing.run(shared, "stream", user=[4001, 4321, umask], **killed).code != 0
        (left,) = builds(shared)
        assert (left.stat().st_uid, left.stat().st_gid) == (4001, 4321)
        ended = preparing.run(shared, "stream", user=[4002, 4321, umask], workers=1)
        assert ended.digest == RecordReader(shared / "simple.records").digest
        assert ("are already converted" in ended.log) == (umask == 0o002)
        assert contents(shared / "simple.records") == whole
        if umask != 0o002:  # it is the colleague's, who also may remove it
            assert list(builds(shared)) == [left]
            assert preparing.run(shared, "stream", user=[4001, 4321, umask], workers=1).code == 1

    def test_a_directory_that_may_not_be_entered(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # another user may not enter what is above
        write_tree(Path("closed/photos"))
        for path in recordzoo.prepare("closed/photos"):
            assert recordzoo.verify(path).ok  # all is imported now
        tmp_path.chmod(0o755)
        Path("closed").chmod(0)
        with bound_by_permissions(), pytest.raises(RecordError, match=r"may not be read \(Permission denied\): it bel"):
            recordzoo.prepare("closed/photos")
        with bound_by_permissions(), pytest.raises(RecordError, match=r"cannot be opened: Permission denied\.") as err:
            recordzoo.verify("closed/photos.records")
        assert err.type is RecordError  # and not damaged
        Path("closed").chmod(0o755)

    @pytest.fixture
    def shared(self) -> Iterator[Path]:
        """A directory of group 4321, which hands itself on; pytest's own are private."""
        if os.getuid() != 0:
            pytest.skip("only root may become other users")
        with tempfile.TemporaryDirectory() as name:
            os.chown(name, -1, 4321)
            Path(name).chmod(0o2775)
            yield Path(name)
