"""The zip format: `zipfile` reads, this module checks."""

import contextlib
import functools
import itertools
import logging
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from recordzoo.base.text import counted
from recordzoo.errors import ArchiveError
from recordzoo.raw.member import (
    ADVICE,
    Member,
    PassedOver,
    Tape,
    TapeFile,
    plain_name,
    refused,
    shortened,
    streamed,
    unpacked_cap,
)

logger = logging.getLogger("recordzoo")

ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
"""First bytes of a zip file; the second of one without members."""

# RuntimeError (also as NotImplementedError): zipfile needs a password. ValueError: names that are not UTF-8.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, OverflowError)
_END_RECORD = struct.Struct("<4s4xHH8xH")  # signature, ..., members on this disk and in all, ..., comment bytes
_MAX_COMMENT_BYTES = 0xFFFF
_ELSEWHERE = 0xFFFF  # number of members: it is in the 64-bit end record
_LOCAL_HEADER = struct.Struct("<4x5H3I2H")  # ..., flags, method, ..., CRC, packed size, size, ...
_LATER = 1 << 3  # flag: CRC and sizes follow the content
_LARGE = 0xFFFFFFFF  # size: it is elsewhere, with 64 bits
_IS_UTF8 = 1 << 11  # flag: of the name
_EXTRA = struct.Struct("<HH")  # kind and size of an extra field
_UNICODE_PATH = 0x7075
_DOS, _OS2, _NTFS = 0, 6, 11
# bzip2 and LZMA may unpack to any length in one step of zipfile, before it can be checked.
_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}


@contextlib.contextmanager
def opened_zip(
    path: Path, file: BinaryIO, archive_bytes: int, *, is_strict: bool = False
) -> Iterator[Iterator[Member]]:
    """Open a zip whose members are read in any order, each checked against its size and CRC when read.

    Context manager; yields all members in the order of the zip's directory.

    Args:
        path: The zip's name in messages.
        file: The zip.
        archive_bytes: Its size.
        is_strict: Refuse links and other members that are not regular files, instead of skipping them. Names are those
            of `unzipped_name`; otherwise those of Python's `zipfile`, with which torchvision unpacks.

    Raises:
        ArchiveError: The zip is cut, broken, encrypted or a bomb; a name is refused or occurs twice.
    """
    passed_over = PassedOver(str(path))
    try:
        archive = zipfile.ZipFile(file)
    except _ZIP_ERRORS as err:
        raise _broken(path, f"its directory cannot be read ({type(err).__name__}: {err})") from err
    with archive:
        _check_frame(path, file, archive, archive_bytes)
        _check_apart(path, archive.infolist())
        if is_strict:
            _warn_of_guesses(path, archive)
        entries = _entries(path, archive, None if is_strict else passed_over)
        total = sum(info.file_size for _, info in entries)
        if total > unpacked_cap(archive_bytes):
            raise _broken(path, f"unpacks to {total:,} bytes, far more than any data set of its size does")
        yield (_member(path, file, archive, info, name) for name, info in entries)
    passed_over.report()


