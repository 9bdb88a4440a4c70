"""`Array`: where the rows of a `.npy` file are, or of one inside a `.npz`, by its header; unpickles nothing."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import SourceError
from recordzoo.system.npy import MAX_HEADER_BYTES, header_of

_LOCAL = struct.Struct("<4s22xHH")
_BLOCK_BYTES = 16 << 20
_ERRORS = (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a file.

    Attributes:
        path: The file.
        member: Its name inside a `.npz`; "" for a `.npy`.
        dtype, shape: From its header.
        header_bytes: How long its header is.
        start: Where it begins in the file, with its header; -1 if it is compressed.
        size_bytes: Its length with its header.
        crc: The CRC-32 of all of it, which a `.npz` has.
    """

    path: Path
    member: str
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    header_bytes: int
    start: int
    size_bytes: int
    crc: int = 0

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.path}, {self.member}" if self.member else str(self.path)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return self.dtype.itemsize * int(np.prod([1, *self.shape[1:]], dtype=object))

    @contextmanager
    def rows(self, start: int) -> Iterator["Rows"]:
        """Open it at a row; if it is compressed, only the first one."""
        with _told(self.place), self.path.open("rb") as file:
            if self.start >= 0:
                file.seek(self.start + self.header_bytes + start * self.row_bytes)
                yield Rows(self, file)
                return
            with zipfile.ZipFile(file) as packed, packed.open(self.member) as stream:
                stream.read(self.header_bytes)
                yield Rows(self, stream)

    def check(self) -> None:
        """Compare the checksum that the archive has of it, where nothing else does.

        Raises:
            SourceError: It is another one, or the file is cut.
        """
        if not self.member or self.start < 0:
            return
        crc, left = 0, self.size_bytes
        with _told(self.place), self.path.open("rb") as file:
            file.seek(self.start)
            while left and (data := file.read(min(left, _BLOCK_BYTES))):
                crc, left = zlib.crc32(data, crc), left - len(data)
        if crc != self.crc:
            raise SourceError(f"{self.place}: the checksum is wrong; the file is damaged.", path=str(self.path))


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an open array, one after another."""

    array: Array
    file: IO[bytes]

    def take(self, count: int) -> NDArray[Any]:
        """Read the next rows.

        Raises:
            SourceError: The file is cut or damaged.
        """
        array = self.array
        with _told(array.place):
            data = self.file.read(count * array.row_bytes)
        if len(data) < count * array.row_bytes:
            raise SourceError(f"{array.place}: the file is cut.", path=str(array.path))
        if not data:
            return np.empty((count, *array.shape[1:]), array.dtype)
        return np.frombuffer(data, array.dtype).reshape(count, *array.shape[1:])

    def end(self) -> None:
        """Read to the end of a compressed one, where its checksum is compared.

        Raises:
            SourceError: It is another one.
        """
        if self.array.start < 0:
            with _told(self.array.place):
                self.file.read(1)


def arrays(path: Path) -> list[Array]:
    """List the arrays of a file.

    Raises:
        SourceError: It is cut or damaged.
    """
    with _told(path), path.open("rb") as file:
        if path.suffix == ".npy":
            return [_array(path, "", file, 0, path.stat().st_size)]
        with zipfile.ZipFile(file) as packed:
            members = [info for info in packed.infolist() if info.filename.endswith(".npy")]
            return [_member(path, packed, file, info) for info in members]


def _member(path: Path, packed: zipfile.ZipFile, file: IO[bytes], info: zipfile.ZipInfo) -> Array:
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        with packed.open(info) as stream:
            return _array(path, info.filename, stream, -1, info.file_size, info.CRC)
    file.seek(info.header_offset)
    signature, name_bytes, extra_bytes = _LOCAL.unpack(file.read(_LOCAL.size).ljust(_LOCAL.size))
    start = info.header_offset + _LOCAL.size + name_bytes + extra_bytes
    if signature != b"PK\3\4" or start + info.file_size > path.stat().st_size:
        raise SourceError(f"{path}, {info.filename}: the file is damaged.", path=str(path))
    file.seek(start)
    return _array(path, info.filename, file, start, info.file_size, info.CRC)


def _array(path: Path, member: str, file: IO[bytes], start: int, size_bytes: int, crc: int = 0) -> Array:
    """Read a header."""
    _, shape, is_fortran, dtype, header_bytes = header_of(file.read(MAX_HEADER_BYTES))
    found = Array(path, member, dtype, shape, header_bytes, start, size_bytes, crc)
    if dtype.hasobject:
        return found  # a pickle: refused where it is needed
    if any(length < 0 for length in shape) or found.header_bytes + _bytes_of(found) != size_bytes:
        raise SourceError(
            f"{found.place}: {size_bytes:,} bytes, but the header says {dtype} {list(shape)}; the file is cut or "
            "damaged.",
            path=str(path),
        )
    if is_fortran and len(shape) > 1:
        raise SourceError(
            f"{found.place} is stored in Fortran's order, so a row is spread over all of it. Save it again with "
            "numpy.ascontiguousarray.",
            path=str(path),
        )
    return found


def _bytes_of(array: Array) -> int:
    return array.dtype.itemsize * int(np.prod(array.shape, dtype=object))


@contextmanager
def _told(where: Path | str) -> Iterator[None]:
    """Turn what zipfile and NumPy raise into a `SourceError` that says where."""
    try:
        yield
    except SourceError:
        raise
    except _ERRORS as err:
        raise SourceError(f"{where} cannot be read: {err}", path=str(where)) from err
