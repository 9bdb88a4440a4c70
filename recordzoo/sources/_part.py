"""The unfinished file of a download: who owns it, how far it is, what its bytes came from (docs/architecture.md)."""

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from recordzoo import durable, settings
from recordzoo.owner import Owner
from recordzoo.progress import Progress
from recordzoo.sources.hashing import new_hash
from recordzoo.system.files import rename, replace

SILENT_S = 600.0
"""A part of a process that cannot be asked for, unchanged for this long, is nobody's: at least twice the longest wait
between two attempts (`retry.RETRY_AFTER_CAP_S`)."""

CHECKING = "checking what is there of"
"""How the name of the stage begins in which an earlier run's bytes are read."""

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_READ_BYTES = 4 << 20
_TOUCH_S = 30.0
"""How often a part that is only read says that its owner lives."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a server said about the file whose bytes these are; equal stamps, equal files."""

    url: str
    etag: str = ""
    last_modified: str = ""

    @property
    def validator(self) -> str:
        """What `If-Range` may carry: a strong ETag, else the date (RFC 9110, section 13.1.5), else ""."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified


class PartialFile:
    """A file of the first bytes of a download, owned by this process until it is published or handed back.

    Use it as a context manager: however the block ends, what was received is kept for the next process.

    Args:
        target: The final name. An abandoned part of it is taken over, the longest one first.
        algorithm: What its bytes are hashed with as they arrive; None for no hash.

    Attributes:
        size_bytes: How many bytes are there; they are always the first ones of the file.
        stamp: What they came from; None if that is not known, or is more than one file.
        restarts: How often bytes were dropped.
    """

    def __init__(self, target: Path, algorithm: str | None) -> None:
        self._target = target
        self._algorithm = algorithm
        self._hash = new_hash(algorithm) if algorithm else None
        self.path = _claim(target)
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - its lifetime is this object's
        self._owned = True
        self.size_bytes = os.fstat(self._file.fileno()).st_size
        self.stamp = self._read_stamp()
        self.restarts = 0

    def __enter__(self) -> "PartialFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._owned:
            # The error that ends the block matters more; a part that keeps our name is taken over once we are gone.
            with contextlib.suppress(OSError):
                self._file.close()  # first: Windows renames no file that is open
                self._hand_back()
        self._file.close()

    def hash_present(self, progress: Progress) -> None:
        """Read the bytes that an earlier process left, so that the hash counts them too; once, before any `write`.

        Raises:
            OSError: They cannot be read, or another process took the part over.
        """
        if self._hash is None:
            return
        progress.begin(f"{CHECKING} {self._target.name}", self.size_bytes)
        self._read(self._hash, progress.advance)
        progress.end()

    def hash_again(self, algorithm: str) -> str:
        """Read all bytes that are there and return another hash of them.

        Raises:
            OSError: As `hash_present`.
        """
        digest = new_hash(algorithm)
        self._read(digest, lambda count: None)
        return digest.hexdigest()

    def _read(self, digest: "hashlib._Hash", advance: Callable[[int], None]) -> None:
        buffer = memoryview(bytearray(_READ_BYTES))
        touched = time.monotonic()
        with open(self.path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                digest.update(buffer[:count])
                advance(count)
                if time.monotonic() - touched >= _TOUCH_S:
                    self.touch()
                    touched = time.monotonic()

    def touch(self) -> None:
        """Tell those who cannot ask for this process that it lives, though nothing is written now.

        Raises:
            FileNotFoundError: This process was silent for so long that another one took the part over.
        """
        try:
            os.utime(self.path)
        except FileNotFoundError as err:
            text = "this process stood still for long and another process took it over"
            raise FileNotFoundError(errno.ENOENT, text) from err
        except OSError:  # a failing disk fails in the next write, too, and more clearly
            pass

    def write(self, data: bytes) -> None:
        """Append bytes; when the disk refuses some, exactly those before them count as received.

        Raises:
            OSError: The disk is full or failed.
        """
        view = memoryview(data)
        while view:
            count = self._file.write(view)
            if self._hash is not None:
                self._hash.update(view[:count])
            self.size_bytes += count
            view = view[count:]

    def start_over(self, stamp: Stamp | None = None) -> None:
        """Drop all bytes; the next ones come from the file that `stamp` tells of."""
        self.restarts += bool(self.size_bytes)
        self._file.truncate(0)
        self.size_bytes = 0
        self._hash = new_hash(self._algorithm) if self._algorithm else None
        self._set_stamp(stamp)

    def go_on(self, *, same_file: bool) -> None:
        """Keep the bytes and append another answer's; unless it tells of the same file no stamp holds for all."""
        if not same_file:
            self._set_stamp(None)

    def hexdigest(self) -> str:
        """Return the hash of all bytes that are there; "" if none is computed."""
        return self._hash.hexdigest() if self._hash is not None else ""

    def publish(self) -> None:
        """Give the file its final name, durably, and remove what other processes abandoned of it.

        Raises:
            OSError: The disk is full or failed, or another process took the part over or wrote to it. The bytes are
                dropped: after a failed fsync nobody knows which of them are on the disk.
        """
        if not self._target.exists():
            self.touch()
            try:
                if os.fstat(self._file.fileno()).st_size != self.size_bytes:
                    # Whoever it was taken over from stood still and woke up; the hash did not see those bytes.
                    raise OSError(errno.EIO, "another process wrote to it; run the same command again")
                os.fsync(self._file.fileno())
            except OSError:
                self.start_over()
                raise
        self._file.close()  # Windows renames no file that is open
        if self._target.exists():  # another process was faster; what is published stays as it is
            durable.remove(self.path)
        else:
            self._name_it()
        self._owned = False
        durable.remove(_side(self.path))
        for left in leftovers(self._target):
            with contextlib.suppress(OSError):  # another user's, which does no harm
                durable.remove(left)

    def _name_it(self) -> None:
        try:
            durable.rename(self.path, self._target)
        except FileExistsError:  # another process was faster, on Windows, where a rename replaces nothing
            durable.remove(self.path)

    def put_aside(self, found: str) -> Path:
        """Keep the bytes under a name that says that they are wrong, and go on with an empty part."""
        aside = self._target.with_name(f"{self._target.name}.bad-{found[:8]}")
        self._file.close()
        replace(self.path, aside)
        self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - its lifetime is this object's
        self.start_over()
        return aside

    def _hand_back(self) -> None:
        nobodys = _name(self._target)
        left = nobodys.stat().st_size if nobodys.exists() else 0
        if self.size_bytes > left:
            if self.stamp is None:
                durable.remove(_side(nobodys))
            else:
                replace(_side(self.path), _side(nobodys))
            replace(self.path, nobodys)
        else:
            durable.remove(_side(self.path))
            durable.remove(self.path)

    def _set_stamp(self, stamp: Stamp | None) -> None:
        self.stamp = stamp
        if stamp is None:
            durable.remove(_side(self.path))
            return
        facts = {
            "url": stamp.url,
            "etag": stamp.etag,
            "last_modified": stamp.last_modified,
            # The part and this file move by two renames, between which another process may put its own beside them.
            "inode": os.fstat(self._file.fileno()).st_ino,
        }
        _side(self.path).write_text(json.dumps(facts, indent=1), encoding="utf-8")

    def _read_stamp(self) -> Stamp | None:
        try:
            facts = json.loads(_side(self.path).read_text(encoding="utf-8"))
            if facts["inode"] != os.fstat(self._file.fileno()).st_ino:
                return None
            return Stamp(str(facts["url"]), str(facts["etag"]), str(facts["last_modified"]))
        except (OSError, ValueError, KeyError, TypeError):  # absent, or cut by a crash: the same as not known
            return None


