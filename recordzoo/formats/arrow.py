"""Arrow streams, as written by `datasets.save_to_disk`, and Arrow files: their parts; errors of pyarrow.

An Arrow stream is a sequence of messages, terminated by eight bytes (docs/source/format/Columnar.rst in apache/arrow).
To find the parts, a file is mapped into memory, and only the beginnings of its messages are read: a file of 500 MB is
not read twice. Rows are read without a map, as a file that is cut then would kill the process.

`deserialize` reads what `pyarrow.serialize` wrote, which pyarrow itself has not read since version 12.
"""

import contextlib
import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recordzoo.errors import SourceError
from recordzoo.formats.base import fault

ROWS_AT_ONCE = 64
"""Number of rows converted to values at a time."""

PART_BYTES = 8 << 20
"""Approximate minimum size of a part in bytes."""

_ENDS = (b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\0")  # of a stream; the second before Arrow 0.15
_MAX_COUNTS = 4
_MAX_DEPTH = 16
_MAX_ROWS = 1 << 31  # of a batch; columns of nulls have no bytes that would bound it


@dataclass(frozen=True, slots=True)
class ArrowPart:
    """Consecutive rows of a file.

    Attributes:
        first_row: The number of the first one.
        size_bytes: Their approximate size.
        start, stop: Row groups of a Parquet file, bytes of a stream, batches of an Arrow file.
    """

    first_row: int
    size_bytes: int
    start: int
    stop: int


@dataclass
class TableParts:
    """The facts of a file that are known before its rows are read.

    Attributes:
        schema: A `pyarrow.Schema`.
        parts: All rows, in their order.
        without_paths: Columns of files (bytes and path) that have no paths.
    """

    schema: Any  # pyarrow has no types
    parts: list[ArrowPart] = field(default_factory=list)
    without_paths: set[str] = field(default_factory=set)

    def add(self, part: ArrowPart) -> None:
        """Add rows, to the last part while that is small."""
        last = self.parts[-1] if self.parts else None
        if last is not None and last.stop == part.start and last.size_bytes < PART_BYTES:
            self.parts[-1] = ArrowPart(last.first_row, last.size_bytes + part.size_bytes, last.start, part.stop)
        else:
            self.parts.append(part)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert errors of pyarrow to a `SourceError` that names the file. Context manager."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, IndexError, struct.error, MemoryError) as err:
        if isinstance(err, SourceError):
            raise
        text = " ".join(str(err).split())[:200]
        raise fault(path, f" is cut or damaged ({type(err).__name__}: {text}).") from err


def look(path: Path) -> TableParts:
    """Find a file's columns and parts."""
    import pyarrow

    if _is_file(path):
        with pyarrow.OSFile(str(path)) as file:
            reader = pyarrow.ipc.open_file(file)
            count = reader.num_record_batches
            size = path.stat().st_size // max(1, count)
            return TableParts(reader.schema, [ArrowPart(0, size, 0, count)])
    with pyarrow.memory_map(str(path)) as file:
        found = TableParts(pyarrow.ipc.read_schema(file))
        found.without_paths = set(found.schema.names)
        begin, first_row = file.tell(), 0
        for message in _messages(file):
            if message.type != "record batch":
                raise fault(path, ": it has dictionaries, which are not read. Save it as Parquet.")
            batch = pyarrow.ipc.read_record_batch(message, found.schema)
            if batch.num_rows > _MAX_ROWS:
                raise fault(path, f", byte {begin:,}: {batch.num_rows:,} rows are too many; the file is damaged.")
            found.without_paths -= {n for n in found.without_paths if _has_paths(batch.column(n))}
            found.add(ArrowPart(first_row, file.tell() - begin, begin, file.tell()))
            begin, first_row = file.tell(), first_row + batch.num_rows
        file.seek(begin)
        if not file.read(8).startswith(_ENDS):
            raise fault(path, f", byte {begin:,}: the file is cut or damaged.")
    return found


# Any, here and below: pyarrow has no types.
def _messages(file: Any) -> Iterator[Any]:
    import pyarrow

    with contextlib.suppress(EOFError):
        while True:
            yield pyarrow.ipc.read_message(file)


def _has_paths(array: Any) -> bool:
    """Whether a column of files has the path of one."""
    while hasattr(array, "storage"):
        array = array.storage
    kind = array.type
    if not hasattr(kind, "get_field_index") or (place := kind.get_field_index("path")) < 0:
        return False
    paths = array.field(place)
    return bool(paths.null_count < len(paths))


def storage(kind: Any) -> Any:
    """Return the storage type of an extension type; any other type unchanged."""
    return storage(kind.storage_type) if hasattr(kind, "storage_type") else kind


def batches(path: Path, start: int, stop: int) -> Iterator[Any]:
    """Yield the batches of a part."""
    import pyarrow

    with pyarrow.OSFile(str(path)) as file:
        if _is_file(path):
            reader = pyarrow.ipc.open_file(file)
            yield from map(reader.get_batch, range(start, stop))
            return
        schema = pyarrow.ipc.read_schema(file)
        file.seek(start)
        while file.tell() < stop:
            yield pyarrow.ipc.read_record_batch(pyarrow.ipc.read_message(file), schema)


def _is_file(path: Path) -> bool:
    """Whether an Arrow file has the format with a footer; otherwise it is a stream."""
    with path.open("rb") as file:
        head = file.read(6)
    if not head:
        raise fault(path, " is empty.")
    return head == b"ARROW1"


def deserialize(data: bytes) -> Any:
    """Read what `pyarrow.serialize` wrote: bytes, text, whole numbers, lists, tuples (as lists), None; or one array.

    Counts of 4 bytes each, 1 if there is an array, precede a stream with one value: a dense union, whose lists are
    lists of the same union. Until version 0.12, lists were structs of one list. An array follows the stream. Tested
    with the output of all versions from 0.8 to 11.0.

    Raises:
        ValueError: The data is something else, or damaged.
    """
    import pyarrow

    words = struct.unpack(f"<{_MAX_COUNTS}I", data[: 4 * _MAX_COUNTS].ljust(4 * _MAX_COUNTS, b"\xff"))
    start = 4 * next((place for place, word in enumerate(words) if word > 1), _MAX_COUNTS)
    try:
        stream = pyarrow.BufferReader(data[start:])
        with pyarrow.ipc.open_stream(stream) as reader:
            batch = reader.read_next_batch()
        if 1 in words[: start // 4]:
            rest = data[start + stream.tell() :]
            while rest.startswith(_ENDS):
                rest = rest[4:]
            return _array(pyarrow.ipc.read_tensor(pyarrow.BufferReader(rest)))
        batch.validate(full=True)
        if batch.num_columns != 1 or batch.num_rows != 1 or batch.nbytes > 2 * len(data):
            raise ValueError(f"it has {batch.num_columns} columns of {batch.num_rows} values")
        return _values(batch.column(0), _MAX_DEPTH, len(data))[0]
    except (pyarrow.ArrowException, OSError, IndexError, TypeError, StopIteration, MemoryError, OverflowError) as err:
        raise ValueError(f"it is cut or damaged ({' '.join(str(err).split())[:200]})") from err


def _array(tensor: Any) -> Any:
    values = tensor.to_numpy()
    if values.dtype.kind not in "iuf" or not values.size:
        raise ValueError(f"its array has {values.dtype} numbers of shape {list(values.shape)[:8]}")
    return values


def _values(array: Any, depth: int, most: int) -> list[Any]:
    """Return the values of a column; the code of a union's value says which member it is, by place."""
    import pyarrow

    types, kind = pyarrow.types, array.type
    if not depth or len(array) > most:
        raise ValueError("it is nested too deep, or too long")
    if types.is_union(kind):
        columns = [_values(array.field(place), depth - 1, most) for place in range(kind.num_fields)]
        places = zip(array.type_codes.to_pylist(), array.offsets.to_pylist(), strict=True)
        return [columns[code][place] for code, place in places]
    if types.is_struct(kind) and [kind.field(place).name for place in range(kind.num_fields)] in (["list"], ["tuple"]):
        return _values(array.field(0), depth - 1, most)
    if types.is_list(kind):
        inner, ends = _values(array.values, depth - 1, most), array.offsets.to_pylist()
        return [inner[first:stop] for first, stop in itertools.pairwise(ends)]
    if not (types.is_int64(kind) or types.is_binary(kind) or types.is_string(kind) or types.is_null(kind)):
        raise ValueError(f"it holds a {kind}")
    found: list[Any] = array.to_pylist()
    return found
