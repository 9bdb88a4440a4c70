"""Decompress gzip, bz2 and xz. For the last two, garbage after a stream's end is an error, unlike in `bz2.open`."""

import bz2
import functools
import gzip
import io
import lzma
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from typing_extensions import override

from recordzoo.errors import ArchiveError
from recordzoo.raw.member import Member
from recordzoo.raw.stream import ADVICE, BUFFER_BYTES, STREAM_ERRORS, unpacked_cap

_CHUNK_BYTES = 1 << 16


class Unpacked:
    """The bytes of one or more compressed streams, read in order; zeros between and after them are allowed.

    Args:
        file: A file, positioned at the first stream.
        new: Creates a decompressor for each stream.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> None:
        self._file = file
        self._new = new
        self._stream = new()
        self._position = 0

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._position

    def seek(self, position: int) -> int:
        """Skip forward to a position; return the reached position, which is less at the end."""
        while self._position < position and self.read(min(position - self._position, BUFFER_BYTES)):
            pass
        return self._position

    def read(self, num_bytes: int) -> bytes:
        """Return the next bytes, fewer only at the end.

        Raises:
            OSError, lzma.LZMAError, EOFError: A stream is damaged or cut, or followed by something else.
        """
        whole = io.BytesIO()  # getvalue() does not copy; joining parts would take twice the memory
        while num_bytes and (part := self._some(min(num_bytes, BUFFER_BYTES))):
            num_bytes -= whole.write(part)
            self._position += len(part)
        return whole.getvalue()

    def _some(self, most_bytes: int) -> bytes:
        """Return at least one byte, or b"" at the end."""
        while True:
            if self._stream.eof:
                rest = self._after_zeros(self._stream.unused_data)
                if not rest:
                    return b""
                self._stream = self._new()
            else:
                rest = self._file.read(_CHUNK_BYTES) if self._stream.needs_input else b""
                if not rest and self._stream.needs_input:
                    raise EOFError("the compressed stream has no end")
            if data := self._stream.decompress(rest, most_bytes):
                return data

    def _after_zeros(self, data: bytes) -> bytes:
        while not (rest := data.lstrip(b"\0")) and (data := self._file.read(_CHUNK_BYTES)):
            pass
        return rest


# In typeshed these files are not BinaryIO.
COMPRESSIONS: tuple[tuple[str, bytes, Callable[[BinaryIO], Any]], ...] = (
    (".gz", b"\x1f\x8b", gzip.open),
    (".bz2", b"BZh", functools.partial(Unpacked, new=bz2.BZ2Decompressor)),
    (".xz", b"\xfd7zXZ\0", functools.partial(Unpacked, new=functools.partial(lzma.LZMADecompressor, lzma.FORMAT_XZ))),
)
"""The ending of each compression's files, their first bytes, and the function that opens the decompressed file."""


def decompressed(member: Member) -> Member:
    """Return the decompressed form of a compressed member, without the extension; any other member unchanged."""
    for ending, _, unpack in COMPRESSIONS:
        if member.name.endswith(ending):
            stream = functools.partial(_decompress, member, unpack)
            read = functools.partial(_read, stream)
            return Member(member.name.removesuffix(ending), member.size_bytes, read, stream=stream)
    return member


def _decompress(member: Member, unpack: Callable[[BinaryIO], Any]) -> BinaryIO:
    return cast(BinaryIO, _Decompressed(member.open(), unpack, member))


def _read(stream: Callable[[], BinaryIO]) -> bytes:
    with stream() as file:
        return file.read()


class _Decompressed(io.RawIOBase):
    """A decompressed file, read in order; its errors are `ArchiveError`, and its size is limited.

    Args:
        compressed: The compressed file; closed with this one.
        unpack: Opens the decompressed file.
        member: Its member, for messages.
    """

    def __init__(self, compressed: BinaryIO, unpack: Callable[[BinaryIO], Any], member: Member) -> None:
        self._compressed, self._file, self._member = compressed, unpack(compressed), member
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
