"""A build directory: claimed, written, published, removed or left. Its states are in `docs/decisions/preparing.md`."""

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.base.owner import Owner
from recordzoo.errors import LostBuildError
from recordzoo.publish.exchange import exchange, give_name
from recordzoo.publish.heartbeat import Heartbeat
from recordzoo.publish.output import FREE, SET, Found, Output, dead_builds, written_bytes
from recordzoo.publish.space import check_space
from recordzoo.system.files import is_in_use, rename

PLAN_NAME = "plan.json"
"""In a build: the description of the output. A build is resumed only with the same plan."""


class Build:
    """This process's build of one output. Nothing is on disk before `claim`.

    Args:
        output: The output to publish.

    Attributes:
        path: The build directory.
        plan: The description of the output; empty before `claim`.
        remaining: Estimate of the bytes that were still to be written at `claim`.
        unusable: Dead builds with another plan, and builds that cannot be taken over; removed at the end.
        before_release: Removes files that an interrupted build need not keep.
        is_first: Whether this build was published.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self.path = output.path.with_name(f"{output.path.name}.build.{Owner.current()}")
        self.plan: Mapping[str, Any] = {}
        self.remaining = self._needed = 0
        self.unusable: list[Path] = []
        self.before_release: Callable[[], object] | None = None
        self.is_first = False
        self._is_there = False  # whether the directory exists, under this process's name
        self._heartbeat = Heartbeat(self.path / "heartbeat")

    @property
    def set(self) -> Path:
        """The directory in which the output is built."""
        return self.path / SET

    def claim(self, plan: Mapping[str, Any], needed: int) -> None:
        """Take over the largest dead build with the same plan, or start a new one.

        Args:
            plan: The description of the output.
            needed: Estimated size of the output in bytes.

        Raises:
            DiskSpaceError: There is too little space for the missing bytes.
            LostBuildError: Another process took it over at once.
            OSError: The disk is full, failed or read-only.
        """
        self.plan, self._needed = plan, needed
        dead = [(found, _read_plan(found.path)) for found in dead_builds(self.output.path)]
        same = [found for found, known in dead if known is not None and canonical(known) == canonical(plan)]
        self._check_space(same[0].written_bytes if same else 0)
        for found, known in dead:
            # Another user's build cannot be written to.
            if (known is not None and found not in same) or not os.access(found.path, os.W_OK):
                self.unusable.append(found.path)
                continue
            try:
                if not self._adopt(found):
                    continue  # another process was faster
            except OSError as err:
                if err.errno != errno.EXDEV and not is_in_use(err):
                    raise
                self.unusable.append(found.path)
                continue
            if known is not None:
                self.set.mkdir(exist_ok=True)
                self.check_space()
                return
            self.remove()  # its process was killed before it wrote a plan
            self._heartbeat = Heartbeat(self.path / "heartbeat")
        self._begin()
        self.check_space()

    def check_space(self) -> None:
        """Refuse to go on with too little space: an interrupted build may keep less than it wrote."""
        self._check_space(written_bytes(self.path))

    def _check_space(self, written: int) -> None:
        self.remaining = max(0, self._needed - written)
        check_space(self.output.path.parent, self.remaining, self.output.elsewhere)

    def _adopt(self, found: Found) -> bool:
        """Take a dead build over by renaming it; False if another process was faster."""
        heartbeat = found.path / "heartbeat"
        try:
            silent_since = heartbeat.stat() if heartbeat.exists() else None
            heartbeat.touch()  # before the rename: under this process's name it must never look silent
            try:
                durable.rename(found.path, self.path)
            except OSError as err:
                if (err.errno == errno.EXDEV or is_in_use(err)) and silent_since is not None:  # it stays dead
                    os.utime(heartbeat, ns=(silent_since.st_atime_ns, silent_since.st_mtime_ns))
                raise
        except FileNotFoundError:
            return False
        self._is_there = True
        self._heartbeat.start()
        crash_point("build.claimed")
        return True

    def _begin(self) -> None:
        self.path.mkdir(parents=True)
        self._is_there = True
        (self.path / "heartbeat").touch()
        self._heartbeat.start()
        crash_point("build.claimed")
        self.set.mkdir()
        durable.replace_file(self.path / PLAN_NAME, canonical(self.plan))
        durable.sync_directory(self.output.path.parent)
        crash_point("build.planned")

    def check(self) -> None:
        """Raise if another process has taken this build over."""
        if self.is_lost:
            raise self.lost()

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken this build over."""
        return self._is_there and not self.path.exists()

    def lost(self) -> LostBuildError:
        """Return the error of a build that was taken over."""
        return LostBuildError(f"The preparation of {self.output.path} was taken over by another process.")

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
        """Remove the build directory."""
        self._heartbeat.stop()
        if not self.path.exists():
            return
        self._is_there = False
        gone = self._free_path()
        with contextlib.suppress(OSError):  # renamed first: a worker that still converts a unit cannot add files
            rename(self.path, gone)
        for path in (gone, self.path):
            shutil.rmtree(path, ignore_errors=True)
        crash_point("build.cleaned")

    def release(self) -> None:
        """Release the build for the next process with the same plan."""
        self._heartbeat.stop()
        if not self.path.exists():
            return
        if not self.output.is_resumable:
            self.remove()
            return
        with contextlib.suppress(OSError):
            if self.before_release is not None:
                self.before_release()
        with contextlib.suppress(OSError):
            rename(self.path, self._free_path())
        self._is_there = False

    def _free_path(self) -> Path:
        return self.path.with_name(f"{self.output.path.name}.build.{FREE}{secrets.token_hex(4)}")


def canonical(document: Mapping[str, Any]) -> bytes:
    """Encode a document as JSON: equal documents give equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _read_plan(build: Path) -> dict[str, Any] | None:
    """Read the plan of a build directory; None if it has none yet."""
    try:
        plan: dict[str, Any] = json.loads((build / PLAN_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return plan
