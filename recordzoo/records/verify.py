"""`verify`: check a record set in a directory. A child process asks LMDB: it may die of a damaged shard."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import lmdb
import numpy as np
from typing_extensions import override

import recordzoo
from recordzoo.base import process as processes
from recordzoo.base.files import path_of_open
from recordzoo.base.progress import LogProgress, Progress
from recordzoo.errors import ManifestError, RecordError
from recordzoo.net.url import Url, is_url
from recordzoo.records.checking import MAX_PROBLEMS, Check
from recordzoo.records.checking import Report as Report
from recordzoo.records.files import Directory, pread
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    ShardSpec,
    manifest_digest,
)
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import crc32, lmdb_options

_MAX_PROBLEMS = 20
_MOST_TIMES = 5
"""Checks of one record set that is replaced each time."""

_TIMEOUT_S = 120.0
_SLOWEST_BYTES_PER_S = 5e6
_ADDRESS_SPACE_BYTES = 16 << 30  # besides the shard's own map

# -I and -S: neither the current directory, which may be untrusted, nor the environment adds to the path.
_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from recordzoo.records.verify import main; main()"


def verify(
    path: str | os.PathLike[str],
    *,
    full: bool = False,
    progress: Progress | None = None,
    max_problems: int | None = MAX_PROBLEMS,
) -> Report:
    """Check a record set.

    Always checked: the manifest; that each of its files is a regular file of the right size; the hash of each array;
    that indices, splits and names fit; the head of each shard. `full` reads everything: the hash of each shard, the
    CRC-32 of each record, and each shard's tree through LMDB, in a child process.

    Damage, also of the manifest, is reported, not raised. A set that is replaced meanwhile is checked again.

    Args:
        path: The record set's directory, or its URL: then the cache is not used, and shards are only compared with
            their hashes in the manifest.
        full: Whether to read the shards.
        progress: Shows the work. Default: log lines.
        max_problems: Stop after this many problems (`Report.stopped`); None: find all.

    Raises:
        ManifestError: There is no manifest: it is not a record set.
        FormatVersionError: It has a later format.
        RemoteError: The server of a URL cannot be reached, or refuses access.
        RecordError: The record set is replaced again and again.
    """
    if is_url(path):
        from recordzoo.records.remote import verify_at_url  # its imports are slow

        return verify_at_url(Url.parse(path), full, progress or LogProgress(), max_problems)
    place = Path(path).expanduser().absolute()
    for _ in range(_MOST_TIMES):
        try:
            directory = Directory(place)
        except OSError as err:
            raise ManifestError(f"{place} is not a record set: {err.strerror}.", path=str(place)) from err
        if not os.path.lexists(place / MANIFEST_NAME):
            raise ManifestError(f"{place} is not a record set: it has no {MANIFEST_NAME}.", path=str(place))
        check = _LocalCheck(directory, progress or LogProgress(), max_problems)
        check.run(full)
        if check.report.ok or not directory.is_replaced:
            return check.report
    raise RecordError(
        f"{place} was replaced {_MOST_TIMES} times while it was verified. Verify it again.", path=str(place)
    )


class _LocalCheck(Check):
    """One run of `verify` over a directory."""

    def __init__(self, directory: Directory, progress: Progress, max_problems: int | None) -> None:
        super().__init__(directory, progress, max_problems)
        self.folder = directory.path

    @override
    def listed(self) -> set[str]:
        return set(os.listdir(self.folder))

    @override
    def read_head(self, spec: ShardSpec) -> bytes:
        fd = self.directory.open(spec.name, spec.size_bytes)
        try:
            return pread(fd, 2 * spec.page_size, 0)
        finally:
            os.close(fd)

    @override
    def check_shards(self, numbers: Sequence[int], manifest: bytes) -> None:
        with LmdbWalk(self.folder, manifest_digest(manifest)) as walk, ThreadPoolExecutor(1) as pool:
            for number in numbers:
                self._shard(number, self.manifest.shards[number], walk, pool)

    def _shard(self, number: int, spec: ShardSpec, walk: "LmdbWalk", pool: ThreadPoolExecutor) -> None:
        """Read a shard in three ways in parallel: LMDB in the child, records in a thread, the whole file here."""
        try:
            fd = self.directory.open(spec.name, spec.size_bytes)
        except OSError as err:
            self.error(spec.name, err)
            return
        try:
            records = pool.submit(lambda: list(self._damaged(fd, number)))
            try:
                if self.hash(fd, spec.size_bytes)[0] != spec.hash:
                    self.problem(spec.name, "its hash is not the one in the manifest; it was damaged")
                self.count(0, spec.size_bytes)
            except OSError as err:
                self.error(spec.name, err)
            finally:
                found = records.result()
        finally:
            os.close(fd)
        for name, checked, positions in found:
            self.count(0, 0, checked)
            self.name_records(name, positions, spec.name, "its bytes have another CRC-32")
            self.progress.advance(0, checked)
        for problem in walk.ask(number, spec.size_bytes):
            self.problem(spec.name, problem)

    def _damaged(self, fd: int, shard: int) -> Iterator[tuple[str, int, list[int]]]:
        """Yield each blob field's name, its number of records in the shard, and the damaged positions."""
        size_bytes = self.manifest.shards[shard].size_bytes
        for name, index in self.indices.items():
            positions = np.flatnonzero(index["shard"] == shard)
            positions = positions[np.argsort(index["offset"][positions], kind="stable")]
            bad = []
            for position, (_, _, length, crc, offset) in zip(
                positions.tolist(), index[positions].tolist(), strict=True
            ):
                if offset + length > size_bytes:
                    continue  # reported with the index
                try:
                    data = pread(fd, length, offset)
                except (OSError, MemoryError):
                    data = b""
                if len(data) != length or crc32(data) != crc:
                    bad.append(position)
            yield name, len(positions), sorted(bad)


