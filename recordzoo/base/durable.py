"""Writes that survive a power cut: sync the file, rename it, sync the directory."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from recordzoo.base.files import copy_data, exchange, remove, replace, sync_directory
from recordzoo.base.files import rename as _rename

__all__ = ["exchange", "link_or_copy", "move", "remove", "rename", "replace_file", "sync_directory", "write_file"]


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
        _move(replace, aside, path)
    except OSError as err:
        with contextlib.suppress(OSError):
            remove(aside)
        err.filename, err.filename2 = os.fspath(path), None  # the caller's file, not ours
        raise


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


def rename(source: Path, target: Path) -> None:
    """Rename and sync the directory of the target."""
    _move(_rename, source, target)


def _move(function: Callable[[Path, Path], None], source: Path, target: Path) -> None:
    move(source, target, function)
    sync_directory(target.parent)


def move(source: Path, target: Path, function: Callable[[Path, Path], None] = replace) -> None:
    """Rename with `replace`, or with `files.rename`; the caller syncs the directory.

    On NFS a rename can succeed and its answer be lost, so that the retry does not find the source. If the source is
    gone and the target exists, the rename succeeded.
    """
    try:
        function(source, target)
    except FileNotFoundError:
        if source.exists() or not target.exists():
            raise
