"""Protocol Buffers as far as the stored messages need them: the wire format, read strictly, without messages' types.

https://protobuf.dev/programming-guides/encoding: a message is a sequence of fields, each a tag (number and wire type)
and a value: a varint, 4 or 8 bytes, or a length and as many bytes.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
_FIXED = {EIGHT: 8, FOUR: 4}
_MAX_NUMBER = (1 << 29) - 1


class WireError(ValueError):
    """Bytes are not a message, or not the one that they are read as."""


class Message:
    """The fields of a message by number, each with its values in the order in which they stand; unknown ones too.

    Args:
        data: The whole message.

    Raises:
        WireError: It is none.
    """

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[tuple[int, int | bytes]]] = {}
        for number, kind, value in _fields(data):
            self._fields.setdefault(number, []).append((kind, value))

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the fields that it has."""
        return frozenset(self._fields)

    def bytes_of(self, number: int) -> bytes | None:
        """Return a field of bytes; of several the last counts; None if it is not there."""
        values = self.all_bytes(number)
        return values[-1] if values else None

    def all_bytes(self, number: int) -> Sequence[bytes]:
        """Return all values of a repeated field of bytes or messages."""
        found = [value for kind, value in self._fields.get(number, ()) if kind == BYTES and isinstance(value, bytes)]
        self._check(number, len(found))
        return found

    def integers(self, number: int) -> list[int]:
        """Return all values of a field of signed integers, packed or not."""
        found: list[int] = []
        for kind, value in self._fields.get(number, ()):
            if kind == VARINT and isinstance(value, int):
                found.append(_signed(value))
            elif kind == BYTES and isinstance(value, bytes):
                position = 0
                while position < len(value):
                    item, position = _varint(value, position)
                    found.append(_signed(item))
            else:
                raise _other_kind(number)
        return found

    def integer(self, number: int, default: int = 0) -> int:
        """Return an integer that stands once; of several the last counts."""
        values = self._fields.get(number, ())
        if any(kind != VARINT for kind, _ in values):
            raise _other_kind(number)
        return self.integers(number)[-1] if values else default

    def floats(self, number: int) -> NDArray[np.float32]:
        """Return all values of a field of floats, packed or not."""
        parts = []
        for kind, value in self._fields.get(number, ()):
            if not isinstance(value, bytes) or kind not in (BYTES, FOUR) or len(value) % 4:
                raise _other_kind(number)
            parts.append(value)
        return np.frombuffer(b"".join(parts), "<f4")

    def _check(self, number: int, found: int) -> None:
        if found != len(self._fields.get(number, ())):
            raise _other_kind(number)


def chunk(number: int, data: bytes) -> bytes:
    """Write a field of bytes, of a message, or of packed numbers."""
    return _written(number << 3 | BYTES) + _written(len(data)) + data


def packed(values: Iterable[int]) -> bytes:
    """Write signed integers of 64 bits one after another."""
    return b"".join(_written(value & (1 << 64) - 1) for value in values)


def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= _MAX_NUMBER:
            raise WireError(f"a field's number is {number}")
        if kind == VARINT:
            value, position = _varint(data, position)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, position = _varint(data, position)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise WireError(f"field {number} has wire type {kind}")
        if length > len(data) - position:
            raise WireError(f"field {number} is longer than its message")
        yield number, kind, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for count in range(10):
        if position >= len(data):
            raise WireError("a number is cut")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if value >> 64:
                break
            return value, position
    raise WireError("a number has more than 64 bits")


def _written(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _signed(value: int) -> int:
    return int(struct.unpack("<q", value.to_bytes(8, "little"))[0])


def _other_kind(number: int) -> WireError:
    return WireError(f"field {number} is of another kind")
