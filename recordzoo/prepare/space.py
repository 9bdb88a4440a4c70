"""Room on the disk: asked for before the work begins, and named when it ends during it."""

import errno
import shutil
from pathlib import Path

from recordzoo.errors import DiskSpaceError, PrepareError, RecordZooError
from recordzoo.progress import format_bytes
from recordzoo.recipes.base import Recipe
from recordzoo.records.shard import stored_bytes
from recordzoo.sources.archive import ChainSource
from recordzoo.sources.member import Source
from recordzoo.sources.tree import TreeSource

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def records_bytes(recipe: Recipe, raw: Source | int) -> int:
    """About how large the records become.

    Args:
        recipe: What they are made with.
        raw: The raw data, or, where it is not there yet, the size of its archives.
    """
    if isinstance(raw, int):
        return int(raw * recipe.expansion)
    if isinstance(raw, ChainSource):
        return sum(records_bytes(recipe, source) for source in raw.sources)
    about = int(raw.size_bytes * recipe.expansion)
    # Many small files, each of which takes whole pages, or a share of one.
    return max(about, raw.stored_bytes(stored_bytes)) if isinstance(raw, TreeSource) else about


def free_bytes(folder: Path) -> int:
    """Return how much room there is on the volume of a folder, which may not exist yet."""
    return shutil.disk_usage(_existing(folder)).free


def volume(folder: Path) -> int:
    """Return the number of the volume on which a folder is, or would be made."""
    return _existing(folder).stat().st_dev


def _existing(folder: Path) -> Path:
    folder = folder.absolute()
    while not folder.exists():
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
            f"{format_bytes(needed - free)} more. Free some space, or pass records_dir on another volume.",
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
        free = free_bytes(folder)
        missing = max(remaining - free, 0)
        return DiskSpaceError(
            f"No room left in {folder} ({err.strerror}): about {format_bytes(max(remaining, 0))} are still to be "
            f"written, {format_bytes(free)} are free now. What is finished is kept; free some space and run the same "
            "command again.",
            path=str(folder),
            missing_bytes=missing,
        )
    if err.errno in _REFUSED:
        return PrepareError(
            f"{folder} may not be written to ({err.strerror}), and the records belong there. Pass records_dir "
            "(--records-dir) with a place that may.",
            path=str(folder),
        )
    return PrepareError(
        f"Writing to {folder} failed: {err}. What is finished is kept; run the same command again.", path=str(folder)
    )
