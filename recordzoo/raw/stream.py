"""Shared by all archives: refused names, skipped members, and bytes that are read once, in order."""

import functools
import io
import logging
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from typing_extensions import override

from recordzoo.errors import ArchiveError
from recordzoo.raw.member import Member

logger = logging.getLogger("recordzoo")
T = TypeVar("T")

BUFFER_BYTES = 1 << 20

MIN_UNPACKED_CAP, MAX_RATIO = 1 << 30, 200
"""Limit on unpacked size / archive size above 1 GiB. Photographs stay near 1; deflate can reach 1,032."""

SMALL_UNPACKED_CAP, MAX_SMALL_RATIO = 64 << 20, 1000
"""The same limit from 64 MiB up to 1 GiB; up to 64 MiB there is none."""

MAX_SHOWN = 600
"""Number of characters of an archive's own text that a message may show."""

ADVICE = (
    "The file is incomplete, damaged or not what it should be: compare its size and hash with the publisher's, "
    "or delete it and download it again."
)

STREAM_ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError)
_ODD_NAME = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\\\0]|^[A-Za-z]:")


def unpacked_cap(archive_bytes: int) -> int:
    """Return how many bytes an archive may unpack to before it counts as a bomb."""
    cap = min(max(MIN_UNPACKED_CAP, MAX_RATIO * archive_bytes), MAX_SMALL_RATIO * archive_bytes)
    return max(SMALL_UNPACKED_CAP, cap)


def plain_name(name: str) -> str:
    """Normalise a member's name as unpacking would: no "./", no doubled "/", no "/" at the end.

    No name becomes a path here. A name that would lead out of the folder of unpacking is still refused: the archive
    is hostile, or its names mean something else.

    Raises:
        ValueError: The name is absolute, has a drive letter, a ".." part or a NUL; the message says which.
    """
    if not _ODD_NAME.search(name):
        return name
    if "\0" in name:
        raise ValueError("has a NUL in its name")
    # A backslash is a letter on Linux and a separator on Windows: the name must be safe on both.
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        raise ValueError("has an absolute path or a drive letter for a name")
    if ".." in re.split(r"[/\\]", name):
        raise ValueError("has '..' in its name")
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def shortened(text: str) -> str:
    """Cut the middle out of a text with a long name: names may have 1 MiB."""
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN // 2]} ... {text[-MAX_SHOWN // 2 :]}"


