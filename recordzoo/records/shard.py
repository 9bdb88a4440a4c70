"""One LMDB file: `ShardWriter` fills it, `seal` reads it back and describes it."""

import contextlib
import errno
import hashlib
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import lmdb
import numpy as np
from numpy.typing import NDArray

from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_text
from recordzoo.errors import CorruptRecordError, PrepareError
from recordzoo.records import layout
from recordzoo.records.crc import crc32
from recordzoo.system.files import MAPS_ARE_FILES, cut, drop_pages

MAX_VALUE_BYTES = (1 << 31) - (1 << 20)
"""LMDB's own limit is 4 GiB; py-lmdb had bugs from 2 GiB on."""

_COMMIT_BYTES = 32 << 20
_CHUNK_BYTES = 32 << 20
_PROBE_BYTES = 1 << 20
_HEAD_BYTES = 2 << 16  # both meta pages, at the largest page size
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PAGE = 4096
# From LMDB's mdb.c: the size of a node's header with a key, and the largest node in a page (me_nodemax). Only
# `stored_bytes` uses them; on systems with larger pages it is an estimate.
_NODE = 8 + 4
_NODE_MAX = (_PAGE - layout.PAGE_HEADER) // 2 - 2


def lmdb_options() -> dict[str, Any]:
    """Return the LMDB options for opening a shard, to write or to read."""
    # LMDB 0.9 cannot read files of 1.0; the binding writes those since 3.0 if an environment variable says so.
    return {"lib_version": 0} if int(lmdb.__version__.split(".")[0]) >= 3 else {}


