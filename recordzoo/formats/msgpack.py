"""MessagePack as far as stored samples need it: bytes, strings, whole numbers, arrays, and maps of them.

https://github.com/msgpack/msgpack/blob/master/spec.md. Read here in a page rather than with the package of that name:
all that the databases hold is a pair, or a list of keys, and a package more would be needed for good. Floats, times and
extensions are refused.
"""

from typing import Any

_MAX_DEPTH = 8
# First byte: how many bytes the length or the number has.
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_TEXT = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_ARRAY = {0xDC: 2, 0xDD: 4}
_MAP = {0xDE: 2, 0xDF: 4}
_UNSIGNED = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_SIGNED = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


class MsgpackError(ValueError):
    """Bytes are not MessagePack, or hold what is not read here."""


# Any: the keys and values of its maps.
def unpack(data: bytes) -> Any:
    """Read a message. Strings that are no UTF-8 are bytes: the format had one type for both.

    Raises:
        MsgpackError: It is none, or holds something else.
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.position != len(data):
        raise MsgpackError("something stands behind its end")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    # Any: whatever stands there.
    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise MsgpackError("it is nested too deep")
        first = self._take(1)[0]
        if first < 0x80 or first >= 0xE0:
            return first if first < 0x80 else first - 0x100
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _UNSIGNED or first in _SIGNED:
            size = _UNSIGNED.get(first) or _SIGNED[first]
            return int.from_bytes(self._take(size), "big", signed=first in _SIGNED)
        if first in _BYTES:
            return self._take(self._number(_BYTES[first]))
        if 0xA0 <= first < 0xC0 or first in _TEXT:
            data = self._take(first & 0x1F if first < 0xC0 else self._number(_TEXT[first]))
            try:
                return data.decode()
            except UnicodeDecodeError:
                return data
        if 0x90 <= first < 0xA0 or first in _ARRAY:
            count = first & 0x0F if first < 0xA0 else self._number(_ARRAY[first])
            return [self.value(depth + 1) for _ in range(self._fitting(count))]
        if first < 0x90 or first in _MAP:
            count = first & 0x0F if first < 0x90 else self._number(_MAP[first])
            return dict(self._pair(depth + 1) for _ in range(self._fitting(count)))
        raise MsgpackError(f"it holds a float, a time or an extension (0x{first:02x})")

    def _pair(self, depth: int) -> tuple[Any, Any]:
        key = self.value(depth)
        if not isinstance(key, str | bytes | int):
            raise MsgpackError(f"a map's key is a {type(key).__name__}")
        return key, self.value(depth)

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _fitting(self, count: int) -> int:
        if count > len(self._data) - self.position:
            raise MsgpackError("it says that it has more items than bytes")
        return count

    def _take(self, count: int) -> bytes:
        part = self._data[self.position : self.position + count]
        if len(part) != count:
            raise MsgpackError("it is cut")
        self.position += count
        return part
