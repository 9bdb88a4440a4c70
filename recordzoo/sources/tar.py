"""The tar format, read strictly and in one pass: ustar, GNU and pax headers become entries.

Why not `tarfile`: it takes a missing or broken header for the end of the archive, so that a cut file looks like a
smaller one (https://github.com/python/cpython/issues/120740); before 3.11.10 it can be kept busy for hours by a forged
pax header (CVE-2024-6232); and it takes twice as long for each member. The tests compare the two.
"""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from recordzoo.sources.member import MAX_MEMBER_BYTES, Member
from recordzoo.sources.stream import PassedOver, Tape, plain_name, refused

BLOCK = 512
MAX_EXTENSION_BYTES = 1 << 20  # of one long name or pax header; macOS stores a file's attributes there
MAX_EXTENSIONS = 16  # of one member
MAX_PASSED_OVER = 1 << 21  # directories and links in a row

_ZERO_BLOCK = bytes(BLOCK)
_OCTAL = re.compile(rb" *([0-7]*)[ \0]*(?:\0.*)?", re.DOTALL)
_FILE, _DIRECTORY, _SPARSE = "file", "directory", "sparse file"
_KINDS = {
    b"0": _FILE, b"\0": _FILE, b"7": _FILE, b"5": _DIRECTORY, b"S": _SPARSE,
    b"1": "hard link", b"2": "symbolic link", b"3": "device", b"4": "device", b"6": "FIFO",
}  # fmt: skip
_WITHOUT_DATA = frozenset(b"123456")  # whatever their size field says, as in tarfile


class TarEntry(NamedTuple):
    """A regular file in a tar; its content starts where the tape is."""

    name: str
    size_bytes: int


class _Header(NamedTuple):
    name: bytes
    size_bytes: int
    flag: bytes
    block: bytes


def tar_files(tape: Tape, passed_over: PassedOver) -> Iterator[TarEntry]:
    """Yield the regular files of a tar and check that it is whole, from its first header to its end marker.

    Between two steps the caller may take the file's content from the tape, or leave it.

    Raises:
        ArchiveError: A header is missing or broken, content is cut, a name is refused, or something follows the end.
    """
    in_a_row = 0
    while (entry := _next_entry(tape)) is not None:
        kind, raw_name, size_bytes, data_bytes = entry
        end = tape.position + data_bytes
        name = _name(tape, raw_name, kind)
        if kind == _FILE:
            in_a_row = 0
            yield TarEntry(name, size_bytes)
        else:
            in_a_row += 1
            if in_a_row > MAX_PASSED_OVER:
                raise tape.error(f"has more than {MAX_PASSED_OVER:,} directories and links in a row")
            if kind != _DIRECTORY:
                passed_over.add(name, kind)
        tape.skip(end - tape.position, f"member {name!r}")
        tape.skip(-data_bytes % BLOCK, f"the padding of member {name!r}")
        tape.last_name = name
    tape.finish()


def tar_members(tape: Tape, passed_over: PassedOver, prefix: str = "") -> Iterator[Member]:
    """Yield the members of a tar; see `tar_files`. `prefix` comes before their names."""
    for name, size_bytes in tar_files(tape, passed_over):
        if size_bytes > MAX_MEMBER_BYTES:
            raise tape.error(f"has a member {name!r} of {size_bytes:,} bytes; {MAX_MEMBER_BYTES:,} are the limit")
        read = functools.partial(tape.take_once, tape.position, size_bytes, name)
        yield Member(prefix + name, size_bytes, read)


def _name(tape: Tape, raw_name: bytes, kind: str) -> str:
    text = raw_name.decode("utf-8", "surrogateescape")
    try:
        name = plain_name(text)
    except ValueError as err:
        raise refused(tape.label, text, str(err), tape.path) from err
    if not name and kind == _FILE:
        raise refused(tape.label, text, "has no name", tape.path)
    return name


