"""The files of a record set → a folder of this machine: each complete, and compared with its hash."""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recordzoo import durable
from recordzoo.copying.files import PIECE_BYTES, SetFile
from recordzoo.crash_points import crash_point
from recordzoo.errors import CorruptRecordError, PrepareError, RecordError
from recordzoo.net.crew import Crew
from recordzoo.records.files import Directory, pread
from recordzoo.sources.hashing import hash_of, hash_text
from recordzoo.system.files import DONT_NEED, advise

PART = ".part-"
"""Stands between a file's name and a random word, as long as it is not complete."""


class Supply(Protocol):
    """Where files come from: a `Store`, or a `Folder` of this machine."""

    def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes in order, from `start` on.

        Args:
            name: The file.
            size_bytes: Its size.
            start: The first byte.

        Raises:
            RecordError: It cannot be read, or is shorter than that.
        """
        ...


@dataclass(frozen=True)
class Folder:
    """The files of a directory, as a `Supply`."""

    path: Path
    directory: Directory

    def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
        """See `Supply`.

        Raises:
            CorruptRecordError: It is not there, or has another size.
            RecordError: It cannot be read.
        """
        fd = self.directory.open(name, size_bytes)
        try:
            while start < size_bytes:
                data = pread(fd, min(PIECE_BYTES, size_bytes - start), start)
                if not data:  # cut while it is read
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
        supply: Where they are.
        folder: Where they go.
        crew: Told of the bytes.
        check: Called now and then; what it raises ends the work.
        count: Told how many bytes were fetched.
        damaged: Makes the error of a file that has another hash than it should have, by its name.
        reads_back: Read each file back from the disk and compare its hash once more.
    """

    supply: Supply
    folder: Path
    crew: Crew
    check: Callable[[], None]
    count: Callable[[int], None]
    damaged: Callable[[str], CorruptRecordError]
    reads_back: bool = False

    def file(self, file: SetFile) -> None:
        """Bring a file here under its name, complete and checked.

        Raises:
            CorruptRecordError: The one in the supply is not the one that the manifest names.
            RecordError: It cannot be fetched.
            PrepareError: The disk gives back other bytes than were written.
        """
        path = self.folder / file.name
        if path.is_file():  # of an interrupted run
            if has_size(path, file.size_bytes) and hash_of(path) == file.hash:
                self.crew.advance(file.size_bytes)
                return
            durable.remove(path)
        for _ in range(2):
            part = self._new_part(file)
            if self._receive(file, part) == file.hash:
                durable.rename(part, path)
                self._read_back(path, file.hash)
                crash_point("pull.fetched")
                return
            durable.remove(part)
            self.crew.advance(-file.size_bytes)
        raise self.damaged(file.name)

    def _read_back(self, path: Path, expected: str) -> None:
        """Compare a new file as the disk has it, if that is wished: its pages are dropped from the cache first."""
        if not self.reads_back:
            return
        with open(path, "rb") as file:
            if advise is not None:
                advise(file.fileno(), 0, 0, DONT_NEED)
        if hash_of(path) != expected:
            raise PrepareError(
                f"{path} reads back otherwise than it was written. Check the disk, or choose another.", path=str(path)
            )

    def _new_part(self, file: SetFile) -> Path:
        """Return a new file that has what an interrupted run fetched.

        It is copied: a process that only looked dead may still write to the old one.
        """
        part = self.folder / f"{file.name}{PART}{secrets.token_hex(4)}"
        old = sorted(self.folder.glob(f"{file.name}{PART}*"), key=lambda path: path.stat().st_size)
        with open(part, "wb") as target:
            if old and old[-1].stat().st_size <= file.size_bytes:
                with open(old[-1], "rb") as source:
                    while data := source.read(1 << 20):
                        target.write(data)
        for path in old:
            durable.remove(path)
        return part

    def _receive(self, file: SetFile, part: Path) -> str:
        """Fetch what a part lacks, and return the hash of all of it."""
        state = hashlib.sha256()
        with open(part, "r+b") as target:
            while data := target.read(1 << 20):
                state.update(data)
            start = target.tell()
            self.crew.advance(start)
            for data in self.supply.pieces(file.name, file.size_bytes, start):
                self.check()
                target.write(data)
                state.update(data)
                self.count(len(data))
                self.crew.advance(len(data))
                target.flush()
                crash_point("pull.received")
            os.fsync(target.fileno())
        return hash_text(state)


def has_size(path: Path, size_bytes: int) -> bool:
    """Whether there is a file of this size."""
    try:
        return path.stat().st_size == size_bytes
    except OSError:
        return False


def remove_all_but(folder: Path, names: set[str]) -> None:
    """Remove the files of a folder that have other names."""
    for path in folder.iterdir():
        if path.name not in names:
            durable.remove(path)