class PassedOver:
    """Counts the skipped members, which are not regular files, for one warning."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._count = 0
        self._first: list[str] = []

    def add(self, name: str, kind: str) -> None:
        """Count a member."""
        self._count += 1
        if len(self._first) < 5:
            self._first.append(f"{shortened(name)} ({kind})")

    def report(self) -> None:
        """Log one warning if members were skipped."""
        if self._count:
            logger.warning(
                "%s: passed over %d that are no regular files: %s%s",
                self._label,
                self._count,
                ", ".join(self._first),
                ", ..." if self._count > len(self._first) else "",
            )


def once(members: Iterator[Member], label: str) -> Iterator[Member]:
    """Yield members that can be read only once, and only before the next one: a stream cannot go back."""
    turn: list[Member] = []
    try:
        for member in members:
            turn = [member]
            read = functools.partial(_in_turn, _read, turn, member.name, label)
            stream = functools.partial(_in_turn, Member.open, turn, member.name, label)
            yield Member(member.name, member.size_bytes, read, stream=stream)
            turn.clear()
    finally:
        turn.clear()


def _read(member: Member) -> bytes:
    return member.read()


def _in_turn(action: Callable[[Member], T], turn: list[Member], name: str, label: str) -> T:
    if not turn:
        raise RuntimeError(f"{name!r} of {label}: it is read too late (an archive's member can be read once)")
    return action(turn.pop())


class TapeFile(io.RawIOBase):
    """A member as a file for sequential reading; it begins at the tape's current position.

    Args:
        tape: The tape; it must not move otherwise until the member was read.
        size_bytes: The member's size.
        what: The member, for messages.
    """

    def __init__(self, tape: "Tape", size_bytes: int, what: str) -> None:
        self._tape, self._left, self._what = tape, size_bytes, what

    @override
    def readable(self) -> bool:
        return True

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        data = self._tape.take(wanted, self._what)
        self._left -= len(data)
        return data


class Tape:
    """Bytes that are read once, in order; every failure is an `ArchiveError` that names the position.

    Args:
        file: The source of the bytes, positioned at the first one.
        path: The archive, for messages.
        inner: The name of the inner tar, for messages.
        size_bytes: Length of the tape; None for the whole file.
        cap_bytes: A longer tape counts as a bomb.
    """

    def __init__(
        self,
        file: BinaryIO,
        path: Path,
        *,
        inner: str = "",
        size_bytes: int | None = None,
        cap_bytes: int | None = None,
    ) -> None:
        self.position = 0
        self.last_name = ""
        self.path = path
        self.inner = inner
        self._file = file
        self._start = file.tell()
        self._size = sys.maxsize if size_bytes is None else size_bytes
        self._cap = sys.maxsize if cap_bytes is None else cap_bytes
        self._ahead = b""

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.path}, inner tar {self.inner!r}" if self.inner else str(self.path)

    def tell(self) -> int:
        """Return the position."""
        return self.position

    def read(self, num_bytes: int) -> bytes:
        """Return the next bytes; fewer than `num_bytes` only at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:num_bytes], self._ahead[num_bytes:]
        else:
            data = self._do(self._file.read, min(num_bytes, self._size - self.position))
        self._move(self.position + len(data))
        return data

    def put_back(self, data: bytes) -> None:
        """Put the bytes just read back; the very next call must read all of them."""
        self._ahead = data
        self.position -= len(data)

    def take(self, num_bytes: int, what: str) -> bytes:
        """Return exactly `num_bytes` bytes."""
        self._check(self.position + num_bytes)  # before memory is allocated
        data = self.read(num_bytes)
        if len(data) != num_bytes:
            raise self.error(f"ends inside {what}: {num_bytes:,} bytes were announced, {len(data):,} are there")
        return data

    def skip_to(self, position: int, what: str) -> None:
        """Skip to a position; all bytes before it must exist."""
        if position < self.position:
            raise self.error(f"has a broken header: {what} ends before it starts")
        start = self.position
        self._move(position)
        reached = self._do(self._file.seek, self._start + min(position, self._size)) - self._start
        if reached < position:
            self.position = reached
            announced, there = position - start, reached - start
            raise self.error(f"ends inside {what}: {announced:,} more bytes were announced, {there:,} are there")

    def finish(self) -> None:
        """Read to the end, where compressed streams have their checksum; only padding may be left."""
        while data := self.read(BUFFER_BYTES):
            if data.count(0) != len(data):
                raise self.error("goes on after its end marker (another archive or something else was appended)")

    def _move(self, position: int) -> None:
        self.position = position
        self._check(position)

    def _check(self, position: int) -> None:
        if position > self._cap:
            raise self.error(f"unpacks to more than {self._cap:,} bytes, far more than any data set of its size does")

    def _do(self, operation: Callable[[int], T], argument: int) -> T:
        try:
            return operation(argument)
        except STREAM_ERRORS as err:
            raise self.error(f"cannot be read or unpacked ({type(err).__name__}: {err})") from err

    def error(self, what: str) -> ArchiveError:
        """Return the error for a problem at this position."""
        after = (
            f"after member {shortened(repr(self.last_name))}" if self.last_name else "before its first member was read"
        )
        return ArchiveError(
            f"{self.label}: {shortened(what)} (at byte {self.position:,}, {after}). {ADVICE}",
            path=self.path,
            inner=self.inner,
            offset=self.position,
            member=self.last_name,
        )


def refused(label: str, name: str, reason: str, path: Path) -> ArchiveError:
    """Return the error for a member that must not be unpacked."""
    return ArchiveError(
        f"{label}: refused, because its member {shortened(repr(name))} {reason}. If you trust the archive, unpack it "
        "by hand where that is safe and convert the folder.",
        path=path,
        member=name,
    )
