"""Give a finished output its name; keep the files that recordzoo did not write; finish an interrupted exchange."""

import contextlib
import hashlib
import logging
import os
import secrets
import shutil
from pathlib import Path

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.errors import PrepareError
from recordzoo.publish.output import PLAN_NAME, RECORDS_DIR, SET, Output
from recordzoo.records.made_from import strangers
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import is_record_set
from recordzoo.system.files import rename

REPLACING = "replacing"
"""In a build: the identity of the output that is about to replace the published one."""

OLD = "old"
"""In a build: the published output that was replaced."""

logger = logging.getLogger("recordzoo")


def give_name(build: Path, output: Output) -> bool:
    """Rename a build's output to its final name; False if something else has that name."""
    try:
        durable.rename(build / SET, output.path)
    except OSError:
        if not os.path.lexists(output.path) or not (build / SET).exists():
            raise
        return False
    return True


def exchange(build: Path, output: Output) -> None:
    """Exchange a build's output with the published one by one system call, or else by two renames.

    Between the two renames nothing is published. `settle` finishes or undoes what a kill interrupts.
    """
    durable.write_file(build / REPLACING, _identity(build / SET))
    durable.sync_directory(build)
    crash_point("set.replacing")
    if durable.exchange(build / SET, output.path):
        return
    rename(output.path, build / OLD)
    crash_point("set.moved_away")
    try:
        rename(build / SET, output.path)
    except BaseException:
        rename(build / OLD, output.path)
        raise


def settle(build: Path, output: Output) -> bool:
    """Finish or undo an exchange that a kill interrupted: one output is published, and no stranger's file is lost.

    Call it with the build's lock held.

    Returns:
        Whether a published output that was missing is back.
    """
    try:
        wanted = (build / REPLACING).read_bytes()
    except OSError:
        return False
    if not os.path.lexists(output.path) and (build / OLD).exists():
        rename(build / OLD, output.path)
        is_back = True
    else:
        is_back = False
        if _identity(output.path) == wanted:
            if (build / SET).exists():
                rename(build / SET, build / OLD)  # the old output, if one system call exchanged the two
            keep_strangers(build / OLD, output.path)
            durable.remove(build / PLAN_NAME)  # nothing of this build is to be continued
    durable.remove(build / REPLACING)
    return is_back


def keep_strangers(old: Path, new: Path) -> None:
    """Move the files that recordzoo did not write from a record set that was replaced into the new one.

    If one of them cannot be moved, the whole old directory gets a name beside the new one.
    """
    for name in strangers(old):
        target, number = new / name, 0
        while os.path.lexists(target):
            number += 1
            target = new / f"{name}.{number}"
        try:
            durable.move(old / name, target, rename)
        except OSError as err:
            aside = new.with_name(f"{new.name}.old-{secrets.token_hex(4)}")
            rename(old, aside)
            logger.warning(
                "%s, which recordzoo did not write, cannot be moved to %s (%s). The old record set is kept as %s.",
                aside / name,
                target,
                err,
                aside,
            )
            return


def generation(path: Path) -> tuple[int, int] | None:
    """Return the identity of the output at a path; None if there is none."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


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
        or (path.is_dir() and not any(path.iterdir()))
    ):
        return
    else:
        what = "is in the way: it is not a record set. Move it"
    raise PrepareError(f"{path} {what}, or {elsewhere}.", path=str(path))


def remove_build(build: Path, output: Output, *, keep: str = "") -> None:
    """Remove all files of a build but one, after an interrupted exchange is settled.

    Args:
        keep: Name of the file to keep.
    """
    settle(build, output)
    keep_strangers(build / OLD, output.path)
    with contextlib.suppress(FileNotFoundError), os.scandir(build) as entries:
        for entry in list(entries):
            if entry.name == keep:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


def _identity(folder: Path) -> bytes:
    """Identify an output by the digest of its manifest and its inode, which renames keep; b"" if it cannot be read."""
    with contextlib.suppress(OSError):
        digest = hashlib.sha256((folder / MANIFEST_NAME).read_bytes()).hexdigest()
        return f"{digest} {folder.stat().st_ino}".encode()
    return b""


def _is_mounted(path: Path) -> bool:
    """Whether a path is a mount point; `os.path.ismount` is wrong for paths that begin with /proc/PID/root."""
    with contextlib.suppress(OSError):
        return not path.is_symlink() and path.stat().st_dev != os.stat(os.path.join(path, os.pardir)).st_dev
    return False
