"""This machine's cache of files from URLs: verified, bounded, shared by all processes.

    CACHE/<digest>/<file>                complete and verified; another user's is verified again by each process
    CACHE/<digest>/.<file>.<size>.part   its first bytes, which the holder of the lock appends to
    CACHE/<digest>/.<file>.lock          held while the file is fetched; other processes wait
    CACHE/<digest>/<hash>.address        a URL, without a login, at which the record set was

The digest is that of the record set's manifest. A file's modification time is its last use. Any file may be deleted at
any time: an open file stays readable.
"""

import contextlib
import hashlib
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from recordzoo.base import settings
from recordzoo.base.files import LOCKS_ARE_MANDATORY, free_bytes, hash_text, is_own, move, open_file, read_small
from recordzoo.base.process import Lock, NoLocksError, crash_point, who_holds
from recordzoo.errors import RecordError
from recordzoo.net.part import NO_ROOM, HashedFile, Part, is_usable
from recordzoo.net.store import Store

logger = logging.getLogger("recordzoo")

_SMALL = (".npy", ".json", ".marks", ".address")
_PART = re.compile(r"\.(?P<name>.+)\.(?P<size>[0-9]+)\.part")
_POLL_S = (0.005, 0.1)
_TRIES = 3
_WAY_OUT = "Delete it, or set RECORDZOO_CACHE_DIR"

_compared: set[tuple[int, int, str]] = set()  # device, inode and hash of files of other users


def address_name(address: str) -> str:
    """Return the name of the file that keeps an address of a record set."""
    return f"{hashlib.sha256(address.encode()).hexdigest()}.address"


class NotCachedError(Exception):
    """The cache cannot hold a file; the caller reads ranges of it, or keeps it in memory."""


class InTheWayError(NotCachedError):
    """The name or the part of a file belongs to somebody else; other files are not affected."""


class WrongBytesError(Exception):
    """A file had a wrong hash twice."""


