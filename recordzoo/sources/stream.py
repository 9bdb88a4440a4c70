"""What all archives have in common: names that are refused, members that are passed over, bytes read once in order."""

import bz2
import io
import logging
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from recordzoo.errors import ArchiveError

logger = logging.getLogger("recordzoo")

BUFFER_BYTES = 1 << 20
_PACKED_BYTES = 1 << 16  # what does not fit into one step's output is copied for the next

MIN_UNPACKED_CAP = 1 << 30
MAX_RATIO = 200
"""An archive may unpack to this many times its own size, or 1 GiB. Photographs stay near 1; deflate can do 1,032."""

ADVICE = (
    "The file is incomplete, damaged or not what it should be: compare its size and hash with the publisher's, "
    "or delete it and download it again."
)

_STREAM_ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError)
_XZ_MEMORY_BYTES = 1 << 30  # "xz -9" takes 65 MiB to unpack; the format's own limit is 4 GiB, in a forged header too
_ODD_NAME = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\\\0]|^[A-Za-z]:")


def unpacked_cap(archive_bytes: int) -> int:
    """Return how many bytes an archive of that size may unpack to before it is taken for a bomb."""
    return max(MIN_UNPACKED_CAP, MAX_RATIO * archive_bytes)


def plain_name(name: str) -> str:
    """Return a member's name as unpacking would give it: no "./", no doubled "/", no "/" at the end.

    Nothing here ever makes a path of a name. A name that would lead out of the folder it is unpacked in is refused all
    the same: such an archive was made to do harm, or means something else than what its members would be called here.

    Raises:
        ValueError: The name is absolute, has a drive letter, a ".." part or a NUL; the message says which.
    """
    if not _ODD_NAME.search(name):
        return name
    if "\0" in name:
        raise ValueError("has a NUL in its name")
    # A backslash is a letter of the name to Linux and a separator to Windows: neither reading may lead out.
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        raise ValueError("has an absolute path or a drive letter for a name")
    if ".." in re.split(r"[/\\]", name):
        raise ValueError("has '..' in its name")
    return "/".join(part for part in name.split("/") if part not in ("", "."))


