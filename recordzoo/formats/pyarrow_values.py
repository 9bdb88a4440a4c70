"""What `pyarrow.serialize` wrote, read without pyarrow, which itself has not read it since version 12.

Some counts of 4 bytes (of tensors and buffers, all 0 for what is read here), then an Arrow IPC stream of one batch of
one column, the value: a dense union. Lists are lists of such unions. The members are named by numbers for Python's
types (PythonType in cpp/src/arrow/python/serialize.h), which began at 1 until 0.17 and have begun one later since 1.0;
until 0.12 they had no names, and lists were structs of one list. A value's code says which member it is, by place.

The stream's messages are Flatbuffers (format/Message.fbs and Schema.fbs): tables that name their fields by position.
What all versions from 0.8 to 11.0 wrote was tried.
"""

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.formats.flatbuffers import FlatTable, unsigned

_SCHEMA, _BATCH, _TENSOR = 1, 3, 4  # MessageHeader
_KINDS = {_SCHEMA: "schema", _BATCH: "values", _TENSOR: "array"}
_FLOAT = 3
_NULL, _INT, _BINARY, _UTF8, _LIST, _STRUCT, _UNION = 1, 2, 4, 5, 12, 13, 14  # Type
_OTHERS = {3: "float", 6: "bool", 8: "datetime"}
_VERSION_5 = 4  # MetadataVersion: from it on, unions have no validity
_DENSE = 1
_CONTINUATION = 0xFFFFFFFF
_END = b"\xff\xff\xff\xff\0\0\0\0"
_MEMBERS = {
    _INT: ("", "1", "2", "3"),
    _BINARY: ("", "3", "4"),
    _UTF8: ("", "4", "5"),
    _LIST: ("9", "10", "11", "12"),
    _STRUCT: ("",),
}
_MAX_DEPTH = 16
_MAX_COLUMNS = 64
_MAX_COUNTS = 4


class ArrowError(ValueError):
    """Bytes are not what `pyarrow.serialize` writes, or hold what is not read here."""


# Any: whatever was serialised.
def deserialize(data: bytes) -> Any:
    """Read bytes, strings, whole numbers, lists and tuples of them (both as lists), and None; or one array of numbers.

    Raises:
        ArrowError: It is something else; of other types the message has the name.
    """
    try:
        return _deserialize(data)
    except ValueError as err:
        raise err if isinstance(err, ArrowError) else ArrowError(f"it is cut or damaged ({err})") from err
    except (struct.error, IndexError, UnicodeDecodeError) as err:
        raise ArrowError(f"it is cut or damaged ({err})") from err


def _deserialize(data: bytes) -> Any:
    position = 0
    while position < 4 * _MAX_COUNTS and unsigned(data, position) == 0:
        position += 4
    has_array = unsigned(data, position) == 1
    while has_array and position < 4 * _MAX_COUNTS and unsigned(data, position) < 2:
        position += 4
    message, schema, position = _message(data, position, _SCHEMA)
    fields = schema.tables(1)
    if len(fields) != 1:
        raise ArrowError(f"it has {len(fields)} columns")
    message, batch, position = _message(data, position, _BATCH)
    if has_array:
        return _array(data, position + message.number(3, "q"))
    columns = _Columns(data, position, batch, has_union_validity=message.number(0, "h") < _VERSION_5)
    values = list(columns.column(fields[0], 0))
    if len(values) != 1:
        raise ArrowError(f"it has {len(values)} values")
    return values[0]


# Any: of any numeric dtype.
def _array(data: bytes, position: int) -> NDArray[Any]:
    """Read the array behind the end of the stream, of which the stream has nothing but that there is one."""
    while unsigned(data, position) == 0 or data[position : position + 8] == _END:
        position += 4
    _, tensor, position = _message(data, position, _TENSOR)
    kind, found = tensor.number(0, "B"), tensor.table(1)
    if found is None or kind not in (_INT, _FLOAT):
        raise ArrowError("it holds an array of something else than numbers")
    if kind == _FLOAT:
        name = ("<f2", "<f4", "<f8")[found.number(0, "h")]
    else:
        name = f"<{'i' if found.number(1, 'B') else 'u'}{found.number(0, 'i') // 8}"
    dtype = np.dtype(name if name[2:] in ("1", "2", "4", "8") else "V")
    shape = [size.number(0, "q") for size in tensor.tables(2)]
    offset, length = tensor.pair(4)
    steps = [tensor.item(3, index) for index in range(len(shape))]
    is_outside = offset < 0 or length > len(data) or position + offset + length > len(data)
    if is_outside or min(shape, default=0) < 1 or math.prod(shape) * dtype.itemsize != length:
        raise ArrowError(f"its array has the shape {shape[:8]} and {length:,} bytes")
    values = np.frombuffer(data, dtype, math.prod(shape), position + offset)
    for order in ("C", "F"):
        made = values.reshape(shape, order=order)
        if list(made.strides) == steps:
            return made
    raise ArrowError("its array has gaps")


