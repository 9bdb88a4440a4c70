"""Writes that survive a power cut: file synced, then renamed, then the directory synced."""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Put a directory's entries on the disk; a file system that cannot do that is taken as one that need not."""
    if os.name == "nt":
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as err:
        if err.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(fd)


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Write a new file and sync it; the caller syncs the directory. An existing file is replaced."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file by one rename, so that it has the old bytes or the new ones, never a mixture."""
    aside = path.with_name(f"{path.name}.new")
    try:
        write_file(aside, data)
        _move(os.replace, aside, path)
    except OSError as err:
        with contextlib.suppress(OSError):
            remove(aside)
        err.filename, err.filename2 = os.fspath(path), None  # the caller's file, not ours
        raise


def write_text_here(path: Path, text: str) -> None:
    """Write a small file that need not survive a power cut, but not through a link that somebody put in its place.

    Raises:
        OSError: It cannot be written, or is a link.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o666)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)


def rename(source: Path, target: Path) -> None:
    """Rename and sync the directory of the target."""
    _move(os.rename, source, target)


def _move(function: Callable[[Path, Path], None], source: Path, target: Path) -> None:
    move(source, target, function)
    sync_directory(target.parent)


def move(source: Path, target: Path, function: Callable[[Path, Path], None] = os.replace) -> None:
    """Rename with one of the two functions that `os` has for it; the caller syncs the directory.

    On NFS a rename can succeed and its answer be lost, so that the retry finds nothing: if the source is gone and the
    target there, it was done.
    """
    try:
        function(source, target)
    except FileNotFoundError:
        if source.exists() or not target.exists():
            raise


def remove(path: Path) -> None:
    """Remove a file if it is there."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def exchange(first: Path, second: Path) -> bool:
    """Exchange two directories in one step; False where the system or the file system cannot.

    Raises:
        OSError: They were not exchanged.
    """
    import ctypes  # slow to import, and hardly ever needed

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    at_cwd, exchange = -100, 2
    if function(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV):
        raise OSError(number, os.strerror(number), os.fspath(first), None, os.fspath(second))
    return False
