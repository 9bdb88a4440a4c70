"""Mutants: valid manifests, archives and shards with some of their bytes changed, drawn by Hypothesis."""

import gzip
import json
import os
import re
import tarfile
import zipfile
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.fakes import archives as fake
from tests.fakes.records import signed

NUMBERS = st.sampled_from(
    [0, 1, 2, 4, 0x7F, 0x80, 0xFF, 1 << 15, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 64) - 2]
)
VALUES = (
    st.binary(min_size=1, max_size=8)
    | st.tuples(NUMBERS, st.sampled_from([1, 2, 4, 8]), st.sampled_from(["little", "big"])).map(
        lambda drawn: (drawn[0] & (1 << 8 * drawn[1]) - 1).to_bytes(drawn[1], drawn[2])  # type: ignore[arg-type]
    )
    | st.sampled_from([b"../", b"/", b"\0", b"\xff\xfe", b"77777777777", b"-1", b"0000000", b"\x80" + bytes(11)])
)


@st.composite
def mutated(draw: st.DrawFn, base: bytes, places: Sequence[int]) -> bytes:
    """Change some bytes, mostly near one of the places that mean something; sometimes cut, repeat or insert."""
    data = bytearray(base)
    for _ in range(draw(st.integers(1, 5))):
        near = draw(st.sampled_from(places)) + draw(st.integers(-8, 160)) if places and draw(st.booleans()) else None
        at = draw(st.integers(0, len(base))) if near is None else near
        at = max(0, min(len(data), at))
        what = draw(st.sampled_from("ooooooooirdc"))
        if what == "o":
            value = draw(VALUES)
            data[at : at + len(value)] = value
        elif what == "i":
            data[at:at] = draw(VALUES)
        elif what == "d":
            del data[at : at + draw(st.integers(1, 600))]
        elif what == "r":
            length = draw(st.integers(1, 1024))
            start = draw(st.integers(0, len(base)))
            data[at : at + length * draw(st.integers(0, 1))] = base[start : start + length]
        else:
            del data[at:]
    return bytes(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["image", "|u1", "<i8", "shard-00000.lmdb", "names", "../x", f"sha256:{0:064}", "raw"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=6,
)


# Any: JSON values.
def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in _places(inner, (*path, key)))]


@st.composite
def documents(draw: st.DrawFn, text: bytes) -> bytes:
    """Replace values of a manifest, or rename keys, and sign it as its author would."""
    document = json.loads(text)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(_places(document)[1:]))
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        if draw(st.booleans()) or not isinstance(holder, dict):
            holder[place[-1]] = draw(JSON)
        else:
            holder[draw(st.text(max_size=8))] = holder.pop(place[-1])
        if len(_places(document)) < 2:
            break
    return signed(json.dumps(document, sort_keys=True, indent=1).encode())


def manifests(text: bytes) -> st.SearchStrategy[bytes]:
    """Return changed manifests: by their structure, or by their bytes, signed or not."""
    marks = [match.start() for match in re.finditer(rb'[:{\["]', text)]
    raw = mutated(text, marks)
    return documents(text) | raw.map(signed) | raw | st.binary(max_size=200)


FILES = {"a/0.jpg": b"", "a/1.jpg": b"12345" * 300, "b/" + "long" * 40 + "/2.jpg": b"\0" * 700, "ä.jpg": b"x"}

_PACKERS = {**fake.PACKERS, "gz": partial(gzip.compress, mtime=0)}


@cache
def _whole_tars() -> tuple[bytes, ...]:
    """Make tars of every kind that is met: plain, POSIX, GNU, with links, directories and attributes."""
    links = [fake.entry("link", tarfile.SYMTYPE, "a/0.jpg"), fake.entry("dir", tarfile.DIRTYPE), ("f", b"f" * 100)]
    paxed = fake.pax(fake.record(b"path", b"c/3.jpg") + fake.record(b"mtime", b"1.5")) + fake.header(b"x") + bytes(1024)
    kinds = [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
    return (*(fake.tar(FILES, kind) for kind in kinds), fake.tar(links), paxed, fake.tar({"x" * 90 + "/y": b"1"}))


@st.composite
def tars(draw: st.DrawFn) -> bytes:
    """Mutate a tar, its headers sealed again more often than not, packed or not; or mutate the packed one."""
    data = draw(st.sampled_from(_whole_tars()))
    pack = draw(st.sampled_from(["tar", "tar", "gz", "bz2", "xz"]))
    if pack != "tar" and draw(st.booleans()):
        packed = _PACKERS[pack](data)
        return draw(mutated(packed, [0, len(packed) - 40]))
    heads = [at for at in range(0, len(data), fake.BLOCK) if data[at + 257 : at + 262] == b"ustar"]
    data = draw(mutated(data, [at + field for at in heads for field in (0, 124, 156, 157, 257, 345, 512)]))
    if draw(st.integers(0, 3)):
        for at in heads:
            block = data[at : at + fake.BLOCK]
            if len(block) == fake.BLOCK and any(block):
                data = data[:at] + fake.sealed(block) + data[at + fake.BLOCK :]
    return _PACKERS[pack](data)


@st.composite
def nested_tars(draw: st.DrawFn) -> bytes:
    """Put mutated tars into a tar, and mutate that one too, or not."""
    inner = {f"n{number}.tar": draw(tars()) for number in range(draw(st.integers(1, 3)))}
    data = fake.tar(inner)
    return draw(mutated(data, [0, 124])) if draw(st.integers(0, 2)) == 0 else data


@cache
def _whole_zips() -> tuple[bytes, ...]:
    """Make zips: compressed, stored, with a link and a directory, without members."""
    link = fake.zip_entry("link", 0o120777)
    with_link = [(link, b"a/0.jpg"), _zip_file("dir/", b""), _zip_file("f", b"f" * 1000)]
    kinds = [
        [_zip_file(*file, method) for file in FILES.items()] for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)
    ]
    return tuple(fake.zipped(files) for files in (*kinds, with_link, []))


def _zip_file(name: str, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> tuple[zipfile.ZipInfo, bytes]:
    """A member of no date: the same bytes each time."""
    info = zipfile.ZipInfo(name)
    info.compress_type = method
    return info, data


@st.composite
def zips(draw: st.DrawFn) -> bytes:
    """Mutate a zip near its headers; some changes are made in both headers of a member, as a forger does."""
    data = draw(st.sampled_from(_whole_zips()))
    if data.rfind(b"PK\x03\x04") >= 0 and draw(st.booleans()):
        # Where each field is in the directory and before the member: flags, method, CRC, sizes, lengths of names.
        here, there = draw(st.sampled_from([(6, 4), (8, 6), (10, 8), (16, 14), (20, 18), (24, 22), (28, 26), (30, 28)]))
        data = fake.forge_zip(data, here, there, draw(VALUES)[:4])
        if draw(st.booleans()):
            return data
    heads = [match.start() for match in re.finditer(rb"PK\x01\x02|PK\x03\x04|PK\x05\x06", data)]
    return draw(mutated(data, heads))


def shards(data: bytes) -> st.SearchStrategy[bytes]:
    """Mutate shards, mostly the heads of pages with a meaning and the nodes on them."""
    size = os.sysconf("SC_PAGE_SIZE")
    heads = [at for at in range(0, len(data), size) if data[at + 10] in (1, 2, 4, 8)]
    nodes = []
    for head in heads:
        if data[head + 10] in (1, 2):
            nodes += [head + int(offset) for offset in np.frombuffer(data, "<u2", 4, head + 16)]
    return mutated(data, [*heads, *heads[:2] * 4, *nodes])
