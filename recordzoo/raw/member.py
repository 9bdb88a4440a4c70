"""`Member` and `Source`: raw data as files that are read once, in order; refused names and skipped members."""

import bisect
import functools
import hashlib
import io
import itertools
import logging
import lzma
import os
import re
import sys
import zipfile
import zlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

from typing_extensions import override

from recordzoo.base.text import shorten
from recordzoo.errors import ArchiveError, ArgumentError, SourceError


class FileTable:
    """The files of a source, in the order of reading.

    Attributes:
        base: The directory that the names are relative to; a name may also be absolute.
        names: The files' names.
        sizes: Their sizes in bytes.
        mtimes: Their modification times in ns.
    """

    def __init__(self, base: str) -> None:
        self.base = base
        self.names: list[str] = []
        self.sizes = array("q")
        self.mtimes = array("q")
        self._ctimes = array("q")

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str, status: os.stat_result) -> None:
        """Add a file with its present status."""
        self.names.append(name)
        self.sizes.append(status.st_size)
        self.mtimes.append(status.st_mtime_ns)
        self._ctimes.append(status.st_ctime_ns)

    def fingerprint(self, start: bytes = b"") -> str:
        """Return a digest of `start` and the names, sizes and modification times of all files."""
        digest = hashlib.sha256(start)
        for name, size, mtime in zip(self.names, self.sizes, self.mtimes, strict=True):
            digest.update(f"{name}\0{size}\0{mtime}\0".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def stamp(self, start: int, stop: int) -> str:
        """Return a digest of the files from `start` to before `stop`; it changes with every write to one of them.

        It includes the inode's change time: unlike the modification time, programs cannot set it. A rename changes it.
        """
        digest = hashlib.sha256()
        digest.update("\0".join(self.names[start:stop]).encode("utf-8", "surrogateescape"))
        for column in (self.sizes, self.mtimes, self._ctimes):
            digest.update(column[start:stop].tobytes())
        return digest.hexdigest()

    def joined(self, other: "FileTable") -> "FileTable":
        """Return both tables as one, relative to their common directory."""
        both = FileTable(os.path.commonpath([self.base, other.base]))
        for table in (self, other):
            folder = os.path.relpath(table.base, both.base)
            both.names += [os.path.normpath(os.path.join(folder, name)) for name in table.names]
            for column in ("sizes", "mtimes", "_ctimes"):
                getattr(both, column).extend(getattr(table, column))
        return both


def stamp_of(status: os.stat_result) -> str:
    """Return the stamp of one file; see `FileTable.stamp`."""
    table = FileTable("")
    table.add("", status)
    return table.stamp(0, 1)


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


def streamed(
    name: str, size_bytes: int, stream: Callable[[], BinaryIO], error: Callable[[str], SourceError] | None = None
) -> Member:
    """Return a member that is read by opening it.

    Args:
        name: Its name.
        size_bytes: Its size.
        stream: Opens it.
        error: Creates the source's error from a description of the problem, for a member larger than
            `MAX_MEMBER_BYTES`. None: it is read whatever its size.
    """

    def read() -> bytes:
        if error is not None:
            refuse_oversized(error, name, size_bytes)
        with stream() as file:
            return file.read()

    return Member(name, size_bytes, read, stream=stream)


def refuse_oversized(error: Callable[[str], SourceError], name: str, size_bytes: int) -> None:
    """Raise for a member larger than `MAX_MEMBER_BYTES`; ``err.is_oversized`` is then true.

    Args:
        error: Creates the source's error from a description of the problem.
        name: The member's name.
        size_bytes: Its size.

    Raises:
        SourceError: It is too large.
    """
    if size_bytes <= MAX_MEMBER_BYTES:
        return
    err = error(
        f"member {name!r} has {size_bytes:,} bytes; {MAX_MEMBER_BYTES:,} are the limit for one record. Move it out, or "
        "pass on_error='skip' (--on-error skip) to leave it out"
    )
    err.details["is_oversized"] = True
    raise err


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a source that can be converted on its own, also in another process (it pickles).

    Units and their order depend only on the raw data, never on the number of workers.

    Attributes:
        members: Reads the unit from its start: the same members in the same order every time.
        size_bytes: The approximate total size of its members; an upper bound if the source knows the sizes.
        stamp: A digest of its files' state at the time of listing; it changes with every write. "" if only
            `Source.fingerprint` detects changes. Unlike the fingerprint, it also changes if a program set a file's time
            back, or if only permissions changed.
        archive: The archive that it is a part of, if any.
    """

    members: Callable[[], Iterator[Member]]
    size_bytes: int
    stamp: str = ""
    archive: Path | None = None


class Source(ABC):
    """Raw data that is ready for conversion."""

    @property
    def archives(self) -> tuple[Path, ...]:
        """The files that it reads and that are useless after conversion; none for a tree."""
        return ()

    @property
    @abstractmethod
    def description(self) -> str:
        """Its kind and path, for messages: ``/data/CUB_200_2011.tgz``."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The approximate total size of its members in bytes (for an archive, its own size)."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of the raw data's names, sizes and times, not contents. Much cheaper than reading."""

    def files(self) -> FileTable | None:
        """Return the files of a tree or a list as they were listed; None for other sources."""
        return None

    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        """Estimate the size of its records in bytes.

        Args:
            expansion: Average number of record bytes per source byte.
            cost: Returns the stored size of a value by its size, for sources that know the sizes.
        """
        return int(self.size_bytes * expansion)

    @abstractmethod
    def units(self, target_bytes: int) -> list[Unit]:
        """Cut the source into units of at most `target_bytes`, at least one member each, in the order of reading.

        Raises:
            NotPreparedError, SourceError: The members cannot be listed.
        """

    def cut(self, num_units: int) -> list[Unit]:
        """Cut the source into exactly `num_units` units of about the same size, in the order of reading.

        Raises:
            ArgumentError: It has fewer members, or it is a stream that cannot be cut.
            NotPreparedError, SourceError: The members cannot be listed.
        """
        raise ArgumentError(
            f"{self.description} is read front to back and cannot be cut into a number of shards. Pass shard_bytes "
            "(--shard-size) instead."
        )


class SizedSource(Source):
    """Base class of sources that know their members' sizes."""

    @abstractmethod
    def member_sizes(self) -> Sequence[int]:
        """Return the size of each member in bytes, in the order of reading.

        Raises:
            NotPreparedError, SourceError: The members cannot be listed.
        """

    @abstractmethod
    def unit(self, start: int, stop: int) -> Unit:
        """Return the members from `start` to before `stop`."""

    @property
    @override
    def size_bytes(self) -> int:
        return sum(self.member_sizes())

    @override
    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        """Estimate the size of its records, with the overhead of many small members."""
        return max(int(self.size_bytes * expansion), sum(map(cost, self.member_sizes())))

    @override
    def units(self, target_bytes: int) -> list[Unit]:
        return [self.unit(*run) for run in greedy_runs(self.member_sizes(), target_bytes)]

    @override
    def cut(self, num_units: int) -> list[Unit]:
        return [self.unit(*run) for run in even_runs(self.member_sizes(), num_units, self.description)]


def greedy_runs(sizes: Sequence[int], target_bytes: int) -> list[tuple[int, int]]:
    """Group consecutive files into (start, stop) runs of at most `target_bytes`, at least one file each."""
    runs = []
    start = run_bytes = 0
    for index, size_bytes in enumerate(sizes):
        if index > start and run_bytes + size_bytes > target_bytes:
            runs.append((start, index))
            start, run_bytes = index, 0
        run_bytes += size_bytes
    return [*runs, (start, len(sizes))] if len(sizes) else []


def even_runs(sizes: Sequence[int], num_runs: int, where: str) -> list[tuple[int, int]]:
    """Group consecutive files into `num_runs` (start, stop) runs of about the same size.

    Raises:
        ArgumentError: There are fewer files; the message names `where`.
    """
    if num_runs > len(sizes):
        raise ArgumentError(f"{num_runs} shards are asked for, but {where} has only {len(sizes)} files.")
    ends = list(itertools.accumulate(size_bytes + 1 for size_bytes in sizes))  # + 1: empty files count too
    bounds = [0]
    for number in range(1, num_runs):
        bound = bisect.bisect_left(ends, ends[-1] * number // num_runs) + 1
        bounds.append(max(bounds[-1] + 1, min(bound, len(sizes) - (num_runs - number))))
    return list(itertools.pairwise([*bounds, len(sizes)]))


logger = logging.getLogger("recordzoo")
T = TypeVar("T")

BUFFER_BYTES = 1 << 20

MIN_UNPACKED_CAP, MAX_RATIO = 1 << 30, 200
"""Limit on unpacked size / archive size above 1 GiB. Photographs stay near 1; deflate can reach 1,032."""

SMALL_UNPACKED_CAP, MAX_SMALL_RATIO = 64 << 20, 1000
"""The same limit from 64 MiB up to 1 GiB; up to 64 MiB there is none."""

ADVICE = (
    "The file is incomplete, damaged or not what it should be: compare its size and hash with the publisher's, "
    "or delete it and download it again."
)

shortened = functools.partial(shorten, columns=600, width=len)
"""Cuts the middle out of an archive's own text in a message: names may have 1 MiB."""

STREAM_ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
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


class OnePassFile(io.RawIOBase):
    """A file that is read in order, by the `read` of a subclass."""

    @override
    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # that of a BufferedReader
        """Read as `io.BufferedReader` does."""
        data = self.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)


class TapeFile(OnePassFile):
    """A member as a file for sequential reading: a stream cannot go back.

    Args:
        tape: The tape; it must not move otherwise until the member was read.
        position: Where the member begins.
        size_bytes: The member's size.
        what: The member, for messages.
    """

    def __init__(self, tape: "Tape", position: int, size_bytes: int, what: str) -> None:
        self._tape, self._position, self._left, self._what = tape, position, size_bytes, what

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        if self._tape.position != self._position:
            raise RuntimeError(
                f"{self._what} of {self._tape.label}: it is read too late (an archive's member can be read once)"
            )
        data = self._tape.take(wanted, self._what)
        self._left -= len(data)
        self._position += len(data)
        return data


class Tape:
    """Bytes that are read once, in order; every failure is an `ArchiveError` that names the position.

    Args:
        file: The source of the bytes, positioned at the first one.
        path: The archive, for messages.
        inner: The part of the archive that is read: "inner tar 'n01440764.tar'", for messages.
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
        return f"{self.path}, {self.inner}" if self.inner else str(self.path)

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
        after = f", after member {shortened(repr(self.last_name))}" if self.last_name else ""
        return ArchiveError(
            f"{self.label}: {shortened(what)} (at byte {self.position:,}{after}). {ADVICE}",
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
