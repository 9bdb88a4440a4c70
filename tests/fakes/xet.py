"""What the Xet client of huggingface_hub uploads, as files: xorbs hold chunks, shards say which chunks are a file.

Formats: https://huggingface.co/docs/xet/xorb and https://huggingface.co/docs/xet/shard
"""

import itertools
import struct
from collections.abc import Iterator

import pyarrow as pa

_ENTRY_BYTES = 48
_HEADER = struct.Struct("<32sII8x")
_TERM = struct.Struct("<32sIIII")
_BOOKEND = b"\xff" * 32
_HAS_CHECKS, _HAS_SHA256 = 1 << 31, 1 << 30
_STORED, _LZ4, _GROUPED_LZ4 = 0, 1, 2


def hash_name(data: bytes) -> str:
    """The text of a hash: four little-endian numbers of 8 bytes each."""
    return "".join(f"{number:016x}" for number in struct.unpack("<4Q", data))


def chunks(xorb: bytes) -> list[bytes]:
    """The chunks of a xorb, unpacked; what follows them is the client's own index."""
    found, begin = [], 0
    while begin < len(xorb) and xorb[begin] == 0:
        size = int.from_bytes(xorb[begin + 1 : begin + 4], "little")
        kind, full = xorb[begin + 4], int.from_bytes(xorb[begin + 5 : begin + 8], "little")
        found.append(_unpacked(xorb[begin + 8 : begin + 8 + size], kind, full))
        begin += 8 + size
    return found


def _unpacked(data: bytes, kind: int, size: int) -> bytes:
    if kind == _STORED:
        return data
    assert kind in (_LZ4, _GROUPED_LZ4)
    plain = pa.Codec("lz4").decompress(data, decompressed_size=size, asbytes=True)
    if kind == _LZ4:
        return plain
    whole, rest = divmod(size, 4)
    ends = list(itertools.accumulate(whole + (number < rest) for number in range(4)))
    out = bytearray(size)
    for number, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
        out[number::4] = plain[begin:end]
    return bytes(out)


def files(shard: bytes) -> Iterator[tuple[str, list[tuple[str, int, int]], str | None]]:
    """The files that a shard names: the file's hash, its ranges of chunks by xorb, its SHA-256 if it is said."""
    begin = _ENTRY_BYTES  # the header
    while not shard.startswith(_BOOKEND, begin):
        name, flags, count = _HEADER.unpack_from(shard, begin)
        begin += _ENTRY_BYTES
        terms = []
        for _ in range(count):
            xorb, _, _, first, end = _TERM.unpack_from(shard, begin)
            terms.append((hash_name(xorb), first, end))
            begin += _ENTRY_BYTES
        begin += count * _ENTRY_BYTES if flags & _HAS_CHECKS else 0
        sha256 = None
        if flags & _HAS_SHA256:
            sha256 = hash_name(shard[begin : begin + 32])
            begin += _ENTRY_BYTES
        yield hash_name(name), terms, sha256
