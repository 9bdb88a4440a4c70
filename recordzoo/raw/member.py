"""What every source yields: a named stream of bytes, a `Member`, and the `Unit` of work that yields members."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NoReturn, Protocol

from recordzoo.errors import SourceError
from recordzoo.raw.file_table import FileTable

MAX_MEMBER_BYTES = 1 << 30
"""A larger member cannot be read: few images are, and a forged size field would otherwise eat the memory. It does no
harm to a source whose other members are wanted."""


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of an archive or a tree.

    Attributes:
        name: Where it is, relative to the source, with "/" between the parts: the same from an archive as from the
            tree that unpacking it gives. Bytes that are not UTF-8 are surrogate-escaped.
        size_bytes: Its size.
        read: Returns its content. For streams it must be called before the next member is asked for, at most once.
        stream: Opens its content, to be read front to back, as `read`; None: only as a whole.
    """

    name: str
    size_bytes: int
    read: Callable[[], bytes]
    stream: Callable[[], BinaryIO] | None = field(default=None, kw_only=True)

    def open(self) -> BinaryIO:
        """Open its content, to be read front to back; instead of `read`."""
        return io.BytesIO(self.read()) if self.stream is None else self.stream()


def refuse_oversized(error: Callable[[str], SourceError], name: str, size_bytes: int) -> NoReturn:
    """Refuse to read a member that is larger than `MAX_MEMBER_BYTES`.

    Args:
        error: Turns the description of a problem into the source's own kind of error.
        name: The member.
        size_bytes: Its size.

    Raises:
        SourceError: Always; ``err.is_oversized`` is true.
    """
    err = error(
        f"member {name!r} has {size_bytes:,} bytes; {MAX_MEMBER_BYTES:,} are the limit for one record. Move it out, or "
        "pass on_error='skip' (--on-error skip) to leave it out"
    )
    err.details["is_oversized"] = True
    raise err


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
