"""What every source yields: a named stream of bytes, a `Member`, and the `Unit` of work that yields members."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from recordzoo.sources.file_table import FileTable

MAX_MEMBER_BYTES = 1 << 30
"""A member larger than this is refused: no image is, and a forged size field would otherwise eat the memory."""


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of an archive or a tree.

    Attributes:
        name: Where it is, relative to the source, with "/" between the parts: the same from an archive as from the
            tree that unpacking it gives. Bytes that are not UTF-8 are surrogate-escaped.
        size_bytes: Its size.
        read: Returns its content. For streams it must be called before the next member is asked for, at most once.
    """

    name: str
    size_bytes: int
    read: Callable[[], bytes]


class Unit(Protocol):
    """A piece of a source that can be converted on its own, in another process if need be (so it pickles).

    Units and their order follow from the raw data alone, never from how many workers there are.
    """

    @property
    def size_bytes(self) -> int:
        """About how many bytes its members have together; an upper bound where the source knows."""
        ...

    @property
    def stamp(self) -> str:
        """A digest that changes whenever its files are written to, as they were when the source listed them.

        "" where nothing else than `Source.fingerprint` tells. Unlike that one it also changes where a program set a
        file's time back, and where only permissions changed.
        """
        ...

    def members(self) -> Iterator[Member]:
        """Read the unit from its start; the same members in the same order every time."""
        ...


class Source(Protocol):
    """Raw data that is there, ready to be converted."""

    @property
    def description(self) -> str:
        """What it is and where, for people: ``/data/CUB_200_2011.tgz``."""
        ...

    @property
    def size_bytes(self) -> int:
        """About how many bytes its members have together (an archive's own size)."""
        ...

    def fingerprint(self) -> str:
        """A digest that changes when the raw data does (names, sizes, times; not contents). Cheap next to reading."""
        ...

    def files(self) -> FileTable | None:
        """Return the files of a tree or a list, as they were when they were listed; None where there are none."""
        ...

    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        """About how many bytes records of it take.

        Args:
            expansion: How many for each byte of the source, on average.
            cost: How many one value of a size takes, for sources that know the sizes.
        """
        ...

    def units(self, target_bytes: int) -> list[Unit]:
        """Cut the source into units of about `target_bytes` each, in the order of reading."""
        ...

    def cut(self, num_units: int) -> list[Unit]:
        """Cut the source into exactly so many units, of about the same size, in the order of reading.

        Raises:
            ArgumentError: It has fewer members, or it is read front to back and cannot be cut at will.
        """
        ...
