"""Files: functions that only POSIX has, with their replacements on Windows; links, free space, hashes; writes.

Writes survive a power cut: sync the file, rename it, sync the directory.

Windows has no reads at an offset, no descriptors of directories and no exchange of two directories. It does not rename
or delete an open file, nor a directory that contains one.
"""

import contextlib
import errno
import hashlib
import mmap
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import BinaryIO

from recordzoo.base.text import WINDOWS, text_of
from recordzoo.errors import ArgumentError, SourceError

_CHUNK_BYTES = 4 << 20
"""Large, so that hashlib and reads, which release the interpreter lock, rarely wait for it."""


def new_hash(algorithm: str) -> "hashlib._Hash":
    """Start a hash by its name in hashlib ("md5", "sha256").

    Raises:
        ArgumentError: hashlib has no such algorithm.
    """
    try:
        # `usedforsecurity=False`: FIPS machines refuse MD5 otherwise, and half of the published hashes are MD5.
        return hashlib.new(algorithm, usedforsecurity=False)
    except ValueError as err:
        known = ", ".join(sorted(hashlib.algorithms_guaranteed))
        raise ArgumentError(f"Unknown hash algorithm {algorithm!r}; it must be one of {known}.") from err


def hash_text(state: "hashlib._Hash") -> str:
    """Format a SHA-256 as in manifests: ``sha256:<hex>``."""
    return f"sha256:{state.hexdigest()}"


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file as in manifests.

    Raises:
        OSError: The file cannot be read.
    """
    with open(path, "rb") as file:
        return hash_text(hashlib.file_digest(file, "sha256"))


def other_sha256(name: object, found: str, expected: str, md5: str) -> str:
    """Return the warning about a file that is accepted for its MD5."""
    return (
        f"{name} has the SHA-256 {found}, not {expected}; but it has the expected MD5, {md5}, so it is accepted. "
        "If the images are right, please report the file's SHA-256."
    )


class BackgroundHash:
    """Hashes a file from start to end in a thread, while other threads use the file.

    Args:
        path: The file; it must be complete.
        algorithm: Its name in hashlib.

    Attributes:
        position: The number of bytes hashed so far.

    Raises:
        ArgumentError: hashlib has no such algorithm.
        OSError: The file cannot be opened. Later errors are raised by `hexdigest`.
    """

    def __init__(self, path: Path, algorithm: str) -> None:
        self._path = path
        self._digest = new_hash(algorithm)
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - the thread closes it
        self.position = 0
        self._closed = False
        self._result: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name=f"hash of {path.name}", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds for the thread; return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def hexdigest(self) -> str:
        """Wait for the end of the file and return the digest in lower-case hexadecimal.

        Raises:
            OSError: The file could not be read.
            SourceError: `close` was called before the end was reached.
        """
        return self._result.result()

    def close(self) -> None:
        """Stop within one chunk and wait for the thread; may be called again and after the end."""
        self._closed = True
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._file:
                self._result.set_result(self._read_all())
        except BaseException as err:  # noqa: BLE001 - re-raised by `hexdigest`
            self._result.set_exception(err)

    def _read_all(self) -> str:
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        while not self._closed:
            count = self._file.readinto(buffer)
            if not count:
                return self._digest.hexdigest()
            self._digest.update(buffer[:count])
            self.position += count
        raise SourceError(f"The hash of {self._path} was stopped at byte {self.position}, before the end of the file.")


_OPEN_AT_ONCE: int = getattr(os, "O_NONBLOCK", 0)  # opening a FIFO would wait for a writer
_NOT_THROUGH_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
_READ_DIRECTORY: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_READ: int = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | _OPEN_AT_ONCE
_LINK_ERROR = errno.ELOOP

_HAS_DIRECTORIES = os.open in os.supports_dir_fd
"""Whether directories can be opened, and files be opened relative to them."""

_WAITS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses between attempts to rename or delete a file in use: virus scanners open each new file for a moment."""

_IN_USE = (5, 32, 33)  # ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION

_DESCRIPTORS = "/proc/self/fd"

_CLONE = 0x4004_9409  # linux/fs.h: FICLONE
_JUNCTION = 0xA000_0003  # stat.IO_REPARSE_TAG_MOUNT_POINT

_locks = tuple(threading.Lock() for _ in range(64))


def seek_and_read(fd: int, num_bytes: int, offset: int) -> bytes:
    """Replace `os.pread` where it is missing: one thread at a time reads from a descriptor."""
    with _locks[fd % len(_locks)]:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, num_bytes)


pread: Callable[[int, int, int], bytes] = getattr(os, "pread", seek_and_read)
"""Read up to `bytes` bytes at an offset: (descriptor, bytes, offset). One call may read less."""

advise: Callable[[int, int, int, int], None] | None = getattr(os, "posix_fadvise", None)
"""Advise the kernel on a range: (descriptor, offset, bytes, advice). None on macOS and Windows."""