def _name(target: Path, owner: str = "") -> Path:
    return target.with_name(f"{target.name}.part{'.' if owner else ''}{owner}")


def _side(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _claim(target: Path) -> Path:
    """Make an abandoned part ours by renaming it, or else a new empty one; return its private name."""
    ours = _name(target, str(Owner.current()))
    for candidate in _abandoned(target):
        try:
            os.utime(candidate)  # a rename keeps the time, and by that this part would be nobody's for other hosts
            rename(candidate, ours)
        except (FileNotFoundError, PermissionError):  # another process was faster; or another user's, in /tmp
            if not ours.exists():  # otherwise it was done, and a network drive lost the answer
                continue
        with contextlib.suppress(FileNotFoundError):
            rename(_side(candidate), _side(ours))
        return ours
    open(ours, "xb").close()
    return ours


def _abandoned(target: Path) -> list[Path]:
    """Find parts that are nobody's, and that we may write to; the longest first."""
    found: list[tuple[int, Path]] = []
    for path in leftovers(target):
        with contextlib.suppress(FileNotFoundError):
            facts = path.lstat()
            if path.suffix != ".json" and stat.S_ISREG(facts.st_mode) and os.access(path, os.R_OK | os.W_OK):
                found.append((facts.st_size, path))
    return [path for _, path in sorted(found, reverse=True)]


def leftovers(target: Path) -> list[Path]:
    """Find parts, and what lies beside them, that are nobody's: handed back, of the dead, or of the silent."""
    nobodys = _name(target).name
    return [path for path in target.parent.iterdir() if path.name.startswith(nobodys) and _is_nobodys(path, nobodys)]


def _is_nobodys(path: Path, nobodys: str) -> bool:
    part = path.with_name(path.name.removesuffix(".json"))
    if part.name == nobodys:
        return True
    owner = Owner.parse(part.name.removeprefix(f"{nobodys}."))
    if owner is None:
        return False
    if owner.can_be_asked_for:
        return owner.is_gone()
    # An attempt may follow five redirects, each of which may be silent for so long.
    patience_s = max(SILENT_S, settings.stale_s(), 10 * settings.timeout_s())
    for each in (part, path):  # what lies beside a part is as old as its first byte
        with contextlib.suppress(FileNotFoundError):
            return abs(time.time() - each.lstat().st_mtime) > patience_s  # a time in the future says as little
    return False
