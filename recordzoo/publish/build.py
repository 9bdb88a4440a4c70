"""The build directory of an output: locked, written, published, then removed or left for the next command."""

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.base.lock import Lock, NoLocksError, holder
from recordzoo.errors import PrepareError
from recordzoo.publish.exchange import exchange, give_name, remove_build, settle
from recordzoo.publish.output import LOCK, PLAN_NAME, SET, Output, build_path, written_bytes
from recordzoo.publish.space import check_space
from recordzoo.system.files import is_link

_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class Build:
    """The build of one output. The process that holds its lock owns all files in it.

    Where the file system has no locks, or another user left a build, the process has a build of its own, which is not
    continued after a kill.

    Args:
        output: The output to publish.

    Attributes:
        path: The build directory.
        plan: The description of the output; empty before `claim`.
        remaining: Estimate of the bytes that were still to be written at `claim`.
        discarded: Whether `claim` removed a build that had another plan.
        is_first: Whether this build was published.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self.path = build_path(output.path)
        self.plan: Mapping[str, Any] = {}
        self.remaining = self._needed = 0
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
            if not os.access(self.path, os.W_OK):  # another user's, who has ended
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
            if is_link(self.path) or self.path.is_file():
                raise PrepareError(
                    f"{self.path} is in the way: the output is built there. Move it, or {self.output.elsewhere}.",
                    path=str(self.path),
                ) from None

    def _use_own_directory(self) -> None:
        self.path = self.path.with_name(f"{self.path.name}-{secrets.token_hex(4)}")

    @property
    def holder(self) -> str:
        """The process that holds the lock, for messages."""
        return holder(self.path / LOCK)

    def settle(self) -> bool:
        """Finish an interrupted exchange; return whether a published output that was missing is back."""
        return settle(self.path, self.output)

    def claim(self, plan: Mapping[str, Any], needed: int) -> None:
        """Continue the build that is there, if it has the same plan, or start a new one.

        Args:
            plan: The description of the output.
            needed: Estimated size of the output in bytes.

        Raises:
            DiskSpaceError: There is too little space for the missing bytes.
            OSError: The disk is full, failed or read-only.
        """
        self.plan, self._needed = plan, needed
        known = _read_plan(self.path)
        is_same = known is not None and canonical(known) == canonical(plan)
        self._check_space(written_bytes(self.path) if is_same else 0)
        if not is_same:
            self.discarded = known is not None
            remove_build(self.path, self.output, keep=LOCK)
            if left := sorted(self.path.glob("u*-*.npz")):
                raise PrepareError(
                    f"{left[0]}, of an interrupted preparation, cannot be deleted. Delete {self.path}.",
                    path=str(self.path),
                )
        self.path.mkdir(exist_ok=True)
        crash_point("build.claimed")
        self.set.mkdir(exist_ok=True)
        if not is_same:
            durable.replace_file(self.path / PLAN_NAME, canonical(plan))
        durable.sync_directory(self.output.path.parent)
        crash_point("build.planned")

    def check_space(self) -> None:
        """Refuse to go on with too little space: an interrupted build may keep less than it wrote."""
        self._check_space(written_bytes(self.path))

    def _check_space(self, written: int) -> None:
        self.remaining = max(0, self._needed - written)
        check_space(self.output.path.parent, self.remaining, self.output.elsewhere)

    def check(self) -> None:
        """Raise if somebody removed the build directory."""
        if not (self.path.exists() if self._lock is None else self._lock.is_mine):
            raise PrepareError(
                f"{self.path} was removed while it was written. Run the same command again.", path=str(self.path)
            )

    def publish(self, may_replace: Callable[[Path], bool]) -> bool:
        """Give the finished output its final name; False if something that may not be replaced has that name."""
        self.check()
        if may_replace(self.output.path):
            exchange(self.path, self.output)
        elif not give_name(self.path, self.output):
            return False
        crash_point("set.published")
        durable.sync_directory(self.output.path.parent)
        crash_point("set.synced")
        self.is_first = True
        return True

    def remove(self) -> None:
        """Remove the build directory and release the lock; nothing if this process has lost the build."""
        if self._lock is not None and not self._lock.is_mine:
            self._lock.release()
            return
        try:
            remove_build(self.path, self.output, keep=LOCK)
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


@contextlib.contextmanager
def kept_from_others(output: Output) -> Iterator[bool]:
    """Keep other processes from building an output while the block removes it.

    Yields:
        Whether no process builds it; if False, remove nothing.
    """
    build = Build(output)
    if not build.try_lock():
        yield False
        return
    try:
        yield True
    finally:
        build.release()


def canonical(document: Mapping[str, Any]) -> bytes:
    """Encode a document as JSON: equal documents give equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _read_plan(build: Path) -> dict[str, Any] | None:
    """Read the plan of a build directory; None if it has none."""
    try:
        plan: dict[str, Any] = json.loads((build / PLAN_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return plan
