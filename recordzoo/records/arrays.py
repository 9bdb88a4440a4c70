"""Arrays of a record set: plain ``.npy`` files, written once, mapped or read on first use, never unpickled.

Headers of ``.npy`` and ``.npz`` are read in one thread at a time: CPython before 3.11.8 and 3.12.2 cannot parse two at
once. NumPy parses them with `ast`, which then raises SystemError (https://github.com/python/cpython/issues/106905).
"""

import errno
import hashlib
import io
import itertools
import json
import math
import mmap
import os
import threading
import tokenize
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import hash_text, write_file
from recordzoo.base.process import at_fork
from recordzoo.base.text import is_device, no_constant
from recordzoo.errors import CorruptRecordError, ManifestError, RecordError
from recordzoo.net.url import Url
from recordzoo.records.files import AnyDirectory, Opener, pread, read_start
from recordzoo.records.manifest import ArraySpec, BlobSpec
from recordzoo.records.shard import crc32

AnyArray = NDArray[Any]
"""An array of any dtype, or of any dtype that the format allows."""

INDEX_DTYPE = np.dtype([("shard", "<u4"), ("slot", "<u4"), ("length", "<u4"), ("crc32", "<u4"), ("offset", "<u8")])
"""The type of an index row."""

MAX_HEADER_BYTES = 64 << 10
"""Longer headers count as damaged."""

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGED = (tokenize.TokenError, SyntaxError, TypeError, KeyError, IndexError, ArithmeticError, MemoryError)
"""Errors that NumPy passes on when it parses a damaged header; MemoryError is from Python's parser."""

_lock = threading.Lock()
at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)

MAPPED_BYTES = 4 << 20
"""Larger arrays are mapped, so that all workers share one copy of an index of 31 MB; if the file is cut while mapped,
the process dies (SIGBUS). Smaller arrays are read: a copy is cheap and cannot be cut."""

_CHUNK = 1 << 20
_NAMES_AT_ONCE = 4096
_HEADER_BYTES = 10  # magic, version and length of an .npy 1.0 header


def array_dtype(text: str) -> np.dtype[Any]:
    """Return the dtype for a manifest's text; "" means an index row."""
    return np.dtype(text) if text else INDEX_DTYPE


class Header(NamedTuple):
    """The facts in a `.npy` header: its version, and its array's shape, order and type."""

    version: tuple[int, int]
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: "np.dtype[Any]"
    size_bytes: int
    """The length of the header itself."""


def header_of(data: bytes) -> Header:
    """Read a header from the first `MAX_HEADER_BYTES` of a file.

    Raises:
        ValueError: It is damaged, or of a version other than 1.0 and 2.0.
    """
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"it has version {version} of the format")
    try:
        with _lock:
            shape, is_fortran, dtype = _READERS[version](stream)
    except (*_DAMAGED, RecursionError) as err:
        raise ValueError(f"its header is damaged ({err})") from err
    return Header(version, tuple(shape), is_fortran, dtype, stream.tell())


# Any, here and below: of any dtype.
def array_of(data: bytes, header: Header | None = None) -> NDArray[Any]:
    """Return the array of a `.npy` file, read-only and without a copy.

    Args:
        data: The whole file.
        header: Its header, if that was read already.

    Raises:
        ValueError: It is damaged, or holds Python objects.
    """
    header = header or header_of(data)
    count = math.prod(header.shape)
    values = np.frombuffer(data, header.dtype, count, header.size_bytes)
    return values.reshape(header.shape, order="F" if header.is_fortran else "C")


