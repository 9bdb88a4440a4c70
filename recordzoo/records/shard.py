"""One LMDB file: `ShardWriter` fills it, `seal` reads it back and describes it."""

import contextlib
import errno
import hashlib
import itertools
import mmap
import os
import shutil
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import DONT_NEED, MAPS_ARE_FILES, WILL_NEED, advise, drop_pages, hash_text
from recordzoo.base.process import crash_point
from recordzoo.errors import CorruptRecordError, PrepareError, RecordError
from recordzoo.records.files import AnyDirectory, OpenShard, pread, shard_files
from recordzoo.records.manifest import ShardSpec

try:
    from isal.isal_zlib import crc32 as crc32
except ImportError:
    from zlib import crc32 as crc32


_tokens = itertools.count()


class Shards:
    """The shards of a record set, in its directory.

    Args:
        directory: Opens them.
        specs: The shards' entries in the manifest.
    """

    def __init__(self, directory: AnyDirectory, specs: Sequence[ShardSpec]) -> None:
        self._directory, self.specs = directory, specs
        self._token = next(_tokens)
        weakref.finalize(self, shard_files.drop, self._token)

    def read(self, number: int, length: int, offset: int) -> bytes:
        """Return bytes of a shard; fewer only at its end.

        Raises:
            RecordError: It cannot be opened.
            OSError: It cannot be read.
        """
        shard = self._shard(number)
        return pread(shard.fd, length, offset)

    def read_all(self, number: int, lengths: Sequence[int], offsets: Sequence[int]) -> list[bytes]:
        """Do `read` for several places of a shard."""
        shard = self._shard(number)
        return [pread(shard.fd, length, offset) for length, offset in zip(lengths, offsets, strict=True)]

    def read_again(self, number: int, length: int, offset: int, crc: int) -> bytes | None:
        """Return damaged bytes from their original source; None if there is no source.

        Raises:
            RecordError: The source cannot be read, or has bytes of another CRC-32.
        """
        return None

    def hint(self, rows: NDArray[Any]) -> None:
        """Prefetch values with the kernel; `read` reports a shard that cannot be opened."""
        self.will_need(rows)

    def will_need(self, rows: NDArray[Any]) -> None:
        """Do as `hint`, for values that another process of this machine may read."""
        if advise is None:
            return
        for number in np.unique(rows["shard"]).tolist():
            here = rows[rows["shard"] == number]
            self._advise(number, here["offset"], here["offset"] + here["length"], WILL_NEED)

    def forget(self, rows: NDArray[Any]) -> None:
        """Drop values from the kernel's page cache; pages shared with other values are kept."""
        if advise is None:
            return
        for number in np.unique(rows["shard"]).tolist():
            here = np.sort(rows[rows["shard"] == number], order="offset")
            begins, ends = here["offset"], here["offset"] + here["length"]
            apart = begins[1:] >= ends[:-1] + self.specs[number].page_size
            first, last = np.append(True, apart), np.append(apart, True)
            self._advise(number, begins[first], ends[last], DONT_NEED)

    def _advise(self, number: int, begins: NDArray[np.uint64], ends: NDArray[np.uint64], advice: int) -> None:
        """Advise the kernel on ranges of a shard; `read` reports a shard that cannot be opened."""
        try:
            shard = self._shard(number)
        except RecordError:
            return
        size = self.specs[number].size_bytes
        assert advise is not None
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            if begin <= end <= size:  # a forged offset may overflow
                advise(shard.fd, begin, end - begin, advice)

    def _shard(self, number: int) -> OpenShard:
        return shard_files.get((self._token, number), self._open)

    def _open(self, number: int) -> int:
        spec = self.specs[number]
        return self._directory.open(spec.name, spec.size_bytes)


MAGIC = 0xBEEFC0DE
DATA_VERSION = 1
PAGE_HEADER = 16
_META = struct.Struct("<IIQQ")  # magic, version, address, map size
DB = struct.Struct("<IHHQQQQQ")  # pad or page size, flags, depth, branch, leaf, overflow pages, entries, root
NODE = struct.Struct("<HHHH")  # low and high half of the size, or of the child's page; flags; key's length
_PAGE_HEAD = struct.Struct("<QHHHH")  # number, unused, flags, offset of the free room and of the first node
_TAIL = struct.Struct("<QQ")  # last page, transaction
_FLAGS = 5  # where a page has its flags, in units of 2 bytes
_BRANCH, _LEAF, _LEAF2 = 0x01, 0x02, 0x20
BIG = 0x01
_KEY_BYTES, _NODE_BYTES = 4, 20
_NODE_BYTES_LEAST = 2 + 8 + 4  # of an empty value: pointer, header, key
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
    flags: int


