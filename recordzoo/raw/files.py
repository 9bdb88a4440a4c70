"""Raw files that are not archives, and members that are compressed individually."""

import bz2
import functools
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from typing_extensions import override

from recordzoo.errors import ArchiveError
from recordzoo.raw.archive import ArchivedSource, ArchiveFile, ArchiveSource, stat_of
from recordzoo.raw.file_table import stamp_of
from recordzoo.raw.member import Member, Unit
from recordzoo.raw.packed import Unpacked
from recordzoo.raw.stream import ADVICE, STREAM_ERRORS, unpacked_cap

ARCHIVE_ENDINGS = (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".zip", ".npz")

_DECOMPRESS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open,
    ".bz2": functools.partial(Unpacked, new=bz2.BZ2Decompressor),
    ".xz": functools.partial(Unpacked, new=functools.partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)),
}


def raw_source(path: Path) -> ArchivedSource:
    """Return the source of a raw file; its name decides between an archive and a single file."""
    return ArchiveSource(path) if path.name.lower().endswith(ARCHIVE_ENDINGS) else FileSource(path)


@dataclass(frozen=True)
class FileSource(ArchiveFile):
    """One file as the only member, under its own name.

    Attributes:
        path: The file.
    """

    def units(self, target_bytes: int) -> list[Unit]:
        """Return the only unit."""
        status = stat_of(self.path)
        return [FileUnit(self.path, status.st_size, stamp_of(status))]


@dataclass(frozen=True, slots=True)
class FileUnit:
    """All of one file; see `Unit`."""

    path: Path
    size_bytes: int
    stamp: str

    def members(self) -> Iterator[Member]:
        """Yield the file.

        Raises:
            ArchiveError: It cannot be opened; raised by the member's functions.
        """
        yield Member(self.path.name, self.size_bytes, self._read, stream=self._open)

    def _open(self) -> BinaryIO:
        try:
            return open(self.path, "rb")
        except OSError as err:
            raise ArchiveError(f"{self.path}: cannot be opened ({err.strerror}).", path=self.path) from err

    def _read(self) -> bytes:
        with self._open() as file:
            return file.read()


def decompressed(member: Member) -> Member:
    """Return the decompressed form of a compressed member, without the extension; any other member unchanged."""
    for ending, decompress in _DECOMPRESS.items():
        if member.name.endswith(ending):
            stream = functools.partial(_decompress, member, decompress)
            read = functools.partial(_read, stream)
            return Member(member.name.removesuffix(ending), member.size_bytes, read, stream=stream)
    return member


def _decompress(member: Member, decompress: Callable[[BinaryIO], Any]) -> BinaryIO:
    return cast(BinaryIO, _Decompressed(member.open(), decompress, member))


def _read(stream: Callable[[], BinaryIO]) -> bytes:
    with stream() as file:
        return file.read()


class _Decompressed(io.RawIOBase):
    """A decompressed file, read in order; its errors are `ArchiveError`, and its size is limited.

    Args:
        compressed: The compressed file; closed with this one.
        decompress: Opens the decompressed file.
        member: Its member, for messages.
    """

    def __init__(self, compressed: BinaryIO, decompress: Callable[[BinaryIO], Any], member: Member) -> None:
        self._compressed, self._file, self._member = compressed, decompress(compressed), member
        self._left = unpacked_cap(member.size_bytes)

    @override
    def readable(self) -> bool:
        return True

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(functools.partial(self.read, 1 << 20), b""))
        try:
            data: bytes = self._file.read(size)
        except STREAM_ERRORS as err:
            raise self._error(f"cannot be decompressed ({type(err).__name__}: {err})") from err
        self._left -= len(data)
        if self._left < 0:
            raise self._error("decompresses to far more than any data set of its size does")
        return data

    @override
    def close(self) -> None:
        self._compressed.close()
        super().close()

    def _error(self, what: str) -> ArchiveError:
        return ArchiveError(f"{self._member.name}: {what}. {ADVICE}", member=self._member.name)
