"""Disk space: checked before the work, and reported in the error if it runs out during the work."""

import contextlib
import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base.files import is_in_use, is_link, possible_files
from recordzoo.base.progress import format_bytes
from recordzoo.errors import DiskSpaceError, PrepareError, RecordZooError

RECORDS_DIR = "pass another records_dir (--output)"
"""How to choose another place for a preparation, for messages."""

ANOTHER_PATH = "write to another path"
"""How to choose another place for a function that writes a record set, for messages."""

SET = "set"
"""In a build: the unfinished output."""

PLAN_NAME = "plan.json"
"""In a build: the description of the output. A build is continued only with the same plan."""

LOCK = "lock"
"""In a build: the file that the process that builds holds."""


@dataclass(frozen=True)
class Output:
    """A directory that is published by one rename.

    Attributes:
        path: Its final path, absolute.
        elsewhere: How to choose another place, as part of a sentence.
        is_resumable: Whether the same command resumes an interrupted build.
    """

    path: Path
    elsewhere: str = RECORDS_DIR
    is_resumable: bool = True


def behind_links(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of an output. Links are resolved: renaming a link does not move its directory."""
    place = Path(path).expanduser().absolute()
    return Path(os.path.realpath(place)) if is_link(place) else place


def build_path(path: Path) -> Path:
    """Return the build directory of an output, `NAME.build`. It may not exist."""
    return path.with_name(f"{path.name}.build")


def written_bytes(build: Path) -> int:
    """Return the size of all files in a build directory, in bytes."""
    total = 0
    for folder, _, names in os.walk(build):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


_QUOTA = getattr(errno, "EDQUOT", errno.ENOSPC)
_FULL = (errno.ENOSPC, _QUOTA, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FEW_FILES = 100
"""A full volume with fewer possible files has run out of files. Not 0: some new files are removed before the check."""


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


def check_space(folder: Path, needed: int, elsewhere: str = RECORDS_DIR) -> None:
    """Raise if there is too little space.

    Args:
        folder: The output folder.
        needed: Number of bytes to write.
        elsewhere: As in `Output`.
    """
    free = free_bytes(folder)
    if needed > free:
        raise DiskSpaceError(
            f"{folder} has {format_bytes(free)} free, and {format_bytes(needed)} are needed: "
            f"{format_bytes(needed - free)} more. Free some space, or {elsewhere} on another volume.",
            path=str(folder),
            missing_bytes=needed - free,
        )


def disk_error(err: OSError, output: Output, remaining: int) -> RecordZooError:
    """Return the error for a disk failure, with advice.

    Args:
        output: The unfinished output.
        remaining: Estimate of the bytes that were still to be written.
    """
    folder = output.path.parent
    kept, again = "What is finished is kept", "run the same command again"
    if not output.is_resumable:
        kept, again = "Nothing is kept", "write the records again"
    if err.errno in _FULL:
        return DiskSpaceError(
            _full(err, folder, remaining, kept, again),
            path=str(folder),
            missing_bytes=max(remaining - free_bytes(folder), 0),
        )
    if err.errno == errno.ENOMEM:
        text = (
            f"The system gives this process no memory for a shard ({os.strerror(errno.ENOMEM)}). {kept}; raise the "
            "limit on address space (ulimit -v), or pass smaller shard_bytes or fewer workers."
        )
    elif err.errno == errno.EXDEV:
        text = (
            f"{output.path} cannot be replaced: it is in a layer of a container image, or in an overlay without "
            f"extended attributes ({err.strerror}). {kept}; {output.elsewhere} on a volume of its own."
        )
    elif is_in_use(err):
        text = (
            f"{err.filename or folder} is in use ({err.strerror}): Windows does not rename a directory while a program "
            f"has a file in it open. {kept}; close the datasets and programs that use it and {again}."
        )
    elif err.errno in _REFUSED:
        elsewhere = output.elsewhere[:1].upper() + output.elsewhere[1:]
        text = f"{folder} may not be written to ({err.strerror}). {elsewhere} that may be written to."
    else:
        text = f"Writing to {folder} failed: {err}. {kept}; {again}."
    return PrepareError(text, path=str(folder))


def _full(err: OSError, folder: Path, remaining: int, kept: str, again: str) -> str:
    """Describe the exhausted resource: space, quota, number of files, or file size."""
    why = os.strerror(err.errno or 0)  # LMDB's own text differs
    to_write = f"about {format_bytes(remaining)} are still to be written" if remaining else "the output is not complete"
    if err.errno == errno.EFBIG:
        return (
            f"No file in {folder} may become so large ({why}): a limit of the shell (ulimit -f) or of the file system. "
            f"{kept}; raise it and {again}, or pass smaller shard_bytes."
        )
    free_some = f"{kept}; free some space and {again}."
    if err.errno == _QUOTA != errno.ENOSPC:
        return f"Your quota in {folder} is used up ({why}): {to_write}. {free_some}"
    free = format_bytes(free_bytes(folder))
    if (files := possible_files(existing(folder))) < _FEW_FILES:
        return (
            f"No room left in {folder} ({why}): its file system takes {files} more files, though {free} are free. "
            f"{kept}; remove some files there and {again}."
        )
    return f"No room left in {folder} ({why}): {to_write}, {free} are free now. {free_some}"
