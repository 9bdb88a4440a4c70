"""Processes: their end, forks, cores, limits; threads in the background; locks.

A `Lock` is a file that one process at a time holds. The kernel frees it when that process ends, however it ends.
"""

import contextlib
import errno
import multiprocessing
import os
import platform
import queue
import signal
import stat
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, TypeVar

from recordzoo.base.files import LOCKS_ARE_MANDATORY, open_file, open_lock
from recordzoo.base.text import WINDOWS

T = TypeVar("T")

_KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows both end the process at once

if sys.platform == "win32":
    BACKGROUND = 0x4000 | 0x0800_0000  # BELOW_NORMAL_PRIORITY_CLASS, CREATE_NO_WINDOW
    """`creationflags` of a background process: low priority, no window."""

    def lower_priority() -> None:
        """Do nothing: `BACKGROUND` sets the priority when a process is started."""
else:
    BACKGROUND = 0
    """`creationflags` that a process which works beside others has on Windows."""

    def lower_priority() -> None:
        """Leave three quarters of a core to any other process. (At niceness 19, a busy machine would leave none.)"""
        os.nice(5)


def die() -> None:
    """Kill this process: no cleanup of any kind runs."""
    os.kill(os.getpid(), _KILL)


def cores() -> int:
    """Return how many cores this process may use; all of the machine if there is no affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Any: a name, a context of multiprocessing, or None for the usual one.
def are_forked(context: Any) -> bool:
    """Whether processes that multiprocessing starts are copies of this one."""
    if context is None:
        # Without allow_none=True the call would fix the start method.
        method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    else:
        method = context if isinstance(context, str) else context.get_start_method()
    return bool(method == "fork")


def can_fork() -> bool:
    """Whether multiprocessing can start processes as copies of this one."""
    return "fork" in multiprocessing.get_all_start_methods()


def at_fork(**calls: Callable[[], object]) -> None:
    """Register functions to call when this process is forked, as `os.register_at_fork`; Windows has no forks."""
    if not WINDOWS and sys.platform != "win32":
        os.register_at_fork(**calls)


def max_open_files() -> int | None:
    """Return how many files this process may have open; None if no limit is known."""
    if WINDOWS or sys.platform == "win32":
        return 512  # the minimum of its C library
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


_counts: Counter[str] = Counter()
_counting = threading.Lock()


def crash_point(name: str) -> None:
    """Mark a change on the disk; die there if ``RECORDZOO_KILL_AT`` is the name (``name:3``: the third time)."""
    wanted = os.environ.get("RECORDZOO_KILL_AT")
    if not wanted:
        return
    wanted_name, _, nth = wanted.partition(":")
    if name != wanted_name:
        return
    with _counting:
        _counts[name] += 1
        if _counts[name] == int(nth or 1):
            die()


_POLL_S = 0.25


def default_workers() -> int:
    """Return the default number of workers: the cores that this process may use, at most 8."""
    return min(8, cores())


def serve(builder: int, setup: Callable[[], None] | None) -> None:
    """Prepare a worker: it ignores Ctrl-C and ends when the builder ends.

    Args:
        builder: The builder's process number.
        setup: Called in the worker before its first unit.
    """
    # Ctrl-C reaches the whole process group; only the builder acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(builder,), name="recordzoo-builder-lives", daemon=True).start()
    if setup is not None:
        setup()


def _end_with(builder: int) -> None:
    """End this process, busy or not, when the builder was killed: loky's idle workers would never end."""
    if WINDOWS:  # keeps the number of a parent that has ended, but loky opens a handle of it
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
    else:
        while os.getppid() == builder:
            time.sleep(_POLL_S)
    os._exit(1)


class Background:
    """Daemon threads that run tasks in the order of submission. The process does not wait for them when it ends.

    Args:
        num_threads: Maximum number of threads; each is started when there is work for it.
        name: Name of the threads.
    """

    def __init__(self, num_threads: int, name: str) -> None:
        self._num_threads, self._name = num_threads, name
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle = 0
        self._started = 0
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        """Queue a task."""
        if self._pid != os.getpid():
            self._forget()
        future: Future[T] = Future()
        with self._lock:
            self._waiting.put((future, work))
            if self._waiting.qsize() > self._idle and self._started < self._num_threads:
                self._started += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            future, work = self._waiting.get()
            with self._lock:
                self._idle -= 1
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as err:  # noqa: BLE001 - raised by the future
                future.set_exception(err)
            del future, work  # frees the last result while this thread waits


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
        at_fork(before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._lock.release)

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


_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_MOST_BYTES = 200


class NoLocksError(Exception):
    """The file system has no locks, as some network drives."""


class Lock:
    """A lock file, with the holder's name in it. Two locks of one path exclude each other, also in one process.

    A lock whose file was deleted is held by nobody: waiting processes then lock the new file of that name.

    Args:
        path: The lock file, in a directory that exists. Every user may lock it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def try_acquire(self) -> bool:
        """Return whether this process holds the lock now; False if another one does.

        Raises:
            NoLocksError: The file system has no locks.
            FileNotFoundError: The directory does not exist.
            PermissionError: This user may not write to the file.
        """
        import filelock  # slow to import

        fd = open_lock(self.path)
        try:
            # filelock.FileLock takes a link in /proc, to another root, for a plain one, and locks another file.
            if filelock.lock_descriptor(fd, blocking=False) and _is_at(fd, self.path):
                self._fd, fd = fd, -1
        except OSError as err:
            if err.errno in _NO_LOCKS:
                raise NoLocksError(str(self.path)) from err
            raise
        finally:
            if fd >= 0:
                os.close(fd)
        if self._fd is None:
            return False
        _held.add(self)
        if not LOCKS_ARE_MANDATORY:  # others could not read it
            with contextlib.suppress(OSError):  # a full disk: the lock is held all the same
                os.truncate(self._fd, 0)
                os.write(self._fd, _name().encode()[:_MOST_BYTES])
        return True

    @property
    def is_mine(self) -> bool:
        """Whether this process holds the lock, and the file is still at its path."""
        return self._fd is not None and _is_at(self._fd, self.path)

    def release(self) -> None:
        """Release the lock; the file stays."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def delete(self) -> None:
        """Delete the file and release the lock; without the lock, do nothing."""
        if not self.is_mine:
            self.release()
            return
        if LOCKS_ARE_MANDATORY:  # an open file cannot be deleted
            self.release()
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.release()


_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


def _let_go() -> None:
    """Close the locks in a forked child: it would keep them after its parent's end."""
    for lock in list(_held):
        lock.release()


at_fork(after_in_child=_let_go)


def holder(path: Path) -> str:
    """Return the last holder of a lock file: "process 4123 on node07"; "another process" if that is unknown."""
    with contextlib.suppress(OSError, ValueError), open(open_file(path), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a FIFO would block
            name = file.read(_MOST_BYTES).decode()
            return "another thread of this process" if name == _name() else name or "another process"
    return "another process"


def who_holds(path: Path) -> str:
    """Return the process that holds a lock file now; "" if none does."""
    lock = Lock(path)
    with contextlib.suppress(OSError, NoLocksError):
        if not path.is_file():
            return ""
        if not lock.try_acquire():
            return holder(path)
        lock.release()
    return ""


def _is_at(fd: int, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(fd), path.stat(follow_symlinks=False))
    return False


def _name() -> str:
    return f"process {os.getpid()} on {platform.node()}"
