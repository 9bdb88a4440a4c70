"""Read every value of a shard through LMDB, in a child process.

A damaged tree page leads LMDB outside of its map, and SIGBUS or SIGSEGV kills the process. So `LmdbWalk` uses a child
process and reports the shard on which it dies. This module has both sides; they exchange one line of JSON for each
question and answer.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import lmdb
import numpy as np

import recordzoo
from recordzoo.errors import RecordError
from recordzoo.records.crc import crc32
from recordzoo.records.files import Directory
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import lmdb_options
from recordzoo.system import processes
from recordzoo.system.files import path_of_open

_MAX_PROBLEMS = 20
_TIMEOUT_S = 120.0
_SLOWEST_BYTES_PER_S = 5e6
_ADDRESS_SPACE_BYTES = 16 << 30  # besides the shard's own map

# -I and -S: neither the current directory, which may be untrusted, nor the environment adds to the path.
_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from recordzoo.records.lmdb_walk import main; main()"


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
    for field in reader.manifest.blobs:
        with contextlib.suppress(RecordError):  # the parent reports a damaged index
            index = reader.array(f"{field}.index")
            for _, slot, length, crc, _ in index[np.flatnonzero(index["shard"] == shard)].tolist():
                found.setdefault(slot, []).append((field, length, crc))
    return found
