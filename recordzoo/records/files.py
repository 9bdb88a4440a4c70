"""Open the files of a record set: relative to its directory's descriptor, never through a link, only regular files.

`ShardFiles` keeps a bounded number of shards open in a process, for all readers together. A descriptor is closed when
others are used more recently, but not during a read, and not kept in a forked child.
"""

import os
import stat
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from recordzoo.base import files as system_files
from recordzoo.base import process as processes
from recordzoo.base.text import name_first
from recordzoo.errors import CorruptRecordError, ManifestError, RecordError
from recordzoo.net.url import Url
from recordzoo.records.manifest import MANIFEST_NAME

if TYPE_CHECKING:
    from recordzoo.records.remote import RemoteDirectory  # its imports are slow

AnyDirectory: TypeAlias = "Directory | RemoteDirectory"
"""A record set's files, in a directory or at a URL."""

Opener = Callable[[str, int | None], int]
"""`AnyDirectory.open`, or that of another source of files."""

_read_at = system_files.pread


class Directory:
    """A record set's directory, held open so that files opened later are of the same generation.

    Windows cannot hold it: files opened later are of the present generation, whose shards have other sizes or whose
    values have other checksums.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = system_files.open_directory(path)
        if self._fd is not None:
            weakref.finalize(self, os.close, self._fd)

    def open(self, name: str, size_bytes: int | None = None) -> int:
        """Open a regular file of exactly `size_bytes` and return its descriptor.

        Raises:
            ManifestError: The file does not exist.
            RecordError: Another record set is at the path by now.
            CorruptRecordError: It is a link, a FIFO, a directory, ..., or has another size.
            RecordError: It cannot be opened.
        """
        where = self.path / name
        place = where if self._fd is None else name
        try:
            entry = os.stat(place, dir_fd=self._fd, follow_symlinks=False)
            if not stat.S_ISREG(entry.st_mode):
                what = "a link" if stat.S_ISLNK(entry.st_mode) else "not a regular file"
                raise CorruptRecordError(f"{where} is {what}. Prepare the dataset again.", path=str(where))
            fd = system_files.open_file(place, directory=self._fd)
        except RecordError:
            raise
        except FileNotFoundError as err:
            if self.is_replaced:
                raise replaced(self.path) from err
            raise ManifestError(self._missing(where), path=str(where)) from err
        except OSError as err:
            raise RecordError(f"{where} cannot be opened: {err.strerror}.", path=str(where)) from err
        found = os.fstat(fd).st_size
        if size_bytes is not None and found != size_bytes:
            os.close(fd)
            raise CorruptRecordError(
                f"{where} has {found:,} bytes instead of {size_bytes:,}: it was cut, extended or replaced. "
                "Prepare the dataset again.",
                path=str(where),
            )
        return fd

    def head(self, name: str, num_bytes: int, size_bytes: int) -> bytes:
        """Return the first bytes of a file of `size_bytes`.

        Raises:
            OSError: As `open`, or it cannot be read.
        """
        return read_start(self.open, name, num_bytes, size_bytes)

    def listed(self) -> set[str]:
        """Return the names of the existing files."""
        return set(os.listdir(self.path))

    @property
    def is_replaced(self) -> bool:
        """Whether another directory is at the path by now; False where a directory cannot be held open."""
        try:
            return self._fd is not None and not os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except OSError:
            return False

    def drop(self, name: str) -> bool:
        """Return False: these files are not copies."""
        return False

    def _missing(self, where: Path) -> str:
        """Return advice for a missing file: the directory may be the parent of a record set."""
        if sets := sorted(path.name for path in self.path.glob("*.records") if path.is_dir()):
            return f"{self.path} is not a record set, but holds {name_first(sets, 3)}. Pass the path of a record set."
        if where.name == MANIFEST_NAME and not any(self.path.glob("*.lmdb")):
            return (
                f"{self.path} is not a record set: it has no {MANIFEST_NAME}. Open what "
                f"recordzoo.prepare({str(self.path)!r}) returns, or class folders with ImageFolderRecord."
            )
        return f"{where} is missing from the record set. Copy the set again, or prepare the dataset again."


def replaced(path: Path | Url) -> RecordError:
    """Return the error for a record set that is not the one that was opened."""
    return RecordError(
        f"{path} was replaced by another record set since it was opened. Open the dataset again.", path=str(path)
    )


def pread(fd: int, num_bytes: int, offset: int) -> bytes:
    """Read `num_bytes` at `offset`; fewer only at the end of the file."""
    data = _read_at(fd, num_bytes, offset)
    if len(data) == num_bytes or not data:
        return data
    parts = [data]  # Linux reads at most 2 GiB per call; a signal may shorten a read
    have = len(data)
    while have < num_bytes and (more := _read_at(fd, num_bytes - have, offset + have)):
        parts.append(more)
        have += len(more)
    return b"".join(parts)


def read_start(opener: Opener, name: str, num_bytes: int, size_bytes: int | None = None) -> bytes:
    """Return the first bytes of a file; of `size_bytes`, if they are given.

    Raises:
        OSError: As `AnyDirectory.open`, or it cannot be read.
    """
    fd = opener(name, size_bytes)
    try:
        return pread(fd, num_bytes, 0)
    finally:
        os.close(fd)


class OpenShard:
    """An open shard. It is closed when nothing refers to it: readers hold it in a variable until they have read."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class ShardFiles:
    """The process's open shards, least recently used first, by (reader's token, shard number)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.forget()

    def forget(self) -> None:
        """Begin without open shards; in a forked child also with a new lock, which no thread of the parent holds."""
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[int, int], OpenShard] = OrderedDict()
        self._dropped: deque[int] = deque()

    def get(self, key: tuple[int, int], opener: Callable[[int], int]) -> OpenShard:
        """Return an open shard.

        Args:
            key: (reader's token, shard number).
            opener: Opens a shard by its number.
        """
        with self._lock:
            if (found := self._open.get(key)) is not None:
                self._open.move_to_end(key)
                return found
        shard = OpenShard(opener(key[1]))
        with self._lock:
            self._sweep()
            found = self._open.setdefault(key, shard)  # another thread may have been faster
            while len(self._open) > self.limit:
                self._open.popitem(last=False)
            return found

    def has(self, key: tuple[int, int]) -> bool:
        """Whether a shard is open."""
        return key in self._open

    def close(self, key: tuple[int, int]) -> None:
        """Close a shard after its current reads; the next read opens it again."""
        with self._lock:
            self._open.pop(key, None)

    def close_deleted(self, tokens: Collection[int]) -> None:
        """Close shards of these readers whose files were deleted: open files still take disk space."""
        with self._lock:
            for key in [key for key in self._open if key[0] in tokens]:
                if not os.fstat(self._open[key].fd).st_nlink:
                    del self._open[key]

    def drop(self, token: int) -> None:
        """Close a reader's shards, now or soon: the garbage collector calls this, maybe while the lock is held."""
        self._dropped.append(token)
        if self._lock.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._lock.release()

    def _sweep(self) -> None:
        while self._dropped:
            token = self._dropped.popleft()
            for key in [key for key in list(self._open) if key[0] == token]:
                del self._open[key]


_limit = processes.max_open_files()

shard_files = ShardFiles(128 if _limit is None else max(4, min(512, _limit // 4)))
"""A quarter of the process's limit on open files: workers, sockets and the user need the rest."""
processes.at_fork(after_in_child=shard_files.forget)

evictable: set[int] = set()
"""Tokens of this process's readers whose shards are in the cache, and may be evicted."""


def close_evicted() -> None:
    """Close shards that were removed from the cache, after their current reads."""
    shard_files.close_deleted(evictable.copy())
