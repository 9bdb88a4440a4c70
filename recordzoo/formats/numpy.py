"""NumPy's files: a `.npz` with images and labels, or a folder of `.npy` files of these names.

Their layout: numpy/lib/format.py. Arrays of objects are pickles, and refused. Rows are read where they lie; those of
a compressed `.npz` one after another, by one process.
"""

import contextlib
import itertools
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.arrays import Column, Columns, Content, Part, has_images
from recordzoo.formats.base import Foreign, Piece, ranges
from recordzoo.system.npy import MAX_HEADER_BYTES, header_of

LOOKS_FOR = "a file *.npz, or files *.npy with images and labels"

_ENDINGS = (".npz", ".npy")
_MOST_FILES = 1000
_BLOCK_BYTES = 64 << 20
_LOCAL = struct.Struct("<4s22xHH")
_CHECKED_BYTES = 16 << 20
_ERRORS = (OSError, ValueError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `Format`."""
    path = Path(location)
    if path.is_file():
        return NumpyFiles(location, fields, [path]) if path.suffix in _ENDINGS else None
    if not path.is_dir():
        return None
    there = itertools.chain(path.iterdir(), path.glob("*/*.np[yz]"))
    files = sorted(itertools.islice((each for each in there if each.suffix in _ENDINGS), _MOST_FILES + 1))
    names = [str(each.relative_to(path).with_suffix("")) for each in files if each.suffix == ".npy"]
    is_one = len(files) <= _MOST_FILES and (len(names) < len(files) or fields or has_images(names))
    return NumpyFiles(location, fields, files) if files and is_one else None


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

    @contextlib.contextmanager
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
            while left and (data := file.read(min(left, _CHECKED_BYTES))):
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


class NumpyFiles(Columns):
    """The rows of arrays; pieces are ranges of rows, or a split, if it is compressed."""

    format = "numpy"

    def __init__(self, location: str, fields: Mapping[str, str], files: Sequence[Path]) -> None:
        super().__init__(location, fields)
        self._arrays: dict[str, Array] = {}
        columns = []
        for path in files:
            for array in arrays(path):
                key = _key(array, Path(location), len(files) > 1)
                if key in self._arrays:
                    raise SourceError(f"{array.place}: {key!r} is there twice.", path=str(path))
                self._arrays[key] = array
                columns.append(Column(key, array.shape, array.dtype, _content(array), array.place))
        parts = self.arrange(columns)
        self.pieces = [piece for part in parts for piece in self._pieces(part)]

    def _pieces(self, part: Part) -> Iterator[Piece]:
        found = [self._arrays[column.key] for column in part.columns.values()]
        paths = tuple(dict.fromkeys(array.path for array in found))
        size = sum(array.row_bytes for array in found)
        step = max(1, part.count) if any(array.start < 0 for array in found) else 1
        for start, stop in ranges(part.count, size, step):
            yield Piece(f"{part.split or 'all'}[{start}:{stop}]", (stop - start) * size, paths, start, stop, part.split)

    @override
    def whole(self, column: Column) -> NDArray[Any]:
        array = self._arrays[column.key]
        with array.rows(0) as rows:
            if not array.shape:
                return np.asarray(_values(column, rows.take(1))).reshape(())
            return np.asarray(_values(column, rows.take(array.shape[0])))

    @override
    def blocks(self, part: Part, piece: Piece) -> Iterator[Mapping[str, Any]]:
        found = {name: self._arrays[column.key] for name, column in part.columns.items()}
        step = max(1, _BLOCK_BYTES // max(1, sum(array.row_bytes for array in found.values())))
        with contextlib.ExitStack() as stack:
            rows = {name: stack.enter_context(array.rows(piece.start)) for name, array in found.items()}
            for start in range(piece.start, piece.stop, step):
                count = min(step, piece.stop - start)
                yield {name: _values(part.columns[name], each.take(count)) for name, each in rows.items()}
            for each in rows.values():
                each.end()
        if piece.start == 0:
            for array in found.values():
                array.check()


def _key(array: Array, location: Path, are_several: bool) -> str:
    """Return the name of an array: in a `.npz`, its own; of a `.npy`, the file's."""
    if array.path == location:
        return array.member.removesuffix(".npy") or array.path.stem
    folder = array.path.relative_to(location).with_suffix("").as_posix()
    if not array.member:
        return folder
    return f"{folder}/{array.member.removesuffix('.npy')}" if are_several else array.member.removesuffix(".npy")


def _content(array: Array) -> Content:
    if array.dtype.subdtype is None and array.dtype.kind in "biuf":
        return "numbers"
    return "text" if array.dtype.kind in "US" else "other"


def _values(column: Column, values: NDArray[Any]) -> NDArray[Any]:
    """Return values as they are stored: text as `str`."""
    if column.content != "text":
        return values
    try:
        texts = [each.decode() if isinstance(each, bytes) else each for each in values.reshape(-1).tolist()]
    except (ValueError, SystemError) as err:  # SystemError: CPython's of a code point that there is not
        raise SourceError(f"{column.place} is not text in UTF-8: {err}.") from err
    return np.array([*texts, None], object)[:-1].reshape(values.shape)


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


@contextlib.contextmanager
def _told(where: Path | str) -> Iterator[None]:
    """Turn what zipfile and NumPy raise into a `SourceError` that says where."""
    try:
        yield
    except SourceError:
        raise
    except _ERRORS as err:
        raise SourceError(f"{where} cannot be read: {err}", path=str(where)) from err
