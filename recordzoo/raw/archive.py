"""Raw files as sources. Archives are streamed, never unpacked to disk; a member's name never becomes a path."""

import bz2
import functools
import gzip
import hashlib
import io
import lzma
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, Self, cast

from typing_extensions import override

from recordzoo.errors import ArchiveError
from recordzoo.raw.member import (
    BUFFER_BYTES,
    FileTable,
    Member,
    OnePassFile,
    PassedOver,
    Source,
    Tape,
    TapeFile,
    Unit,
    greedy_runs,
    plain_name,
    refused,
    stamp_of,
    streamed,
    unpacked_cap,
)
from recordzoo.raw.zip import ZIP_STARTS, opened_zip

_CHUNK_BYTES = 1 << 16


class Unpacked:
    """The bytes of one or more compressed streams, read in order; zeros between and after them are allowed.

    Args:
        file: A file, positioned at the first stream.
        new: Creates a decompressor for each stream.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> None:
        self._file = file
        self._new = new
        self._stream = new()
        self._position = 0

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._position

    def seek(self, position: int) -> int:
        """Skip forward to a position; return the reached position, which is less at the end."""
        while self._position < position and self.read(min(position - self._position, BUFFER_BYTES)):
            pass
        return self._position

    def read(self, num_bytes: int) -> bytes:
        """Return the next bytes, fewer only at the end.

        Raises:
            OSError, lzma.LZMAError, EOFError: A stream is damaged or cut, or followed by something else.
        """
        whole = io.BytesIO()  # getvalue() does not copy; joining parts would take twice the memory
        while num_bytes and (part := self._some(min(num_bytes, BUFFER_BYTES))):
            num_bytes -= whole.write(part)
            self._position += len(part)
        return whole.getvalue()

    def _some(self, most_bytes: int) -> bytes:
        """Return at least one byte, or b"" at the end."""
        while True:
            if self._stream.eof:
                rest = self._after_zeros(self._stream.unused_data)
                if not rest:
                    return b""
                self._stream = self._new()
            else:
                rest = self._file.read(_CHUNK_BYTES) if self._stream.needs_input else b""
                if not rest and self._stream.needs_input:
                    raise EOFError("the compressed stream has no end")
            if data := self._stream.decompress(rest, most_bytes):
                return data

    def _after_zeros(self, data: bytes) -> bytes:
        while not (rest := data.lstrip(b"\0")) and (data := self._file.read(_CHUNK_BYTES)):
            pass
        return rest


# In typeshed these files are not BinaryIO.
COMPRESSIONS: tuple[tuple[str, bytes, Callable[[BinaryIO], Any]], ...] = (
    (".gz", b"\x1f\x8b", gzip.open),
    (".bz2", b"BZh", functools.partial(Unpacked, new=bz2.BZ2Decompressor)),
    (".xz", b"\xfd7zXZ\0", functools.partial(Unpacked, new=functools.partial(lzma.LZMADecompressor, lzma.FORMAT_XZ))),
)
"""The ending of each compression's files, their first bytes, and the function that opens the decompressed file."""


def decompressed(member: Member) -> Member:
    """Return the decompressed form of a compressed member, without the extension; any other member unchanged."""
    for ending, _, unpack in COMPRESSIONS:
        if member.name.endswith(ending):
            stream = functools.partial(_decompress, member, unpack)
            return streamed(member.name.removesuffix(ending), member.size_bytes, stream)
    return member


def _decompress(member: Member, unpack: Callable[[BinaryIO], Any]) -> BinaryIO:
    return cast(BinaryIO, _Decompressed(member, unpack))


class _Decompressed(OnePassFile):
    """A member, decompressed and read in order, as a tape of limited size.

    Args:
        member: The compressed member.
        unpack: Opens the decompressed file.
    """

    def __init__(self, member: Member, unpack: Callable[[BinaryIO], Any]) -> None:
        self._compressed = member.open()
        self._tape = Tape(unpack(self._compressed), Path(member.name), cap_bytes=unpacked_cap(member.size_bytes))

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(functools.partial(self._tape.read, BUFFER_BYTES), b""))
        return self._tape.read(size)

    @override
    def close(self) -> None:
        self._compressed.close()
        super().close()


MAX_EXTENSION_BYTES = 1 << 20  # of one long name or pax header; macOS stores a file's attributes there
MAX_EXTENSIONS = 16  # of one member
MAX_PASSED_OVER = 1 << 21  # directories and links in a row

