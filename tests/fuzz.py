"""Fuzzing what reads strangers' bytes: the manifest, archives, and LMDB's pages, here and in the child of `verify`.

    FUZZ_SECONDS=600 FUZZ_SEED=1234 python -m pytest -m slow tests/test_fuzz.py -k zip
    python -m tests.fuzz zip failed-zip

Inputs are mutated valid ones, drawn by Hypothesis from seeded random bytes, so that a seed gives the same inputs again.
A process of its own tries them, under a wall clock and a limit of memory; nothing but the documented errors may come
out. Of one that breaks something the report has the input itself.
"""

import atexit
import base64
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from recordzoo.errors import ArchiveError, CorruptRecordError, ManifestError
from recordzoo.raw.archive import ArchiveSource, NestedTarSource
from recordzoo.raw.member import Source, plain_name, unpacked_cap
from recordzoo.records import shard as layout
from recordzoo.records.manifest import MANIFEST_NAME, Manifest, parse_manifest
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from tests.fakes import mutants
from tests.fakes.damage import consistent, good_set, limit_memory

REPOSITORY = Path(__file__).resolve().parent.parent
MEMORY_BYTES = 512 << 20
"""How much an input may make the process hold; what it reserves and does not touch may be more."""

_BUFFER_BYTES = (64, 256, 1024)  # of random bytes, from which an input is drawn


def look_at(err: Exception, where: str) -> None:
    """An error says where, and is not as long as a stranger likes."""
    assert str(err).startswith(where), str(err)
    assert len(str(err)) < 3000, len(str(err))


def check_manifest(path: Path) -> None:
    """A manifest, or a `ManifestError` that says where; what is read is written and read as the same."""
    try:
        manifest = parse_manifest(path.read_bytes(), "here")
    except ManifestError as err:
        look_at(err, "here: ")
    else:
        assert isinstance(manifest, Manifest)
        assert parse_manifest(manifest.to_bytes(), "here") == manifest


def check_archive(path: Path) -> None:
    """Members of the sizes that they have, under names that lead nowhere, or an `ArchiveError`."""
    _read_all(ArchiveSource(path), unpacked_cap(path.stat().st_size))


def check_nested(path: Path) -> None:
    """See `check_archive`; tars in a tar."""
    _read_all(NestedTarSource(path), path.stat().st_size)


def _read_all(source: Source, cap_bytes: int) -> None:
    total = 0
    try:
        for unit in source.units(1000):
            for member in unit.members():
                data = member.read()
                assert len(data) == member.size_bytes, (member.name, member.size_bytes, len(data))
                assert member.name == plain_name(member.name) != "", member.name
                total += len(data)
    except ArchiveError as err:
        look_at(err, source.description)
    assert total <= cap_bytes, total


@cache
def good() -> Path:
    """Write a good set, once a process, and remove it when that ends."""
    folder = tempfile.mkdtemp(prefix="recordzoo-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return good_set(Path(folder) / "good.records")


def check_pages(path: Path) -> None:
    """Values inside the file, as many as its head says, or a `CorruptRecordError`."""
    data = path.read_bytes()
    try:
        meta, values = layout.walk(lambda begin, end: data[begin:end], len(data), "here")
    except CorruptRecordError as err:
        look_at(err, "here")
        return
    assert len(values.slots) == len(values.offsets) == len(values.lengths) == meta.entries
    assert bool((values.offsets + values.lengths <= len(data)).all())


def check_shards(path: Path) -> None:
    """`verify` walks LMDB's tree and lives; what is read of such a set is right, or an error.

    The manifest is made to tell the sizes and hashes of the mutated shards.
    """
    data = path.read_bytes()
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        folder = Path(name) / "x.records"
        folder.mkdir()
        for each in good().iterdir():
            os.link(each, folder / each.name)
        names = sorted(each.name for each in good().glob("*.lmdb"))
        for shard in names:
            size = len(data) if shard == names[-1] else (good() / shard).stat().st_size
            piece, data = data[:size], data[size:]
            consistent(shard, lambda _, piece=piece: piece)(folder)  # type: ignore[misc]
        problems = verify(folder, full=True).problems
        assert all(len(problem) < 3000 for problem in problems)
        right, found = RecordReader(good()), RecordReader(folder)
        for position in range(len(right)):
            if right.has("image", position):
                with contextlib.suppress(CorruptRecordError):
                    assert found.read("image", position) == right.read("image", position)
                    continue
                assert problems, f"verify finds nothing, and image {position} cannot be read"


@dataclass(frozen=True)
class Target:
    """What is fuzzed: where its inputs come from, what must be so for each, and how long one may take."""

    inputs: Callable[[], st.SearchStrategy[bytes]]
    check: Callable[[Path], None]
    timeout_s: float = 10.0


def _bytes(pattern: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(good().glob(pattern)))


TARGETS = {
    "manifest": Target(lambda: mutants.manifests(_bytes(MANIFEST_NAME)), check_manifest),
    "tar": Target(mutants.tars, check_archive),
    "nested": Target(mutants.nested_tars, check_nested),
    "zip": Target(mutants.zips, check_archive),
    "pages": Target(lambda: mutants.shards(_bytes("shard-00000.lmdb")), check_pages),
    "lmdb": Target(lambda: mutants.shards(_bytes("*.lmdb")), check_shards, 60.0),
}


def fuzz(name: str, seconds: float, seed: int) -> int:
    """Try inputs in a process of its own for some time; return how many."""
    with tempfile.TemporaryDirectory(prefix="recordzoo-fuzz-") as folder:
        path = Path(folder) / "input"
        command = [sys.executable, "-W", "error", "-m", "tests.fuzz", name, str(path), str(seconds), str(seed)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode == 0:
            return int(done.stdout.split()[-1])
        how = f"exit code {done.returncode}" if done.returncode > 0 else signal.Signals(-done.returncode).name
        data = path.read_bytes() if path.exists() else b""
        packed = base64.b85encode(zlib.compress(data)).decode()
        raise AssertionError(
            f"{name} with seed {seed} ended with {how}: {done.stderr[-3000:]}\n"
            f"The input, {len(data):,} bytes: zlib.decompress(base64.b85decode({packed!r}))"
        )


def _try_inputs(target: Target, path: Path, seconds: float, seed: int) -> int:
    """Be the child: an input is in its file before it is tried, so that it outlives this process."""

    @settings(database=None, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
    @given(target.inputs())
    def test(data: bytes) -> None:
        path.write_bytes(data)
        _try_one(target, path)

    rng = random.Random(seed)
    number = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        buffer = rng.randbytes(rng.choice(_BUFFER_BYTES))
        number += test.hypothesis.fuzz_one_input(buffer) is not None  # type: ignore[attr-defined]  # `given` adds it
    return number


def _try_one(target: Target, path: Path) -> None:
    """Try an input under a wall clock that ends this process, whatever it is doing, and look at its memory."""
    before = _peak_bytes()
    signal.setitimer(signal.ITIMER_REAL, target.timeout_s)
    try:
        target.check(path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    taken = _peak_bytes() - before
    assert taken <= MEMORY_BYTES, f"{taken:,} bytes of memory"


def _peak_bytes() -> int:
    """Return how much memory this process held at most; `getrusage` would count what its parent had when it forked."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    name, path, *numbers = sys.argv[1:]
    if numbers:
        good()
        limit_memory()
        print(_try_inputs(TARGETS[name], Path(path), float(numbers[0]), int(numbers[1])))
    else:
        _try_one(TARGETS[name], Path(path))
