import contextlib
import errno
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recordzoo.prepare import ensure
from recordzoo.progress import format_bytes
from recordzoo.records.shard import stored_bytes
from tests import preparing
from tests.fakes import simple
from tests.fakes.simple import SimpleRecipe
from tests.preparing import SHARD_BYTES, Process, beside, contents


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("RECORDZOO_"):
            monkeypatch.delenv(name)


# Any: the options of `ensure`.
def again(root: Path, form: str, **options: Any) -> Path:
    """The same command again, here, to its end."""
    return ensure(SimpleRecipe(form), root, **{"shard_bytes": SHARD_BYTES, "workers": 1, **options})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a set that was made of the stream without any trouble."""
    root = tmp_path_factory.mktemp("whole")
    simple.write(root, "stream")
    return contents(again(root, "stream"))


@pytest.fixture(scope="session")
def strace() -> str:
    path = shutil.which("strace")
    if path is None:
        pytest.skip("strace is not installed")
    if subprocess.run([path, "-qq", "-o", os.devnull, "true"], capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    return path


class Calls:
    """The system calls of a traced preparation that changed files, in order, as (call, path, second path)."""

    def __init__(self, log: str, root: Path) -> None:
        self._calls: list[tuple[str, str, str]] = []
        begun: dict[str, str] = {}
        for line in log.splitlines():
            process, _, text = line.partition(" ")
            if text.endswith(" <unfinished ...>"):
                begun[process] = text.removesuffix(" <unfinished ...>")
                continue
            if " resumed>" in text:
                text = begun.pop(process) + text.partition(" resumed>")[2]
            match = re.match(r" *(\w+)\((.*)\) += (-?\d+)", text)
            if match and int(match[3]) >= 0:
                paths = [*re.findall(rf"{re.escape(str(root))}[^\"<>]*", match[2]), "", ""]
                if paths[0]:
                    self._calls.append((match[1], paths[0], paths[1]))

    def place(self, kind: str, path: str, second: str = "", after: int = -1) -> int:
        """Where the first call of a kind on these paths (as patterns) is, after a place."""
        for number, call in enumerate(self._calls):
            right = re.fullmatch(kind, call[0]) and re.search(path, call[1]) and re.search(second, call[2])
            if number > after and right:
                return number
        raise AssertionError(f"no {kind} of {path} {second} after call {after}")

    def last(self, kind: str, path: str, before: int) -> int:
        """Where the last call of a kind on a path is, before a place; -1 if there is none."""
        found = [
            number
            for number, call in enumerate(self._calls[:before])
            if re.fullmatch(kind, call[0]) and re.search(path, call[1])
        ]
        return found[-1] if found else -1

    def renames(self, target: str) -> list[int]:
        """Where something got a name that ends so."""
        return [
            number
            for number, call in enumerate(self._calls)
            if call[0].startswith("rename") and re.search(target, call[2])
        ]


SYNC = "fsync|fdatasync|msync"
WRITE = "write|pwrite64|writev|pwritev|pwritev2|ftruncate"


@pytest.mark.parametrize(("form", "workers"), [("stream", 1), ("tree", 2)])
def test_synced_then_renamed_then_the_directory_synced(form: str, workers: int, strace: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    simple.write(root, form)
    log = tmp_path / "log"
    traced = "openat,write,pwrite64,writev,pwritev,ftruncate,fsync,fdatasync,msync,rename,renameat,renameat2,unlink"
    prefix = (strace, "-f", "-qq", "-y", "-s", "300", "-e", f"trace={traced}", "-e", "signal=none", "-o", str(log))
    assert preparing.run(root, form, prefix=prefix, workers=workers).digest
    calls = Calls(log.read_text(), root)
    build = r"simple\.records\.build\.[^/]*"

    shards = calls.renames(rf"{build}/u\d+-s\d+\.lmdb$")
    assert len(shards) == len(list((root / "simple.records").glob("*.lmdb")))
    for renamed in shards:
        name = re.escape(Path(calls._calls[renamed][2]).stem)
        temporary = rf"{name}\.\w+\.tmp$"
        synced = calls.last(SYNC, temporary, renamed)
        assert calls.last(WRITE, temporary, renamed) < synced < renamed
        rows = calls.last(SYNC, rf"{name}\.rows\.npz$", renamed)
        assert -1 < calls.last(WRITE, rf"{name}\.rows\.npz$", renamed) < rows
        directory = calls.place("fsync", rf"{build}$", after=renamed)
        unit, number = int(name[1:6]), int(name.rpartition("s")[2])
        journalled = calls.place("write", r"journal\.jsonl$", after=directory)
        assert calls.place("fsync", r"journal\.jsonl$", after=journalled) > journalled
        assert (unit, number) >= (0, 0)

    published = calls.place("rename", rf"{build}/set$", r"simple\.records$")
    assert calls.renames(r"simple\.records$") == [published]
    manifest = calls.last(SYNC, "set/manifest.json$", published)
    assert calls.last(WRITE, "set/manifest.json$", published) < manifest
    for path in (root / "simple.records").iterdir():
        if path.suffix != ".lmdb" and path.name != "manifest.json" and path.stat().st_size:
            written = calls.last(WRITE, rf"set/{re.escape(path.name)}$", published)
            assert written < calls.last(SYNC, rf"set/{re.escape(path.name)}$", published) < manifest
    assert manifest < calls.last("fsync", rf"{build}/set$", published) < published
    assert calls.place("fsync", rf"^{re.escape(str(root))}$", after=published) > published
    # The plan is what a build is known by.
    plan = calls.place("rename", r"plan\.json\.new$", r"plan\.json$")
    assert calls.last(WRITE, r"plan\.json\.new$", plan) < calls.last(SYNC, r"plan\.json\.new$", plan) < plan
    assert calls.place("fsync", rf"{build}$", after=plan) > plan


@pytest.mark.parametrize(
    ("call", "when"),
    [
        ("fdatasync", "2"),  # of a shard
        ("fsync", "1"),  # of the plan
        ("fsync", "4"),  # of rows, directories and the journal
        ("fsync", "5"),
        ("fsync", "6"),
        ("fsync", "7"),
        ("pwrite64,pwritev", "3+"),
    ],
)
def test_a_disk_that_fails(call: str, when: str, strace: str, whole: dict[str, str], tmp_path: Path) -> None:
    """EIO from the n-th call: what was written then is thrown away and made again, nothing is published."""
    simple.write(tmp_path, "stream")
    prefix = (strace, "-f", "-qq", "-o", os.devnull, "-e", f"inject={call}:error=EIO:when={when}")
    error = preparing.run(tmp_path, "stream", prefix=prefix, workers=1).error
    assert error["type"] == "PrepareError", error
    assert "Input/output error" in error["text"]
    assert "run the same command again" in error["text"]
    assert not (tmp_path / "simple.records").exists()
    assert not list(tmp_path.glob("*/*.tmp"))
    assert contents(again(tmp_path, "stream")) == whole
    assert beside(tmp_path, "stream") == ["simple.records"]


def test_a_file_size_limit(whole: dict[str, str], tmp_path: Path) -> None:
    """EFBIG, as of a file system that takes no larger files: no shard of that size is ever counted."""
    simple.write(tmp_path, "stream")
    with limited(resource.RLIMIT_FSIZE, 30_000):
        error = preparing.run(tmp_path, "stream", workers=1).error
    assert error["type"] in ("PrepareError", "DiskSpaceError")
    assert "run the same command again" in error["text"]
    assert not (tmp_path / "simple.records").exists()
    assert not list(tmp_path.glob("*/*.tmp"))
    assert contents(again(tmp_path, "stream")) == whole
    assert beside(tmp_path, "stream") == ["simple.records"]


@contextlib.contextmanager
def limited(what: int, limit: int) -> Iterator[None]:
    """Lower a limit that child processes inherit."""
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


MANY = simple.values(num_classes=5, per_class=40, mean_bytes=30_000, seed=5)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a set that was made of the larger tree without any trouble."""
    root = tmp_path_factory.mktemp("wanted")
    simple.write(root, "tree", MANY)
    return contents(again(root, "tree", shard_bytes=1 << 20))


