"""Compile once: in one thread of a process, in one process of a machine at a time, best in a spare process.

Locks and stamps of compiled parts are files beside numba's cache. Importing this module imports neither numba nor
torch.
"""

import atexit
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import filelock

from recordzoo.base.process import BACKGROUND, at_fork, lower_priority

T = TypeVar("T")

_PROGRAM = """
import sys
from recordzoo.loader import spare

with spare.only_one(sys.argv[1], timeout_s=1.0) as is_only:
    if is_only:
        spare.be_spare()
        from recordzoo.loader.compiled import compiled_code
        sys.exit(compiled_code(changes=True) is None)
"""
"""Wait for the lock: other processes hold it only for a moment, to check it."""

_PATIENCE_S = 300.0
"""Longest wait for another process that compiles; after that this process compiles too."""

_has_lock = False


class Once(Generic[T]):
    """Runs a function in its own thread at the first call; returns its result at every call.

    Python raises KeyboardInterrupt in the main thread only. So Ctrl-C ends the waiting, the work goes on, and the next
    call waits for it again. numba does not survive an interrupted import or compilation: later uses of it fail.

    The thread is not a daemon: the process ends after the work, because LLVM may crash if interrupted.

    Args:
        work: The function. If it raises, so does the call, and the next call runs it again.
        forked: The result in a process that was forked while the work ran. It must not start the work itself: modules
            that another thread was importing at the fork stay locked there.
    """

    def __init__(self, work: Callable[[], T], forked: T) -> None:
        self._work, self._forked = work, forked
        self._lock = threading.Lock()
        self._run: _Run[T] | None = None
        # A fork waits for the lock: no thread of the child would release it.
        at_fork(before=self._lock.acquire, in_parent=self._lock.release, in_child=self._lock.release)

    def __call__(self) -> T:
        """Wait for the result and return it."""
        run = self.begin(again=True)
        if not run.ended.is_set() and run.pid != os.getpid():
            return self._forked
        run.ended.wait()
        if run.failure is not None:
            raise run.failure
        return run.results[0]

    def begin(self, *, again: bool = False) -> "_Run[T]":
        """Start the work unless it was started before (with `again`: or has failed), without waiting."""
        with self._lock:
            run = self._run
            if run is None or (again and run.failure is not None):
                run = _Run(self._work)
                run.start()
                self._run = run  # set last: if Ctrl-C comes before the start, the next call starts another run
            return run

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        run = self._run
        return run is not None and bool(run.results)


class _Run(threading.Thread, Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(name="recordzoo-once")
        self.pid, self.ended = os.getpid(), threading.Event()
        self.results: list[T] = []
        self.failure: BaseException | None = None
        self._work = work

    def run(self) -> None:
        try:
            self.results.append(self._work())
        except BaseException as err:  # noqa: BLE001 - raised in the thread that waits
            self.failure = err
        finally:
            self.ended.set()


class Stamps:
    """The parts compiled on this machine.

    Args:
        folder: The folder of numba's cache.
        key: Identifies the versions that compiled code depends on: stamps of other versions are ignored.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key
        self.lock = folder / "recordzoo.lock"

    def has(self, part: str) -> bool:
        """Whether a part is compiled. If its files were deleted, loading compiles it again."""
        return self._path(part).exists()

    def add(self, part: str) -> None:
        """Record that a part is compiled. If the stamp cannot be written, the next process waits for numba's cache."""
        with contextlib.suppress(OSError):
            self._path(part).touch()

    def compiled_in_turn(self, part: str, work: Callable[[], T]) -> T:
        """Compile a part, while no other process of this machine compiles."""
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
    """The process that compiles in parallel to this one.

    It outlives this process: otherwise scripts that end within seconds would never finish compiling. It ends by itself
    within about a minute. Ctrl-C and the terminal do not reach it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_impossible = False

    @property
    def has_failed(self) -> bool:
        """Whether the process cannot be started or failed. False if it was killed: it may be started again."""
        return self._is_impossible or (self._process is not None and (self._process.poll() or 0) > 0)

    def start(self, lock: Path) -> None:
        """Start the process, unless it runs or another process of this machine compiles."""
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
    """Detach the process, so that it outlives this one: Popen would warn of a child without `wait`."""
    process.returncode = 0


def be_spare() -> None:
    """Compile for all processes of this machine, with the lock and low priority."""
    global _has_lock
    _has_lock = True
    lower_priority()


@contextlib.contextmanager
def only_one(lock: str | Path, timeout_s: float = 0.0) -> Iterator[bool]:
    """Take the lock for the block if it is free; yield whether it was."""
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
