"""Fetch the files of a record set into a local folder; compare each with its hash."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_of
from recordzoo.copying.files import PIECE_BYTES
from recordzoo.errors import CorruptRecordError, PrepareError, RecordError
from recordzoo.net.crew import Crew
from recordzoo.net.part import HashedFile, Part, Supply
from recordzoo.records.files import Directory, pread
from recordzoo.system.files import DONT_NEED, advise

PART = ".part-"
"""Separates a file's name from a random suffix while the file is incomplete."""


@dataclass(frozen=True)
class Folder:
    """The files of a directory, as a `Supply`."""

    path: Path
    directory: Directory

    def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
        """See `Supply`."""
        fd = self.directory.open(name, size_bytes)
        try:
            while start < size_bytes:
                data = pread(fd, min(PIECE_BYTES, size_bytes - start), start)
                if not data:  # truncated while it is read
                    return
                yield data
                start += len(data)
        except OSError as err:
            where = str(self.path / name)
            raise RecordError(f"{where} cannot be read: {err.strerror}.", path=where) from err
        finally:
            os.close(fd)


@dataclass(frozen=True)
class Fetch:
    """Fetches files into a folder.

    Attributes:
        supply: Gives the files.
        folder: The destination.
        crew: Counts the bytes.
        check: Called from time to time; an exception from it ends the work.
        count: Receives the numbers of bytes fetched.
        damaged: Returns the error for a file with a wrong hash, from its name.
        reads_back: Read each file back from the disk and compare its hash again.
    """

    supply: Supply
    folder: Path
    crew: Crew
    check: Callable[[], None]
    count: Callable[[int], None]
    damaged: Callable[[str], CorruptRecordError]
    reads_back: bool = False

    def file(self, file: HashedFile) -> None:
        """Fetch a file, check it, and give it its name."""
        path = self.folder / file.name
        if path.is_file():  # from an interrupted run
            if has_size(path, file.size_bytes) and hash_of(path) == file.hash:
                self.crew.advance(file.size_bytes)
                return
            durable.remove(path)
        with Part(self._new_part(file)) as part:
            is_right = part.complete(self.supply, file, lambda data: self._write(part, data), self.crew.advance)
            if is_right:
                part.sync()
        if not is_right:
            durable.remove(part.path)
            raise self.damaged(file.name)
        durable.rename(part.path, path)
        self._read_back(path, file.hash)
        crash_point("pull.fetched")

    def _read_back(self, path: Path, expected: str) -> None:
        """If `reads_back`, drop a new file's page cache and hash the file again from disk."""
        if not self.reads_back:
            return
        with open(path, "rb") as file:
            if advise is not None:
                advise(file.fileno(), 0, 0, DONT_NEED)
        if hash_of(path) != expected:
            raise PrepareError(
                f"{path} reads back otherwise than it was written. Check the disk, or choose another.", path=str(path)
            )

    def _new_part(self, file: HashedFile) -> Path:
        """Return a new part file with the bytes that an interrupted run fetched.

        The bytes are copied: a process that only looked dead may still write to the old part.
        """
        part = self.folder / f"{file.name}{PART}{secrets.token_hex(4)}"
        old = sorted(self.folder.glob(f"{file.name}{PART}*"), key=lambda path: path.stat().st_size)
        if old and old[-1].stat().st_size <= file.size_bytes:
            shutil.copyfile(old[-1], part)
        for path in old:
            durable.remove(path)
        return part

    def _write(self, part: Part, data: bytes) -> None:
        self.check()
        part.write(data)
        self.count(len(data))
        crash_point("pull.received")


def has_size(path: Path, size_bytes: int) -> bool:
    """Whether a file of this size exists."""
    try:
        return path.stat().st_size == size_bytes
    except OSError:
        return False


def remove_all_but(folder: Path, names: set[str]) -> None:
    """Remove the files of a folder that have other names."""
    for path in folder.iterdir():
        if path.name not in names:
            durable.remove(path)