def stored_bytes(length: int) -> int:
    """Estimate the bytes that a value of `length` bytes takes in a shard."""
    node = _NODE + length
    if node <= _NODE_MAX:  # whole nodes of an even length, each with a pointer of 2 bytes, share a page
        return -(-_PAGE // ((_PAGE - layout.PAGE_HEADER) // (node + node % 2 + 2)))
    return -(-(length + layout.PAGE_HEADER) // _PAGE) * _PAGE + 24


def capacity_for(num_bytes: int) -> int:
    """Return the maximum file size for values that take `num_bytes`.

    It includes LMDB's own pages, and half-full pages if values of two lengths alternate.
    """
    return num_bytes * 2 + (16 << 20)


class ShardWriter:
    """Appends values to a new LMDB file, keys 0, 1, 2, ... as 4 bytes big-endian.

    As a context manager it finishes the file (commits and syncs all) only if the block does not raise.

    Args:
        path: The file; must not exist.
        capacity_bytes: Initial maximum size of the file; doubled when needed. The file stores it, so it must depend
            only on the data.
    """

    def __init__(self, path: Path, capacity_bytes: int) -> None:
        self.path = path
        self.num_values = 0
        self._uncommitted = self._stored = 0
        self._capacity = capacity_bytes
        self._env = self._opened(capacity_bytes)
        self._txn = self._env.begin(write=True)
        crash_point("shard.opened")

    def _opened(self, capacity_bytes: int) -> Any:  # Any: lmdb has no types
        try:
            return self._open(capacity_bytes)
        except lmdb.Error as err:
            raise self._disk_error(err) from err

    def _open(self, capacity_bytes: int) -> Any:
        return lmdb.open(
            os.fsencode(self.path),  # py-lmdb refuses text that is not UTF-8
            subdir=False,
            lock=False,  # one writer, and readers need no lock; no lock file beside the shard
            meminit=True,  # otherwise heap contents leak into the file
            sync=False,  # one sync at the end; until then nothing refers to the file
            metasync=False,
            writemap=False,
            map_size=capacity_bytes,
            max_dbs=0,
            mode=0o644,
            **lmdb_options(),
        )

    def put(self, data: bytes) -> int:
        """Append a value and return its slot.

        Raises:
            PrepareError: It is too large, or LMDB did not take it.
        """
        if len(data) > MAX_VALUE_BYTES:
            raise PrepareError(f"A value of {len(data):,} bytes is more than a shard takes ({MAX_VALUE_BYTES:,}).")
        slot = self.num_values
        self._stored += stored_bytes(len(data))
        try:
            if capacity_for(self._stored) > self._capacity:
                self._grow()
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
        self._txn.commit()
        self._txn = self._env.begin(write=True)
        self._uncommitted = 0
        crash_point("shard.committed")

    def _grow(self) -> None:
        """Double the capacity; LMDB allows it between transactions."""
        self._txn.commit()
        while capacity_for(self._stored) > self._capacity:
            self._capacity *= 2
        self._env.set_mapsize(self._capacity)
        self._txn = self._env.begin(write=True)
        self._uncommitted = 0

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._txn.commit()
                crash_point("shard.written")
                self._env.sync(True)
            else:
                self._txn.abort()
        except lmdb.Error as err:
            raise self._disk_error(err) from err
        finally:
            self._env.close()
        if kind is None:
            cut(self.path, _used_bytes(self.path))


def _used_bytes(path: Path) -> int:
    """Return the end of the last page of a finished file."""
    with open(path, "rb") as file:
        meta = layout.read_meta(file.read(_HEAD_BYTES), os.fspath(path))
    return (meta.last_page + 1) * meta.page_size


def _refusal(path: Path) -> int:
    """Append to a discarded file and return the system's error number; EIO if it succeeds."""
    try:
        with open(path, "ab", buffering=0) as file:
            for _ in range(2):  # the first write may be short as well
                file.write(bytes(_PROBE_BYTES))
    except OSError as err:
        return err.errno or errno.EIO
    return errno.EIO


@dataclass(frozen=True, slots=True)
class Sealed:
    """A finished shard: its entry for the manifest, and the offsets of its values by slot, uint64 [n]."""

    size_bytes: int
    page_size: int
    last_page: int
    hash: str
    offsets: NDArray[np.uint64]


def seal(path: Path, lengths: Sequence[int], crcs: Sequence[int]) -> Sealed:
    """Read a written shard back, verify every value, and hash it.

    Each value's place is found in LMDB's pages. Its bytes must have the CRC-32 from `put`, and LMDB must return the
    same place for the key.

    Args:
        path: The shard.
        lengths: Length of each value in bytes, by slot.
        crcs: CRC-32 of each value, by slot.

    Raises:
        CorruptRecordError: A value is not the one that was put (bad disk or memory).
    """
    with _mapped(path) as data, memoryview(data) as view:
        return _sealed(path, data, view, lengths, crcs)


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map a file for the block; then close the map, because Windows cannot rename mapped files."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        yield data
    finally:
        with contextlib.suppress(BufferError):  # after an error: its traceback still refers to the map
            data.close()


def _sealed(path: Path, data: mmap.mmap, view: memoryview, lengths: Sequence[int], crcs: Sequence[int]) -> Sealed:
    where = os.fspath(path)
    meta, values = layout.walk(data, where)
    if not np.array_equal(values.slots, np.arange(len(lengths), dtype=np.uint32)):
        raise CorruptRecordError(f"{where}: it holds {len(values.slots)} values, {len(lengths)} were put.", path=where)
    if not np.array_equal(values.lengths, np.asarray(lengths, np.uint32)):
        raise CorruptRecordError(f"{where}: a value's length is not what was put.", path=where)
    offsets = values.offsets.tolist()
    kept_from = 0
    for slot, (offset, length, crc) in enumerate(zip(offsets, lengths, crcs, strict=True)):
        if _crc32_of(data, view, offset, length) != crc:
            raise CorruptRecordError(f"{where}: value {slot} reads back otherwise than it was put.", path=where)
        if offset - kept_from > _CHUNK_BYTES:
            kept_from = _unmap(data, offset)
    _compare_with_lmdb(path, offsets, lengths)
    digest = hashlib.sha256()
    for start in range(0, len(data), _CHUNK_BYTES):
        digest.update(view[start : start + _CHUNK_BYTES])
        _unmap(data, start)
    return Sealed(
        size_bytes=len(data),
        page_size=meta.page_size,
        last_page=meta.last_page,
        hash=hash_text(digest),
        offsets=values.offsets,
    )


def _crc32_of(data: mmap.mmap, view: memoryview, offset: int, length: int) -> int:
    """Return the CRC-32 of a value; large values are read in pieces."""
    crc = 0
    for start in range(offset, offset + length, _CHUNK_BYTES):
        stop = min(start + _CHUNK_BYTES, offset + length)
        crc = crc32(view[start:stop], crc)
        if stop < offset + length:
            _unmap(data, stop)
    return crc


def _unmap(data: mmap.mmap, end: int) -> int:
    """Release the map's pages up to `end`: otherwise a worker's memory would appear to include its whole shard."""
    end -= end % mmap.PAGESIZE
    if end:
        drop_pages(data, end)
    return end


def _compare_with_lmdb(path: Path, offsets: Sequence[int], lengths: Sequence[int]) -> None:
    """Compare with LMDB's answer for every key: it points into LMDB's map, so addresses differ by one constant."""
    try:
        slot: int | None = 0
        while slot is not None:
            slot = _compare_some(path, offsets, lengths, slot)
    except lmdb.Error as err:
        raise CorruptRecordError(f"{path}: LMDB cannot read what it wrote: {err}.", path=os.fspath(path)) from err


def _compare_some(path: Path, offsets: Sequence[int], lengths: Sequence[int], first: int) -> int | None:
    """Compare the values from `first` on; return the slot to continue with, None after the last.

    Each piece opens the environment again: LMDB touches a page of each value, and its map would grow to the size of
    the shard.
    """
    with (
        lmdb.open(os.fsencode(path), subdir=False, readonly=True, lock=False, create=False, **lmdb_options()) as env,
        env.begin(buffers=True) as txn,
    ):
        entries = env.stat()["entries"]
        if entries != len(lengths):
            raise CorruptRecordError(f"{path}: LMDB finds {entries} values of {len(lengths)}.", path=os.fspath(path))
        cursor = txn.cursor()
        cursor.set_key(first.to_bytes(4, "big"))
        base, slot = None, first - 1
        for slot, (key, value) in enumerate(cursor, first):
            same = int.from_bytes(key, "big") == slot and len(value) == lengths[slot]
            if same and len(value):
                address = np.frombuffer(value, np.uint8).__array_interface__["data"][0] - offsets[slot]
                base = address if base is None else base
                same = address == base
            if not same:
                raise CorruptRecordError(f"{path}: LMDB finds value {slot} in another place.", path=os.fspath(path))
            if offsets[slot] - offsets[first] > _CHUNK_BYTES:
                return slot + 1 if slot + 1 < len(lengths) else None
        if slot + 1 != len(lengths):
            raise CorruptRecordError(f"{path}: LMDB finds no value behind {slot}.", path=os.fspath(path))
    return None