@dataclass(frozen=True)
class Cache:
    """A cache in a folder.

    Args:
        folder: Need not exist. Default: as the settings say.
        limit_bytes: Maximum size; None for half of the space that the volume would have without it.
        evicted: Called after files were removed to make room: open ones still take space until they are closed.
    """

    folder: Path = field(default_factory=settings.cache_folder)
    limit_bytes: int | None = field(default_factory=settings.cache_bytes)
    evicted: Callable[[], None] = lambda: None

    def limit(self) -> int:
        """Return the maximum size in bytes."""
        if self.limit_bytes is not None:
            return self.limit_bytes
        with contextlib.suppress(OSError):
            return (free_bytes(self.folder) + self._used()) // 2
        return 0

    def find(self, digest: str, name: str, size_bytes: int | None = None) -> int | None:
        """Open a complete file and record its use. The caller closes the descriptor.

        Returns:
            None if the cache has no such file, or none that can be read.
        """
        path = self.folder / digest / name
        try:
            fd = open_file(path)
        except OSError:
            return None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or (size_bytes is not None and status.st_size != size_bytes):
            os.close(fd)
            return None
        with contextlib.suppress(OSError):  # another user's
            os.utime(path)
        return fd

    def drop(self, digest: str, name: str) -> None:
        """Remove a file if possible: Windows keeps open files."""
        _remove(self.folder / digest / name)

    def read(self, digest: str, name: str, max_bytes: int) -> bytes | None:
        """Return the first bytes of a file, as `find`."""
        fd = self.find(digest, name)
        if fd is None:
            return None
        with open(fd, "rb") as file:
            return file.read(max_bytes)

    def write(self, digest: str, name: str, data: bytes) -> None:
        """Write a small, verified file if possible."""
        path = self.folder / digest / name
        part = path.with_name(f".{name}.{secrets.token_hex(4)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            move(part, path)
        except OSError as err:
            _remove(part)
            logger.debug("%s cannot be written: %s", path, err.strerror)

    def fetch(self, store: Store, digest: str, file: HashedFile, *, is_bounded: bool = True) -> int:
        """Open a file in the cache; if it is missing, fetch it, once for all processes of this machine.

        Args:
            store: The source of the file.
            digest: The record set's digest.
            file: The wanted file.
            is_bounded: Whether to make room for it, within the limit; not for arrays, which are small.

        Returns:
            A descriptor, which the caller closes.

        Raises:
            NotCachedError: The cache cannot hold it.
            WrongBytesError: The fetched bytes had a wrong hash twice.
            RemoteError: It cannot be fetched.
        """
        path = self.folder / digest / file.name
        part = path.with_name(f".{file.name}.{file.size_bytes}.part")
        for _ in range(_TRIES):
            try:
                with _locked(path.with_name(f".{file.name}.lock"), path) as is_held:
                    found = self._there(digest, file)
                    if found is not None:
                        return found
                    if is_held:  # else it came, and was removed
                        return self._fetch(store, file, part, path, is_bounded=is_bounded)
            except RecordError:
                raise
            except (FileNotFoundError, FileExistsError):  # the cache was deleted; mkdir may raise the second
                continue
            except OSError as err:
                if err.errno not in NO_ROOM or not is_bounded:
                    raise NotCachedError(f"{path.parent} takes no more: {err}") from err
                self._evict(self._used() - file.size_bytes, spares_small=True)
        raise NotCachedError(f"{self.folder} is deleted again and again, has no room, or is no directory")

    def _there(self, digest: str, file: HashedFile) -> int | None:
        """Open a file as `find` does; remove one of another size.

        Raises:
            InTheWayError: Its name is taken by something that cannot be read, or has other bytes.
        """
        path = self.folder / digest / file.name
        found = self.find(digest, file.name, file.size_bytes)
        if found is None and os.path.lexists(path):
            if path.is_symlink() or not path.is_file() or not os.access(path, os.R_OK):
                raise InTheWayError(f"{path} is not a file that this user may read. {_WAY_OUT}")
            with contextlib.suppress(OSError):
                if path.stat().st_size != file.size_bytes:
                    path.unlink()
            found = self.find(digest, file.name, file.size_bytes)  # another process may just have fetched it
        if found is not None and not _is_trusted(found, file.hash):
            os.close(found)
            raise InTheWayError(f"{path} is another user's, and has other bytes. {_WAY_OUT}")
        return found

    def _fetch(self, store: Store, file: HashedFile, part: Path, path: Path, *, is_bounded: bool) -> int:
        """Complete a part, compare its hash, and give it its name."""
        part.parent.mkdir(parents=True, exist_ok=True)
        if not is_usable(part):
            raise InTheWayError(f"{part} belongs to another user. {_WAY_OUT}")
        try:
            with Part(part) as out:
                if is_bounded:  # the part is there, and counts with its final size
                    if file.size_bytes > (limit := self.limit()):
                        text = f"{self.folder} may take {limit:,} bytes, and the file has {file.size_bytes:,}"
                        raise NotCachedError(text)
                    self._evict(limit)

                def pieces(start: int) -> Iterator[bytes]:
                    for piece in store.pieces(file.name, file.size_bytes, start):
                        yield piece
                        crash_point("cache.received")

                is_right = out.complete(file, pieces)
                if is_right and not LOCKS_ARE_MANDATORY:
                    with contextlib.suppress(FileNotFoundError):  # the cache was deleted; the fetched bytes are right
                        if os.path.samestat(part.stat(), os.fstat(out.fileno())):
                            move(part, path)
                    return os.dup(out.fileno())
            if is_right:  # Windows does not rename open files
                move(part, path)
                return open_file(path)
        except RecordError:  # the next attempt goes on with the part
            raise
        except (NotCachedError, OSError):
            _remove(part)
            raise
        _remove(part)
        raise WrongBytesError(file.name)

    def _evict(self, most_bytes: int, *, spares_small: bool = False) -> None:
        """Remove the least recently used files, shards first, until the others have at most so many bytes.

        Raises:
            NotCachedError: They have more, and are being written.
        """
        used = self._used()
        for is_small, _, size_bytes, path in sorted(self._files()):
            if used <= most_bytes or (is_small and spares_small):
                break
            if not _is_written(path) and _remove(path):
                used -= size_bytes
        self.evicted()
        if used > most_bytes:
            raise NotCachedError(f"{self.folder} is full, and what is in it is being written")

    def addresses(self) -> dict[str, str]:
        """Return address -> digest of the record set that was last found there, for the sets in the cache."""
        found: list[tuple[float, str, str]] = []
        for path in self.folder.glob("*/*.address"):
            with contextlib.suppress(OSError, ValueError):  # removed to make room, or damaged
                found.append((path.stat().st_mtime, read_small(path).decode(), path.parent.name))
        return {address: digest for _, address, digest in sorted(found)}

    def is_coming(self, digest: str) -> bool:
        """Whether a process fetches a file of a record set."""
        return any(map(_is_written, _entries(self.folder / digest)))

    def remove_set(self, digest: str) -> bool:
        """Remove a record set's files, but for those that are being written; return whether all are gone."""
        folder = self.folder / digest
        keeps_address = self.is_coming(digest)
        for path in sorted(_entries(folder), key=lambda path: path.name.endswith((*_SMALL, ".lock"))):
            if path.name.endswith(".lock"):  # while it is held: another process may be about to acquire it
                with contextlib.suppress(OSError, NoLocksError):
                    (lock := Lock(path)).try_acquire()
                    lock.delete()  # if it is held
            elif not (_is_written(path) or (keeps_address and path.suffix == ".address")):
                _remove(path)
        with contextlib.suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    def _files(self) -> Iterator[tuple[bool, float, int, Path]]:
        """Yield whether a file is small, the time of its last use, its size, for a part its final one, and its path."""
        for path in [path for folder in _entries(self.folder) for path in _entries(folder)]:
            if not path.name.endswith(".lock"):
                with contextlib.suppress(OSError):
                    status, part = path.stat(), _PART.fullmatch(path.name)
                    size_bytes = int(part["size"]) if part else status.st_size
                    yield path.name.endswith(_SMALL), status.st_mtime, size_bytes, path

    def _used(self) -> int:
        return sum(size_bytes for _, _, size_bytes, _ in self._files())


def _entries(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except OSError:
        return []


def _is_trusted(fd: int, expected: str) -> bool:
    """Whether a file is this user's, who verified it, or has the expected hash; compared once in a process."""
    status = os.fstat(fd)
    key = status.st_dev, status.st_ino, expected
    if not is_own(status) and key not in _compared:
        with open(fd, "rb", closefd=False) as file:
            if hash_text(hashlib.file_digest(file, "sha256")) != expected:
                return False
            file.seek(0)
        _compared.add(key)
    return True


def _remove(path: Path) -> bool:
    """Remove a file if possible; return whether it was."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _is_written(path: Path) -> bool:
    """Whether a file is a part whose lock is held, or this lock."""
    match = _PART.fullmatch(path.name)
    lock = path if match is None else path.with_name(f".{match['name']}.lock")
    return lock.name.endswith(".lock") and bool(who_holds(lock))


@contextlib.contextmanager
def _locked(path: Path, target: Path) -> Iterator[bool]:
    """Hold a lock file, unless its holder brings the target meanwhile.

    Yields:
        Whether the lock is held.

    Raises:
        NotCachedError: Locks do not work here.
        OSError: The folder cannot be written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock, nap = Lock(path), _POLL_S[0]
    try:
        while not os.path.lexists(target) and not lock.try_acquire():
            time.sleep(nap)
            nap = min(_POLL_S[1], nap * 1.5)
    except NoLocksError as err:
        raise NotCachedError(f"{path.parent} has no locks") from err
    try:
        yield lock.is_mine
    finally:
        lock.release()