def _member(path: Path, file: BinaryIO, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Member:
    stream = functools.partial(_open, path, file, archive, info, name)
    return streamed(name, info.file_size, stream, lambda what: _broken(path, what, name))


def _open(path: Path, file: BinaryIO, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> BinaryIO:
    _check_local(path, file, info, name)
    try:
        content = archive.open(info)
    except _ZIP_ERRORS as err:
        what = f"member {name!r} cannot be read ({type(err).__name__}: {err})"
        raise _broken(path, what, name) from err
    tape = Tape(cast(BinaryIO, content), path, inner=f"member {name!r}")
    if not info.file_size:
        tape.finish()  # zipfile compares the CRC when it has read the last byte
    return cast(BinaryIO, TapeFile(tape, 0, info.file_size, f"member {name!r}"))


def _check_frame(path: Path, file: BinaryIO, archive: zipfile.ZipFile, archive_bytes: int) -> None:
    """Refuse a file that is more than one zip: zipfile uses the last end record that it finds, perhaps a member's."""
    infos = archive.infolist()
    if infos and min(info.header_offset for info in infos) != 0:
        raise _broken(path, "its directory is not that of the whole file (it was cut, or put after something else)")
    ends = _end_records(file, archive_bytes)
    if len(ends) > 1:
        raise _broken(path, "it has two end records, one of them in the comment of the other")
    taken = archive_bytes - _END_RECORD.size - len(archive.comment)
    if taken not in ends:
        raise _broken(path, "something follows its end")
    if not infos and taken != 0:
        raise _broken(path, "its end record lists no members, but does not stand at the start")
    if ends[taken] not in (len(infos) & 0xFFFF, _ELSEWHERE):  # some writers let the count wrap at 16 bits
        raise _broken(path, f"its directory lists {len(infos):,} members, and its end record {ends[taken]:,}")


def _end_records(file: BinaryIO, archive_bytes: int) -> dict[int, int]:
    """Find each end record whose comment reaches the file's end: position -> number of members."""
    start = max(0, archive_bytes - _END_RECORD.size - _MAX_COMMENT_BYTES)
    file.seek(start)
    tail = file.read()
    found = {}
    at = tail.find(ZIP_STARTS[1])
    while 0 <= at <= len(tail) - _END_RECORD.size:
        _, _, num_members, comment_bytes = _END_RECORD.unpack_from(tail, at)
        if at + _END_RECORD.size + comment_bytes == len(tail):
            found[start + at] = num_members
        at = tail.find(ZIP_STARTS[1], at + 1)
    return found


def _check_apart(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    """Refuse members that share bytes of the file: a few of them can unpack to any size."""
    ordered = sorted(infos, key=lambda info: info.header_offset)
    for info, following in itertools.pairwise(ordered):
        if info.header_offset + _LOCAL_HEADER.size + info.compress_size > following.header_offset:
            names = f"{info.orig_filename!r} and {following.orig_filename!r}"
            raise _broken(path, f"its members {names} overlap, as in a bomb", info.orig_filename)


def _check_local(path: Path, file: BinaryIO, info: zipfile.ZipInfo, name: str) -> None:
    """Refuse a member whose own header contradicts the directory: other programs trust the header."""
    try:
        file.seek(info.header_offset)
        _, flags, method, _, _, crc, packed, size, *_ = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    except (OSError, struct.error) as err:
        raise _broken(path, f"member {name!r} has no header where its directory says", name) from err
    differs = method != info.compress_type
    if not flags & _LATER:
        differs |= crc != info.CRC or packed not in (info.compress_size, _LARGE) or size not in (info.file_size, _LARGE)
    if differs:
        raise _broken(
            path, f"member {name!r} has another size, CRC or method in its header than in the directory", name
        )


def _entries(path: Path, archive: zipfile.ZipFile, passed_over: PassedOver | None) -> list[tuple[str, zipfile.ZipInfo]]:
    """Return the regular files by name; all are checked before the first one is read.

    Args:
        path: The zip.
        archive: The opened zip.
        passed_over: Counts the skipped members, which are not regular files. None: refuse them.
    """
    entries = []
    seen = set()
    for info in archive.infolist():
        given = info.orig_filename if passed_over is not None else unzipped_name(info)
        try:
            name = plain_name(given)
        except ValueError as err:
            raise refused(str(path), info.orig_filename, str(err), path) from err
        mode = info.external_attr >> 16
        if "/" in (info.filename[-1:], given[-1:]):  # Python 3.11: is_dir() raises IndexError for an empty name
            continue
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            kind = "symbolic link" if stat.S_ISLNK(mode) else "special file"
            if passed_over is None:
                raise refused(str(path), info.orig_filename, f"is a {kind}", path)
            passed_over.add(name, kind)
            continue
        if not name or name in seen:
            raise refused(str(path), info.orig_filename, "is there twice" if name else "has no name", path)
        seen.add(name)
        _check_entry(path, info, name)
        entries.append((name, info))
    return entries


def unzipped_name(info: zipfile.ZipInfo) -> str:
    """Return a member's name as Info-ZIP's ``unzip`` has it on Linux.

    A name without the mark for UTF-8 is in an extra field, or the bytes of the system that packed it: UTF-8 on macOS
    and Linux. Of DOS and Windows ``unzip`` takes them for code page 850; what is valid UTF-8 is read as that here.
    Some programs for Windows write "\\" between the parts of a path.
    """
    name, raw = info.orig_filename, _unmarked(info)
    if raw is not None:
        if (named := _unicode_path(info.extra, raw)) is not None:
            return named
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            name = raw.decode("cp850") if _is_of_dos(info) else raw.decode("utf-8", "surrogateescape")
    return name.replace("\\", "/") if info.create_system == _DOS and "/" not in name else name


def _unmarked(info: zipfile.ZipInfo) -> bytes | None:
    """Return the bytes of a name that is not marked as UTF-8; None for any other."""
    return None if info.flag_bits & _IS_UTF8 else info.orig_filename.encode("cp437")


def _is_of_dos(info: zipfile.ZipInfo) -> bool:
    """Whether ``unzip`` converts names from the code page of DOS, by the system and version that packed them."""
    system, version = info.create_system, info.create_version
    return (system == _DOS and version not in (25, 26, 40)) or system == _OS2 or (system == _NTFS and version == 50)


def _unicode_path(extra: bytes, raw: bytes) -> str | None:
    """Return the name in the extra field for it, if that belongs to this name."""
    while len(extra) >= _EXTRA.size:
        kind, size = _EXTRA.unpack_from(extra)
        content, extra = extra[_EXTRA.size : _EXTRA.size + size], extra[_EXTRA.size + size :]
        if kind == _UNICODE_PATH and content[:5] == b"\1" + struct.pack("<I", zlib.crc32(raw)):
            with contextlib.suppress(UnicodeDecodeError):
                return content[5:].decode()
    return None


def _warn_of_guesses(path: Path, archive: zipfile.ZipFile) -> None:
    guessed = [
        unzipped_name(info)
        for info in archive.infolist()
        if (raw := _unmarked(info)) is not None
        and not raw.isascii()
        and _is_of_dos(info)
        and _unicode_path(info.extra, raw) is None
    ]
    if guessed:
        logger.warning(
            "%s: %s of DOS or Windows without a mark for UTF-8: read as UTF-8 if valid, else as code page 850; "
            "the first is %r",
            path,
            counted(len(guessed), "name"),
            guessed[0],
        )


def _check_entry(path: Path, info: zipfile.ZipInfo, name: str) -> None:
    if info.flag_bits & 0x1:
        raise _broken(path, f"member {name!r} is encrypted, and recordzoo asks for no passwords", name)
    if info.compress_type not in _METHODS:
        method = zipfile.compressor_names.get(info.compress_type, "unknown")  # type: ignore[attr-defined]  # no stub
        raise _broken(
            path, f"member {name!r} is compressed by method {info.compress_type} ({method}), not deflate", name
        )


def _broken(path: Path, what: str, member: str = "") -> ArchiveError:
    return ArchiveError(f"{path}: {shortened(what)}. {ADVICE}", path=path, member=member)
