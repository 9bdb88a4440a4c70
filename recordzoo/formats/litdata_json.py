"""LitData's own encoding of lists and dicts (``_nested_dumps`` in litdata/streaming/serializers.py), and plain JSON.

A value is a tag (one byte) and what it says: a number, a text with its length (uint32), a list with its length, the
pairs of a dict, or the keys of a table and its rows, each value with a tag.
"""

import json
import struct
from typing import Any

import numpy as np

_JSON, _TEXTS, _INTS, _FLOATS, _BOOLS, _DICT, _TABLE, _TEXT, _INT, _FLOAT, _BOOL, _NONE = range(12)
_MAX_TAG = 32  # larger: the first byte of JSON, as older versions wrote it
_IN_TABLE = {0x10: _NONE, 0x11: _TEXT, 0x12: _INT, 0x13: _FLOAT, 0x14: _BOOL}


# Any: what JSON has.
def nested_value(data: bytes) -> Any:
    """Return a list, a dict, or what else was stored.

    Raises:
        ValueError, IndexError, KeyError, struct.error, RecursionError: It is damaged.
    """
    if data and data[0] > _MAX_TAG:
        return json.loads(data)
    reader = _Reader(data)
    value = reader.value(reader.take(1)[0])
    if reader.position != len(data):
        raise ValueError(f"{len(data) - reader.position} bytes too many")
    return value


class _Reader:
    """Reads values one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        part = self._data[self.position : self.position + size]
        if len(part) < size:
            raise ValueError("it is cut")
        self.position += size
        return part

    def _count(self, size: int = 1) -> int:
        """Read how many values follow, of at least so many bytes each."""
        (count,) = struct.unpack("<I", self.take(4))
        if count * size > len(self._data) - self.position:
            raise ValueError("it is cut")
        return int(count)

    def _text(self) -> str:
        return self.take(self._count()).decode()

    def value(self, tag: int) -> Any:
        if tag == _JSON:
            return json.loads(self.take(self._count()))
        if tag == _TEXTS:
            return [self._text() for _ in range(self._count(4))]
        if tag in (_INTS, _FLOATS):
            return np.frombuffer(self.take(8 * self._count(8)), "<i8" if tag == _INTS else "<f8").tolist()
        if tag == _BOOLS:
            return [byte != 0 for byte in self.take(self._count())]
        if tag == _DICT:
            return {self._text(): self.value(self.take(1)[0]) for _ in range(self._count(5))}
        if tag == _TABLE:
            return self._table()
        return self._single(tag)

    def _single(self, tag: int) -> Any:
        if tag == _TEXT:
            return self._text()
        if tag in (_INT, _FLOAT):
            return struct.unpack("<q" if tag == _INT else "<d", self.take(8))[0]
        if tag == _BOOL:
            return self.take(1) != b"\0"
        if tag == _NONE:
            return None
        raise ValueError(f"tag {tag}, which is not known")

    def _table(self) -> list[dict[str, Any]]:
        rows = self._count()
        keys = [self._text() for _ in range(self._count(4))]
        if rows * max(1, len(keys)) > len(self._data) - self.position:
            raise ValueError("it is cut")
        return [{key: self._single(_IN_TABLE[self.take(1)[0]]) for key in keys} for _ in range(rows)]
