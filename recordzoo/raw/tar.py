"""The tar format: `tarfile` reads, this module checks."""

import functools
import re
import tarfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, Self, cast

from recordzoo.raw.member import MAX_MEMBER_BYTES, Member, refuse_oversized
from recordzoo.raw.stream import PassedOver, Tape, TapeFile, plain_name, refused

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
    """A regular file in a tar; its content starts at the tape's position."""

    name: str
    size_bytes: int


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
            yield TarEntry(name, info.size)
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
    for name, size_bytes in tar_files(tape, is_strict=is_strict):
        what = f"member {name!r}"
        read: Callable[[], bytes] = functools.partial(tape.take, size_bytes, what)
        if size_bytes > MAX_MEMBER_BYTES:
            read = functools.partial(refuse_oversized, tape.error, name, size_bytes)
        yield Member(prefix + name, size_bytes, read, stream=functools.partial(_open, tape, size_bytes, what))


def _open(tape: Tape, size_bytes: int, what: str) -> BinaryIO:
    return cast(BinaryIO, TapeFile(tape, size_bytes, what))


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
