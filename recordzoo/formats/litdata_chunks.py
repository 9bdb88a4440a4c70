"""The items of a chunk of LitData: one after the other, in compressed frames, or as rows of Arrow.

* plain (litdata/streaming/writer.py): a chunk as `chunks` has it, with zstd around all of it, or around each item.
* in frames (litdata/streaming/framed_zstd.py): ``LDFZ01``, a version, the number of items and of frames, the offsets of
  the items, a table of the frames, and the frames, each the zstd of many items.
* rows (litdata/streaming/item_loader.py): behind a chunk of empty items an Arrow IPC file or stream, its size (uint32)
  and ``LDARW01``. This is how litdata 0.2.76 stores dicts that hold only bytes, text, numbers, lists and dicts.
"""

import io
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from recordzoo.errors import SourceError
from recordzoo.formats.chunks import check_end, decompressed, split_items, take, take_all
from recordzoo.packages import need

_FRAMED = b"LDFZ01\0\0"
_FRAMED_HEAD = struct.Struct("<HHIII")  # version, flags, items, items of a frame, frames
_FRAME = struct.Struct("<IIQII")  # first item, items, offset and size of the frame, its size when decompressed
_ROWS = b"LDARW01\0"
_ROWS_TAIL = struct.Struct("<I8s")
_ARROW_FILE = b"ARROW1"


# Any: rows have values of all kinds.
def read_chunk(path: Path, count: int, compression: str) -> Iterator[bytes | dict[str, Any]]:
    """Yield the items of a chunk in their order, as bytes or as rows.

    Args:
        path: The chunk.
        count: How many items the index says it has.
        compression: "chunk": zstd around all of it; "sample": around each item; "": neither.

    Raises:
        SourceError: It is damaged.
        PrepareError: pyarrow is needed and not installed.
    """
    where = str(path)
    if compression:
        _need_pyarrow()
    with path.open("rb") as file:
        if compression == "chunk":
            stream = decompressed(file, "zstd", 0, where)
            yield from split_items(stream, count, where)
            check_end(stream, where)
        elif file.read(len(_FRAMED)) == _FRAMED:
            yield from _framed(file, count, where)
        elif size := _rows_size(file):
            yield from _rows(file, size, count, where)
        else:
            file.seek(0)
            for number, item in enumerate(split_items(file, count, where)):
                yield _inflated(item, f"{where}, sample {number}") if compression == "sample" else item
            check_end(file, where)


def _inflated(data: bytes, where: str) -> bytes:
    """Decompress an item, which says its own size nowhere."""
    return take_all(decompressed(io.BytesIO(data), "zstd", 0, where), where)


def _need_pyarrow() -> None:
    need("pyarrow", "litdata", "LitData with compressed chunks or rows of Arrow is read")


def _framed(file: BinaryIO, count: int, where: str) -> Iterator[bytes]:
    _need_pyarrow()
    version, _, found, _, frames = _FRAMED_HEAD.unpack(take(file, _FRAMED_HEAD.size, where))
    if version != 1 or found != count or frames > count:
        raise SourceError(f"{where}: version {version} with {found:,} samples; version 1 with {count:,} is expected.")
    offsets = np.frombuffer(take(file, 4 * (count + 1), where), "<u4").astype(np.int64)
    sizes = np.diff(offsets)
    table = take(file, _FRAME.size * frames, where)
    done = 0
    for first, items, start, packed, size in _FRAME.iter_unpack(table):
        follows = first == done and start == file.tell() and first + items <= count and (sizes >= 0).all()
        if not follows or sizes[first : first + items].sum() != size:
            raise SourceError(f"{where}: its table of frames is damaged.")
        stream = decompressed(io.BytesIO(take(file, packed, where)), "zstd", size, where)
        for item in sizes[first : first + items].tolist():
            yield take(stream, item, where)
        check_end(stream, where)
        done += items
    if done != count:
        raise SourceError(f"{where}: its frames have {done:,} samples of {count:,}.")


def _rows_size(file: BinaryIO) -> int:
    """Return how many bytes of Arrow are at the end of a chunk; 0: there are none."""
    end = file.seek(0, os.SEEK_END)
    if end < _ROWS_TAIL.size:
        return 0
    file.seek(end - _ROWS_TAIL.size)
    size, magic = _ROWS_TAIL.unpack(file.read(_ROWS_TAIL.size))
    return int(size) if magic == _ROWS else 0


def _rows(file: BinaryIO, size: int, count: int, where: str) -> Iterator[dict[str, Any]]:
    _need_pyarrow()
    import pyarrow
    from pyarrow import ipc

    end = file.seek(0, os.SEEK_END) - _ROWS_TAIL.size
    if size > end:
        raise SourceError(f"{where}: it is cut: {size:,} bytes of Arrow in {end:,}.")
    file.seek(end - size)
    done = 0
    try:
        data = file.read(size)
        if data.startswith(_ARROW_FILE):
            reader = ipc.open_file(data)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        else:
            batches = iter(ipc.open_stream(data))
        for batch in batches:
            batch.validate(full=True)  # else forged offsets would lead out of the memory
            done += batch.num_rows
            for start in range(0, min(batch.num_rows, count), 16):
                yield from batch.slice(start, 16).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, KeyError, MemoryError) as err:
        raise SourceError(f"{where}: its Arrow rows are damaged ({err}).") from err
    if done != count:
        raise SourceError(f"{where}: it has {done:,} rows, and the index {count:,}.")
