"""A lock file that one process at a time holds. The kernel frees it when that process ends, however it ends."""

import contextlib
import errno
import os
import platform
import stat
import weakref
from pathlib import Path

import filelock

from recordzoo.base.files import LOCKS_ARE_MANDATORY, open_file, open_lock
from recordzoo.base.process import at_fork

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


at_fork(in_child=_let_go)


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