@dataclass(frozen=True, slots=True)
class Values:
    """Every value of a file in the order of its keys: uint32 slots [n], uint64 offsets [n], uint32 lengths [n]."""

    slots: NDArray[np.uint32]
    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint32]


def read_meta(head: bytes, where: str) -> Meta:
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
        meta = Meta(page_size, last_page, main[6], main[7], main[2], main[1])
        if best is None or txn > best[0]:
            best = (txn, meta)
    if best is None or page_size not in (1 << shift for shift in range(8, 17)):
        raise CorruptRecordError(f"{where} is not an LMDB 0.9 file.", path=where)
    return best[1]


def walk(read: Callable[[int, int], bytes], size_bytes: int, where: str) -> tuple[Meta, Values]:
    """Find every value of a file's main database.

    A tree that LMDB could die of, or read otherwise, is refused.

    Args:
        read: Returns the file's bytes from an offset to another one.
        size_bytes: The file's size.
        where: Its path, for messages.

    Raises:
        CorruptRecordError: A page is of the wrong kind, or leads outside the file.
    """
    meta = read_meta(read(0, min(_HEAD_BYTES, size_bytes)), where)
    size = meta.page_size

    def damaged(problem: str) -> CorruptRecordError:
        return CorruptRecordError(f"{where}: {problem}.", path=where)

    if meta.flags:
        raise damaged("its database has flags that recordzoo does not set")
    if meta.entries > size_bytes // _NODE_BYTES_LEAST:
        raise damaged(f"its head says {meta.entries:,} values, more than the file can hold")
    pages, found = [], 0
    for number, page, nodes in leaves(
        lambda number: read(number * size, (number + 1) * size), meta.root, size_bytes // size, damaged
    ):
        found += len(nodes)
        if found > meta.entries:  # nodes may overlap, and pages be shared: bound the memory
            raise damaged(f"the tree has more values than its head says, {meta.entries:,}")
        pages.append(_leaf(number, page, np.array(nodes, np.int64), meta, damaged))
    columns = [np.concatenate(column) for column in zip(*pages, strict=True)] or [np.zeros(0, np.uint64)] * 3
    slots, offsets, lengths = columns
    if len(slots) != meta.entries:
        raise damaged(f"the tree has {len(slots)} values, its head says {meta.entries}")
    if len(slots) and int((offsets + lengths).max()) > size_bytes:
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
        found, _, flags, lower, _ = _PAGE_HEAD.unpack_from(page)
        if found != number:
            raise damaged(f"page {number} carries another number")
        if not PAGE_HEADER <= lower <= len(page):
            raise damaged(f"page {number} has an impossible size")
        nodes = struct.unpack_from(f"<{(lower - PAGE_HEADER) // 2}H", page, PAGE_HEADER)
        if any(node < lower or node + NODE.size > len(page) for node in nodes):
            raise damaged(f"page {number} has a node outside itself")
        if flags == _BRANCH:
            if len(nodes) < 2:  # LMDB would end the process
                raise damaged(f"page {number} is a branch that does not divide")
            for low, high, top, _ in (NODE.unpack_from(page, node) for node in reversed(nodes)):
                stack.append((low | high << 16 | top << 32, depth + 1))
        elif flags & ~_LEAF2 == _LEAF:
            yield number, page, nodes
        else:
            raise damaged(f"page {number} is neither branch nor leaf")


def _leaf(
    number: int, data: bytes, offsets: NDArray[Any], meta: Meta, damaged: Callable[[str], Exception]
) -> tuple[NDArray[Any], ...]:
    """Return the slots, offsets and lengths of a leaf's values."""
    # In units of 2 bytes. Of each node 20 bytes are read (header, key, page of a big value); the last may be shorter.
    page, nodes = np.frombuffer(data + bytes(_NODE_BYTES), "<u2"), offsets >> 1
    if not len(nodes) or (page[nodes + 3] != _KEY_BYTES).any():
        raise damaged(f"page {number} has a key that is not 4 bytes long, or no key")
    if page[_FLAGS] != _LEAF or (page[nodes + 2] & ~np.uint16(BIG)).any():
        raise damaged(f"page {number} has flags that recordzoo does not set")
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


