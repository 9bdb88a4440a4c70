"""Room on the disk: asked for before the work begins, and named when it ends during it."""

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from recordzoo.errors import DiskSpaceError, PrepareError, RecordZooError
from recordzoo.progress import format_bytes
from recordzoo.recipes.base import Recipe
from recordzoo.records.shard import stored_bytes
from recordzoo.sources.download import RemoteFile
from recordzoo.sources.member import Source
from recordzoo.system.files import is_in_use, possible_files

_QUOTA = getattr(errno, "EDQUOT", errno.ENOSPC)
_FULL = (errno.ENOSPC, _QUOTA, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FEW_FILES = 100
"""With fewer possible, a full volume has run out of files: of those that we had begun, some are gone when we look."""


def records_bytes(recipe: Recipe, raw: Source | int) -> int:
    """Estimate the size of the records.

    Args:
        recipe: What they are made with.
        raw: The raw data, or, where it is not there yet, the size of its archives.
    """
    if isinstance(raw, int):
        return int(raw * recipe.expansion)
    return raw.records_bytes(recipe.expansion, lambda size: stored_bytes(recipe.stored_bytes(size)))


def files_bytes(files: Iterable[RemoteFile]) -> int | None:
    """Add up the sizes of raw files, exact or about; None if the size of one is not known."""
    sizes = [file.expected_bytes for file in files]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def free_bytes(folder: Path) -> int:
    """Return how much room there is on the volume of a folder, which may not exist yet."""
    return shutil.disk_usage(existing(folder)).free


def volume(folder: Path) -> int:
    """Return the number of the volume on which a folder is, or would be made."""
    return existing(folder).stat().st_dev


def existing(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    folder = folder.absolute()
    while not folder.exists() and folder != folder.parent:  # a drive of Windows may not exist
        folder = folder.parent
    return folder


def check_space(folder: Path, needed: int) -> None:
    """Refuse to begin what cannot end.

    Raises:
        DiskSpaceError: There is too little room.
    """
    free = free_bytes(folder)
    if needed > free:
        raise DiskSpaceError(
            f"{folder} has {format_bytes(free)} free; preparing needs {format_bytes(needed)}: "
            f"{format_bytes(needed - free)} more. Free some space, or pass records_dir (--output) on another "
            "volume.",
            path=str(folder),
            missing_bytes=needed - free,
        )


def disk_error(err: OSError, folder: Path, remaining: int) -> RecordZooError:
    """Turn what the disk said into an error that says what to do.

    Args:
        err: What was raised.
        folder: Where was written to.
        remaining: About how many bytes were still to be written.
    """
    if err.errno in _FULL:
        return DiskSpaceError(
            _full(err, folder, max(remaining, 0)),
            path=str(folder),
            missing_bytes=max(remaining - free_bytes(folder), 0),
        )
    if err.errno == errno.ENOMEM:
        return PrepareError(
            f"The system gives this process no memory for a shard ({os.strerror(errno.ENOMEM)}). What is finished is "
            "kept; raise the limit on address space (ulimit -v), or pass smaller shard_bytes or fewer workers."
        )
    if err.errno == errno.EXDEV:
        return PrepareError(
            f"No directory can be renamed into {folder} ({err.strerror}): it is in a container's overlay that lacks "
            "extended attributes. What is finished is kept; pass records_dir (--output) on a volume of its own.",
            path=str(folder),
        )
    if is_in_use(err):
        return PrepareError(
            f"{err.filename or folder} is in use ({err.strerror}): Windows does not rename a directory while a program "
            "has a file in it open. What is finished is kept; close the datasets and programs that use it and run the "
            "same command again.",
            path=str(folder),
        )
    if err.errno in _REFUSED:
        return PrepareError(
            f"{folder} may not be written to ({err.strerror}), and the records belong there. Pass records_dir "
            "(--output) with a place that may.",
            path=str(folder),
        )
    return PrepareError(
        f"Writing to {folder} failed: {err}. What is finished is kept; run the same command again.", path=str(folder)
    )


def _full(err: OSError, folder: Path, remaining: int) -> str:
    """Say what is used up: the room, the quota, the number of files; or that a file may not be so large."""
    why = os.strerror(err.errno or 0)  # LMDB has other words for it
    to_write = f"about {format_bytes(remaining)} are still to be written"
    again = "What is finished is kept; free some space and run the same command again."
    if err.errno == errno.EFBIG:
        return (
            f"No file in {folder} may become so large ({why}): a limit of the shell (ulimit -f) or of the "
            "file system. What is finished is kept; raise it and run the same command again, or pass smaller "
            "shard_bytes."
        )
    if err.errno == _QUOTA != errno.ENOSPC:
        return f"Your quota in {folder} is used up ({why}): {to_write}. {again}"
    free = format_bytes(free_bytes(folder))
    if (files := possible_files(existing(folder))) < _FEW_FILES:
        return (
            f"No room left in {folder} ({why}): its file system takes {files} more files, though {free} are "
            "free. What is finished is kept; remove some files there and run the same command again."
        )
    return f"No room left in {folder} ({why}): {to_write}, {free} are free now. {again}"
