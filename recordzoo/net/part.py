"""`Part`: a file that grows, hashed as it is appended."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from recordzoo.base.hashing import hash_text, new_hash

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class HashedFile:
    """A file whose size and hash are known before it is fetched.

    Attributes:
        name: Its name, without a folder.
        size_bytes: Its size.
        hash: Its SHA-256, as the manifest has it.
    """

    name: str
    size_bytes: int
    hash: str


class Supply(Protocol):
    """A source of files: a `Store`, or a local folder."""

    def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
        """Yield a file's bytes in order, from `start` on.

        Args:
            name: The file.
            size_bytes: Its size.
            start: The first byte.

        Raises:
            RecordError: It cannot be read, or is shorter than `size_bytes`.
        """
        ...


class Part:
    """The first bytes of a file, hashed while they are appended.

    Args:
        path: Created if it is missing.
        algorithm: The hash's name in hashlib; None for no hash.

    Attributes:
        size_bytes: Number of bytes present; always the first ones of the file.
        restarts: How often all bytes were dropped.
    """

    def __init__(self, path: Path, algorithm: str | None = "sha256") -> None:
        self.path = path
        self._algorithm = algorithm
        self._hash = new_hash(algorithm) if algorithm else None
        self._file = open(path, "ab+", buffering=0)  # noqa: SIM115 - lives as long as this object
        self.size_bytes = os.fstat(self._file.fileno()).st_size
        self.restarts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor of the open file."""
        return self._file.fileno()

    def hash_present(self, advance: Callable[[int], None] = lambda num_bytes: None) -> None:
        """Hash the bytes of an earlier process; call once, before any `write`.

        Raises:
            OSError: They cannot be read.
        """
        if self._hash is not None:
            self._read(self._hash, advance)

    def hash_again(self, algorithm: str) -> str:
        """Read all present bytes and return another hash of them.

        Raises:
            OSError: As `hash_present`.
        """
        digest = new_hash(algorithm)
        self._read(digest, lambda count: None)
        return digest.hexdigest()

    def _read(self, digest: "hashlib._Hash", advance: Callable[[int], None]) -> None:
        buffer = memoryview(bytearray(_READ_BYTES))
        with open(self.path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                digest.update(buffer[:count])
                advance(count)

    def close(self) -> None:
        """Close the file; its bytes stay."""
        self._file.close()

    def write(self, data: bytes) -> None:
        """Append bytes. If the disk refuses some, only those before them count as received.

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

    def start_over(self) -> None:
        """Drop all bytes."""
        self.restarts += bool(self.size_bytes)
        self._file.truncate(0)
        self.size_bytes = 0
        self._hash = new_hash(self._algorithm) if self._algorithm else None

    def hexdigest(self) -> str:
        """Return the hash of all present bytes; "" if none is computed."""
        return self._hash.hexdigest() if self._hash is not None else ""

    def is_alone(self) -> bool:
        """Whether no other process wrote to the file: the hash would lack those bytes."""
        return os.fstat(self._file.fileno()).st_size == self.size_bytes

    def sync(self) -> None:
        """Sync the bytes to disk.

        Raises:
            OSError: The disk is full or failed, or another process wrote to the file. The bytes are dropped: after a
                failed fsync it is not known which of them are on the disk.
        """
        try:
            if not self.is_alone():
                raise OSError(errno.EIO, "another process wrote to it; run the same command again")
            os.fsync(self._file.fileno())
        except OSError:
            self.start_over()
            raise

    def complete(
        self,
        supply: Supply,
        file: HashedFile,
        write: Callable[[bytes], None],
        advance: Callable[[int], None] = lambda num_bytes: None,
    ) -> bool:
        """Fetch the missing bytes and compare the hash of all.

        If the hash differs, all bytes are fetched once more: the part may have been damaged on disk, or a proxy may
        have sent an old copy.

        Args:
            supply: The source of the file.
            file: Its name, size and hash.
            write: Appends bytes to this part.
            advance: Called with the number of present or written bytes; negative when they are dropped.

        Returns:
            Whether the hash is right.
        """
        self.hash_present(advance)
        for _ in range(2):
            if self.size_bytes <= file.size_bytes:
                for piece in supply.pieces(file.name, file.size_bytes, self.size_bytes):
                    write(piece)
                    advance(len(piece))
                if self._hash is not None and hash_text(self._hash) == file.hash and self.is_alone():
                    return True
            advance(-self.size_bytes)
            self.start_over()
        return False
