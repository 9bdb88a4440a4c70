"""The build directory of an output: locked, written, published, then removed or left for the next command."""

import contextlib
import errno
import hashlib
import json
import logging
import os
import random
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo.base import files, settings
from recordzoo.base.process import Lock, NoLocksError, crash_point, holder
from recordzoo.base.progress import Progress, format_bytes
from recordzoo.errors import DiskSpaceError, PrepareError, RecordZooError
from recordzoo.net.part import NO_ROOM
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import is_record_set
from recordzoo.records.writer import strangers

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

REPLACING = "replacing"
"""In a build: the identity of the output that is about to replace the published one."""

OLD = "old"
"""In a build: the published output that was replaced."""

_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)

_POLL_S = (0.2, 5.0)
"""Seconds between two checks, first and maximum: a wait of hours must not burden the file server."""

_SAY_AGAIN_S = 30.0

logger = logging.getLogger("recordzoo")


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


class Build:
    """The build of one output. The process that holds its lock owns all files in it.

    Where the file system has no locks, or another user left a build, the process has a build of its own, which is not
    continued after a kill.

    Args:
        output: The output to publish.

    Attributes:
        path: The build directory.
        plan: The description of the output; empty before `claim`.
        discarded: Whether `claim` removed a build that had another plan.
        is_first: Whether this build was published.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self.path = build_path(output.path)
        self.plan: Mapping[str, Any] = {}
        self.discarded = self.is_first = False
        self._lock: Lock | None = None

    @property
    def set(self) -> Path:
        """The directory in which the output is built."""
        return self.path / SET

    def try_lock(self, *, makes: bool = True) -> bool:
        """Return whether this process may build now; False if another one builds.

        Args:
            makes: Make the build directory; otherwise return False if there is none.

        Raises:
            PrepareError: A file or a link has the name of the build directory.
            OSError: The disk is full or failed.
        """
        try:
            if makes:
                self._make_directory()
            elif not self.path.is_dir():
                return False
            lock = Lock(self.path / LOCK)
            if not lock.try_acquire():
                return False
            may_write = os.access(self.path, os.W_OK)
            if not lock.is_mine:  # another process has removed the directory since
                lock.release()
                return False
            if not may_write:  # another user's, who has ended
                lock.release()
                self._use_own_directory()
                return makes
        except FileNotFoundError:  # another process has just removed the directory
            return False
        except NoLocksError:
            with contextlib.suppress(OSError):  # nobody can hold the lock
                (self.path / LOCK).unlink(missing_ok=True)
                self.path.rmdir()
            self._use_own_directory()
            return makes
        except OSError as err:
            if err.errno not in _REFUSED:
                raise
            if os.path.lexists(self.path):
                self._use_own_directory()
            return makes  # `claim` reports that nothing may be written here
        self._lock = lock
        return True

    def _make_directory(self) -> None:
        """Make the build directory, in which other users may see the lock, whatever the umask."""
        try:
            self.path.mkdir()
            with contextlib.suppress(OSError):
                self.path.chmod(stat.S_IMODE(self.path.stat().st_mode) | 0o111)
        except FileExistsError:
            if files.is_link(self.path) or self.path.is_file():
                raise PrepareError(
                    f"{self.path} is in the way: the output is built there. Move it, or {self.output.elsewhere}.",
                    path=str(self.path),
                ) from None

    def _use_own_directory(self) -> None:
        self.path = self.path.with_name(f"{self.path.name}-{secrets.token_hex(4)}")

    def claim(self, plan: Mapping[str, Any], needed: int) -> None:
        """Continue the build that is there, if it has the same plan, or start a new one.

        Args:
            plan: The description of the output.
            needed: Estimated size of the output in bytes.

        Raises:
            DiskSpaceError: There is too little space for the missing bytes.
            OSError: The disk is full, failed or read-only.
        """
        self.plan = plan
        known = None
        with contextlib.suppress(OSError):
            known = (self.path / PLAN_NAME).read_bytes()
        is_same = known == canonical(plan)
        needed -= written_bytes(self.path) if is_same else 0
        check_space(self.output.path.parent, needed, self.output.elsewhere)
        if not is_same:
            self.discarded = known is not None
            self._clear()
            if left := sorted(self.path.glob("u*-*.npz")):
                raise PrepareError(
                    f"{left[0]}, of an interrupted preparation, cannot be deleted. Delete {self.path}.",
                    path=str(self.path),
                )
        self.path.mkdir(exist_ok=True)
        crash_point("build.claimed")
        self.set.mkdir(exist_ok=True)
        if not is_same:
            files.replace_file(self.path / PLAN_NAME, canonical(plan))
        files.sync_directory(self.output.path.parent)
        crash_point("build.planned")

    def check(self) -> None:
        """Raise if somebody removed the build directory."""
        if not (self.path.exists() if self._lock is None else self._lock.is_mine):
            raise PrepareError(
                f"{self.path} was removed while it was written. Run the same command again.", path=str(self.path)
            )

    def publish(self, *, replaces: bool) -> bool:
        """Give the finished output its final name; False if something that may not be replaced has that name."""
        self.check()
        if replaces and is_record_set(self.output.path):
            self._exchange()
        else:
            try:
                files.rename(self.set, self.output.path)
            except OSError:
                if not os.path.lexists(self.output.path) or not self.set.exists():
                    raise
                return False
        crash_point("set.published")
        files.sync_directory(self.output.path.parent)
        crash_point("set.synced")
        self.is_first = True
        return True

    def remove(self) -> None:
        """Remove the build directory and release the lock; nothing if this process has lost the build."""
        if self._lock is not None and not self._lock.is_mine:
            self._lock.release()
            return
        try:
            self._clear()
        finally:
            if self._lock is not None:
                self._lock.delete()
        with contextlib.suppress(OSError):  # another process locks it already
            self.path.rmdir()
        crash_point("build.cleaned")

    def release(self) -> None:
        """Leave the build for the next process with the same plan."""
        if self._lock is None or not (self.path / PLAN_NAME).exists() or (self.plan and not self.output.is_resumable):
            self.remove()
            return
        try:
            if self._lock.is_mine:
                self.settle()
                for path in (*self.path.glob("*.tmp"), *self.path.glob("task.*")):  # of these nothing is continued
                    with contextlib.suppress(OSError):
                        path.unlink()
        finally:
            self._lock.release()

    def _exchange(self) -> None:
        """Exchange the output with the published one by one system call, or else by two renames.

        Between the two renames nothing is published. `settle` finishes or undoes what a kill interrupts.
        """
        target, old = self.output.path, self.path / OLD
        files.replace_file(self.path / REPLACING, _identity(self.set))
        crash_point("set.replacing")
        if files.exchange(self.set, target):
            return
        files.rename(target, old)
        crash_point("set.moved_away")
        try:
            files.rename(self.set, target)
        except BaseException:
            files.rename(old, target)
            raise

    def settle(self) -> bool:
        """Finish or undo an exchange that a kill interrupted: one output is published, and no stranger's file is lost.

        Call it with the lock held.

        Returns:
            Whether a published output that was missing is back.
        """
        target, old = self.output.path, self.path / OLD
        try:
            wanted = (self.path / REPLACING).read_bytes()
        except OSError:
            return False
        is_back = not os.path.lexists(target) and old.exists()
        if is_back:
            files.rename(old, target)
        elif _identity(target) == wanted:
            if self.set.exists():
                files.rename(self.set, old)  # the old output, if one system call exchanged the two
            keep_strangers(old, target)
            files.remove(self.path / PLAN_NAME)  # nothing of this build is to be continued
        files.remove(self.path / REPLACING)
        return is_back

    def _clear(self) -> None:
        """Remove all files but the lock, after an interrupted exchange is settled."""
        self.settle()
        keep_strangers(self.path / OLD, self.output.path)
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif entry.name != LOCK:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)


def tidy(output: Output) -> None:
    """Remove what a command that was killed after publishing has left; an interrupted build of a new set stays."""
    build = Build(output)
    with contextlib.suppress(OSError, PrepareError):
        if not build.try_lock(makes=False):
            return
        is_over = True
        try:
            build.settle()
            is_over = not (build.path / PLAN_NAME).exists() or not build.set.exists()
        finally:
            if is_over:
                build.remove()
            else:
                build.release()


def canonical(document: Mapping[str, Any]) -> bytes:
    """Encode a document as JSON: equal documents give equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


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
            files.rename(old / name, target)
        except OSError as err:
            aside = new.with_name(f"{new.name}.old-{secrets.token_hex(4)}")
            files.rename(old, aside)
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


