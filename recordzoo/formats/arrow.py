"""Arrow streams, as `datasets.save_to_disk` writes them, and Arrow files: the parts of one; errors of pyarrow.

An Arrow stream is a row of messages: 0xFFFFFFFF, the length of a Flatbuffers table, that table, a body
(format/Message.fbs and docs/source/format/Columnar.rst in apache/arrow). Only the tables are read to find the parts, so
that a file of 500 MB is not read twice. No file is mapped into memory: one that is cut then would kill the process.
"""

import contextlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from recordzoo.errors import SourceError
from recordzoo.formats.flatbuffers import FlatTable

ROWS_AT_ONCE = 64
"""So many rows are values at a time."""

PART_BYTES = 8 << 20
"""About so many bytes of rows are a part, at least."""

_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # MessageHeader
_CONTINUATION = 0xFFFFFFFF
_MAX_TABLE_BYTES = 64 << 20
_MAX_ROWS = 1 << 31  # of a batch; columns of nulls have no bytes that would bound it


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of a file.

    Attributes:
        first_row: The number of the first one.
        size_bytes: About how many bytes they have.
        start, stop: Row groups of a Parquet file, bytes of a stream, batches of an Arrow file.
    """

    first_row: int
    size_bytes: int
    start: int
    stop: int


@dataclass
class TableParts:
    """What is known of a file before its rows are read.

    Attributes:
        schema: A `pyarrow.Schema`.
        parts: All rows, in their order.
        without_paths: Columns of files (bytes and path) that have no paths.
    """

    schema: Any  # pyarrow has no types
    parts: list[Part] = field(default_factory=list)
    without_paths: set[str] = field(default_factory=set)

    def add(self, part: Part) -> None:
        """Add rows, to the last part while that is small."""
        last = self.parts[-1] if self.parts else None
        if last is not None and last.stop == part.start and last.size_bytes < PART_BYTES:
            self.parts[-1] = Part(last.first_row, last.size_bytes + part.size_bytes, last.start, part.stop)
        else:
            self.parts.append(part)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error of pyarrow into ours, which names the file. Context manager."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, IndexError, struct.error, MemoryError) as err:
        if isinstance(err, SourceError):
            raise
        text = " ".join(str(err).split())[:200]
        raise SourceError(f"{path} is cut or damaged ({type(err).__name__}: {text}).", path=str(path)) from err


def look(path: Path) -> TableParts:
    """Find a file's columns and parts.

    Raises:
        SourceError: It is cut, damaged, or has dictionaries.
    """
    import pyarrow

    if _is_file(path):
        with pyarrow.OSFile(str(path)) as file:
            reader = pyarrow.ipc.open_file(file)
            count = reader.num_record_batches
            size = path.stat().st_size // max(1, count)
            return TableParts(reader.schema, [Part(0, size, 0, count)])
    with pyarrow.OSFile(str(path)) as file:
        found = TableParts(pyarrow.ipc.read_schema(file))
    files = _file_nodes(found.schema)
    found.without_paths = set(files)
    first_row = 0
    for begin, end, kind_of, header in _messages(path):
        if kind_of == _DICTIONARY:
            raise SourceError(f"{path}: it has dictionaries, which are not read. Save it as Parquet.", path=str(path))
        if kind_of != _BATCH:
            continue
        nodes = header.pairs(1)
        found.without_paths -= {name for name, node in files.items() if not _all_null(nodes, node)}
        found.add(Part(first_row, end - begin, begin, end))
        rows = header.number(0, "q")
        if not 0 <= rows <= _MAX_ROWS:
            raise SourceError(
                f"{path}, byte {begin:,}: {rows:,} rows are too many; the file is damaged.", path=str(path)
            )
        first_row += rows
    return found


def _all_null(nodes: Sequence[tuple[int, int]], node: int) -> bool:
    return node < len(nodes) and nodes[node][0] == nodes[node][1]


# Any: pyarrow's schema.
def _file_nodes(schema: Any) -> dict[str, int]:
    """Return the number of the node that counts the nulls of a column's paths: nodes are listed parents first."""
    found, number = {}, 0
    for column in schema:
        kind = storage(column.type)
        names = [child.name for child in _children(kind)]
        if "path" in names:
            before = _children(kind)[: names.index("path")]
            found[column.name] = number + 1 + sum(_num_nodes(child.type) for child in before)
        number += _num_nodes(kind)
    return found


# Any, here and below: pyarrow's types and fields.
def _num_nodes(kind: Any) -> int:
    return 1 + sum(_num_nodes(child.type) for child in _children(storage(kind)))


def _children(kind: Any) -> list[Any]:
    return [kind.field(number) for number in range(kind.num_fields)]


def storage(kind: Any) -> Any:
    """Return what an extension type is stored as; another type as it is."""
    return storage(kind.storage_type) if hasattr(kind, "storage_type") else kind


def _messages(path: Path) -> Iterator[tuple[int, int, int, FlatTable]]:
    """Yield where each message begins and ends, its kind and header."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while True:
            begin = file.tell()
            length = _length(file)
            if length == 0:
                return
            start = file.tell()
            table = file.read(length) if 0 < length <= min(_MAX_TABLE_BYTES, size - start) else b""
            if not table:
                raise SourceError(f"{path}, byte {begin:,}: the file is cut or damaged.", path=str(path))
            message = FlatTable(table, struct.unpack_from("<I", table)[0])
            body_bytes = message.number(3, "q")
            end = start + length + body_bytes
            header = message.table(2)
            if body_bytes < 0 or end > size or header is None:
                raise SourceError(f"{path}, byte {begin:,}: the file is cut or damaged.", path=str(path))
            yield begin, end, message.number(1, "B"), header
            file.seek(end)


def _length(file: BinaryIO) -> int:
    """Return how long the next message's table is; 0 at the end, -1 if the file is cut."""
    found = file.read(4)
    if found == struct.pack("<I", _CONTINUATION):
        found = file.read(4)
    return int(struct.unpack("<i", found)[0]) if len(found) == 4 else -1


# Any: a `pyarrow.RecordBatch`.
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
        raise SourceError(f"{path} is empty.", path=str(path))
    return head == b"ARROW1"