class TestFullDisk:
    """A volume of its own of 20 MB, which only processes of one mount namespace see.

    `holder` keeps the namespace; everything that looks into the volume goes through `/proc/<holder>/root`.
    """

    SIZE_BYTES = 20 << 20

    @pytest.fixture
    def volume(self, tmp_path: Path) -> Iterator[Path]:
        if not shutil.which("unshare"):
            pytest.skip("unshare is not installed")
        folder = tmp_path / "volume"
        folder.mkdir()
        script = f"mount -t tmpfs -o size={self.SIZE_BYTES} none {folder} && echo mounted && exec cat"
        for command in (["unshare", "-rm"], ["unshare", "-m"]):
            with subprocess.Popen(
                [*command, "sh", "-c", script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as holder:
                assert holder.stdin is not None
                assert holder.stdout is not None
                if holder.stdout.readline() == b"mounted\n":
                    inside = Path(f"/proc/{holder.pid}/root{folder}")
                    if not os.path.ismount(inside):
                        holder.kill()
                        pytest.skip("the mount namespace of another process cannot be looked into here")
                    yield inside
                    holder.stdin.close()
                    return
                holder.kill()
        pytest.skip("no volume can be mounted here, neither as root nor in a user namespace")

    def prepare(self, root: Path, volume: Path, **arguments: Any) -> Process:
        options = {"shard_bytes": 1 << 20, "workers": 1, "records_dir": str(volume / "simple.records"), **arguments}
        return Process(root, "tree", **options)

    def fill(self, volume: Path, leave: int) -> Path:
        """Another file takes all room but so much."""
        ballast = volume / "ballast"
        with open(ballast, "wb") as file:
            while (free := shutil.disk_usage(volume).free) > leave:
                with contextlib.suppress(OSError):  # others took some of it meanwhile
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free - leave)
        return ballast

    def test_too_small_from_the_start(self, volume: Path, tmp_path: Path) -> None:
        simple.write(tmp_path, "tree", MANY)
        self.fill(volume, leave=1 << 20)
        with self.prepare(tmp_path, volume) as process:
            error = process.end().error
        size = sum(stored_bytes(len(data)) for data in MANY.values())
        assert error["type"] == "DiskSpaceError"
        assert error["missing_bytes"] == pytest.approx(size - (1 << 20), abs=20_000)  # the lock file counts
        assert f"preparing needs {format_bytes(size)}: {format_bytes(error['missing_bytes'])} more" in error["text"]
        assert [path.name for path in volume.iterdir()] == ["ballast"]

    @pytest.mark.parametrize("workers", [1, 2])
    def test_full_in_the_middle(self, workers: int, volume: Path, wanted: dict[str, str], tmp_path: Path) -> None:
        simple.write(tmp_path, "tree", MANY)
        with self.prepare(tmp_path, volume, workers=workers, stop_at="unit.journalled:2") as process:
            process.wait_until_stopped()
            process.signal(signal.SIGSTOP, group=True)
            ballast = self.fill(volume, leave=100_000)
            process.signal(signal.SIGCONT, group=True)
            error = process.end().error
        assert error["type"] == "DiskSpaceError"
        assert "No room left in" in error["text"]
        assert "free some space and run the same command again" in error["text"]
        (build,) = preparing.builds(volume)
        kept = {path.stat().st_ino for path in build.glob("*.lmdb")}
        assert len(kept) >= 2
        assert not list(build.glob("*.tmp"))
        assert not (volume / "simple.records").exists()
        ballast.unlink()
        with self.prepare(tmp_path, volume, workers=workers) as process:
            assert process.end().digest
        assert contents(volume / "simple.records") == wanted
        assert kept <= {path.stat().st_ino for path in (volume / "simple.records").iterdir()}
        assert [path.name for path in volume.iterdir()] == ["simple.records"]

    @pytest.mark.parametrize("step", ["build.claimed", "set.shards_moved", "set.arrays_written", "shard.opened:3"])
    def test_full_at_a_step(self, step: str, volume: Path, wanted: dict[str, str], tmp_path: Path) -> None:
        simple.write(tmp_path, "tree", MANY)
        with self.prepare(tmp_path, volume, stop_at=step) as process:
            process.wait_until_stopped()
            ballast = self.fill(volume, leave=0)
            process.signal(signal.SIGCONT)
            error = process.end().error
        assert error["type"] == "DiskSpaceError", error
        assert os.strerror(errno.ENOSPC) in error["text"]
        assert not (volume / "simple.records").exists()
        ballast.unlink()
        with self.prepare(tmp_path, volume) as process:
            assert process.end().digest
        assert contents(volume / "simple.records") == wanted
        assert [path.name for path in volume.iterdir()] == ["simple.records"]