def _next_entry(tape: Tape) -> tuple[str, bytes, int, int] | None:
    """Return kind, name, size and number of stored bytes of the next member; None at the end marker."""
    long_name: bytes | None = None
    pax: dict[bytes, bytes] = {}
    for num_extensions in range(MAX_EXTENSIONS + 1):
        header = _next_header(tape, is_first=num_extensions == 0)
        if header is None:
            return None
        if header.flag not in (b"L", b"K", b"x", b"X", b"g"):
            return _entry(tape, header, long_name, pax)
        if header.size_bytes > MAX_EXTENSION_BYTES:
            raise tape.error(f"has an extended header of {header.size_bytes:,} bytes")
        data = tape.take(header.size_bytes, "an extended header")
        tape.skip(-header.size_bytes % BLOCK, "an extended header")
        if header.flag == b"L":
            long_name = data.partition(b"\0")[0]
        elif header.flag in (b"x", b"X"):
            pax |= _pax_records(tape, data)
        elif header.flag == b"g" and (odd := _layout_keys(_pax_records(tape, data))):
            raise tape.error(f"has a header that sets {odd[0]!r} for all members")
    raise tape.error(f"has a member with more than {MAX_EXTENSIONS} extended headers")


def _entry(
    tape: Tape, header: _Header, long_name: bytes | None, pax: dict[bytes, bytes]
) -> tuple[str, bytes, int, int]:
    name = pax.get(b"path", header.name if long_name is None else long_name)
    size_bytes = header.size_bytes
    if b"size" in pax:
        if not pax[b"size"].isdigit() or len(pax[b"size"]) > 20:
            raise tape.error(f"has a broken pax header (a size of {pax[b'size'][:40]!r})")
        size_bytes = int(pax[b"size"])
    kind = _KINDS.get(header.flag, f"type {header.flag!r}")
    if kind == _FILE and name.endswith(b"/"):
        return _DIRECTORY, name, 0, 0  # how tars older than POSIX say it
    if any(key.startswith(b"GNU.sparse.") for key in pax):
        kind, name = _SPARSE, pax.get(b"GNU.sparse.name", name)
    if header.flag == b"S":
        _skip_sparse_map(tape, header.block)
    return kind, name, size_bytes, 0 if header.flag[0] in _WITHOUT_DATA else size_bytes


def _next_header(tape: Tape, *, is_first: bool) -> _Header | None:
    """Return the header at the tape's position; None for the end marker, which may come only before a member."""
    block = tape.pull(BLOCK)
    if len(block) != BLOCK:
        where = "inside a header" if block else "without an end marker"
        raise tape.error(f"ends {where}: it was cut off")
    if block == _ZERO_BLOCK and is_first:
        return None
    stored = _octal(block[148:156])
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    # Some old tars summed signed bytes.
    if stored is None or (stored != total and stored != total - 256 * sum(byte > 127 for byte in block)):
        tape.position -= BLOCK  # for the message only: where the header starts
        if tape.position == 0:
            raise tape.error(f"is no archive that is read here (it starts with {block[:16]!r})")
        raise tape.error(f"has a broken header (it starts with {block[:16]!r})")
    size_bytes = _number(block[124:136])
    if size_bytes is None:
        raise tape.error(f"has a member of an impossible size ({block[124:136]!r})")
    name = block[:100].partition(b"\0")[0]
    # GNU's own headers have times where POSIX has the first part of a long name.
    if block[257:263] == b"ustar\0" and block[345]:
        name = block[345:500].partition(b"\0")[0] + b"/" + name
    return _Header(name, size_bytes, block[156:157], block)


def _octal(field: bytes) -> int | None:
    match = _OCTAL.fullmatch(field)
    return int(match[1] or b"0", 8) if match else None


def _number(field: bytes) -> int | None:
    """Parse a size; None if it is none, or negative. From 8 GiB on, GNU writes them in base 256."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    return _octal(field)


def _pax_records(tape: Tape, data: bytes) -> dict[bytes, bytes]:
    """Parse "<length> <key>=<value>\\n" records: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html."""
    records: dict[bytes, bytes] = {}
    start = 0
    while start < len(data):
        space = data.find(b" ", start, start + 20)
        digits = data[start:space] if space > 0 else b""
        end = start + int(digits) if digits.isdigit() else 0
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if data[end - 1 : end] != b"\n" or not equals:  # an "=" before its end: the loop goes on
            raise tape.error(f"has a broken pax header (near {data[start : start + 40]!r})")
        records[key] = value
        start = end
    return records


def _layout_keys(records: dict[bytes, bytes]) -> list[str]:
    """Return the keys that would change what or where members are."""
    return [key.decode("ascii", "replace") for key in records if re.match(rb"(path|size)\Z|GNU\.sparse\.", key)]


def _skip_sparse_map(tape: Tape, block: bytes) -> None:
    """Pass the blocks in which an old GNU header goes on: each says whether another follows."""
    follows = block[482]
    while follows:
        follows = tape.take(BLOCK, "the map of a sparse file")[504]
