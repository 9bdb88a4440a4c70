"""One big file of concatenated images, and its index: offset, length, label. Many people write such files.

The index is text (CSV, TSV, or columns with spaces), JSON lines, or a NumPy array. Pickles are refused.
"""

import csv
import hashlib
import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.files import read_small
from recordzoo.base.text import lines_of, text_of
from recordzoo.errors import ArgumentError, NotPreparedError, SourceError
from recordzoo.formats.base import MAX_FIELDS, Foreign, Piece, Sample, even_ranges, fault, first_bytes, image_ending
from recordzoo.raw.member import MAX_MEMBER_BYTES
from recordzoo.records.arrays import map_file

LOOKS_FOR = "photos.bin and beside it photos.csv, .tsv, .idx, .txt, .jsonl or .npy"

_DATA = (".bin", ".dat", ".data", ".blob")
_INDEXES = (".csv", ".tsv", ".idx", ".index", ".txt", ".jsonl", ".npy")
_OFFSETS = ("offset", "start", "begin", "position", "pos")
_LENGTHS = ("length", "size", "nbytes", "num_bytes", "len", "bytes")
_IN_ORDER = ("offset", "length", "label")
_CONTENT = "data"  # the key of the images, unless a column has this name
_LOOKED_AT = 8
_MAX_INDEX_BYTES = 4 << 30

# Any: numbers or text.
_Columns = dict[str, Any]  # a list or an array


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `recordzoo.formats`."""
    path = Path(location)
    there = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    files = [each for each in there if each.suffix.lower() in _DATA and each.is_file()]
    if len(files) != 1:
        return None
    data = files[0]
    stems = (data.name, data.stem, *(("index",) if path.is_dir() else ()))
    indexes = [data.with_name(stem + ending) for stem in stems for ending in _INDEXES]
    indexes = [each for each in indexes if each.is_file() and _may_be_index(each)]
    if len(indexes) > 1:
        raise ArgumentError(
            f"{data}: {' and '.join(each.name for each in indexes)} could both be its index. Move all but one away."
        )
    return IndexedFile(location, fields, data, indexes[0]) if indexes else None


class IndexedFile(Foreign):
    """The images of a file in the order of its index; each range of rows is a piece."""

    format = "indexed"

    def __init__(self, location: str, fields: Mapping[str, str], path: Path, index: Path) -> None:
        super().__init__(location, fields)
        self._path = path
        columns, self._digest = _read_index(index)
        if not columns or not len(next(iter(columns.values()))):
            raise NotPreparedError(f"{index}: there is no row in this index.", path=str(index))
        offset, length = _column(columns, _OFFSETS, index), _column(columns, _LENGTHS, index)
        self._starts = _numbers(columns.pop(offset), offset, index)
        self._lengths = _numbers(columns.pop(length), length, index)
        _check_ranges(self._starts, self._lengths, path, index)
        self._content = _CONTENT if _CONTENT not in columns else path.name
        values = itertools.islice(self._contents(range(len(self._starts))), _LOOKED_AT)
        given = {self._content: list(values), **{key: column[:_LOOKED_AT] for key, column in columns.items()}}
        self._fields = self.name_columns(given)
        self._columns = columns
        self.pieces = [
            Piece(f"{path.stem}-{start}", int(self._lengths[start:stop].sum()), (path, index), start, stop)
            for start, stop in even_ranges(0, len(self._lengths), int(self._lengths.sum()))
        ]

    @override
    def identity(self) -> str:
        """See `Foreign`; with the content of the index."""
        return hashlib.sha256(f"{super().identity()}{self._digest}".encode()).hexdigest()

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        rows = range(piece.start, piece.stop)
        for row, data in zip(rows, self._contents(rows), strict=True):
            sample = {self._fields[key]: column[row] for key, column in self._columns.items()}
            sample[self._fields[self._content]] = data
            yield Sample.of(sample, f"{row:09d}{image_ending(sample)}")

    def _contents(self, rows: range) -> Iterator[bytes]:
        """Yield the bytes of rows."""
        try:
            with self._path.open("rb") as file:
                for row in rows:
                    file.seek(int(self._starts[row]))
                    data = file.read(int(self._lengths[row]))
                    if len(data) < self._lengths[row]:
                        where = f"{self._path}, byte {self._starts[row]:,}"
                        raise SourceError(f"{where}: the file is cut.", path=str(self._path))
                    yield data
        except OSError as err:
            raise fault(self._path, f" cannot be read ({err}).") from err


def _may_be_index(path: Path) -> bool:
    """Whether a file is text, or an array: a binary `.idx` belongs to some other format."""
    return path.suffix.lower() == ".npy" or b"\0" not in first_bytes(path, 4096)


def _read_index(path: Path) -> tuple[_Columns, str]:
    """Read all rows of an index, as columns; also return the file's digest."""
    try:
        data = read_small(path, _MAX_INDEX_BYTES)
        digest = hashlib.sha256(data).hexdigest()
        if path.suffix.lower() == ".npy":
            return _read_array(path), digest
        text = text_of(data, path)
        return (_read_json_lines(text) if path.suffix.lower() == ".jsonl" else _read_text(text)), digest
    except (OSError, ValueError, RecursionError, csv.Error) as err:
        raise fault(path, f": this index cannot be read: {err}") from err


