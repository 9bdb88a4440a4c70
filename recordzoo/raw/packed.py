"""Decompress bz2 and xz; unlike `bz2.open` and `lzma.open`, refuse garbage after a stream's end."""

import io
from collections.abc import Callable
from typing import BinaryIO, Protocol

from recordzoo.raw.stream import BUFFER_BYTES

_CHUNK_BYTES = 1 << 16


class Decompressor(Protocol):
    """The common interface of `bz2.BZ2Decompressor` and `lzma.LZMADecompressor`; each decompresses one stream."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        ...

    @property
    def needs_input(self) -> bool:
        """Whether output needs more input."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The bytes after the stream's end."""
        ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Decompress more."""
        ...


class Unpacked:
    """The bytes of one or more compressed streams, read in order; zeros between and after them are allowed.

    Args:
        file: A file, positioned at the first stream.
        new: Creates a decompressor for each stream.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], Decompressor]) -> None:
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
