"""The layout of a chunk, which LitData took from MDS; and decompression, as far as it is asked for.

A chunk is the number of items, one offset more than items (both uint32, little-endian, from the chunk's start), and the
bytes of each item.
"""

import bz2
import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

import numpy as np

from recordzoo.errors import SourceError
from recordzoo.sources.member import MAX_MEMBER_BYTES

BAD_VALUE = (ValueError, IndexError, KeyError, OverflowError, RecursionError, struct.error)
"""What decoding a damaged or forged value raises."""

_BLOCK = 1 << 20
_MAX_SNAPPY_RATIO = 32  # a copy of 64 bytes takes three
_ARROW_NAMES = {"zstd": "zstd", "br": "brotli"}


def split_items(chunk: BinaryIO, count: int, where: str) -> Iterator[bytes]:
    """Yield the items of a chunk, in their order, reading it front to back.

    Args:
        chunk: Its bytes.
        count: How many items the index says it has.
        where: Which chunk it is, for messages.

    Raises:
        SourceError: It is damaged.
    """
    (found,) = struct.unpack("<I", take(chunk, 4, where))
    if found != count:
        raise SourceError(f"{where}: it says that it has {found:,} samples, and the index {count:,}.")
    offsets = np.frombuffer(take(chunk, 4 * (count + 1), where), "<u4").astype(np.int64)
    sizes = np.diff(offsets)
    if offsets[0] < 4 * (count + 2) or (sizes < 0).any():
        raise SourceError(f"{where}: its table of offsets is damaged.")
    take(chunk, int(offsets[0]) - 4 * (count + 2), where)  # MDS: the columns once more
    for size in sizes.tolist():
        yield take(chunk, size, where)


def take(stream: BinaryIO, size_bytes: int, where: str) -> bytes:
    """Read so many bytes; memory grows only with what is there.

    Raises:
        SourceError: There are fewer, or more than a sample may have.
    """
    if size_bytes > MAX_MEMBER_BYTES:
        raise SourceError(f"{where}: a part of it has {size_bytes:,} bytes; {MAX_MEMBER_BYTES:,} are the limit.")
    blocks, missing = [], size_bytes
    while missing:
        block = _read(stream, min(missing, _BLOCK), where)
        if not block:
            raise SourceError(f"{where}: it is cut, {missing:,} bytes are missing.")
        blocks.append(block)
        missing -= len(block)
    return b"".join(blocks)


def take_all(stream: BinaryIO, where: str) -> bytes:
    """Read all bytes.

    Raises:
        SourceError: There are more than a sample may have.
    """
    blocks, size_bytes = [], 0
    while block := _read(stream, _BLOCK, where):
        blocks.append(block)
        size_bytes += len(block)
        if size_bytes > MAX_MEMBER_BYTES:
            raise SourceError(f"{where}: it has more than {MAX_MEMBER_BYTES:,} bytes, which is the limit.")
    return b"".join(blocks)


def check_end(stream: BinaryIO, where: str) -> None:
    """Refuse a stream that goes on. At its end, a decompressor compares the checksum.

    Raises:
        SourceError: There is more, or the checksum is wrong.
    """
    if _read(stream, 1, where):
        raise SourceError(f"{where}: there is more in it than its samples.")


def _read(stream: BinaryIO, size_bytes: int, where: str) -> bytes:
    try:
        return stream.read(size_bytes)
    except (OSError, EOFError, ValueError, zlib.error) as err:  # ValueError: of pyarrow
        raise SourceError(f"{where}: it cannot be read or decompressed; the file is damaged ({err}).") from err


def decompressed(file: BinaryIO, algorithm: str, size_bytes: int, where: str) -> BinaryIO:
    """Return a stream of the decompressed bytes.

    Args:
        file: The compressed ones.
        algorithm: "zstd", "br", "gz", "bz2" or "snappy", for all but two of which pyarrow must be installed.
        size_bytes: How many there will be; only snappy needs it.
        where: What it is, for messages.

    Raises:
        SourceError: It is damaged; streams find that out when they are read.
    """
    if algorithm == "gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if algorithm == "bz2":
        return cast(BinaryIO, bz2.BZ2File(file))
    import pyarrow

    if algorithm != "snappy":
        return cast(BinaryIO, pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), _ARROW_NAMES[algorithm]))
    data = file.read()
    # pyarrow would return more bytes than there are, if it is told so.
    if _varint(data) != size_bytes or size_bytes > _MAX_SNAPPY_RATIO * len(data):
        raise SourceError(f"{where}: it does not decompress to {size_bytes:,} bytes; the file is damaged.")
    try:
        return pyarrow.BufferReader(pyarrow.Codec("snappy").decompress(data, size_bytes))  # type: ignore[no-any-return]
    except (OSError, ValueError) as err:
        raise SourceError(f"{where}: it cannot be decompressed; the file is damaged ({err}).") from err


def _varint(data: bytes) -> int:
    """Return the size that snappy's bytes begin with; -1 if there is none."""
    value = 0
    for number, byte in enumerate(data[:5]):
        value |= (byte & 127) << 7 * number
        if byte < 128:
            return value
    return -1
