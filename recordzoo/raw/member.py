"""`Member`, a named stream of bytes, and `Unit`, a piece of a source that yields members."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NoReturn, Protocol

from recordzoo.errors import SourceError
from recordzoo.raw.file_table import FileTable

MAX_MEMBER_BYTES = 1 << 30
"""Larger members cannot be read: few images are larger, and a forged size field could exhaust the memory. Members that
are not read may be larger."""


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of an archive or a tree.

    Attributes:
        name: Its path, relative to the source, with "/" between the parts: the same in an archive as in the unpacked
            tree. Bytes that are not UTF-8 are surrogate-escaped.
        size_bytes: Its size.
        read: Returns its content. In streams, call it at most once and before the next member.
        stream: Opens its content for sequential reading, under the same rules; None: only `read` works.
    """

    name: str
    size_bytes: int
    read: Callable[[], bytes]
    stream: Callable[[], BinaryIO] | None = field(default=None, kw_only=True)

    def open(self) -> BinaryIO:
        """Open its content for sequential reading; instead of `read`."""
        return io.BytesIO(self.read()) if self.stream is None else self.stream()


def refuse_oversized(error: Callable[[str], SourceError], name: str, size_bytes: int) -> NoReturn:
    """Raise for a member larger than `MAX_MEMBER_BYTES`.

    Args:
        error: Creates the source's error from a description of the problem.
        name: The member's name.
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
    """A piece of a source that can be converted on its own, also in another process (it pickles).

    Units and their order depend only on the raw data, never on the number of workers.
    """

    @property
    def size_bytes(self) -> int:
        """The approximate total size of its members in bytes; an upper bound if the source knows the sizes."""
        ...

    @property
    def stamp(self) -> str:
        """A digest of its files' state at the time of listing; it changes with every write.

        "" if only `Source.fingerprint` detects changes. Unlike the fingerprint, it also changes if a program set a
        file's time back, or if only permissions changed.
        """
        ...

    def members(self) -> Iterator[Member]:
        """Read the unit from its start: the same members in the same order every time."""
        ...


class Source(Protocol):
    """Raw data that is ready for conversion."""

    @property
    def description(self) -> str:
        """Its kind and path, for messages: ``/data/CUB_200_2011.tgz``."""
        ...

    @property
    def size_bytes(self) -> int:
        """The approximate total size of its members in bytes (for an archive, its own size)."""
        ...

    def fingerprint(self) -> str:
        """Return a digest of the raw data's names, sizes and times, not contents. Much cheaper than reading."""
        ...

    def files(self) -> FileTable | None:
        """Return the files of a tree or a list as they were listed; None for other sources."""
        ...

    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        """Estimate the size of its records in bytes.

        Args:
            expansion: Average number of record bytes per source byte.
            cost: Returns the stored size of a value by its size, for sources that know the sizes.
        """
        ...

    def units(self, target_bytes: int) -> list[Unit]:
        """Cut the source into units of about `target_bytes` each, in the order of reading."""
        ...

    def cut(self, num_units: int) -> list[Unit]:
        """Cut the source into exactly `num_units` units of about the same size, in the order of reading.

        Raises:
            ArgumentError: It has fewer members, or it is a stream that cannot be cut.
        """
        ...
