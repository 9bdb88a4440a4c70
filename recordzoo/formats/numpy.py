"""NumPy's files: a `.npz` with images and labels, or a folder of `.npy` files of these names.

Their layout: numpy/lib/format.py. Arrays of objects are pickles, and refused. Rows are read where they are in the
file; those of a compressed `.npz` one after another, by one process.
"""

import contextlib
import itertools
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.arrays import Column, Columns, Content, bytes_of, has_images, texts, told
from recordzoo.formats.base import Foreign
from recordzoo.system.npy import MAX_HEADER_BYTES, header_of

LOOKS_FOR = "a file *.npz, or files *.npy with images and labels"

_ENDINGS = (".npz", ".npy")
_MOST_FILES = 1000
_LOCAL = struct.Struct("<26xHH")
_CHECKED_BYTES = 16 << 20


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `Format`."""
    path = Path(location)
    there = itertools.chain(path.iterdir(), path.glob("*/*")) if path.is_dir() else filter(Path.is_file, [path])
    files = sorted(itertools.islice((each for each in there if each.suffix in _ENDINGS), _MOST_FILES + 1))
    names = [each.relative_to(path.parent).with_suffix("").as_posix() for each in files if each.suffix == ".npy"]
    is_one = path.is_file() or fields or len(names) < len(files) or has_images(names)
    if not files or len(files) > _MOST_FILES or not is_one:
        return None
    columns = [column for file in files for column in _columns(file, path, are_several=len(files) > 1)]
    return NumpyFiles(location, fields, columns)


class NumpyFiles(Columns):
    """The rows of arrays; those of a compressed file are one piece."""

    format = "numpy"

    # Any: as in `Columns`.
    @override
    def rows(self, column: Column, bounds: Sequence[int]) -> Iterator[Sequence[Any] | NDArray[Any]]:
        row_bytes = bytes_of(column.dtype, column.shape[1:])
        with told(column.place), column.path.open("rb") as file, contextlib.ExitStack() as stack:
            stream: IO[bytes] = file
            if column.name and bounds[0] == 0:
                stream = stack.enter_context(stack.enter_context(zipfile.ZipFile(file)).open(column.name))
                while column.start >= 0 and stream.read(_CHECKED_BYTES):
                    pass  # at its end the checksum is compared
            if column.start >= 0:
                stream = file
            stream.seek(abs(column.start) + bounds[0] * row_bytes)
            for first, stop in itertools.pairwise(bounds):
                data = stream.read((stop - first) * row_bytes)
                if len(data) < (stop - first) * row_bytes:
                    raise SourceError(f"{column.place}: the file is cut.", path=str(column.path))
                values = np.frombuffer(data, column.dtype).reshape(stop - first, *column.shape[1:])
                yield texts(column, values) if column.content == "text" else values
            stream.read(1)  # as above


def _columns(path: Path, location: Path, *, are_several: bool) -> Iterator[Column]:
    """List the arrays of a file."""
    key = path.stem if path == location else path.relative_to(location).with_suffix("").as_posix()
    with told(path), path.open("rb") as file:
        if path.suffix == ".npy":
            yield _column(path, "", key, file, 0, path.stat().st_size)
            return
        with zipfile.ZipFile(file) as packed:
            for info in packed.infolist():
                member = info.filename.removesuffix(".npy")
                name = f"{key}/{member}" if are_several else member
                if not info.filename.endswith(".npy"):
                    continue
                if info.compress_type != zipfile.ZIP_STORED:
                    with packed.open(info) as stream:
                        yield _column(path, info.filename, name, stream, -1, info.file_size)
                    continue
                file.seek(info.header_offset)
                start = info.header_offset + _LOCAL.size + sum(_LOCAL.unpack(file.read(_LOCAL.size)))
                file.seek(start)
                yield _column(path, info.filename, name, file, start, info.file_size)


def _column(path: Path, member: str, key: str, stream: IO[bytes], start: int, size_bytes: int) -> Column:
    """Read a header, which begins at `start` in the file; -1: it is compressed."""
    _, shape, is_fortran, dtype, header_bytes = header_of(stream.read(MAX_HEADER_BYTES))
    is_number = dtype.subdtype is None and dtype.kind in "biuf"
    content: Content = "numbers" if is_number else "text" if dtype.kind in "US" else "other"
    start = start + header_bytes if start >= 0 else -header_bytes
    problem = ""
    if not dtype.hasobject and (min(shape, default=0) < 0 or header_bytes + bytes_of(dtype, shape) != size_bytes):
        problem = f": {size_bytes:,} bytes, but the header says {dtype} {list(shape)}; the file is cut or damaged"
    elif is_fortran and len(shape) > 1:
        problem = " is stored in Fortran's order: save it again with numpy.ascontiguousarray"
    return Column(key, shape, dtype, content, path, member, bytes_of(dtype, shape[1:]), start, problem=problem)
