"""One process of a machine compiles at a time: its lock, the stamps of what is compiled, and the spare process.

Locks and stamps lie beside numba's cache. Importing this module imports neither numba nor torch.
"""

import atexit
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import filelock

from recordzoo.system.processes import BACKGROUND, lower_priority

T = TypeVar("T")

_PROGRAM = """
import sys
from recordzoo.pixels import spare

with spare.only_one(sys.argv[1], timeout_s=1.0) as is_only:
    if is_only:
        spare.be_spare()
        from recordzoo.pixels.compiling import compiled_code
        sys.exit(compiled_code(changes=True) is None)
"""
"""Other processes only look whether the lock is taken: it waits for them."""

_PATIENCE_S = 300.0
"""Longest wait for another process that compiles; after that this process compiles too."""

_has_lock = False


class Stamps:
    """What is compiled on this machine.

    Args:
        folder: The folder of numba's cache.
        key: Names all that compiled code depends on: stamps of other versions are not seen.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key
        self.lock = folder / "recordzoo.lock"

    def has(self, part: str) -> bool:
        """Whether a part is compiled. If its files are gone all the same, it is compiled again where it is loaded."""
        return self._path(part).exists()

    def add(self, part: str) -> None:
        """Record that a part is compiled; where that cannot be written, the next process waits for numba's cache."""
        with contextlib.suppress(OSError):
            self._path(part).touch()

    def compiled_in_turn(self, part: str, work: Callable[[], T]) -> T:
        """Do work that compiles a part: no other process of this machine compiles meanwhile."""
        lock = filelock.FileLock(self.lock, mode=0o666)
        until = time.monotonic() + _PATIENCE_S
        while not (_has_lock or self.has(part)) and time.monotonic() < until:
            try:
                lock.acquire(timeout=0.1)
            except filelock.Timeout:
                continue
            except (OSError, NotImplementedError):  # a file system without locks
                pass
            break
        try:
            return work()
        finally:
            lock.release()

    def _path(self, part: str) -> Path:
        return self._folder / f"recordzoo-{part}-{self._key}.ready"


class Spare:
    """The process that compiles beside this one.

    It goes on when this process ends: scripts that end within seconds would otherwise compile in vain, again and again.
    It ends by itself, within a minute or so. Ctrl-C and the terminal do not reach it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_impossible = False

    @property
    def has_failed(self) -> bool:
        """Whether it cannot be started, or ended with an error; not if it was killed: then it may be started again."""
        return self._is_impossible or (self._process is not None and (self._process.poll() or 0) > 0)

    def start(self, lock: Path) -> None:
        """Start it, unless it runs, or another process of this machine compiles."""
        if self._process is not None and self._process.poll() is None:
            return
        try:
            with only_one(lock) as is_only:
                if not is_only:
                    return
            self._process = _started(lock)
        except (OSError, NotImplementedError):
            self._is_impossible = True
        else:
            atexit.register(_leave, self._process)


def _started(lock: Path) -> "subprocess.Popen[bytes]":
    package = os.fspath(Path(__file__).parents[2])
    path = os.pathsep.join([package, *(os.path.abspath(entry) for entry in sys.path if entry)])
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, os.fspath(lock)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=lock.parent,
        env={**os.environ, "RECORDZOO_COMPILE": "wait", "PYTHONPATH": path},
        start_new_session=True,
        creationflags=BACKGROUND,
    )


def _leave(process: "subprocess.Popen[bytes]") -> None:
    """Let it go on when this process ends: Popen would warn of a process that nobody waits for."""
    process.returncode = 0


def be_spare() -> None:
    """Make this process the one that compiles, for all others: it has the lock, and low priority."""
    global _has_lock
    _has_lock = True
    lower_priority()


@contextlib.contextmanager
def only_one(lock: str | Path, timeout_s: float = 0.0) -> Iterator[bool]:
    """Take the lock for the block, if nobody has it; yield whether."""
    held = filelock.FileLock(lock, timeout=timeout_s, mode=0o666)
    try:
        held.acquire()
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        held.release()