def _message(data: bytes, position: int, wanted: int) -> tuple[FlatTable, FlatTable, int]:
    """Return a message of a kind, its header, and where its body begins."""
    if unsigned(data, position) == _CONTINUATION:
        position += 4
    length = unsigned(data, position)
    start = position + 4
    table = FlatTable(data, start + unsigned(data, start))
    header = table.table(2)
    if header is None or table.number(1, "B") != wanted:
        raise ArrowError(f"it has no {_KINDS[wanted]}")
    return table, header, start + length


class _Columns:
    """A batch's columns, taken one after another in the order in which their nodes and buffers are listed."""

    def __init__(self, data: bytes, start: int, batch: FlatTable, *, has_union_validity: bool) -> None:
        self._data, self._start = data, start
        nodes = batch.pairs(1)
        if len(nodes) > _MAX_COLUMNS:  # each may be as large as all bytes together
            raise ArrowError("it is of too many kinds")
        self._nodes = iter(nodes)
        self._buffers = iter(batch.pairs(2))
        self._has_union_validity = has_union_validity

    # Any: values of all kinds.
    def column(self, field: FlatTable, depth: int) -> Sequence[Any]:
        """Read the next column, of a field's type, with all that is in it."""
        if depth > _MAX_DEPTH:
            raise ArrowError("it is nested too deep")
        count, nulls = next(self._nodes, (-1, 0))
        if not 0 <= count <= len(self._data) or nulls < 0:
            raise ArrowError("a column has an impossible length")
        kind = field.number(2, "B")
        if kind == _NULL:
            return [None] * count
        if kind == _UNION:
            return self._union(field, count, depth)
        if nulls:
            raise ArrowError("a column has gaps")
        self._buffer()  # validity
        if kind == _INT:
            width = field.table(3)
            if width is None or width.number(0, "i") != 64 or not width.number(1, "B"):
                raise ArrowError("its numbers are not those that Python has")
            return struct.unpack_from(f"<{count}q", self._buffer())
        if kind == _STRUCT:
            members = field.tables(5)
            if len(members) != 1 or members[0].text(0) not in ("list", "tuple") or members[0].number(2, "B") != _LIST:
                raise ArrowError("it holds a dict, a set, or an array")
            return self.column(members[0], depth + 1)
        ends = struct.unpack_from(f"<{count + 1}i", self._buffer()) if count else (0,)
        if ends[0] < 0 or any(a > b for a, b in itertools.pairwise(ends)):
            raise ArrowError("a column's values overlap")
        if kind == _LIST:
            inner = field.tables(5)
            if len(inner) != 1:
                raise ArrowError("a list has no type")
            return _slices(self.column(inner[0], depth + 1), ends)
        parts = _slices(self._buffer(), ends)
        return [part.decode() for part in parts] if kind == _UTF8 else parts

    def _union(self, field: FlatTable, count: int, depth: int) -> Sequence[Any]:
        union = field.table(3)
        if union is None or union.number(0, "h") != _DENSE:
            raise ArrowError("its union is not dense")
        if self._has_union_validity:
            self._buffer()
        codes = struct.unpack_from(f"<{count}b", self._buffer())
        places = struct.unpack_from(f"<{count}i", self._buffer())
        members = field.tables(5)
        for member in members:
            name, kind = member.text(0), member.number(2, "B")
            if kind != _NULL and name not in _MEMBERS.get(kind, ()):
                raise ArrowError(f"it holds a {_OTHERS.get(kind, 'value of another type')} ({name[:20]!r}, {kind})")
        columns = [self.column(member, depth + 1) for member in members]
        if any(not 0 <= code < len(columns) for code in codes):
            raise ArrowError("a value is of no member of its union")
        return [_item(columns[code], place) for code, place in zip(codes, places, strict=True)]

    def _buffer(self) -> bytes:
        offset, length = next(self._buffers, (-1, 0))
        start = self._start + offset
        if offset < 0 or length < 0 or start + length > len(self._data):
            raise ArrowError("a buffer lies outside")
        return self._data[start : start + length]


# Any: values of all kinds.
def _slices(values: Any, ends: Sequence[int]) -> Sequence[Any]:
    if ends[-1] > len(values):
        raise ArrowError("a column has fewer values than are needed")
    return [values[a:b] for a, b in itertools.pairwise(ends)]


# Any: as above.
def _item(column: Sequence[Any], place: int) -> Any:
    if not 0 <= place < len(column):
        raise ArrowError("a value is missing")
    return column[place]