class PassedOver:
    """Counts the members that are no regular files, so that one warning can name them."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._count = 0
        self._first: list[str] = []

    def add(self, name: str, kind: str) -> None:
        """Remember one."""
        self._count += 1
        if len(self._first) < 5:
            self._first.append(f"{name} ({kind})")

    def report(self) -> None:
        """Log one warning if there were any."""
        if self._count:
            logger.warning(
                "%s: passed over %d that are no regular files: %s%s",
                self._label,
                self._count,
                ", ".join(self._first),
                ", ..." if self._count > len(self._first) else "",
            )


class Tape:
    """Bytes that are read once, front to back; every failure to do so is an `ArchiveError` that says where.

    Args:
        file: Where the bytes come from, at the first of them. Closed with the tape only if `owned`.
        path: The archive, for messages.
        inner: The inner tar that this is, for messages.
        size_bytes: How long the tape is, if `file` is seekable; None for an unpacked stream.
        cap_bytes: An unpacked stream that gets longer than this is a bomb.
    """

    def __init__(
        self,
        file: BinaryIO,
        path: Path,
        *,
        inner: str = "",
        size_bytes: int | None = None,
        cap_bytes: int | None = None,
        owned: bool = True,
    ) -> None:
        self.position = 0
        self.last_name = ""
        self.path = path
        self.inner = inner
        self._file = file
        self._size = size_bytes
        self._start = file.tell() if size_bytes is not None else 0
        self._cap = cap_bytes
        self._owned = owned

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self.position = -1  # no member's content is here any more
        if self._owned:
            self._file.close()

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"{self.path}, inner tar {self.inner!r}" if self.inner else str(self.path)

    def pull(self, num_bytes: int) -> bytes:
        """Return the next bytes, fewer only at the end."""
        if self._size is not None and num_bytes > self._size - self.position:
            num_bytes = self._size - self.position
        try:
            data = self._file.read(num_bytes)
        except _STREAM_ERRORS as err:
            raise self.error(f"cannot be read or unpacked ({type(err).__name__}: {err})") from err
        self.position += len(data)
        if self._cap is not None and self.position > self._cap:
            raise self.error(f"unpacks to more than {self._cap:,} bytes, far more than any data set of its size does")
        return data

    def take(self, num_bytes: int, what: str) -> bytes:
        """Return exactly that many bytes."""
        data = self.pull(num_bytes)
        if len(data) != num_bytes:
            raise self.error(f"ends inside {what}: {num_bytes:,} bytes were announced, {len(data):,} are there")
        return data

    def take_once(self, start: int, num_bytes: int, name: str) -> bytes:
        """Return a member's content, which starts at `start`: that is where the tape still has to be."""
        if self.position != start:
            raise RuntimeError(f"{name!r} of {self.label}: read() comes too late (a stream's member can be read once)")
        return self.take(num_bytes, f"member {name!r}")

    def skip(self, num_bytes: int, what: str) -> None:
        """Go on by that many bytes, which have to be there."""
        if self._size is not None and num_bytes > BUFFER_BYTES:
            if num_bytes > self._size - self.position:
                missing = num_bytes - (self._size - self.position)
                raise self.error(f"ends inside {what}: the last {missing:,} bytes of it are missing")
            self.position += num_bytes
            self._file.seek(self._start + self.position)
            return
        while num_bytes > 0:
            num_bytes -= len(self.take(min(num_bytes, BUFFER_BYTES), what))

    def finish(self) -> None:
        """Read to the end, where a compressed stream has its checksum; nothing but padding may be left."""
        while data := self.pull(BUFFER_BYTES):
            if data.count(0) != len(data):
                raise self.error("goes on after its end marker (another archive or something else was appended)")

    def error(self, what: str) -> ArchiveError:
        """Return the error that says what is wrong at this position."""
        after = f"after member {self.last_name!r}" if self.last_name else "before its first member was read"
        return ArchiveError(
            f"{self.label}: {what} (at byte {self.position:,}, {after}). {ADVICE}",
            path=self.path,
            inner=self.inner,
            offset=self.position,
            member=self.last_name,
        )


def refused(label: str, name: str, reason: str, path: Path) -> ArchiveError:
    """Return the error for a member that nobody should unpack."""
    return ArchiveError(
        f"{label}: refused, because its member {name!r} {reason}. If you trust the archive, unpack it by hand "
        "where that is safe and convert the folder.",
        path=path,
        member=name,
    )


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gunzip:
    """zlib's gzip decoder with the interface that bz2 and lzma have."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


COMPRESSIONS: dict[bytes, Callable[[], _Decompressor]] = {
    b"\x1f\x8b": _Gunzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES),
}
"""How a compressed file starts, and what unpacks it."""


class Unpacked(io.RawIOBase):
    """What a compressed file of one or several streams unpacks to.

    `bz2` and `lzma` take whatever follows the first stream for nothing; here it is another stream, zeros, or an error.
    """

    def __init__(self, file: BinaryIO, new_decompressor: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._new = new_decompressor
        self._current = new_decompressor()

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def close(self) -> None:
        """See `io.RawIOBase`; closes the compressed file too."""
        self._file.close()
        super().close()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed's Buffer is 3.12's
        """See `io.RawIOBase`.

        Raises:
            EOFError: The file ends inside a stream.
            OSError, zlib.error, lzma.LZMAError: It is damaged.
        """
        while True:
            fresh = b""
            if self._current.eof:
                fresh = self._next_stream()
                if not fresh:
                    return 0
            elif self._current.needs_input:
                fresh = self._file.read(_PACKED_BYTES)
                if not fresh:
                    raise EOFError("the compressed stream has no end")
            data = self._current.decompress(fresh, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    def _next_stream(self) -> bytes:
        """Start on the bytes after a stream, if any are left but padding; return them."""
        rest = self._current.unused_data.lstrip(b"\0")
        while not rest:
            more = self._file.read(_PACKED_BYTES)
            if not more:
                return b""
            rest = more.lstrip(b"\0")
        self._current = self._new()
        return rest
