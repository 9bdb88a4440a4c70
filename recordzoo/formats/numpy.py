"""NumPy's files: a `.npz` with images and labels, or a folder of `.npy` files of these names.

Their layout: numpy/lib/format.py. Arrays of objects are pickles, and refused. Rows are read where they lie; those of
a compressed `.npz` one after another, by one process.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.arrays import Column, Columns, Content, Part, has_images
from recordzoo.formats.base import Foreign, Piece, ranges
from recordzoo.formats.npy import Array, arrays

LOOKS_FOR = "a file *.npz, or files *.npy with images and labels"

_ENDINGS = (".npz", ".npy")
_MOST_FILES = 1000
_BLOCK_BYTES = 64 << 20


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
