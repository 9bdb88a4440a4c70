"""Tables of Parquet and Arrow: their parts and rows, columns as values, errors of pyarrow.

An Arrow stream, as written by `datasets.save_to_disk`, is a sequence of messages, terminated by eight bytes
(docs/source/format/Columnar.rst in apache/arrow). To find the parts, a file is mapped into memory, and only the
beginnings of its messages are read: a file of 500 MB is not read twice. Rows are read without a map, as a file that is
cut then would kill the process. A child process opens each Parquet file first: pyarrow may crash on damage.
"""

import contextlib
import json
import os
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import recordzoo
from recordzoo.base.files import open_at_once
from recordzoo.errors import SourceError
from recordzoo.formats.base import MAX_FIELDS, fault, first_bytes, plain
from recordzoo.raw.member import MAX_MEMBER_BYTES, unpacked_cap
from recordzoo.recipes.recipe import sniffed_ending

ROWS_AT_ONCE = 64
"""Number of rows converted to values at a time."""

PART_BYTES = 8 << 20
"""Approximate minimum size of a part in bytes."""

OPENING_S = 30.0
"""Time limit to open a file."""

ARRAYS = {2: "Array2D", 3: "Array3D", 4: "Array4D", 5: "Array5D"}
"""Features of `datasets` for arrays, of which the first dimension may differ."""