WILL_NEED: int = getattr(os, "POSIX_FADV_WILLNEED", 0)
DONT_NEED: int = getattr(os, "POSIX_FADV_DONTNEED", 0)


def open_directory(path: Path) -> int | None:
    """Open a directory, so that files can be opened relative to it; None where the system cannot.

    Raises:
        OSError: The directory does not exist or may not be read.
    """
    if _HAS_DIRECTORIES:
        return os.open(path, _READ_DIRECTORY)
    os.scandir(path).close()
    return None


def open_file(path: str | os.PathLike[str], *, directory: int | None = None) -> int:
    """Open a file for reading: never through a link, and without waiting for the writer of a FIFO.

    Args:
        path: The file.
        directory: A descriptor from `open_directory`; the path is relative to it.

    Raises:
        OSError: It cannot be opened, or is a link.
    """
    fd = os.open(path, _READ | _NOT_THROUGH_LINKS, dir_fd=directory)
    if not _NOT_THROUGH_LINKS and stat.S_ISLNK(os.lstat(path).st_mode):
        os.close(fd)
        raise OSError(_LINK_ERROR, os.strerror(_LINK_ERROR), os.fspath(path))
    return fd


def open_at_once(path: str, flags: int) -> int:
    """Open as `open` does, without waiting for the writer of a FIFO: an `opener`."""
    return os.open(path, flags | _OPEN_AT_ONCE)


MAX_TEXT_BYTES = 64 << 20
"""The most bytes of a text that is read whole: labels of an image, names of classes, an index, a list of images."""


