"""Find the place of each value in an LMDB file, by walking its pages without LMDB.

The file format of LMDB 0.9 (``mdb.c``, struct MDB_page, MDB_node, MDB_meta, MDB_db; 64-bit, little-endian): a page has
a header of 16 bytes and an array of 2-byte offsets to nodes. A node has a header of 8 bytes, its key, and its value or,
for values over half a page (flag 1), the number of the first of its contiguous overflow pages.
"""

import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.arrays import AnyArray
from recordzoo.errors import CorruptRecordError

MAGIC = 0xBEEFC0DE
DATA_VERSION = 1
PAGE_HEADER = 16
_META = struct.Struct("<IIQQ")  # magic, version, address, map size
DB = struct.Struct("<IHHQQQQQ")  # pad or page size, flags, depth, branch, leaf, overflow pages, entries, root
NODE = struct.Struct("<HHHH")  # low and high half of the size, or of the child's page; flags; key's length
_PAGE = struct.Struct("<QHHHH")  # number, unused, flags, offset of the free room and of the first node
_TAIL = struct.Struct("<QQ")  # last page, transaction
_BRANCH, _LEAF = 0x01, 0x02
BIG = 0x01
_KEY_BYTES, _NODE_BYTES = 4, 20
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
        if len(head) < start + _META.size + 2 * DB.size + _TAIL.size:
            break
        magic, version, _, _ = _META.unpack_from(head, start)
        if magic != MAGIC or version != DATA_VERSION:
            break
        free = DB.unpack_from(head, start + _META.size)
        main = DB.unpack_from(head, start + _META.size + DB.size)
        last_page, txn = _TAIL.unpack_from(head, start + _META.size + 2 * DB.size)
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
    size = meta.page_size

    def damaged(problem: str) -> CorruptRecordError:
        return CorruptRecordError(f"{where}: {problem}.", path=where)

    def read(number: int) -> bytes:
        return data[number * size : (number + 1) * size]

    pages = [
        _leaf(number, page, np.array(nodes), meta, damaged)
        for number, page, nodes in leaves(read, meta.root, len(data) // size, damaged)
        if nodes
    ]
    columns = [np.concatenate(column) for column in zip(*pages, strict=True)] or [np.zeros(0, np.uint64)] * 3
    slots, offsets, lengths = columns
    if len(slots) != meta.entries:
        raise damaged(f"the tree has {len(slots)} values, its head says {meta.entries}")
    if len(slots) and int((offsets + lengths).max()) > len(data):
        raise damaged("a value lies outside the file")
    return meta, Values(slots.astype(np.uint32), offsets, lengths.astype(np.uint32))


def leaves(
    read: Callable[[int], bytes], root: int, num_pages: int, damaged: Callable[[str], Exception]
) -> Iterator[tuple[int, bytes, tuple[int, ...]]]:
    """Yield the leaves of a tree in the order of their keys: page number, page, and the offset of each node in it.

    Args:
        read: Returns a page by its number.
        root: The number of the tree's first page.
        num_pages: How many pages the file has.
        damaged: Makes an error of the problem that is found: a page of the wrong kind, or one that leads elsewhere.
    """
    stack = [] if root == _NO_ROOT else [(root, 1)]
    visited = 0
    while stack:
        number, depth = stack.pop()
        visited += 1
        if depth > _MAX_DEPTH or visited > num_pages:
            raise damaged("the tree is too deep or runs in a circle")
        if not 2 <= number < num_pages:
            raise damaged(f"page {number} does not exist")
        page = read(number)
        found, _, flags, lower, _ = _PAGE.unpack_from(page)
        if found != number:
            raise damaged(f"page {number} carries another number")
        if not PAGE_HEADER <= lower <= len(page):
            raise damaged(f"page {number} has an impossible size")
        nodes = struct.unpack_from(f"<{(lower - PAGE_HEADER) // 2}H", page, PAGE_HEADER)
        if any(node < lower or node + NODE.size > len(page) for node in nodes):
            raise damaged(f"page {number} has a node outside itself")
        if flags & _BRANCH:
            for low, high, top, _ in (NODE.unpack_from(page, node) for node in reversed(nodes)):
                stack.append((low | high << 16 | top << 32, depth + 1))
        elif flags & _LEAF:
            yield number, page, nodes
        else:
            raise damaged(f"page {number} is neither branch nor leaf")


def _leaf(
    number: int, data: bytes, offsets: AnyArray, meta: Meta, damaged: Callable[[str], Exception]
) -> tuple[AnyArray, ...]:
    """Return the slots, offsets and lengths of a leaf's values."""
    # In units of 2 bytes. Of each node 20 bytes are read (header, key, page of a big value); the last may be shorter.
    page, nodes = np.frombuffer(data + bytes(_NODE_BYTES), "<u2"), offsets >> 1
    if (page[nodes + 3] != _KEY_BYTES).any():
        raise damaged(f"page {number} has a key that is not 4 bytes long")
    lengths = page[nodes].astype(np.uint64) | page[nodes + 1].astype(np.uint64) << np.uint64(16)
    big = (page[nodes + 2] & BIG).astype(bool)
    key = np.stack([page[nodes + 4], page[nodes + 5]], axis=1).astype("<u2").view(">u4")[:, 0].astype(np.uint32)
    inline = np.uint64(number * meta.page_size) + (nodes.astype(np.uint64) << np.uint64(1)) + np.uint64(8 + _KEY_BYTES)
    first = np.zeros(len(nodes), np.uint64)
    for part in range(4):
        first |= page[nodes + 6 + part].astype(np.uint64) << np.uint64(16 * part)
    # A forged page number could wrap around in 64 bits and land inside the file: replace it by one outside.
    first = np.minimum(first, np.uint64(1 << 40))
    overflow = first * np.uint64(meta.page_size) + np.uint64(PAGE_HEADER)
    return key, np.where(big, overflow, inline), lengths
