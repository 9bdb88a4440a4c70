"""A lock file that one process at a time holds. The kernel frees it when that process ends, however it ends."""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

import filelock

from recordzoo.system.files import LOCKS_ARE_MANDATORY, open_file

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_MOST_BYTES = 200


class NoLocksError(Exception):
    """The file system has no locks, as some network drives."""


class Lock:
    """A lock file, with the holder's name in it. Two locks of one path exclude each other, also in one process.

    A lock whose file was deleted is held by nobody: waiting processes then lock the new file of that name.

    Args:
        path: The lock file, in a directory that exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: tuple[int, int] | None = None
        # Any thread may release it. A soft lock would survive a kill.
        self._lock = filelock.FileLock(
            path, 0, 0o666, thread_local=False, fallback_to_soft=False, on_acquired=self._sign
        )

    def try_acquire(self) -> bool:
        """Return whether this process holds the lock now; False if another one does.

        Raises:
            NoLocksError: The file system has no locks.
            FileNotFoundError: The directory does not exist.
            PermissionError: This user may not write to the file.
        """
        try:
            self._lock.acquire()
        except filelock.Timeout:
            return False
        except NotImplementedError as err:
            raise NoLocksError(str(self.path)) from err
        except OSError as err:
            if err.errno not in _NO_LOCKS:
                raise
            raise NoLocksError(str(self.path)) from err
        return True

    @property
    def is_mine(self) -> bool:
        """Whether this process holds the lock, and the file is still at its path."""
        with contextlib.suppress(OSError):
            status = self.path.stat()
            return self._held == (status.st_dev, status.st_ino)
        return False

    def release(self) -> None:
        """Release the lock; the file stays."""
        self._held = None
        self._lock.release(force=True)

    def delete(self) -> None:
        """Delete the file and release the lock."""
        if LOCKS_ARE_MANDATORY:  # an open file cannot be deleted
            self.release()
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.release()

    def _sign(self, fd: int) -> None:
        status = os.fstat(fd)
        self._held = status.st_dev, status.st_ino
        if not LOCKS_ARE_MANDATORY:  # others could not read it
            os.ftruncate(fd, 0)
            os.write(fd, f"process {os.getpid()} on {socket.gethostname()}".encode()[:_MOST_BYTES])


def holder(path: Path) -> str:
    """Return the last holder of a lock file: "process 4123 on node07"; "another process" if that is unknown."""
    with contextlib.suppress(OSError, ValueError), open(open_file(path), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a FIFO would block
            name = file.read(_MOST_BYTES).decode()
            mine = f"process {os.getpid()} on {socket.gethostname()}"
            return "another thread of this process" if name == mine else name or "another process"
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
