"""Give a finished output its name; complete or undo an interrupted exchange."""

import contextlib
import errno
import os
import secrets
import shutil
from pathlib import Path

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.errors import PrepareError
from recordzoo.publish.output import RECORDS_DIR, SET, Output, find_builds
from recordzoo.records.reader import is_record_set
from recordzoo.system.files import rename

REPLACING = "replacing"
"""In a build: marks that the published output is being removed, to be replaced by this build's."""

OLD = "old"
"""In a build: the published output between the two renames, on systems that cannot exchange two directories."""


def give_name(build: Path, output: Output) -> bool:
    """Rename a build's output to its final name; False if something else has that name."""
    if output.file:
        if os.path.lexists(output.path):
            return False
        durable.move(build / SET / output.file, output.path)
        return True
    try:
        durable.rename(build / SET, output.path)
    except OSError as err:
        if err.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        return False
    return True


def exchange(build: Path, output: Output) -> None:
    """Exchange a build's output with the published one by one system call, or else by two renames.

    Between the two renames nothing is published; `put_back` undoes the first if the second did not happen.
    """
    if output.file:
        durable.move(build / SET / output.file, output.path)
        return
    if durable.exchange(build / SET, output.path):
        return
    shutil.rmtree(build / OLD, ignore_errors=True)  # left by an exchange that was interrupted after publishing
    try:
        rename(output.path, build / OLD)
    except OSError as err:
        if err.errno != errno.EXDEV:
            raise
        _replace(build, output)
        return
    crash_point("set.moved_away")
    try:
        rename(build / SET, output.path)
    except BaseException:
        rename(build / OLD, output.path)
        raise


def _replace(build: Path, output: Output) -> None:
    """Remove the published output, which cannot be renamed in a lower layer of an overlay, and take its name.

    Until the last rename nothing is published; if it did not happen, `put_back` does it.
    """
    _try_a_rename(build, output.path)
    durable.write_file(build / REPLACING, b"")
    durable.sync_directory(build)
    crash_point("set.replacing")
    _remove(output)
    crash_point("set.removed")
    rename(build / SET, output.path)


def _try_a_rename(build: Path, path: Path) -> None:
    """Rename an empty directory into the output's parent and remove it; an overlay without xattrs refuses this too."""
    probe = build / "probe"
    probe.mkdir()
    try:
        moved = probe.rename(path.with_name(f".{path.name}.probe-{secrets.token_hex(4)}"))
    except OSError as err:
        probe.rmdir()
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fspath(path)) from err
    moved.rmdir()


def generation(path: Path) -> tuple[int, int] | None:
    """Return the identity of the output at a path; None if there is none."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def put_back(output: Output) -> bool:
    """Complete or undo an interrupted exchange, so that the old or the new output exists.

    Returns:
        Whether this restored a missing output.
    """
    if output.is_there:
        return False
    for found in find_builds(output.path):
        if not found.is_dead or output.is_there:
            continue
        with contextlib.suppress(OSError):
            if (found.path / REPLACING).exists():
                _remove(output)
                rename(found.path / SET, output.path)
            elif not output.path.exists():
                rename(found.path / OLD, output.path)
    return output.is_there


def check_place(path: Path, elsewhere: str = RECORDS_DIR, *, is_set: bool | None = None) -> None:
    """Refuse a path for a record set that cannot be renamed or is occupied by something else.

    Args:
        elsewhere: As in `Output`.
        is_set: Whether it is a record set, maybe damaged. Default: detected.
    """
    if _is_mounted(path):
        what = "is where another volume is mounted, and cannot be renamed"
    elif (
        (is_record_set(path) if is_set is None else is_set)
        or not os.path.lexists(path)
        or _is_half_removed(path)
        or (path.is_dir() and not any(path.iterdir()))
    ):
        return
    else:
        what = "is in the way: it is not a record set. Move it"
    raise PrepareError(f"{path} {what}, or {elsewhere}.", path=str(path))


def _is_mounted(path: Path) -> bool:
    """Whether a path is a mount point; `os.path.ismount` is wrong for paths that begin with /proc/PID/root."""
    with contextlib.suppress(OSError):
        return not path.is_symlink() and path.stat().st_dev != os.stat(os.path.join(path, os.pardir)).st_dev
    return False


def _is_half_removed(path: Path) -> bool:
    """Whether a path is an output whose removal was interrupted; `put_back` completes it."""
    return any((found.path / REPLACING).exists() for found in find_builds(path))


def _remove(output: Output) -> None:
    """Remove the published output, its marker first, so that readers see no output in the rest."""
    with contextlib.suppress(FileNotFoundError):
        durable.remove(output.path / output.marker)
        shutil.rmtree(output.path)