def check_place(path: Path, elsewhere: str = RECORDS_DIR) -> None:
    """Refuse a path for a record set that cannot be renamed or is occupied by something else.

    Args:
        elsewhere: As in `Output`.
    """
    if files.is_mount_point(path):
        what = "is where another volume is mounted, and cannot be renamed"
    elif is_record_set(path) or not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    else:
        what = "is in the way: it is not a record set. Move it"
    raise PrepareError(f"{path} {what}, or {elsewhere}.", path=str(path))


def _identity(folder: Path) -> bytes:
    """Identify an output by the digest of its manifest and its inode, which renames keep; b"" if it cannot be read."""
    with contextlib.suppress(OSError):
        digest = hashlib.sha256((folder / MANIFEST_NAME).read_bytes()).hexdigest()
        return f"{digest} {folder.stat().st_ino}".encode()
    return b""


@contextlib.contextmanager
def publishing(
    output: Output, is_ready: Callable[[], bool], progress: Progress, *, again: bool = False, replaces: bool = False
) -> Iterator[Build | None]:
    """Publish the block's output: the block calls `Build.claim` and writes into ``build.set``.

    The output gets its name when the block ends; `Build.is_first` then says whether it is this process's. If the block
    raises or the process is killed, the build is kept, and the next process with the same plan continues it. Any number
    of processes may call this at once; if the output cannot be resumed, all but one raise instead of waiting.

    Args:
        is_ready: Returns whether the wanted output exists; raises if something else is at its path.
        progress: Shows which process this one waits for.
        again: Rebuild an output that is ready, unless another process builds it during the wait.
        replaces: Replace the record set that is at the output's path at the end of the block.

    Yields:
        The build; None if the output is ready.

    Raises:
        PrepareError: Something else is at the output's path, or the disk failed.
        DiskSpaceError: The disk is full.
        Exception: Any error of `is_ready` and the block.
    """
    build, before = Build(output), generation(output.path)

    def is_done() -> bool:
        return is_ready() and (not again or generation(output.path) != before)

    try:
        output.path.parent.mkdir(parents=True, exist_ok=True)
        if is_mine := _wait(build, is_done, progress):
            try:
                if build.settle():
                    before = generation(output.path)
                is_mine = not is_done()
            except BaseException:
                build.release()
                raise
            if not is_mine:
                build.remove()
    except OSError as err:
        if isinstance(err, RecordZooError):
            raise
        raise disk_error(err, output) from err
    if not is_mine:
        tidy(output)
        yield None
        return
    try:
        try:
            yield build
            if not build.publish(replaces=replaces) and not is_done():
                raise PrepareError(f"{output.path} was made by another process meanwhile.", path=str(output.path))
        except BaseException:
            build.release()
            raise
        build.remove()
        if is_record_set(output.path):
            settings.remember_root(output.path.parent)
    except OSError as err:
        if isinstance(err, RecordZooError) or not build.plan:  # nothing was written yet
            raise
        raise disk_error(err, output) from err