def arrays_of(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a `.npz` file by name, read-only."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        return {name.removesuffix(".npy"): array_of(packed.read(name)) for name in packed.namelist()}


def map_file(path: Path) -> NDArray[Any]:
    """Map a `.npy` file, read-only. A shape larger than the file is refused.

    Raises:
        ValueError: It is damaged, or holds Python objects.
    """
    try:
        with _lock:
            values: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (*_DAMAGED, RecursionError, EOFError) as err:
        raise ValueError(f"it is damaged ({err})") from err
    return values


ARRAY_ENDING = ".npy"


def file_name(name: str) -> str:
    """Return the file name of an array."""
    return f"{name}{ARRAY_ENDING}"


def write_array(folder: Path, name: str, values: AnyArray) -> ArraySpec:
    """Write and sync an array; return its entry for the manifest."""
    dtype = values.dtype
    values = np.ascontiguousarray(values, dtype if dtype == INDEX_DTYPE else dtype.newbyteorder("<"))
    header, data = _header(values.dtype, values.shape), values.reshape(-1).view(np.uint8).data
    write_file(folder / file_name(name), header, data)
    digest = hashlib.sha256(header)
    digest.update(data)
    return ArraySpec(
        dtype="" if dtype == INDEX_DTYPE else values.dtype.str,
        shape=values.shape,
        size_bytes=len(header) + len(data),
        crc32=crc32(data, crc32(header)),
        hash=hash_text(digest),
    )


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue()


def map_array(directory: AnyDirectory, name: str, spec: ArraySpec) -> AnyArray:
    """Compare an array with its CRC-32 in the manifest (4 GB/s) and map it, or read it; read-only.

    Raises:
        CorruptRecordError: The file is not the one that was written.
        ManifestError: It is missing, or not the array in the manifest.
        RecordError: The process has no memory left.
    """
    where = directory.path / file_name(name)
    fd = directory.open(file_name(name), spec.size_bytes)
    try:
        start = data_start(fd, name, spec, where)
        small = spec.size_bytes <= MAPPED_BYTES
        data = pread(fd, spec.size_bytes, 0) if small else b""
        if (crc32(data) if small else checksum(fd, spec.size_bytes)) != spec.crc32:
            raise CorruptRecordError(
                f"{where} is damaged: its CRC-32 is not the one in the manifest. Prepare the dataset again.",
                path=str(where),
            )
        return _view(data if small else mmap.mmap(fd, spec.size_bytes, access=mmap.ACCESS_READ), start, spec)
    except (OSError, ValueError) as err:  # an I/O error, or the file just became shorter
        if isinstance(err, RecordError):
            raise
        if isinstance(err, OSError) and err.errno == errno.ENOMEM:
            raise RecordError(
                f"{where} cannot be mapped: {err.strerror}. This process may have no more address space; raise the "
                "limit (ulimit -v).",
                path=str(where),
            ) from err
        raise CorruptRecordError(f"{where} cannot be read: {err}.", path=str(where)) from err
    finally:
        os.close(fd)


def load_array(fd: int, name: str, spec: ArraySpec, where: Path | Url) -> AnyArray:
    """Read an array into memory, unchecked. Unlike a mapped file, a file that is cut later cannot kill the process.

    Raises:
        CorruptRecordError: It became shorter.
        ManifestError: It is not the array in the manifest.
    """
    start, data = data_start(fd, name, spec, where), pread(fd, spec.size_bytes, 0)
    if len(data) != spec.size_bytes:
        raise CorruptRecordError(f"{where} became shorter while it was read.", path=str(where))
    return _view(data, start, spec)


def _view(data: bytes | mmap.mmap, start: int, spec: ArraySpec) -> AnyArray:
    """Return the array whose numbers begin at `start` of its file."""
    if 0 in spec.shape:
        return np.zeros(spec.shape, array_dtype(spec.dtype))
    return np.frombuffer(data, array_dtype(spec.dtype), math.prod(spec.shape), start).reshape(spec.shape)


def data_start(fd: int, name: str, spec: ArraySpec, where: Path | Url) -> int:
    """Return the offset of an array's numbers in its file.

    The header must equal the one for the manifest's dtype and shape, except for padding. It is not evaluated as in
    NumPy, so that NumPy and recordzoo read the same.

    Raises:
        ManifestError: It is not the array in the manifest.
    """
    head = pread(fd, _HEADER_BYTES, 0)
    length = int.from_bytes(head[8:10], "little")
    text = pread(fd, length, _HEADER_BYTES)
    dtype = array_dtype(spec.dtype)
    expected = _header(dtype, spec.shape)
    start = _HEADER_BYTES + length
    if (
        head[:8] != expected[:8]
        or text.rstrip() != expected[_HEADER_BYTES:].rstrip()
        or start + math.prod(spec.shape) * dtype.itemsize != spec.size_bytes
    ):
        raise ManifestError(f"{where} is not the array {name!r} of the manifest.", path=str(where))
    return start


def checksum(fd: int, num_bytes: int) -> int:
    """Return the CRC-32 of a file, read in pieces."""
    crc = 0
    for offset in range(0, num_bytes, _CHUNK):
        crc = crc32(pread(fd, min(_CHUNK, num_bytes - offset), offset), crc)
    return crc


def pack_names(names: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Concatenate names as UTF-8, with offsets: uint8 [total], uint64 [n + 1]. Other bytes survive a round trip."""
    offsets = np.zeros(len(names) + 1, np.uint64)
    parts = []
    for first in range(0, len(names), _NAMES_AT_ONCE):
        encoded = [name.encode("utf-8", "surrogateescape") for name in names[first : first + _NAMES_AT_ONCE]]
        offsets[first + 1 : first + 1 + len(encoded)] = list(map(len, encoded))
        parts.append(b"".join(encoded))
    np.cumsum(offsets, out=offsets)
    return np.frombuffer(b"".join(parts), np.uint8), offsets


def as_floats(values: NDArray[Any]) -> NDArray[np.float32] | NDArray[np.float64]:
    """Return numbers as float32, or as float64 if float32 would change one: 8.44 stays 8.44, 16777217 does not."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    changed = (single != values) & ~np.isnan(values)
    rounded, exact = np.unique(np.stack([single[changed], values[changed]], axis=1), axis=0).T
    is_kept = all(float(str(one)) == other for one, other in zip(rounded.astype(np.float32), exact, strict=True))
    return single if is_kept else values.astype(np.float64)


def leads_out(name: str) -> bool:
    """Whether a record's name, used as a path below a directory, would lead out of it."""
    if os.sep != "/":
        name = name.replace("\\", "/")
        if os.path.splitdrive(name)[0] or is_device(name):
            return True
    return name.startswith("/") or (".." in name and ".." in name.split("/"))


class Names(Sequence[str]):
    """The names of a record set, decoded on access, without a cache.

    Args:
        data: All names in UTF-8, concatenated.
        offsets: The start of each name, and the end of the last.
        where: The record set, for messages.
    """

    def __init__(self, data: NDArray[np.uint8], offsets: NDArray[np.uint64], where: str = "") -> None:
        self._data, self._offsets, self._where = data, offsets, where

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        if not -len(self) <= position < len(self):
            raise IndexError(f"position {position} of {len(self)} names")
        position %= len(self)
        start, stop = int(self._offsets[position]), int(self._offsets[position + 1])
        # One by one: all at once would take 10 MB of memory for a million names.
        if not start <= stop <= len(self._data):
            raise self._disordered()
        return self._data[start:stop].tobytes().decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _NAMES_AT_ONCE):
            bounds = self._offsets[first : first + _NAMES_AT_ONCE + 1].tolist()
            if bounds != sorted(bounds) or bounds[-1] > len(self._data):
                raise self._disordered()
            data = self._data[bounds[0] : bounds[-1]].tobytes()
            if data.isascii():  # decoded in one call: half the time
                text = data.decode("ascii")
                yield from [text[start - bounds[0] : stop - bounds[0]] for start, stop in itertools.pairwise(bounds)]
                continue
            for start, stop in itertools.pairwise(bounds):
                yield data[start - bounds[0] : stop - bounds[0]].decode("utf-8", "surrogateescape")

    def _disordered(self) -> CorruptRecordError:
        return CorruptRecordError(
            f"{self._where}: the offsets in names_offsets.npy do not ascend. Prepare the dataset again.",
            path=self._where,
        )


MARKS_EXTRA_BYTES = 4
"""Bytes after the marks of a file: their checksum."""


def marks_name(field: str) -> str:
    """Return the file name of a field's marks."""
    return f"{field}.marks"


def pack_marks(marks: NDArray[np.uint8], index: ArraySpec) -> bytes:
    """Return the file's content: the marks, and their CRC-32 continued from that of their index."""
    data = marks.astype(np.uint8).tobytes()
    return data + crc32(data, index.crc32).to_bytes(MARKS_EXTRA_BYTES, "little")


def read_marks(opener: Opener, field: str, index: ArraySpec) -> bytearray | None:
    """Return a field's marks; None if the file is missing, damaged or of another index.

    Args:
        opener: Opens a file of the record set.
        field: The field.
        index: The entry of its index in the manifest.
    """
    size = index.shape[0] + MARKS_EXTRA_BYTES
    try:
        data = read_start(opener, marks_name(field), size, size)
    except OSError:  # includes RecordError
        return None
    return bytearray(memoryview(data)[:-MARKS_EXTRA_BYTES]) if fits(data, index) else None


def fits(data: bytes, index: ArraySpec) -> bool:
    """Whether a file's content is undamaged, and belongs to the index."""
    marks = memoryview(data)[: index.shape[0]]
    return data[len(marks) :] == crc32(marks, index.crc32).to_bytes(MARKS_EXTRA_BYTES, "little")


def decode_value(spec: BlobSpec, data: bytes, shape: Sequence[int]) -> Any:
    """Return the array of a "raw" value, the object of a "json" one, and the bytes of any other.

    Args:
        spec: The blob field.
        data: The stored value.
        shape: The shape of a "raw" value.

    Raises:
        ValueError: The bytes do not fit the field.
    """
    if spec.encoding == "raw":
        dtype = np.dtype(spec.dtype)
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError(f"{len(data):,} bytes are no {dtype} array of shape {tuple(shape)}")
        return np.frombuffer(data, dtype).reshape(tuple(shape))
    if spec.encoding == "json":
        try:
            return json.loads(data, parse_constant=no_constant)
        except RecursionError:
            raise ValueError("its JSON is nested too deep") from None
    return data
