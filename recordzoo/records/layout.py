"""Find the place of each value in an LMDB file, by walking its pages without LMDB.

The file format of LMDB 0.9 (``mdb.c``, struct MDB_page, MDB_node, MDB_meta, MDB_db; 64-bit, little-endian): a page has
a header of 16 bytes and an array of 2-byte offsets to nodes. A node has a header of 8 bytes, its key, and its value or,
for values over half a page (flag 1), the number of the first of its contiguous overflow pages.
"""

import mmap
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.arrays import AnyArray
from recordzoo.errors import CorruptRecordError

MAGIC = 0xBEEFC0DE
DATA_VERSION = 1
PAGE_HEADER = 16
_META = struct.Struct("<IIQQ")  # magic, version, address, map size
_DB = struct.Struct(
    "<IHHQQQQQ"
)  # pad (page size in the first), flags, depth, branch, leaf, overflow pages, entries, root
_TAIL = struct.Struct("<QQ")  # last page, transaction
_BRANCH, _LEAF = 0x01, 0x02
_BIG = 0x01
_KEY_BYTES = 4
_NO_ROOT = (1 << 64) - 1
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Meta:
    """The newer of a file's two meta pages."""

    page_size: int
    last_page: int
    entries: int
    root: int
    depth: int


@dataclass(frozen=True, slots=True)
class Values:
    """Every value of a file in the order of its keys: uint32 slots [n], uint64 offsets [n], uint32 lengths [n]."""

    slots: NDArray[np.uint32]
    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint32]


def read_meta(head: bytes | mmap.mmap, where: str) -> Meta:
    """Read the newer meta page from the first two pages of a file.

    Raises:
        CorruptRecordError: Neither is a meta page of LMDB 0.9.
    """
    best: tuple[int, Meta] | None = None
    page_size = 0
    for number in (0, 1):
        start = number * page_size + PAGE_HEADER
        if len(head) < start + _META.size + 2 * _DB.size + _TAIL.size:
            break
        magic, version, _, _ = _META.unpack_from(head, start)
        if magic != MAGIC or version != DATA_VERSION:
            break
        free = _DB.unpack_from(head, start + _META.size)
        main = _DB.unpack_from(head, start + _META.size + _DB.size)
        last_page, txn = _TAIL.unpack_from(head, start + _META.size + 2 * _DB.size)
        page_size = page_size or free[0]
        meta = Meta(page_size, last_page, main[6], main[7], main[2])
        if best is None or txn > best[0]:
            best = (txn, meta)
    if best is None or page_size not in (1 << shift for shift in range(8, 17)):
        raise CorruptRecordError(f"{where} is not an LMDB 0.9 file.", path=where)
    return best[1]


def walk(data: bytes | mmap.mmap, where: str) -> tuple[Meta, Values]:
    """Find every value of the file's main database.

    Args:
        data: The whole file.
        where: Its path, for messages.

    Raises:
        CorruptRecordError: A page is of the wrong kind, or leads outside the file.
    """
    meta = read_meta(data, where)
    pages: list[tuple[AnyArray, ...]] = []
    if meta.root != _NO_ROOT:
        stack = [(meta.root, 1)]
        visited = 0
        num_pages = min(meta.last_page + 1, len(data) // meta.page_size)
        while stack:
            number, depth = stack.pop()
            visited += 1
            if depth > _MAX_DEPTH or visited > num_pages:
                raise CorruptRecordError(f"{where}: the tree is too deep or runs in a circle.", path=where)
            flags, nodes, page = _page(data, meta, number, where)
            if flags & _BRANCH:
                children = page[nodes].astype(np.uint64) | page[nodes + 1].astype(np.uint64) << np.uint64(16)
                children |= page[nodes + 2].astype(np.uint64) << np.uint64(32)
                stack.extend((int(child), depth + 1) for child in children[::-1])
            elif flags & _LEAF:
                pages.append(_leaf(page, nodes, number, meta))
            else:
                raise CorruptRecordError(f"{where}: page {number} is neither branch nor leaf.", path=where)
    columns = [np.concatenate(column) for column in zip(*pages, strict=True)] or [np.zeros(0, np.uint64)] * 3
    slots, offsets, lengths = columns
    if len(slots) != meta.entries:
        raise CorruptRecordError(
            f"{where}: the tree has {len(slots)} values, its head says {meta.entries}.", path=where
        )
    if len(slots) and int((offsets + lengths).max()) > len(data):
        raise CorruptRecordError(f"{where}: a value lies outside the file.", path=where)
    return meta, Values(slots.astype(np.uint32), offsets, lengths.astype(np.uint32))


def _page(data: bytes | mmap.mmap, meta: Meta, number: int, where: str) -> tuple[int, AnyArray, AnyArray]:
    """Return a page's flags, its nodes' offsets (in units of two bytes) and the page as two-byte numbers."""
    start = number * meta.page_size
    if number < 2 or start + meta.page_size > len(data):
        raise CorruptRecordError(f"{where}: page {number} does not exist.", path=where)
    page = np.frombuffer(data, "<u2", meta.page_size // 2, start)
    if int.from_bytes(page[:4].tobytes(), "little") != number:
        raise CorruptRecordError(f"{where}: page {number} carries another number.", path=where)
    flags, lower = int(page[5]), int(page[6])
    if not PAGE_HEADER <= lower <= meta.page_size:
        raise CorruptRecordError(f"{where}: page {number} has an impossible size.", path=where)
    nodes = page[8 : lower // 2].astype(np.int64) >> 1
    # In units of 2 bytes. Of each node we read 20 bytes in a leaf (header, key, page of a big value), 8 in a branch.
    room = 10 if flags & _LEAF else 4
    if len(nodes) and not (nodes.min() >= 8 and nodes.max() + 4 <= len(page)):
        raise CorruptRecordError(f"{where}: page {number} has a node outside itself.", path=where)
    if flags & _LEAF and len(nodes):
        # The last node may be shorter than 20 bytes: pad the page with zeros.
        over = int(nodes.max()) + room - len(page)
        if over > 0:
            page = np.concatenate([page, np.zeros(over, page.dtype)])
        if (page[nodes + 3] != _KEY_BYTES).any():
            raise CorruptRecordError(f"{where}: page {number} has a key that is not 4 bytes long.", path=where)
    return flags, nodes, page


def _leaf(page: AnyArray, nodes: AnyArray, number: int, meta: Meta) -> tuple[AnyArray, ...]:
    """Return the slots, offsets and lengths of a leaf's values."""
    lengths = page[nodes].astype(np.uint64) | page[nodes + 1].astype(np.uint64) << np.uint64(16)
    big = (page[nodes + 2] & _BIG).astype(bool)
    key = np.stack([page[nodes + 4], page[nodes + 5]], axis=1).astype("<u2").view(">u4")[:, 0].astype(np.uint32)
    inline = np.uint64(number * meta.page_size) + (nodes.astype(np.uint64) << np.uint64(1)) + np.uint64(8 + _KEY_BYTES)
    first = np.zeros(len(nodes), np.uint64)
    for part in range(4):
        first |= page[nodes + 6 + part].astype(np.uint64) << np.uint64(16 * part)
    # A forged page number could wrap around in 64 bits and land inside the file: replace it by one outside.
    first = np.minimum(first, np.uint64(1 << 40))
    overflow = first * np.uint64(meta.page_size) + np.uint64(PAGE_HEADER)
    return key, np.where(big, overflow, inline), lengths
