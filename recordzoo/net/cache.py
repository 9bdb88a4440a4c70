"""This machine's cache of files from URLs: verified, bounded, shared by all processes.

    CACHE/<digest>/<file>                            complete and verified
    CACHE/<digest>/.<file>.<size>.<owner>.part       its first bytes; owned by the process that writes
    CACHE/<digest>/.<file>.lock                      its holder fetches the file; other processes wait
    CACHE/.lock                                      its holder makes room

The digest is that of the record set's manifest. A file's modification time is its last use. Any file may be deleted at
any time: an open file stays readable.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import filelock

from recordzoo.base import settings
from recordzoo.base.owner import Owner
from recordzoo.net.part import claim, is_abandoned
from recordzoo.system.files import LOCKS_ARE_MANDATORY, open_file, rename, replace

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR)
"""Errors of a disk that is full or not writable."""

_SMALL = (".npy", ".json", ".marks", ".absent")
_PART = re.compile(r"\.(?P<name>.+)\.(?P<size>[0-9]+)\.(?P<owner>[0-9A-Za-z_]+-[0-9]+-[0-9]+-[0-9a-f]+)\.part")
_FREE = "free"  # in place of an owner's host
_POLL_S = (0.005, 0.1)


class NoRoomError(Exception):
    """The cache cannot take a file; the caller reads ranges of it, or keeps it in memory."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A file in the cache.

    Attributes:
        path: Its path.
        size_bytes: Its size; for a part, its final size.
        used: Time of its last use.
        is_small: Whether it is a manifest or an array: these are removed last.
    """

    path: Path
    size_bytes: int
    used: float
    is_small: bool


@dataclass(frozen=True)
class Cache:
    """A cache in a folder.

    Args:
        folder: Need not exist.
        limit_bytes: Maximum size; None for half of the space that the volume would have without it.
    """

    folder: Path
    limit_bytes: int | None = None

    @classmethod
    def default(cls, limit_bytes: int | None = None) -> "Cache":
        """Return the cache that the settings name.

        Args:
            limit_bytes: Replaces the setting.

        Raises:
            ArgumentError: A setting is not valid.
        """
        return cls(settings.cache_folder(), settings.cache_bytes() if limit_bytes is None else limit_bytes)

    def limit(self) -> int:
        """Return the maximum size in bytes."""
        if self.limit_bytes is not None:
            return self.limit_bytes
        place = self.folder
        while not place.exists() and place != place.parent:
            place = place.parent
        with contextlib.suppress(OSError):
            return (shutil.disk_usage(place).free + sum(each.size_bytes for each in self.files())) // 2
        return 0

    def path(self, digest: str, name: str) -> Path:
        """Return the path of a file, which may not exist."""
        return self.folder / digest / name

    def find(self, digest: str, name: str, size_bytes: int | None = None) -> int | None:
        """Open a file and record its use; None if it is missing. The caller closes the descriptor."""
        path = self.path(digest, name)
        try:
            fd = open_file(path)
        except OSError:
            return None
        if size_bytes is not None and os.fstat(fd).st_size != size_bytes:
            os.close(fd)
            self.drop(digest, name)
            return None
        self.touch(digest, name)
        return fd

    def touch(self, digest: str, name: str) -> bool:
        """Record the use of a file; return whether it exists."""
        try:
            os.utime(self.path(digest, name))
        except OSError:
            return False
        return True

    def drop(self, digest: str, name: str) -> None:
        """Remove a file if possible: Windows keeps open files."""
        with contextlib.suppress(OSError):
            self.path(digest, name).unlink()

    def write(self, digest: str, name: str, data: bytes) -> None:
        """Write a small, verified file.

        Raises:
            NoRoomError: It cannot be written.
        """
        path = self.path(digest, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = self.new_part(digest, name, len(data))
            part.write_bytes(data)
            replace(part, path)
        except OSError as err:
            raise NoRoomError(f"{path} cannot be written: {err.strerror}") from err

    def new_part(self, digest: str, name: str, size_bytes: int) -> Path:
        """Return the name of a new part that this process owns."""
        return self.path(digest, f".{name}.{size_bytes}.{Owner.current()}.part")

    def claim_part(self, digest: str, name: str, size_bytes: int) -> Path:
        """Take over a part that another process left, or return the name of a new one."""
        mine = self.new_part(digest, name, size_bytes)
        start = f".{name}.{size_bytes}."
        alike = [path for path in self._entries(mine.parent) if path.name.startswith(start)]
        left = [path for path in alike if _PART.fullmatch(path.name) and not _is_living_part(path)]
        claim(left, mine)
        for path in left:  # the shorter ones
            with contextlib.suppress(OSError):
                path.unlink()
        return mine

    def release_part(self, part: Path) -> None:
        """Release a part, so that another attempt can resume it."""
        match = _PART.fullmatch(part.name)
        assert match is not None
        with contextlib.suppress(OSError):
            rename(part, part.with_name(part.name.replace(match["owner"], f"{_FREE}-0-0-{secrets.token_hex(4)}")))

    @contextlib.contextmanager
    def turn(self, digest: str, name: str) -> Iterator[bool]:
        """Wait until this process may fetch a file, or another process has fetched it.

        Yields:
            Whether to fetch it; False if it is in the cache now.
        """
        path = self.path(digest, name)
        lock_path = path.with_name(f".{name}.lock")
        with _locked(lock_path, path.exists, lambda: self._progress(digest, name)) as is_ours:
            yield is_ours and not path.exists()

    def is_coming(self, digest: str, name: str = "") -> bool:
        """Whether a living process fetches a file; without a name, any file of the record set."""
        start = f".{name}." if name else "."
        return any(
            path.name.startswith(start) and _is_living_part(path) for path in self._entries(self.folder / digest)
        )

    def remove_set(self, digest: str) -> bool:
        """Remove a record set's files as `make_room` does; return whether all are gone. Open files stay readable."""
        folder = self.folder / digest
        with _locked(self.folder / ".lock", lambda: False, lambda: None):
            for path in sorted(self._entries(folder), key=lambda path: path.name.endswith(_SMALL)):
                if not _is_living_part(path):
                    with contextlib.suppress(OSError):  # as in `make_room`
                        path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    def make_room(self, size_bytes: int, *, at_least_one: bool = False) -> None:
        """Remove the least recently used files until a file fits.

        Args:
            size_bytes: Size of the file.
            at_least_one: The disk is full: remove one file even if the limit is not reached.

        Raises:
            NoRoomError: The cache cannot free that much.
        """
        limit = self.limit()
        if size_bytes > limit:
            raise NoRoomError(f"{self.folder} may take {limit:,} bytes, and the file has {size_bytes:,}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise NoRoomError(f"{self.folder} cannot be made: {err.strerror}") from err
        with _locked(self.folder / ".lock", lambda: False, lambda: None):
            files = self.files()
            used = sum(each.size_bytes for each in files)
            removable = [each for each in files if not _is_living_part(each.path)]
            for each in sorted(removable, key=lambda each: (each.is_small, each.used)):
                if used + size_bytes <= limit and not at_least_one:
                    return
                if each.is_small and at_least_one:
                    break
                with contextlib.suppress(OSError):  # open on Windows, or removed by another process
                    each.path.unlink()
                    at_least_one = False
                used -= each.size_bytes
        if used + size_bytes > limit or at_least_one:
            raise NoRoomError(f"{self.folder} is full, and what is in it is being written")

    def files(self) -> list[Kept]:
        """List the files in the cache; parts count with their final size."""
        found = []
        for folder in self._entries(self.folder):
            for path in self._entries(folder):
                if path.name.endswith(".lock"):
                    continue
                with contextlib.suppress(OSError):
                    status, part = path.stat(), _PART.fullmatch(path.name)
                    size = int(part["size"]) if part else status.st_size
                    found.append(Kept(path, size, status.st_mtime, path.name.endswith(_SMALL)))
        return found

    def _progress(self, digest: str, name: str) -> list[tuple[str, int]]:
        """Return a value that changes while a process fetches a file."""
        found = []
        for path in self._entries(self.folder / digest):
            if path.name.startswith(f".{name}.") and path.name.endswith(".part"):
                with contextlib.suppress(OSError):
                    found.append((path.name, path.stat().st_size))
        return found

    @staticmethod
    def _entries(folder: Path) -> list[Path]:
        try:
            return [Path(entry.path) for entry in os.scandir(folder)]
        except OSError:
            return []


def _is_living_part(path: Path) -> bool:
    """Whether a part is being written: by a living process of this machine, or recently by another machine."""
    match = _PART.fullmatch(path.name)
    owner = match and Owner.parse(match["owner"])
    return owner is not None and owner.host != _FREE and not is_abandoned(owner, path)


@contextlib.contextmanager
def _locked(path: Path, done: Callable[[], bool], progress: Callable[[], object]) -> Iterator[bool]:
    """Hold a lock file; continue without it if locks do not work, or if its holder makes no progress for long.

    Args:
        path: The lock file.
        done: Whether the lock is no longer needed.
        progress: Returns a value that changes while the holder works.

    Yields:
        Whether this process does the work; False if it is done.
    """
    nap, seen, since = _POLL_S[0], progress(), time.monotonic()
    lock = None
    while lock is None:
        if done():
            yield False
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            tried = filelock.FileLock(path, timeout=0, mode=0o666)
            tried.acquire()
            lock = tried
        except filelock.Timeout:
            if (now := progress()) != seen:
                seen, since = now, time.monotonic()
            if time.monotonic() - since > settings.stale_s():
                yield True
                return
            time.sleep(nap)
            nap = min(_POLL_S[1], nap * 1.5)
        except (OSError, NotImplementedError):
            yield True
            return
    try:
        yield True
    finally:
        lock.release(force=True)
        if LOCKS_ARE_MANDATORY:
            with contextlib.suppress(OSError):
                path.unlink()