def _wait(build: Build, is_done: Callable[[], bool], progress: Progress) -> bool:
    """Wait until this process holds the build's lock; False if the output is there."""
    said, nap = -_SAY_AGAIN_S, _POLL_S[0]
    jitter = random.Random()  # its own generator: the program's random numbers stay unchanged
    while not is_done():
        if build.try_lock():
            return True
        path, other = build.output.path, holder(build.path / LOCK)
        if not build.output.is_resumable:
            raise PrepareError(f"{other} is writing {path}. Wait for its end.", path=str(path))
        if time.monotonic() - said >= _SAY_AGAIN_S:
            said, written = time.monotonic(), written_bytes(build.path)
            how_far = f" ({format_bytes(written)} are written)" if written else ""
            progress.note(f"Waiting for {other}, which prepares {path}{how_far}.")
        time.sleep(nap * jitter.uniform(0.7, 1.0))  # spreads processes that started together
        nap = min(_POLL_S[1], nap * 1.3)
    return False


def check_space(folder: Path, needed: int, elsewhere: str = RECORDS_DIR) -> None:
    """Raise if there is too little space.

    Args:
        folder: The output folder.
        needed: Number of bytes to write.
        elsewhere: As in `Output`.
    """
    free = files.free_bytes(folder)
    if needed > free:
        raise DiskSpaceError(
            f"{folder} has {format_bytes(free)} free, and {format_bytes(needed)} are needed: "
            f"{format_bytes(needed - free)} more. Free some space, or {elsewhere} on another volume.",
            path=str(folder),
            missing_bytes=needed - free,
        )


def disk_error(err: OSError, output: Output) -> RecordZooError:
    """Return the error for a disk failure while an output is written, with advice."""
    folder = output.path.parent
    kept, again = "What is finished is kept", "run the same command again"
    if not output.is_resumable:
        kept, again = "Nothing is kept", "write the records again"
    if err.errno in NO_ROOM:
        why = os.strerror(err.errno or 0)  # LMDB's own text differs
        return DiskSpaceError(
            f"No room left in {folder} ({why}): {format_bytes(files.free_bytes(folder))} are free now. {kept}; free "
            f"some space, or raise the limit that is reached (quota, number of files, ulimit -f), and {again}.",
            path=str(folder),
            missing_bytes=0,
        )
    if files.is_in_use(err):
        text = (
            f"{err.filename or folder} is in use ({err.strerror}): Windows does not rename a directory while a program "
            f"has a file in it open. {kept}; close the datasets and programs that use it and {again}."
        )
    elif err.errno in _REFUSED:
        elsewhere = output.elsewhere[:1].upper() + output.elsewhere[1:]
        text = f"{folder} may not be written to ({err.strerror}). {elsewhere} that may be written to."
    else:
        text = f"Writing to {folder} failed: {err}. {kept}; remove the cause, or {output.elsewhere}, and {again}."
    return PrepareError(text, path=str(folder))