def _read_array(path: Path) -> _Columns:
    array = map_file(path)
    if array.dtype.names:
        columns = {name: np.array(array[name]) for name in array.dtype.names}
    elif array.ndim == 2:
        columns = {_place(place): np.array(array[:, place]) for place in range(array.shape[1])}
    else:
        raise ValueError(f"an array of shape {array.shape}, neither structured nor [N, 3]")
    texts = {name: column.tolist() for name, column in columns.items() if column.dtype.kind in "US"}
    return {**columns, **texts}


def _read_json_lines(text: str) -> _Columns:
    rows = [json.loads(line) for line in lines_of(text) if line.strip()]
    if all(isinstance(row, list) for row in rows):
        return _transposed(rows, None)
    keys = list(rows[0]) if isinstance(rows[0], dict) else []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or row.keys() != set(keys):
            raise ValueError(f"row {number} is no object of {', '.join(keys)}")
    return {key: [row[key] for row in rows] for key in keys}


def _read_text(text: str) -> _Columns:
    first = text.partition("\n")[0]
    delimiter = next((each for each in "\t,;" if each in first), None)
    lines = io.StringIO(text, newline="")
    rows = [line.split() for line in lines] if delimiter is None else list(csv.reader(lines, delimiter=delimiter))
    rows = [[cell.strip() for cell in row] for row in rows if row]
    if not rows:
        return {}
    header = None if rows[0][0].lstrip("-").isdecimal() else rows.pop(0)
    return {name: _typed(column) for name, column in _transposed(rows, header).items()}


def _transposed(rows: Sequence[Sequence[Any]], header: Sequence[str] | None) -> _Columns:
    names = [_place(place) for place in range(len(rows[0]))] if header is None and rows else list(header or ())
    if len(names) > MAX_FIELDS:
        raise ValueError(f"it has {len(names):,} columns; {MAX_FIELDS:,} are the most")
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ValueError(f"row {number} has {len(row)} columns, not {len(names)}")
    if len(set(names)) != len(names):
        raise ValueError(f"two columns have one name: {', '.join(names)}")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _place(place: int) -> str:
    """Return the name of a column without one, by its position."""
    return _IN_ORDER[place] if place < len(_IN_ORDER) else f"field_{place}"


def _typed(column: Sequence[str]) -> Sequence[Any]:
    """Return cells as integers, else as floats, else as text; empty cells are None."""
    are_text = any("_" in cell for cell in column)  # to int() and float(), 2026_01 is a number
    for kind in () if are_text else (int, float):
        try:
            return [kind(cell) if cell else None for cell in column]
        except ValueError:
            continue
    return [cell or None for cell in column]


def _column(columns: _Columns, names: Sequence[str], index: Path) -> str:
    lower = {key.lower(): key for key in columns}
    found = next((lower[name] for name in names if name in lower), None)
    if found is None:
        raise fault(
            index,
            f" has no column {' or '.join(map(repr, names))}; its columns are {', '.join(map(repr, columns))}. "
            "Write a first line with their names.",
        )
    return found


def _numbers(column: Sequence[Any], name: str, index: Path) -> NDArray[np.int64]:
    """Return a column as byte counts."""
    for row, value in enumerate(column, 1):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not 0 <= value < 1 << 63:
            raise fault(index, f", row {row}: {name} is {value!r}, no number of bytes.")
    return np.array(column, np.int64)


def _check_ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64], path: Path, index: Path) -> None:
    """Raise for rows that leave the file, are too large, or overlap."""

    def row(number: np.int64) -> str:
        return f"row {number + 1} ({lengths[number]:,} bytes at {starts[number]:,})"

    size_bytes = path.stat().st_size
    for outside in np.flatnonzero((lengths > size_bytes) | (starts > size_bytes - lengths)):
        text = f"it leads out of {path.name}, which has {size_bytes:,} bytes"
        raise fault(index, f", {row(outside)}: {text}.")
    for large in np.flatnonzero(lengths > MAX_MEMBER_BYTES):
        raise fault(index, f", {row(large)}: {MAX_MEMBER_BYTES:,} bytes are the limit for one record.")
    order = np.argsort(starts, kind="stable")
    ends = starts[order] + lengths[order]
    for place in np.flatnonzero(ends[:-1] > starts[order][1:]):
        raise fault(index, f": {row(order[place])}, and {row(order[place + 1])}, overlap.")