def read_small(path: Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """Read a regular file that should be small; a link is followed.

    Raises:
        OSError: It cannot be read, is no regular file, or has more than `most` bytes.
    """
    with open(path, "rb", opener=open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"more than {most:,} bytes")
        return file.read()


def read_text(path: Path, name: str = "", most: int = MAX_TEXT_BYTES) -> str:
    """Read a small text file in UTF-8, with or without a byte order mark.

    Args:
        path: The file; a link is followed.
        name: The file's name in messages. Default: the path.
        most: The most bytes.

    Raises:
        SourceError: It cannot be read, is no regular file, too large, or not UTF-8: the message names the line.
    """
    name = name or os.fspath(path)
    try:
        data = read_small(path, most)
    except OSError as err:
        raise SourceError(f"{name} cannot be read ({err.strerror}).", path=os.fspath(path)) from err
    return text_of(data, name)


def is_link(path: Path) -> bool:
    """Whether a path is a symbolic link, or a junction of Windows."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION


def is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry of a directory is one itself, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # for example a link to itself; for os.walk it is a file too
        return False


def is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to this process's user; on Windows True."""
    if WINDOWS or sys.platform == "win32":
        return True
    return status.st_uid == os.geteuid()


def open_lock(path: Path) -> int:
    """Open a lock file, created for all users if it is missing; never through a link.

    Raises:
        OSError: It cannot be opened, or is a link.
    """
    flags = os.O_RDWR | _NOT_THROUGH_LINKS | _OPEN_AT_ONCE
    while True:
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                return os.open(path, flags)
        else:
            with contextlib.suppress(OSError):
                path.chmod(0o666)  # whatever the umask
            return fd


def write_file(path: Path, *parts: bytes | memoryview) -> None:
    """Write the parts to a file and sync it; the caller syncs the directory. An existing file is replaced."""
    with open(path, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file by one rename: it has the old bytes or the new ones, never a mixture."""
    aside = path.with_name(f"{path.name}.new")
    try:
        write_file(aside, data)
        move(aside, path)
        sync_directory(path.parent)
    except OSError as err:
        with contextlib.suppress(OSError):
            remove(aside)
        err.filename, err.filename2 = os.fspath(path), None  # the caller's file, not ours
        raise


def sync_directory(path: Path) -> None:
    """Sync a directory's entries to disk. Does nothing on Windows and on file systems that cannot."""
    if not _HAS_DIRECTORIES:
        return
    fd = os.open(path, _READ_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as err:
        if err.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(fd)


def rename(source: Path, target: Path) -> None:
    """Rename like `os.rename` on POSIX, but never replace a file on Windows; the caller syncs the directory.

    On Windows an empty directory at the target is removed first, as POSIX does by itself, and a file in use is
    retried for 1.6 s.
    """
    if WINDOWS and not is_link(target):
        with contextlib.suppress(OSError):
            target.rmdir()
    _move(os.rename, source, target)


def move(source: Path, target: Path) -> None:
    """Rename like `os.replace`; on Windows a file in use is retried for 1.6 s; the caller syncs the directory."""
    _move(os.replace, source, target)


def _move(function: Callable[[Path, Path], None], source: Path, target: Path) -> None:
    """Rename. On NFS a rename can succeed and its answer be lost, so that the retry does not find the source."""
    try:
        _patiently(lambda: function(source, target))
    except FileNotFoundError:
        if source.exists() or not target.exists():
            raise


def remove(path: Path) -> None:
    """Remove a file if it exists; on Windows a file in use is retried for 1.6 s."""
    with contextlib.suppress(FileNotFoundError):
        _patiently(path.unlink)


def is_in_use(err: BaseException) -> bool:
    """Whether Windows refused an operation because the file, or one in the directory, is open."""
    return getattr(err, "winerror", None) in _IN_USE


def _patiently(action: Callable[[], None]) -> None:
    for wait_s in _WAITS_S:
        try:
            return action()
        except PermissionError as err:
            if not is_in_use(err):
                raise
        time.sleep(wait_s)
    return action()


def exchange(first: Path, second: Path) -> bool:
    """Exchange two directories in one step; False where the system or the file system cannot.

    Raises:
        OSError: The exchange failed.
    """
    if WINDOWS:
        return False
    import ctypes  # slow to import, rarely needed

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    at_cwd, flag = -100, 2
    if function(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV):
        raise OSError(number, os.strerror(number), os.fspath(first), None, os.fspath(second))
    return False


def copy_data(source: BinaryIO, target: BinaryIO) -> None:
    """Copy a file into an empty one. On file systems that can (btrfs, XFS), both share their blocks."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.ioctl(target.fileno(), _CLONE, source.fileno())
            return
    source.seek(0)
    shutil.copyfileobj(source, target, 1 << 20)


def link_or_copy(opened: int, old: Path | None, new: Path) -> bool:
    """Give a file a second name; where the file system cannot, clone its blocks or copy it.

    Args:
        opened: A descriptor of the file, which is synced.
        old: Its name, which may be another file's by now. None: it is copied.
        new: The second name; a file of that name is removed. The caller syncs the directory.

    Returns:
        Whether both are names of one file.
    """
    remove(new)
    with open(opened, "rb", closefd=False) as source:
        if old is not None:
            with contextlib.suppress(OSError):  # another file system, no hard links, or another user's file
                os.link(old, new)
                if os.path.samestat(new.stat(), os.fstat(source.fileno())):
                    return True
                remove(new)
        with open(new, "wb") as target:
            copy_data(source, target)
            target.flush()
            os.fsync(target.fileno())
    return False


LOCKS_ARE_MANDATORY = WINDOWS
"""Whether other processes cannot read, write or delete a locked file; filelock then deletes it on release."""

MAPS_ARE_FILES = WINDOWS
"""Whether an LMDB file has the size of its map while it is written."""


def drop_pages(data: mmap.mmap, end: int) -> None:
    """Release a map's pages up to `end`, a multiple of the page size; Windows does so by itself."""
    if WINDOWS or sys.platform == "win32" or not hasattr(data, "madvise"):
        return
    data.madvise(mmap.MADV_DONTNEED, 0, end)


SHARED_MEMORY = Path("/dev/shm")
"""The volume in which processes share tensors; not on macOS and Windows."""


def positions_of_open() -> dict[int, int]:
    """Return the positions in regular files that this process has open for reading only, by descriptor; on Linux."""
    found: dict[int, int] = {}
    if sys.platform == "linux":
        import fcntl

        for name in os.listdir(_DESCRIPTORS) if os.path.isdir(_DESCRIPTORS) else ():
            with contextlib.suppress(OSError):  # closed meanwhile
                is_read = fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
                if is_read and stat.S_ISREG(os.fstat(int(name)).st_mode):
                    found[int(name)] = os.lseek(int(name), 0, os.SEEK_CUR)
    return found


def reopen_at(positions: dict[int, int]) -> None:
    """Open files of `positions_of_open` again, under their descriptors: a fork would share its parent's positions."""
    for fd, position in positions.items():
        with contextlib.suppress(OSError):  # may not be opened any more: it stays shared
            if not stat.S_ISREG(os.fstat(fd).st_mode):  # closed since, and another one has its number
                continue
            fresh = os.open(f"{_DESCRIPTORS}/{fd}", _READ)
            try:
                os.lseek(fresh, position, os.SEEK_SET)
                os.dup2(fresh, fd, inheritable=os.get_inheritable(fd))
            finally:
                os.close(fresh)


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the volume of a folder, which may not exist yet."""
    return shutil.disk_usage(existing(folder)).free


def volume(folder: Path) -> int:
    """Return the device number of a folder's volume; the folder may not exist yet."""
    return existing(folder).stat().st_dev


def existing(folder: Path) -> Path:
    """Return a folder, or its nearest existing parent."""
    folder = folder.absolute()
    while not folder.exists() and folder != folder.parent:  # on Windows even the drive may not exist
        folder = folder.parent
    return folder


def behind_links(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a directory that will be renamed: renaming a link does not move its directory."""
    place = Path(path).expanduser().absolute()
    return Path(os.path.realpath(place)) if is_link(place) else place


def is_mount_point(path: Path) -> bool:
    """Whether a path is a mount point; `os.path.ismount` is wrong for paths that begin with /proc/PID/root."""
    with contextlib.suppress(OSError):
        return not path.is_symlink() and path.stat().st_dev != os.stat(os.path.join(path, os.pardir)).st_dev
    return False