_PAX_HEADERS = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE)
_EXTENSIONS = (*_PAX_HEADERS, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_ZERO_BLOCK = bytes(tarfile.BLOCKSIZE)
_LAYOUT_KEY = re.compile(rb"(?:path|size)\Z|GNU\.sparse\.")  # these keys would change a member's name, size or place
# Before 3.11.10 tarfile's patterns take time by the square of such a run: hours for 1 MiB (CVE-2024-6232).
_DIGITS_IN_A_ROW = re.compile(rb"[0-9]{64}")
_FILE, _DIRECTORY, _SPARSE = "file", "directory", "sparse file"
_KINDS = {
    tarfile.LNKTYPE: "hard link",
    tarfile.SYMTYPE: "symbolic link",
    tarfile.CHRTYPE: "device",
    tarfile.BLKTYPE: "device",
    tarfile.FIFOTYPE: "FIFO",
}


class TarEntry(NamedTuple):
    """A regular file in a tar; its content starts at the offset."""

    name: str
    offset: int
    size_bytes: int

    @property
    def stem(self) -> str:
        """Its name without folders and extension: in ImageNet's tar of tars, the class."""
        return PurePosixPath(self.name).stem


def tar_files(tape: Tape, *, is_strict: bool = False) -> Iterator[TarEntry]:
    """Yield the regular files of a tar; check that it is complete, from its first header to its end marker.

    Between two steps the caller may take the file's content from the tape, or leave it. Other members are skipped,
    with one warning at the end.

    Args:
        tape: The tar.
        is_strict: Refuse links, devices and sparse files instead of skipping them.

    Raises:
        ArchiveError: A header is missing or broken, content is cut, a name is refused, or something follows the end.
    """
    passed_over = PassedOver(tape.label)
    in_a_row = 0
    for info in _headers(tape):
        kind = _kind(info)
        name = _name(tape, info.name, kind)
        if kind == _FILE:
            in_a_row = 0
            yield TarEntry(name, tape.position, info.size)
            continue
        in_a_row += 1
        if in_a_row > MAX_PASSED_OVER:
            raise tape.error(f"has more than {MAX_PASSED_OVER:,} directories and links in a row")
        if kind != _DIRECTORY and is_strict:
            raise refused(tape.label, info.name, f"is a {kind}", tape.path)
        if kind != _DIRECTORY:
            passed_over.add(name, kind)
    passed_over.report()


def tar_members(tape: Tape, prefix: str = "", *, is_strict: bool = False) -> Iterator[Member]:
    """Yield the members of a tar, with `prefix` before their names; see `tar_files`."""
    for name, offset, size_bytes in tar_files(tape, is_strict=is_strict):
        stream = functools.partial(_open_tape, tape, offset, size_bytes, f"member {name!r}")
        yield streamed(prefix + name, size_bytes, stream, tape.error)


def _open_tape(tape: Tape, position: int, size_bytes: int, what: str) -> BinaryIO:
    return cast(BinaryIO, TapeFile(tape, position, size_bytes, what))


def _headers(tape: Tape) -> Iterator[tarfile.TarInfo]:
    """Yield each member's header, with the tape at its content; leave the tape at its end."""
    archive = _StrictTar(tape)
    while (info := archive.next()) is not None:
        yield info
        tape.skip_to(archive.offset, f"member {info.name!r}")
        tape.last_name = info.name
        # tarfile would keep both for the rest of the archive, which may have millions.
        archive.members.clear()
        archive.pax_headers.clear()
    tape.finish()


def _kind(info: tarfile.TarInfo) -> str:
    if info.issparse() or any(key.startswith("GNU.sparse.") for key in info.pax_headers):
        return _SPARSE
    if info.isdir() or (info.isreg() and info.name.endswith("/")):
        return _DIRECTORY
    return _FILE if info.isreg() else _KINDS.get(info.type, f"type {info.type!r}")


def _name(tape: Tape, text: str, kind: str) -> str:
    try:
        name = plain_name(text)
    except ValueError as err:
        raise refused(tape.label, text, str(err), tape.path) from err
    if not name and kind == _FILE:
        raise refused(tape.label, text, "has no name", tape.path)
    return name


class _StrictInfo(tarfile.TarInfo):
    """A complete header of bounded size, or an `ArchiveError`.

    For `tarfile` a missing or broken header is the archive's end, so that a cut file looks like a smaller one:
    https://github.com/python/cpython/issues/120740. Here only the end marker, a block of zeros, is the end.
    """

    @classmethod
    def fromtarfile(cls, archive: "_StrictTar") -> Self:  # type: ignore[override]  # it is asked by no other
        """See `tarfile.TarInfo`."""
        tape = archive.tape
        start = tape.position
        block = tape.read(tarfile.BLOCKSIZE)
        try:
            info = cls.frombuf(block, archive.encoding, archive.errors)
            if block[345] and not block.startswith(b"ustar\0", 257):
                # Only POSIX stores the start of a long name there; GNU stores times.
                info.name = block[:100].partition(b"\0")[0].decode(archive.encoding, archive.errors)
            return info._proc_member(archive)
        except (tarfile.HeaderError, ValueError, IndexError) as err:
            if block == _ZERO_BLOCK:
                raise  # the end marker; tarfile decides whether it may be here
            if len(block) < tarfile.BLOCKSIZE:
                where = "inside a header" if block else "without an end marker"
                raise tape.error(f"ends {where}: it was cut off") from err
            tape.position = start  # for the message only: where the header starts
            what = "has a broken header" if start else "is no archive that is read here"
            raise tape.error(f"{what} (it starts with {block[:16]!r}: {err})") from err

    def _proc_member(self, archive: "_StrictTar") -> Self:
        """Check a header before its extra data is read. Comments in `tarfile` offer this method to subclasses.

        It is called for each header; in the newest Pythons, `fromtarfile` only for a member's first one.
        """
        tape = archive.tape
        if self.size < 0:
            raise tape.error(f"has a member of an impossible size ({self.size:,} bytes)")
        archive.num_extensions = archive.num_extensions + 1 if self.type in _EXTENSIONS else 0
        if archive.num_extensions > MAX_EXTENSIONS:
            raise tape.error(f"has a member with more than {MAX_EXTENSIONS} extended headers")
        if archive.num_extensions and self.size > MAX_EXTENSION_BYTES:
            raise tape.error(f"has an extended header of {self.size:,} bytes")
        if self.type in _PAX_HEADERS:
            padded = tape.take(self.size + -self.size % tarfile.BLOCKSIZE, "an extended header")
            _check_pax(tape, padded[: self.size], padded[self.size :], for_all=self.type == tarfile.XGLTYPE)
            tape.put_back(padded)
        info: Self = super()._proc_member(archive)  # type: ignore[misc]  # typeshed has public methods only
        return info


class _StrictTar(tarfile.TarFile):
    """A tar on a tape."""

    tarinfo = _StrictInfo
    encoding: str = "utf-8"
    errors: str = "surrogateescape"
    members: list[tarfile.TarInfo]
    pax_headers: dict[str, str]

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.num_extensions = 0  # in a row
        file: Any = tape  # typeshed wants a writable file too
        super().__init__(fileobj=file, encoding=self.encoding, errors=self.errors)


def _check_pax(tape: Tape, data: bytes, padding: bytes, *, for_all: bool) -> None:
    """Refuse a pax header unless it is a sequence of "<length> <key>=<value>\\n": `tarfile` would stop at the rest.

    Newer Pythons refuse most such headers: https://github.com/python/cpython/issues/121285.
    """
    start = 0
    while start < len(data):
        digits = data[start : start + 20].partition(b" ")[0]
        end = start + int(digits) if digits.isdigit() else 0
        key, equals, value = data[start + len(digits) + 1 : end - 1].partition(b"=")
        is_size = value.isdigit() and len(value) <= 20
        if data[end - 1 : end] != b"\n" or not key or not equals or (key == b"size" and not is_size):
            raise tape.error(f"has a broken pax header (near {data[start : start + 40]!r})")
        if for_all and _LAYOUT_KEY.match(key):
            raise tape.error(f"has a header that sets {key.decode('ascii', 'replace')!r} for all members")
        start = end  # advances: there is an "=" before it
    if padding.count(0) != len(padding) or _DIGITS_IN_A_ROW.search(data):
        raise tape.error("has a broken pax header (64 digits in a row, or no zeros after its end)")


ARCHIVE_ENDINGS = (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".zip", ".npz")


@dataclass(frozen=True)
class ArchiveSource(Source):
    """One tar, tar.gz, tar.bz2, tar.xz or zip, recognised by its first bytes, not by its name: one unit."""

    path: Path

    @property
    @override
    def archives(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    @override
    def description(self) -> str:
        return str(self.path)

    @property
    @override
    def size_bytes(self) -> int:
        return stat_of(self.path).st_size

    @override
    def fingerprint(self) -> str:
        """Return a digest of the archive's name, size and modification time."""
        status = stat_of(self.path)
        return _digest([self.path.name, str(status.st_size), str(status.st_mtime_ns)])

    @override
    def units(self, target_bytes: int) -> list[Unit]:
        return [self._unit(archive_members, self.path)]

    def _unit(self, read: Callable[..., Iterator[Member]], *arguments: Any, size_bytes: int | None = None) -> Unit:
        """Return a unit of this archive, by default all of it."""
        status = stat_of(self.path)
        size_bytes = status.st_size if size_bytes is None else size_bytes
        return Unit(functools.partial(read, *arguments), size_bytes, stamp_of(status), self.path)


def archive_members(path: Path, *, is_strict: bool = False) -> Iterator[Member]:
    """Read an archive from its start.

    Args:
        is_strict: Refuse links and other members that are not regular files, instead of skipping them.

    Raises:
        ArchiveError: It is cut, broken or hostile. A stream that ends without an error is complete.
    """
    with _open_file(path) as file:
        archive_bytes = os.fstat(file.fileno()).st_size
        yield from _members(path, file, archive_bytes, is_strict=is_strict)


@dataclass(frozen=True)
class FileSource(ArchiveSource):
    """One file that is not an archive: the only member, under its own name."""

    @override
    def units(self, target_bytes: int) -> list[Unit]:
        return [self._unit(_file_itself, self.path, self.size_bytes)]


def _file_itself(path: Path, size_bytes: int) -> Iterator[Member]:
    """Yield a file; the member's functions raise `ArchiveError` if it cannot be opened."""
    yield streamed(path.name, size_bytes, functools.partial(_open_file, path))


def raw_source(path: Path) -> Source:
    """Return the source of a raw file; its name decides between an archive and a single file."""
    return ArchiveSource(path) if path.name.lower().endswith(ARCHIVE_ENDINGS) else FileSource(path)


@dataclass(frozen=True)
class NestedTarSource(ArchiveSource):
    """An uncompressed tar of tars, like ImageNet's. A unit is a run of inner tars, found by the outer headers only.

    Members are named "<inner tar's stem>/<name>".
    """

    @override
    def units(self, target_bytes: int) -> list[Unit]:
        """Group consecutive inner tars into units of at most `target_bytes`, at least one tar each.

        Raises:
            ArchiveError: The outer tar is cut, broken, compressed, or has two inner tars of one name.
        """
        inner_tars = tuple(self._inner_tars())
        sizes = [inner.size_bytes for inner in inner_tars]
        return [
            self._unit(_nested_members, self.path, inner_tars[start:stop], size_bytes=sum(sizes[start:stop]))
            for start, stop in greedy_runs(sizes, target_bytes)
        ]

    def _inner_tars(self) -> Iterator[TarEntry]:
        seen = set()
        with _open_file(self.path) as file:
            tape = Tape(file, self.path, size_bytes=os.fstat(file.fileno()).st_size)
            for inner in tar_files(tape):
                if inner.stem in seen:
                    raise tape.error(f"has two inner tars named {inner.stem!r}")
                seen.add(inner.stem)
                yield inner


def _nested_members(path: Path, inner_tars: tuple[TarEntry, ...]) -> Iterator[Member]:
    """Read inner tars in order.

    Raises:
        ArchiveError: One of them is cut, broken or hostile; the message names it.
    """
    with _open_file(path) as file:
        for inner in inner_tars:
            file.seek(inner.offset)
            tape = Tape(file, path, inner=f"inner tar {inner.name!r}", size_bytes=inner.size_bytes)
            yield from tar_members(tape, prefix=f"{inner.stem}/")


@dataclass(frozen=True)
class ChainSource(Source):
    """Several sources in order."""

    sources: Sequence[Source]

    @property
    @override
    def archives(self) -> tuple[Path, ...]:
        return tuple(path for source in self.sources for path in source.archives)

    @property
    @override
    def description(self) -> str:
        return ", ".join(source.description for source in self.sources)

    @property
    @override
    def size_bytes(self) -> int:
        return sum(source.size_bytes for source in self.sources)

    @override
    def fingerprint(self) -> str:
        return _digest(source.fingerprint() for source in self.sources)

    @override
    def files(self) -> FileTable | None:
        """Return the files of the sources that are trees."""
        tables = [table for source in self.sources if (table := source.files()) is not None]
        return functools.reduce(FileTable.joined, tables) if tables else None

    @override
    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        return sum(source.records_bytes(expansion, cost) for source in self.sources)

    @override
    def units(self, target_bytes: int) -> list[Unit]:
        return [unit for source in self.sources for unit in source.units(target_bytes)]


def inner_members(member: Member) -> Iterator[Member]:
    """Yield the members of an archive that is itself a member; it is held in memory.

    Raises:
        ArchiveError: It is cut, broken or hostile; the message names it.
    """
    data = member.read()
    yield from _members(Path(member.name), io.BytesIO(data), len(data))


def _members(path: Path, file: BinaryIO, archive_bytes: int, *, is_strict: bool = False) -> Iterator[Member]:
    start = file.read(8)
    file.seek(0)
    if start.startswith(ZIP_STARTS):
        with opened_zip(path, file, archive_bytes, is_strict=is_strict) as members:
            yield from members
        return
    tape = Tape(file, path, size_bytes=archive_bytes)
    for _, magic, unpack in COMPRESSIONS:
        if start.startswith(magic):
            tape = Tape(unpack(file), path, cap_bytes=unpacked_cap(archive_bytes))
    yield from tar_members(tape, is_strict=is_strict)


def _open_file(path: Path) -> BinaryIO:
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
