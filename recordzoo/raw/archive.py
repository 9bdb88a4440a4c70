"""Raw files as sources. Archives are streamed, never unpacked to disk; a member's name never becomes a path."""

import functools
import hashlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from recordzoo.errors import ArchiveError, ArgumentError
from recordzoo.raw.file_table import FileTable, stamp_of
from recordzoo.raw.member import Member, Source, Unit
from recordzoo.raw.packed import COMPRESSIONS
from recordzoo.raw.stream import BUFFER_BYTES, Tape, once, unpacked_cap
from recordzoo.raw.tar import tar_files, tar_members
from recordzoo.raw.zip import ZIP_STARTS, zip_members

ARCHIVE_ENDINGS = (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".zip", ".npz")

_UNCUT = "{} is read front to back and cannot be cut into a number of shards. Pass shard_bytes (--shard-size) instead."


class ArchivedSource(Source, Protocol):
    """A source that names the archives that it reads (none for a tree)."""

    @property
    def archives(self) -> tuple[Path, ...]:
        """The files that it reads, useless after conversion."""
        ...


@dataclass(frozen=True)
class ArchiveFile:
    """The facts of an archive, or of another raw file, that need no reading."""

    path: Path

    @property
    def archives(self) -> tuple[Path, ...]:
        """The archive."""
        return (self.path,)

    @property
    def description(self) -> str:
        """The archive's path."""
        return str(self.path)

    @property
    def size_bytes(self) -> int:
        """The archive's size in bytes."""
        return stat_of(self.path).st_size

    def fingerprint(self) -> str:
        """Return a digest of the archive's name, size and modification time."""
        status = stat_of(self.path)
        return _digest([self.path.name, str(status.st_size), str(status.st_mtime_ns)])

    def files(self) -> None:
        """Return None: the archive represents its files."""

    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        """See `Source`; the members are unknown before they are read."""
        return int(self.size_bytes * expansion)

    def cut(self, num_units: int) -> list[Unit]:
        """Raise `ArgumentError`."""
        raise ArgumentError(_UNCUT.format(self.description))


@dataclass(frozen=True)
class ArchiveSource(ArchiveFile):
    """One tar, tar.gz, tar.bz2, tar.xz or zip, recognised by its first bytes, not by its name."""

    def units(self, target_bytes: int) -> list[Unit]:
        """Return the only unit: an archive is read from its start."""
        status = stat_of(self.path)
        return [ArchiveUnit(self.path, status.st_size, stamp_of(status))]


@dataclass(frozen=True, slots=True)
class ArchiveUnit:
    """All of one archive; see `Unit`.

    Attributes:
        is_strict: Refuse links and other members that are not regular files, instead of skipping them.
    """

    path: Path
    size_bytes: int
    stamp: str
    is_strict: bool = False

    def members(self) -> Iterator[Member]:
        """Read the archive from its start.

        Raises:
            ArchiveError: It is cut, broken or hostile. A stream that ends without an error is complete.
        """
        with _open(self.path) as file:
            archive_bytes = os.fstat(file.fileno()).st_size
            yield from once(_members(self.path, file, archive_bytes, is_strict=self.is_strict), str(self.path))


@dataclass(frozen=True)
class FileSource(ArchiveFile):
    """One file that is not an archive: the only member, under its own name."""

    def units(self, target_bytes: int) -> list[Unit]:
        """Return the only unit."""
        status = stat_of(self.path)
        return [FileUnit(self.path, status.st_size, stamp_of(status))]


@dataclass(frozen=True, slots=True)
class FileUnit:
    """All of one file; see `Unit`."""

    path: Path
    size_bytes: int
    stamp: str

    def members(self) -> Iterator[Member]:
        """Yield the file; the member's functions raise `ArchiveError` if it cannot be opened."""
        yield Member(self.path.name, self.size_bytes, self._read, stream=functools.partial(_open, self.path))

    def _read(self) -> bytes:
        with _open(self.path) as file:
            return file.read()


def raw_source(path: Path) -> ArchivedSource:
    """Return the source of a raw file; its name decides between an archive and a single file."""
    return ArchiveSource(path) if path.name.lower().endswith(ARCHIVE_ENDINGS) else FileSource(path)


