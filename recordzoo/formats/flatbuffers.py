"""Flatbuffers: tables that name their fields by position, as the messages of Arrow have them (format/Message.fbs)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass


class FlatError(ValueError):
    """Bytes are no such table."""


@dataclass(frozen=True)
class FlatTable:
    """A Flatbuffers table: its first 4 bytes lead back to where its fields' places are listed."""

    data: bytes
    position: int

    def _field(self, index: int) -> int:
        places = self.position - read(self.data, self.position, "i")
        size = read(self.data, places, "H")
        place = read(self.data, places + 4 + 2 * index, "H") if 4 + 2 * index < size else 0
        return self.position + place if place else 0

    def number(self, index: int, kind: str) -> int:
        """Return a number, of a kind that `struct` has; 0 if the field is absent."""
        place = self._field(index)
        return read(self.data, place, kind) if place else 0

    def table(self, index: int) -> "FlatTable | None":
        """Return another table; None if the field is absent."""
        place = self._field(index)
        return FlatTable(self.data, place + unsigned(self.data, place)) if place else None

    def _vector(self, index: int, item_bytes: int) -> tuple[int, int]:
        """Return how many items a vector has, and where they begin."""
        place = self._field(index)
        if not place:
            return 0, 0
        start = place + unsigned(self.data, place)
        count = unsigned(self.data, start)
        if count * item_bytes > len(self.data) - start:
            raise FlatError("it says that it has more items than bytes")
        return count, start + 4

    def tables(self, index: int) -> Sequence["FlatTable"]:
        """Return a vector of tables.

        Raises:
            FlatError: It lies outside.
        """
        count, start = self._vector(index, 4)
        places = (start + 4 * i for i in range(count))
        return [FlatTable(self.data, place + unsigned(self.data, place)) for place in places]

    def pairs(self, index: int) -> Sequence[tuple[int, int]]:
        """Return a vector of structs of two numbers of 8 bytes.

        Raises:
            FlatError: It lies outside.
        """
        count, start = self._vector(index, 16)
        return [struct.unpack_from("<qq", self.data, start + 16 * i) for i in range(count)]

    def pair(self, index: int) -> tuple[int, int]:
        """Return a struct of two numbers of 8 bytes."""
        place = self._field(index)
        return read(self.data, place, "q"), read(self.data, place + 8, "q")

    def item(self, index: int, number: int) -> int:
        """Return a number of a vector of those of 8 bytes.

        Raises:
            FlatError: It has fewer.
        """
        count, start = self._vector(index, 8)
        if number >= count:
            raise FlatError("an array has too few strides")
        return read(self.data, start + 8 * number, "q")

    def text(self, index: int) -> str:
        """Return a string.

        Raises:
            FlatError: It lies outside.
        """
        count, start = self._vector(index, 1)
        return self.data[start : start + count].decode()


def unsigned(data: bytes, position: int) -> int:
    """Read a number of 4 bytes."""
    return read(data, position, "I")


def read(data: bytes, position: int, kind: str) -> int:
    """Read a number of a kind that `struct` has.

    Raises:
        FlatError: The place lies before the beginning.
        struct.error: It lies behind the end.
    """
    if position < 0:  # struct would count from the end
        raise FlatError("a place lies outside")
    return int(struct.unpack_from("<" + kind, data, position)[0])