class LmdbWalk:
    """The parent's side: one child, restarted if it dies. A context manager.

    Args:
        path: The record set.
        digest: Its digest.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self._path, self._digest = path, digest
        self._child: subprocess.Popen[str] | None = None
        self._timed_out = False

    def __enter__(self) -> "LmdbWalk":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def ask(self, shard: int, size_bytes: int) -> list[str]:
        """Walk a shard and return its problems; none if LMDB finds every value as in the index.

        Args:
            shard: Its number.
            size_bytes: Its size, which determines the time limit.
        """
        if self._child is None:
            try:
                self._child = _start(self._path, self._digest)
            except OSError as err:
                return [f"LMDB could not be asked: {sys.executable or 'Python'} cannot be started ({err.strerror})"]
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        timeout_s = _TIMEOUT_S + size_bytes / _SLOWEST_BYTES_PER_S
        self._timed_out = False
        timer = threading.Timer(timeout_s, self._time_out, (child,))
        timer.daemon = True
        timer.start()
        try:
            with contextlib.suppress(OSError):  # the child may be dead already
                child.stdin.write(f"{json.dumps([shard, size_bytes])}\n")
                child.stdin.flush()
            answer = child.stdout.readline()
        finally:
            timer.cancel()
        if answer.endswith("\n"):
            return [str(problem) for problem in json.loads(answer)]
        self._stop()
        if self._timed_out:
            return [
                f"LMDB did not finish walking its tree in {timeout_s:.0f} s: it runs in a circle, or the disk hangs"
            ]
        death = processes.death_of(child.returncode)
        if not death:
            return [f"LMDB could not be asked: the process that asks it ended with exit code {child.returncode}"]
        return [f"LMDB dies of it ({death}): its tree is damaged. Do not open it with LMDB"]

    def _time_out(self, child: "subprocess.Popen[str]") -> None:
        self._timed_out = True
        child.kill()

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            child.wait(5)  # it ends when its input ends
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _start(path: Path, digest: str) -> "subprocess.Popen[str]":
    package = os.fspath(Path(recordzoo.__file__).absolute().parent.parent)
    search = [package, *(os.path.abspath(entry) for entry in sys.path if entry and entry != package)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _CHILD, json.dumps(search), os.fspath(path), digest],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},  # threads take address space
    )


def main() -> None:
    """Run the child: answer questions until the parent closes the pipe."""
    path, digest = Path(sys.argv[2]), sys.argv[3]
    # Output of libraries goes elsewhere: the pipe carries only answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    reader = RecordReader(path, digest=digest)
    directory = Directory(path)
    for line in sys.stdin:
        shard, size_bytes = json.loads(line)
        _limit(size_bytes)
        try:
            problems = _walk(reader, directory, shard)
        except (lmdb.Error, RecordError, OSError, MemoryError, ValueError) as err:
            problems = [f"LMDB cannot read it: {err or type(err).__name__}"]
        print(json.dumps(problems), file=answers, flush=True)


def _limit(size_bytes: int) -> None:
    """Limit the memory and files that a forged tree can cause."""
    processes.limit(RLIMIT_CORE=0, RLIMIT_FSIZE=0, RLIMIT_AS=_ADDRESS_SPACE_BYTES + 4 * size_bytes)


def _walk(reader: RecordReader, directory: Directory, shard: int) -> list[str]:
    """Compare LMDB's value for each key with the index, in ascending order of the keys."""
    spec = reader.manifest.shards[shard]
    expected = _expected(reader, shard)
    problems: list[str] = []
    fd = directory.open(spec.name, spec.size_bytes)
    try:
        with (
            lmdb.open(
                path_of_open(fd, directory.path / spec.name),
                subdir=False,
                readonly=True,
                lock=False,
                create=False,
                max_dbs=0,
                **lmdb_options(),
            ) as env,
            env.begin(buffers=True) as txn,
        ):
            slot = -1
            for slot, (key, value) in enumerate(txn.cursor()):
                if bytes(key) != slot.to_bytes(4, "big"):  # also ends a cycle
                    return [*problems, f"LMDB finds key {bytes(key).hex()} where {slot:08x} must be"]
                for field, length, crc in expected.get(slot, ()):
                    if len(value) != length or crc32(value) != crc:
                        problems.append(f"LMDB finds another {field} in slot {slot} than the index says")
                if len(problems) >= _MAX_PROBLEMS:
                    return [*problems, "LMDB was not asked for more"]
            if slot + 1 != spec.num_values:
                problems.append(f"LMDB finds {slot + 1:,} values instead of {spec.num_values:,}")
    finally:
        os.close(fd)
    return problems


def _expected(reader: RecordReader, shard: int) -> dict[int, list[tuple[str, int, int]]]:
    """Return slot -> (field, length, CRC-32) of the index rows that point to it."""
    found: dict[int, list[tuple[str, int, int]]] = {}
    for blob in reader.manifest.blobs:
        with contextlib.suppress(RecordError):  # the parent reports a damaged index
            index = reader.array(f"{blob}.index")
            for _, slot, length, crc, _ in index[np.flatnonzero(index["shard"] == shard)].tolist():
                found.setdefault(slot, []).append((blob, length, crc))
    return found
