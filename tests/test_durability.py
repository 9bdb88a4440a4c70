import re
from pathlib import Path
from typing import Any

import pytest

from tests import preparing
from tests.disks import failing, strace
from tests.fakes import simple
from tests.fakes.server import FileServer
from tests.preparing import assert_made_again, served


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
        calls = enumerate(self._calls[:before])
        return max((n for n, call in calls if re.fullmatch(kind, call[0]) and re.search(path, call[1])), default=-1)

    def renames(self, target: str) -> list[int]:
        """Where something got a name that ends so."""
        return [n for n, call in enumerate(self._calls) if call[0].startswith("rename") and re.search(target, call[2])]


SYNC = "fsync|fdatasync|msync"
WRITE = "write|pwrite64|writev|pwritev|pwritev2|ftruncate"


# Any: options of a `Process`.
def traced(root: Path, form: str, log: Path, **options: Any) -> Calls:
    """Prepare, and return the system calls that changed files."""
    kinds = "openat,write,pwrite64,writev,pwritev,ftruncate,fsync,fdatasync,msync,rename,renameat,renameat2,unlink"
    prefix = (strace(), "-f", "-qq", "-y", "-s", "300", "-e", f"trace={kinds}", "-e", "signal=none", "-o", str(log))
    assert preparing.run(root, form, prefix=prefix, **options).digest
    return Calls(log.read_text(), root)


def test_a_download_is_synced_before_it_has_its_name(tmp_path: Path) -> None:
    archive = simple.write(tmp_path / "server", "stream")
    root = tmp_path / "root"
    with FileServer(tmp_path / "server") as server:
        calls = traced(root, "stream", tmp_path / "log", **served(archive, server.url))
    part = rf"{archive.name}\.part$"
    (named,) = calls.renames(rf"/{archive.name}$")
    assert -1 < calls.last(WRITE, part, named) < calls.last("fsync", part, named) < named
    synced = calls.place("fsync", rf"^{re.escape(str(root))}$", after=named)
    # Nothing is converted, let alone published, from a file that a power cut could still take away.
    assert named < synced < calls.place("write", r"plan\.json\.new$")


@pytest.mark.slow
@pytest.mark.parametrize(("form", "workers"), [("stream", 1), ("tree", 2)])
def test_synced_then_renamed_then_the_directory_synced(form: str, workers: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    simple.write(root, form)
    calls = traced(root, form, tmp_path / "log", workers=workers)
    build = r"simple\.records\.build"

    shards = calls.renames(rf"{build}/u\d+-\d+\.lmdb$")
    assert len(shards) == len(list((root / "simple.records").glob("*.lmdb")))
    for renamed in shards:
        name = re.escape(Path(calls._calls[renamed][2]).stem)
        temporary = rf"{name}\.\w+\.tmp$"
        synced = calls.last(SYNC, temporary, renamed)
        assert calls.last(WRITE, temporary, renamed) < synced < renamed
        (facts,) = calls.renames(rf"{name}\.npz$")
        aside = rf"{name}\.npz\.\w+\.tmp$"
        assert renamed < calls.last(WRITE, aside, facts) < calls.last(SYNC, aside, facts) < facts
        assert calls.place("fsync", rf"{build}$", after=facts) > facts

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


FAILS = ("EIO", "PrepareError", "Input/output error")
IS_USED_UP = ("EDQUOT", "DiskSpaceError", "(Disk quota exceeded): ")


@pytest.mark.parametrize(
    ("call", "when", "fault"),
    [
        ("fdatasync", "2", FAILS),  # of a shard
        ("fsync", "1", FAILS),  # of the plan
        *(("fsync", when, FAILS) for when in "46"),  # of facts and directories
        ("pwrite64,pwritev", "3+", FAILS),
        ("pwrite64,pwritev", "3+", IS_USED_UP),
    ],
)
def test_a_disk_that_fails(
    call: str, when: str, fault: tuple[str, str, str], whole: dict[str, str], tmp_path: Path
) -> None:
    """From the n-th call on: what was written then is thrown away and made again, nothing is published."""
    simple.write(tmp_path, "stream")
    name, kind, said = fault
    error = preparing.run(tmp_path, "stream", prefix=failing(call, name, when), workers=1).error
    assert error["type"] == kind, error
    assert said in error["text"]
    assert "run the same command again" in error["text"]
    assert not (tmp_path / "simple.records").exists()
    assert not list(tmp_path.glob("*/*.tmp"))
    assert_made_again(tmp_path, "stream", whole)
