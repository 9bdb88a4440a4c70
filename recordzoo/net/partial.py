"""`partial_file`: the part of a download, and its lock. The states are in docs/decisions/downloads.md."""

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from recordzoo.base import durable
from recordzoo.base.lock import Lock, NoLocksError, holder
from recordzoo.base.progress import Progress
from recordzoo.net.part import Part
from recordzoo.system.files import is_own, replace

CHECKING = "checking what is there of"
"""Prefix of the name of the stage that reads an earlier run's bytes."""

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Stamp:
    """A server's description of the file that the bytes come from; equal stamps mean equal files."""

    url: str
    etag: str = ""
    last_modified: str = ""

    @property
    def validator(self) -> str:
        """The value for `If-Range`: a strong ETag, else the date (RFC 9110, section 13.1.5), else ""."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified


class PartialFile(Part):
    """The part of a download. Use it through `partial_file`.

    Args:
        target: The final name.
        path: Where the first bytes are; created if it is missing.
        algorithm: The hash's name in hashlib; None for no hash.

    Attributes:
        stamp: The file that the bytes come from; None if it is unknown, or more than one file.
    """

    def __init__(self, target: Path, path: Path, algorithm: str | None) -> None:
        self._target = target
        super().__init__(path, algorithm)
        self.stamp = self._read_stamp()

    def check_present(self, progress: Progress) -> None:
        """Hash the bytes of an earlier process, with progress.

        Raises:
            OSError: As `hash_present`.
        """
        if self._hash is not None:
            progress.begin(f"{CHECKING} {self._target.name}", self.size_bytes)
            self.hash_present(progress.advance)
            progress.end()

    @override
    def start_over(self, stamp: Stamp | None = None) -> None:
        """Drop all bytes; the next ones come from the file that `stamp` describes."""
        super().start_over()
        self._set_stamp(stamp)

    def go_on(self, *, same_file: bool) -> None:
        """Keep the bytes before another answer's are appended. Unless both are of the same file, drop the stamp."""
        if not same_file:
            self._set_stamp(None)

    def publish(self) -> None:
        """Give the file its final name, durably.

        Raises:
            OSError: As `sync`.
        """
        if not self._target.exists():
            self.sync()
        self._file.close()  # Windows does not rename open files
        if self._target.exists():  # another process was faster; its file stays
            durable.remove(self.path)
        else:
            with contextlib.suppress(FileExistsError):  # as above: on Windows a rename never replaces
                durable.rename(self.path, self._target)
        durable.remove(self.path)
        durable.remove(_side(self.path))

    def put_aside(self, found: str) -> Path:
        """Keep the wrong bytes under a ``.bad-`` name, and continue with an empty part."""
        aside = self._target.with_name(f"{self._target.name}.bad-{found[:8]}")
        self._file.close()
        replace(self.path, aside)
        self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - lives as long as this object
        self.start_over()
        return aside

    def _set_stamp(self, stamp: Stamp | None) -> None:
        self.stamp = stamp
        if stamp is None:
            durable.remove(_side(self.path))
            return
        facts = {
            "url": stamp.url,
            "etag": stamp.etag,
            "last_modified": stamp.last_modified,
        }
        try:
            _side(self.path).write_text(json.dumps(facts, indent=1), encoding="utf-8")
        except OSError:  # a full disk, which the first byte reports: without the stamp, the next process starts over
            self.stamp = None

    def _read_stamp(self) -> Stamp | None:
        try:
            facts = json.loads(_side(self.path).read_text(encoding="utf-8"))
            return Stamp(str(facts["url"]), str(facts["etag"]), str(facts["last_modified"]))
        except (OSError, ValueError, KeyError, TypeError):  # missing, or cut by a crash: unknown
            return None


@contextlib.contextmanager
def partial_file(
    target: Path, algorithm: str | None, progress: Progress, sleep: Callable[[float], None]
) -> Iterator[PartialFile | None]:
    """Hold the part of a download: its lock keeps other processes out. However the block ends, received bytes are kept.

    Where locks do not work, or another user left a part, the bytes go into a file of this process, which is removed if
    the block does not publish it.

    Args:
        target: The final name.
        algorithm: The hash's name in hashlib; None for no hash.
        progress: Shows which process this one waits for.
        sleep: Waits so many seconds, or raises.

    Yields:
        The part; None if another process has published the file.

    Raises:
        OSError: The disk is full, failed or read-only.
    """
    path = target.with_name(f"{target.name}.part")
    own = path.with_name(f"{path.name}-{secrets.token_hex(4)}")
    lock = Lock(lock_path(target))
    try:
        _wait(lock, target, progress, sleep)
    except NoLocksError:
        with contextlib.suppress(OSError):  # nobody can hold it
            lock.path.unlink()
    except PermissionError:  # another user's
        pass
    try:
        if target.exists():
            yield None
            return
        part = PartialFile(target, path if lock.is_mine and _is_usable(path) else own, algorithm)
        try:
            yield part
        finally:
            with contextlib.suppress(OSError):  # the block's own error matters more
                part.close()
                if part.path == own or not part.size_bytes:
                    durable.remove(part.path)
                    durable.remove(_side(part.path))
    finally:
        if lock.is_mine:
            lock.delete()


def _is_usable(path: Path) -> bool:
    """Whether a part can be continued: it is a file that this user may write to and rename."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    may_rename = not path.parent.stat().st_mode & stat.S_ISVTX or is_own(status)
    return stat.S_ISREG(status.st_mode) and os.access(path, os.R_OK | os.W_OK) and may_rename


def _wait(lock: Lock, target: Path, progress: Progress, sleep: Callable[[float], None]) -> None:
    """Wait until this process holds the lock, or the file is there."""
    has_said = False
    while not target.exists() and not lock.try_acquire():
        if not has_said:
            progress.note(f"Waiting for {holder(lock.path)}, which downloads {target}.")
            has_said = True
        sleep(_POLL_S)


def tidy(target: Path) -> None:
    """Remove what a process left that was killed after it had published the file."""
    if lock_path(target).exists():
        lock = Lock(lock_path(target))
        with contextlib.suppress(OSError, NoLocksError):
            if lock.try_acquire():
                part = target.with_name(f"{target.name}.part")
                if not part.exists():
                    durable.remove(_side(part))
                lock.delete()


def lock_path(target: Path) -> Path:
    """Return the lock file of a download."""
    return target.with_name(f"{target.name}.part.lock")


def _side(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")