_ENDS = (b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\0")  # of a stream; the second before Arrow 0.15
_ROW_BYTES = 64  # as which each row counts at least: columns of nulls have no bytes
_MAX_ROWS = 1 << 31  # of a batch; columns of nulls have no bytes that would bound it
_opened: set[tuple[Path, int, int]] = set()  # paths, sizes and times
_CHILD = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
from recordzoo.formats.arrow import look
for path in json.loads(sys.stdin.readline()):
    try:
        look(Path(path))
    except Exception:
        pass
    print(flush=True)
"""
_HEAD_BYTES = 16


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


def _joined(parts: Iterable[ArrowPart]) -> list[ArrowPart]:
    """Put parts together while they are small."""
    found: list[ArrowPart] = []
    for part in parts:
        if found and found[-1].size_bytes < PART_BYTES:
            last = found.pop()
            part = ArrowPart(last.first_row, last.size_bytes + part.size_bytes, last.start, part.stop)
        found.append(part)
    return found


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


def open_first(paths: Sequence[Path]) -> None:
    """Open files in a child process before this process does. Exceptions there are ignored: they occur again here.

    Raises:
        SourceError: The child process crashed, or took too long.
    """
    states = {(path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths}
    if states <= _opened:
        return
    search = [str(Path(recordzoo.__file__).absolute().parent.parent), *(os.path.abspath(entry) for entry in sys.path)]
    command = [sys.executable, "-I", "-c", _CHILD, json.dumps(search)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps([os.fspath(path.absolute()) for path in paths]) + "\n")
        child.stdin.flush()
        for path in paths:
            timer = threading.Timer(OPENING_S, child.kill)
            timer.start()
            answer = child.stdout.readline()
            timer.cancel()
            if not answer:
                text = f" is damaged: the library that reads it crashed, or took more than {OPENING_S:.0f} s."
                raise fault(path, text)
    _opened.update(states)


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does; otherwise it is Arrow's."""
    return first_bytes(path, 4) == b"PAR1"


# Any, here and below: pyarrow has no types.
def look(path: Path) -> tuple[Any, list[ArrowPart]]:
    """Return the schema of a file, of Parquet or Arrow, and its parts."""
    with reading(path):
        return _parquet_parts(path) if is_parquet(path) else _arrow_parts(path)


def batches(path: Path, start: int, stop: int) -> Iterator[Any]:
    """Yield the rows of a part, at most `ROWS_AT_ONCE` at a time, as a `pyarrow.RecordBatch`; offsets were checked."""
    left_bytes = cap_bytes = unpacked_cap(path.stat().st_size)
    with reading(path):
        for batch in (_parquet_batches if is_parquet(path) else _arrow_batches)(path, start, stop):
            batch.validate(full=True)
            left_bytes -= max(batch.nbytes, _ROW_BYTES * batch.num_rows)
            if left_bytes < 0:
                raise fault(
                    path, f" unpacks to more than {cap_bytes:,} bytes, far more than any data set of its size does."
                )
            for first in range(0, batch.num_rows, ROWS_AT_ONCE):
                yield batch.slice(first, ROWS_AT_ONCE)


def _parquet_parts(path: Path) -> tuple[Any, list[ArrowPart]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as table:
        schema, metadata = _checked(path, table.schema_arrow), table.metadata
        parts, first_row = list[ArrowPart](), 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if group.num_rows < 0:
                raise fault(path, f": row group {number} has {group.num_rows} rows.")
            parts.append(ArrowPart(first_row, max(1, group.total_byte_size), number, number + 1))
            first_row += group.num_rows
    return schema, _joined(parts)


def _checked(path: Path, schema: Any) -> Any:
    """Return a schema; refuse so many columns that to look at them takes minutes."""
    if len(schema.names) > MAX_FIELDS:
        raise fault(path, f" has {len(schema.names):,} columns; {MAX_FIELDS:,} are the most.")
    return schema


def _parquet_batches(path: Path, start: int, stop: int) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as table:
        yield from table.iter_batches(ROWS_AT_ONCE, row_groups=range(start, stop))


def _arrow_parts(path: Path) -> tuple[Any, list[ArrowPart]]:
    import pyarrow

    if _is_file(path):
        with pyarrow.OSFile(str(path)) as file:
            reader = pyarrow.ipc.open_file(file)
            count = reader.num_record_batches
            size = path.stat().st_size // max(1, count)
            return _checked(path, reader.schema), [ArrowPart(0, size, 0, count)]
    with pyarrow.memory_map(str(path)) as file:
        schema = _checked(path, pyarrow.ipc.read_schema(file))
        parts, begin, first_row = list[ArrowPart](), file.tell(), 0
        for message in _messages(file):
            if message.type != "record batch":
                raise fault(path, ": it has dictionaries, which are not read. Save it as Parquet.")
            batch = pyarrow.ipc.read_record_batch(message, schema)
            if batch.num_rows > _MAX_ROWS:
                raise fault(path, f", byte {begin:,}: {batch.num_rows:,} rows are too many; the file is damaged.")
            parts.append(ArrowPart(first_row, file.tell() - begin, begin, file.tell()))
            begin, first_row = file.tell(), first_row + batch.num_rows
        file.seek(begin)
        if not file.read(8).startswith(_ENDS):
            raise fault(path, f", byte {begin:,}: the file is cut or damaged.")
    return schema, _joined(parts)


def _messages(file: Any) -> Iterator[Any]:
    import pyarrow

    with contextlib.suppress(EOFError):
        while True:
            yield pyarrow.ipc.read_message(file)


def storage(kind: Any) -> Any:
    """Return the storage type of an extension type; any other type unchanged."""
    return storage(kind.storage_type) if hasattr(kind, "storage_type") else kind


def _arrow_batches(path: Path, start: int, stop: int) -> Iterator[Any]:
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
    head = first_bytes(path, 6)
    if not head:
        raise fault(path, " is empty.")
    return head == b"ARROW1"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, and the field that it becomes.

    Attributes:
        key: Its name in the table.
        name: The field.
        is_file: Each value is the bytes or the path of a file.
        paths: The field for these paths; "" if there are none.
        kind: How the field is stored; "" if that is inferred.
        shape: An array's shape, None for a dimension that differs.
        is_class: Its numbers are classes: a null is -1.
    """

    key: str
    name: str
    is_file: bool = False
    paths: str = ""
    kind: str = ""
    shape: tuple[int | None, ...] = ()
    is_class: bool = False


# Any, here and below: pyarrow has no types; features are JSON; values are of all kinds.
def holds_files(kind: Any, feature: Mapping[str, Any]) -> bool:
    """Whether a column holds files: structs of bytes and path; an `Image` may also be stored as one of them."""
    kind = storage(kind)
    if _is_struct(kind):
        return {field.name for field in kind} == {"bytes", "path"}
    return feature.get("_type") == "Image" and (_is_text(kind) or _is_binary(kind))


def stored_as(kind: Any) -> str:
    """Return the kind that follows from a column's type: text, and JSON for nested types."""
    kind = storage(kind)
    if str(kind).startswith("dictionary<"):
        kind = kind.value_type
    if _is_binary(kind):
        return "bytes"
    return "" if _is_number(kind) or (_is_list(kind) and _is_number(_innermost(kind))) else "json"


def shape_of(feature: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Return the shape of an `Array2D` ... `Array5D`; () of other features."""
    shape = feature.get("shape")
    if feature.get("_type") not in ARRAYS.values() or not isinstance(shape, list):
        return ()
    return tuple(each if isinstance(each, int) else None for each in shape)


def values_of(column: Column, array: Any, folder: Path, *, is_anywhere: bool) -> dict[str, Sequence[Any]]:
    """Return the values of some rows: those of the column's field, and of its field of paths.

    Args:
        column: The column.
        array: Its rows, a `pyarrow.Array`.
        folder: Where relative paths begin.
        is_anywhere: Whether paths may lead out of the folder.
    """
    if str(array.type) == "extension<arrow.json>":
        texts = array.to_pylist()
        return {column.name: [None if text is None else json.loads(text) for text in texts]}
    while hasattr(array, "storage"):
        array = array.storage
    if hasattr(array, "dictionary_decode"):
        array = array.dictionary_decode()
    if column.is_file:
        data, paths = _files(array)
        files = [
            _read(path, folder, is_anywhere) if each is None else each for each, path in zip(data, paths, strict=True)
        ]
        return {column.name: files, **({column.paths: paths} if column.paths else {})}
    return {column.name: _column_values(array.fill_null(-1) if column.is_class else array, column.shape)}


def _files(array: Any) -> tuple[list[bytes | None], list[str | None]]:
    if _is_struct(array.type):
        names = [field.name for field in array.type]
        children = dict(zip(names, array.flatten(), strict=True))  # with the nulls of the struct itself
        return children["bytes"].to_pylist(), children["path"].to_pylist()
    none: list[Any] = [None] * len(array)
    return (none, array.to_pylist()) if _is_text(array.type) else (array.to_pylist(), none)


def _read(path: str | None, folder: Path, is_anywhere: bool) -> bytes | None:
    """Read the image at a path; refuse anything else, because the path is untrusted."""
    if path is None:
        return None
    place = folder / path
    try:
        if not is_anywhere and not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder)):
            raise SourceError(f"it leads out of {folder}. If you trust the file, pass --allow-paths (allow_paths=True)")
        with open(place, "rb", opener=open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_MEMBER_BYTES:
                raise SourceError(f"it is no file, or has more than {MAX_MEMBER_BYTES:,} bytes")
            head = file.read(_HEAD_BYTES)
            if not sniffed_ending(head):
                raise SourceError("it is no image")
            return head + file.read()
    except (OSError, ValueError, SourceError) as err:
        text = err.strerror if isinstance(err, OSError) else err
        raise SourceError(f"its bytes are not stored, and the path {path!r} is not read: {text}") from err


def _column_values(array: Any, shape: tuple[int | None, ...]) -> Sequence[Any]:
    """Return numbers, arrays, text, bytes, or values that JSON can express."""
    kind = array.type
    if _is_number(kind):
        numbers = array.fill_null(False if str(kind) == "bool" else 0).to_numpy(zero_copy_only=False)
        return [number if valid else None for number, valid in zip(numbers, array.is_valid().to_pylist(), strict=True)]
    if _is_list(kind) and _is_number(_innermost(kind)) and (shape or not _is_list(kind.value_type)):
        return [_numbers(scalar, shape) for scalar in array]
    values = array.to_pylist()
    return values if _is_text(kind) or _is_binary(kind) else list(map(plain, values))


def _numbers(scalar: Any, shape: tuple[int | None, ...]) -> NDArray[Any] | list[Any] | None:
    """Return a list of numbers as an array; as a list if some are null."""
    values = scalar.values
    if values is None:
        return None
    length = len(values)
    while _is_list(values.type):
        values = values.flatten()
    if values.null_count:
        return list(scalar.as_py())
    numbers: NDArray[Any] = np.asarray(values.to_numpy(zero_copy_only=False))
    if None in shape[1:]:
        return numbers.reshape(_sizes(scalar.values))
    return numbers.reshape(*(length if each is None else each for each in shape)) if shape else numbers


def _sizes(lists: Any) -> list[int]:
    """Return the shape of lists of lists."""
    found = [len(lists)]
    while _is_list(lists.type):
        lengths = set(lists.value_lengths().to_pylist())
        if len(lengths) > 1:
            raise ValueError(f"its lists are no array: they have {sorted(map(str, lengths))} values")
        found.append(lengths.pop() if lengths else 0)
        lists = lists.flatten()
    return found


def _innermost(kind: Any) -> Any:
    while _is_list(kind):
        kind = kind.value_type
    return kind


def _is_struct(kind: Any) -> bool:
    return str(kind).startswith("struct<")


def _is_list(kind: Any) -> bool:
    return str(kind).startswith(("list<", "large_list<", "fixed_size_list<"))


def _is_number(kind: Any) -> bool:
    return str(kind).startswith(("int", "uint", "halffloat", "float", "double", "bool"))


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _is_binary(kind: Any) -> bool:
    return str(kind).startswith(("binary", "large_binary", "fixed_size_binary"))