@dataclass(frozen=True)
class NestedTarSource(ArchiveFile):
    """An uncompressed tar of tars, like ImageNet's. A unit is a run of inner tars, found by the outer headers only.

    Members are named "<inner tar's stem>/<name>".
    """

    def units(self, target_bytes: int) -> list[Unit]:
        """Group consecutive inner tars into units of at most `target_bytes`, at least one tar each.

        Raises:
            ArchiveError: The outer tar is cut, broken, compressed, or has two inner tars of one name.
        """
        stamp = stamp_of(stat_of(self.path))
        groups: list[list[InnerTar]] = []
        room = 0
        for inner in self._inner_tars():
            if not groups or inner.size_bytes > room:
                groups.append([])
                room = target_bytes
            groups[-1].append(inner)
            room -= inner.size_bytes
        return [NestedTarUnit(self.path, tuple(group), stamp) for group in groups]

    def _inner_tars(self) -> Iterator["InnerTar"]:
        seen = set()
        with _open(self.path) as file:
            tape = Tape(file, self.path, size_bytes=os.fstat(file.fileno()).st_size)
            for name, inner_bytes in tar_files(tape):
                inner = InnerTar(name, tape.position, inner_bytes)
                if inner.stem in seen:
                    raise tape.error(f"has two inner tars named {inner.stem!r}")
                seen.add(inner.stem)
                yield inner


@dataclass(frozen=True, slots=True)
class InnerTar:
    """The place of an inner tar in the outer one."""

    name: str
    offset: int
    size_bytes: int

    @property
    def stem(self) -> str:
        """Its name without folders and extension: in ImageNet, the class."""
        return PurePosixPath(self.name).stem


@dataclass(frozen=True, slots=True)
class NestedTarUnit:
    """A run of inner tars; see `Unit`."""

    path: Path
    inner_tars: tuple[InnerTar, ...]
    stamp: str

    @property
    def size_bytes(self) -> int:
        """The total size of the inner tars in bytes."""
        return sum(inner.size_bytes for inner in self.inner_tars)

    def members(self) -> Iterator[Member]:
        """Read the inner tars in order.

        Raises:
            ArchiveError: One of them is cut, broken or hostile; the message names it.
        """
        with _open(self.path) as file:
            for inner in self.inner_tars:
                file.seek(inner.offset)
                tape = Tape(file, self.path, inner=inner.name, size_bytes=inner.size_bytes)
                yield from once(tar_members(tape, prefix=f"{inner.stem}/"), tape.label)


@dataclass(frozen=True)
class ChainSource:
    """Several sources in order."""

    sources: Sequence[ArchivedSource]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(self.sources))

    @property
    def archives(self) -> tuple[Path, ...]:
        """The archives of all sources."""
        return tuple(path for source in self.sources for path in source.archives)

    @property
    def description(self) -> str:
        """The descriptions of all sources."""
        return ", ".join(source.description for source in self.sources)

    @property
    def size_bytes(self) -> int:
        """The total size of all sources in bytes."""
        return sum(source.size_bytes for source in self.sources)

    def fingerprint(self) -> str:
        """Return a digest of all fingerprints."""
        return _digest(source.fingerprint() for source in self.sources)

    def files(self) -> FileTable | None:
        """Return the files of the sources that are trees."""
        tables = [table for source in self.sources if (table := source.files()) is not None]
        return functools.reduce(FileTable.joined, tables) if tables else None

    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        """Return the estimates of all sources, added up."""
        return sum(source.records_bytes(expansion, cost) for source in self.sources)

    def cut(self, num_units: int) -> list[Unit]:
        """Raise `ArgumentError`."""
        raise ArgumentError(_UNCUT.format(self.description))

    def units(self, target_bytes: int) -> list[Unit]:
        """Return the units of all sources, in order."""
        return [unit for source in self.sources for unit in source.units(target_bytes)]


def inner_members(member: Member) -> Iterator[Member]:
    """Yield the members of an archive that is itself a member; it is held in memory.

    Raises:
        ArchiveError: It is cut, broken or hostile; the message names it.
    """
    data = member.read()
    yield from once(_members(Path(member.name), io.BytesIO(data), len(data)), member.name)


def _members(path: Path, file: BinaryIO, archive_bytes: int, *, is_strict: bool = False) -> Iterator[Member]:
    start = file.read(8)
    file.seek(0)
    if start.startswith(ZIP_STARTS):
        return zip_members(path, file, archive_bytes, is_strict=is_strict)
    for _, magic, unpack in COMPRESSIONS:
        if start.startswith(magic):
            return tar_members(Tape(unpack(file), path, cap_bytes=unpacked_cap(archive_bytes)), is_strict=is_strict)
    return tar_members(Tape(file, path, size_bytes=archive_bytes), is_strict=is_strict)


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "rb", buffering=BUFFER_BYTES)
    except OSError as err:
        raise ArchiveError(f"{path}: cannot be opened ({err.strerror}).", path=path) from err


def stat_of(path: Path) -> os.stat_result:
    """Return the status of an archive file.

    Raises:
        ArchiveError: Its status cannot be read.
    """
    try:
        return path.stat()
    except OSError as err:
        raise ArchiveError(f"{path}: cannot be looked at ({err.strerror}).", path=path) from err


def _digest(parts: Iterator[str] | Sequence[str]) -> str:
    # No file name contains a NUL.
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
