"""Archives by code: whole ones, and such as nobody should unpack."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping

from tests.fakes.scale import COUNT

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
BLOCK = 512

Entry = tarfile.TarInfo | tuple[str, bytes]


def tar(entries: Mapping[str, bytes] | Iterable[Entry], format: int = tarfile.GNU_FORMAT, end: bool = True) -> bytes:
    """Build a tar of files (name and content) and of other entries (`entry`); `end`: with its end marker."""
    if isinstance(entries, Mapping):
        entries = entries.items()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format, encoding="utf-8", errors="surrogateescape") as archive:
        for item in entries:
            info, data = (item, b"") if isinstance(item, tarfile.TarInfo) else (tarfile.TarInfo(item[0]), item[1])
            if not isinstance(item, tarfile.TarInfo):
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data) if data else None)
        length = archive.offset
    return buffer.getvalue() if end else buffer.getvalue()[:length]


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def header(name: bytes, size: bytes = b"00000000000", flag: bytes = b"0", prefix: bytes = b"") -> bytes:
    """Build a ustar header field by field, with a right checksum, for what tarfile refuses to write."""
    fields = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size.ljust(12, b"\0")[:12] + b"00000000000\0"
    block = bytearray((fields + b" " * 8 + flag).ljust(257, b"\0") + b"ustar\x0000")
    block += bytes(345 - len(block)) + prefix.ljust(155, b"\0") + bytes(12)
    return sealed(bytes(block))


def sealed(block: bytes) -> bytes:
    """Give a header the checksum that it should have."""
    total = sum(block[:148]) + sum(block[156:BLOCK]) + 8 * 32
    return block[:148] + b"%06o\0 " % total + block[156:]


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def pax(records: bytes, flag: bytes = b"x") -> bytes:
    """Build a pax header of exactly these records, right or wrong."""
    return header(b"pax", b"%011o" % len(records), flag) + padded(records)


def record(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    while len(b"%d" % length) + len(key) + len(value) + 3 != length:
        length = len(b"%d" % length) + len(key) + len(value) + 3
    return b"%d %s=%s\n" % (length, key, value)


def zipped(
    files: Iterable[tuple[str | zipfile.ZipInfo, bytes]] | Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method, compresslevel=None if COUNT == 1 else 1) as archive:
        for name, data in files.items() if isinstance(files, Mapping) else files:
            archive.writestr(name, data)
    return buffer.getvalue()


def zip_entry(name: str, mode: int) -> zipfile.ZipInfo:
    """Name a zip entry with a Unix file type, a link say."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def forge_zip(data: bytes, offset: int, local_offset: int, value: bytes) -> bytes:
    """Overwrite a field of the last member in both of its headers, at these offsets from their starts."""
    forged = bytearray(data)
    for start, at in ((data.rindex(b"PK\x01\x02"), offset), (data.rindex(b"PK\x03\x04"), local_offset)):
        forged[start + at : start + at + len(value)] = value
    return bytes(forged)