MAX_VALUE_BYTES = (1 << 31) - (1 << 20)
"""LMDB's own limit is 4 GiB; py-lmdb had bugs from 2 GiB on."""

_COMMIT_BYTES = 32 << 20
_CHUNK_BYTES = 32 << 20
_PROBE_BYTES = 1 << 20
_HEAD_BYTES = 2 << 16  # both meta pages, at the largest page size
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PAGE_BYTES = 4096
# From LMDB's mdb.c: the size of a node's header with a key, and the largest node in a page (me_nodemax). Only
# `stored_bytes` uses them; on systems with larger pages it is an estimate.
_NODE = 8 + 4
_NODE_MAX = (_PAGE_BYTES - PAGE_HEADER) // 2 - 2


def lmdb_options() -> dict[str, Any]:
    """Return the LMDB options for opening a shard, to write or to read."""
    # LMDB 0.9 cannot read files of 1.0; the binding writes those since 3.0 if an environment variable says so.
    return {"lib_version": 0} if int(lmdb.__version__.split(".")[0]) >= 3 else {}


def stored_bytes(length: int) -> int:
    """Estimate the bytes that a value of `length` bytes takes in a shard."""
    node = _NODE + length
    if node <= _NODE_MAX:  # whole nodes of an even length, each with a pointer of 2 bytes, share a page
        return -(-_PAGE_BYTES // ((_PAGE_BYTES - PAGE_HEADER) // (node + node % 2 + 2)))
    return -(-(length + PAGE_HEADER) // _PAGE_BYTES) * _PAGE_BYTES + 24


def capacity_for(num_bytes: int) -> int:
    """Return the maximum file size for values that take `num_bytes`.

    It includes LMDB's own pages, and half-full pages if values of two lengths alternate.
    """
    return num_bytes * 2 + (16 << 20)


class ShardWriter:
    """Appends values to a new LMDB file, keys 0, 1, 2, ... as 4 bytes big-endian.

    As a context manager it finishes the file only if the block does not raise; see `close`.

    Args:
        path: The file; must not exist.
        capacity_bytes: Initial maximum size of the file; doubled when needed. The file stores it, so it must depend
            only on the data.

    Attributes:
        num_values: Number of values.
        stored_bytes: Estimate of their size in the file.
    """

    def __init__(self, path: Path, capacity_bytes: int) -> None:
        self.path = path
        self.num_values = 0
        self._uncommitted = self.stored_bytes = 0
        self._capacity = capacity_bytes
        self._env = self._open()
        self._txn = self._env.begin(write=True)
        crash_point("shard.opened")

    def _open(self) -> Any:  # Any: lmdb has no types
        try:
            return lmdb.open(
                os.fsencode(self.path),  # py-lmdb refuses text that is not UTF-8
                subdir=False,
                lock=False,  # one writer, and readers need no lock; no lock file beside the shard
                meminit=True,  # otherwise heap contents leak into the file
                sync=False,  # one sync at the end; until then nothing refers to the file
                metasync=False,
                writemap=False,
                map_size=self._capacity,
                max_dbs=0,
                mode=0o644,
                **lmdb_options(),
            )
        except lmdb.Error as err:
            raise self._disk_error(err) from err

    def put(self, data: bytes) -> int:
        """Append a value and return its slot.

        Raises:
            PrepareError: It is too large, or LMDB did not take it.
        """
        if len(data) > MAX_VALUE_BYTES:
            raise PrepareError(f"A value of {len(data):,} bytes is more than a shard takes ({MAX_VALUE_BYTES:,}).")
        slot = self.num_values
        self.stored_bytes += stored_bytes(len(data))
        try:
            if capacity_for(self.stored_bytes) > self._capacity:
                self._commit()
            if not self._txn.put(slot.to_bytes(4, "big"), data, append=True):
                raise PrepareError(f"{self.path}: LMDB refused key {slot}, though keys ascend.")
            self.num_values += 1
            self._uncommitted += len(data)
            if self._uncommitted >= _COMMIT_BYTES:
                self._commit()
        except lmdb.Error as err:
            raise self._disk_error(err) from err
        return slot

    def _commit(self) -> None:
        """Commit, and double the capacity if needed: LMDB allows it between transactions."""
        self._txn.commit()
        if capacity_for(self.stored_bytes) > self._capacity:
            while capacity_for(self.stored_bytes) > self._capacity:
                self._capacity *= 2
            self._env.set_mapsize(self._capacity)
        self._txn = self._env.begin(write=True)
        self._uncommitted = 0
        crash_point("shard.committed")

    def _disk_error(self, err: lmdb.Error) -> OSError:
        """Return the system's error: LMDB reports a short write, for example on a full disk, as an I/O error."""
        if isinstance(err, lmdb.MemoryError):
            number = errno.ENOMEM
        else:
            number = next((number for number in _FULL if os.strerror(number) in str(err)), errno.EIO)
        if number == errno.EIO:
            number = _refusal(self.path)
        if number == errno.EIO and MAPS_ARE_FILES and shutil.disk_usage(self.path.parent).free < self._capacity:
            number = errno.ENOSPC
        return OSError(number, str(err), str(self.path))

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(commits=kind is None)

    def close(self, *, commits: bool) -> None:
        """Finish the file (commit and sync all), or leave it unfinished."""
        try:
            if commits:
                self._txn.commit()
                crash_point("shard.written")
                self._env.sync(True)
            else:
                self._txn.abort()
        except lmdb.Error as err:
            raise self._disk_error(err) from err
        finally:
            self._env.close()
        if commits:
            _cut(self.path)


def _cut(path: Path) -> None:
    """Truncate a finished file after its last page. Needed on Windows: LMDB gives it the size of its map at once."""
    with open(path, "rb+") as file:
        meta = read_meta(file.read(_HEAD_BYTES), os.fspath(path))
        used_bytes = (meta.last_page + 1) * meta.page_size
        if os.fstat(file.fileno()).st_size > used_bytes:
            file.truncate(used_bytes)
            os.fsync(file.fileno())


def _refusal(path: Path) -> int:
    """Append to a discarded file and return the system's error number; EIO if it succeeds."""
    try:
        with open(path, "ab", buffering=0) as file:
            for _ in range(2):  # the first write may be short as well
                file.write(bytes(_PROBE_BYTES))
    except OSError as err:
        return err.errno or errno.EIO
    return errno.EIO


def seal(path: Path, lengths: Sequence[int], crcs: Sequence[int]) -> tuple[ShardSpec, NDArray[np.uint64]]:
    """Read a written shard back, verify every value, and hash it.

    Each value's place is found in LMDB's pages, and its bytes must have the CRC-32 from `put`.

    Args:
        path: The shard.
        lengths: Length of each value in bytes, by slot.
        crcs: CRC-32 of each value, by slot.

    Returns:
        The shard's entry for the manifest, and the offsets of its values by slot, uint64 [n].

    Raises:
        CorruptRecordError: A value is not the one that was put (bad disk or memory).
    """
    where = os.fspath(path)
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        with memoryview(data) as view:
            meta, values = walk(lambda begin, end: data[begin:end], len(data), where)
            count = len(lengths)
            if not np.array_equal(values.slots, np.arange(count, dtype=np.uint32)):
                raise CorruptRecordError(f"{where}: it holds {len(values.slots)} values, {count} were put.", path=where)
            if not np.array_equal(values.lengths, np.asarray(lengths, np.uint32)):
                raise CorruptRecordError(f"{where}: a value's length is not what was put.", path=where)
            kept_from = 0
            for slot, (offset, length, crc) in enumerate(zip(values.offsets.tolist(), lengths, crcs, strict=True)):
                if crc32(view[offset : offset + length]) != crc:
                    raise CorruptRecordError(f"{where}: value {slot} reads back otherwise than it was put.", path=where)
                if offset - kept_from > _CHUNK_BYTES:
                    kept_from = _unmap(data, offset)
            digest = hashlib.sha256()
            for start in range(0, len(data), _CHUNK_BYTES):
                digest.update(view[start : start + _CHUNK_BYTES])
                _unmap(data, start)
            spec = ShardSpec(path.name, len(data), count, meta.page_size, meta.last_page, hash_text(digest))
    finally:  # Windows cannot rename mapped files
        with contextlib.suppress(BufferError):  # after an error: its traceback still refers to the map
            data.close()
    return spec, values.offsets


def _unmap(data: mmap.mmap, end: int) -> int:
    """Release the map's pages up to `end`: otherwise a worker's memory would appear to include its whole shard."""
    end -= end % mmap.PAGESIZE
    if end:
        drop_pages(data, end)
    return end
