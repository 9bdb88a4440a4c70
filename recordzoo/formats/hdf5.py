"""HDF5: a dataset of images and one of labels, in one group or one for each split, read with h5py.

Pixels are arrays of any chunks and filters; encoded images are of variable length (`h5py.vlen_dtype(numpy.uint8)`) or
opaque. Links, datasets whose numbers are in other files, and references are not followed.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.packages import need
from recordzoo.errors import SourceError
from recordzoo.formats.arrays import Column, Columns, Content, Part
from recordzoo.formats.base import Foreign, Piece, ranges
from recordzoo.formats.child import open_first
from recordzoo.raw.member import MAX_MEMBER_BYTES

LOOKS_FOR = "files *.h5, *.hdf5 or *.hdf"

_ENDINGS = (".h5", ".hdf5", ".hdf")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_DEPTH = 4
_MOST = 1000
_BLOCK_BYTES = 64 << 20
_ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError)


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `Format`."""
    path = Path(location)
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix.lower() in _ENDINGS and each.is_file())
    else:
        files = [path] if path.is_file() and _begins_like_one(path) else []
    return HDF5(location, fields, files) if files else None


def _begins_like_one(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SIGNATURE)) == _SIGNATURE or path.suffix.lower() in _ENDINGS


class HDF5(Columns):
    """The rows of the datasets of some files; pieces are ranges of rows, along the chunks of the images.

    What several files hold is told apart by their names, like groups.
    """

    format = "hdf5"

    def __init__(self, location: str, fields: Mapping[str, str], files: Sequence[Path]) -> None:
        super().__init__(location, fields)
        need("h5py", "hdf5", "HDF5 is read")
        open_first("recordzoo.formats.hdf5", "look", files)
        self._where: dict[str, tuple[Path, str]] = {}
        steps: dict[str, int] = {}
        columns = []
        for path in files:
            with _opened(path) as file, _told(path):
                for name, dataset in _datasets(file, path):
                    key = f"{path.stem}/{name}" if len(files) > 1 else name
                    column = _column(key, dataset, f"{path}, {name}")
                    self._where[key] = (path, name)
                    steps[key] = dataset.chunks[0] if dataset.chunks else 1
                    columns.append(column)
        parts = self.arrange(columns)
        self.pieces = [piece for part in parts for piece in self._pieces(part, steps[part.columns["image"].key])]

    def _pieces(self, part: Part, step: int) -> Iterator[Piece]:
        for column in part.columns.values():
            self._check_stored(column)
        paths = tuple(dict.fromkeys(self._where[column.key][0] for column in part.columns.values()))
        size = sum(self._row_bytes(column) for column in part.columns.values())
        for start, stop in ranges(part.count, size, step):
            yield Piece(f"{part.split or 'all'}[{start}:{stop}]", (stop - start) * size, paths, start, stop, part.split)

    def _row_bytes(self, column: Column) -> int:
        if column.content == "numbers" or not column.shape[0]:
            return column.row_bytes
        path, _ = self._where[column.key]
        return max(1, path.stat().st_size // column.shape[0])

    def _check_stored(self, column: Column) -> None:
        """Refuse a dataset that nobody wrote, or not to its end, and chunks that no memory holds."""
        path, name = self._where[column.key]
        with _opened(path) as file, _told(column.place):
            dataset = file[name]
            if dataset.is_virtual or not column.shape[0]:
                return
            if dataset.chunks is None:
                missing = dataset.id.get_storage_size() < math.prod(dataset.shape) * dataset.dtype.itemsize
            else:
                if math.prod(dataset.chunks) * dataset.dtype.itemsize > MAX_MEMBER_BYTES:
                    raise SourceError(f"{column.place}: chunks of {dataset.chunks} are too large.", path=str(path))
                expected = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
                missing = dataset.id.get_num_chunks() < expected
        if missing:
            raise SourceError(f"{column.place}: not all of it was written.", path=str(path))

    @override
    def whole(self, column: Column) -> NDArray[Any]:
        path, name = self._where[column.key]
        with _opened(path) as file, _told(column.place):
            return np.asarray(_values(column, file[name][()]))

    @override
    def blocks(self, part: Part, piece: Piece) -> Iterator[Mapping[str, Any]]:
        size = sum(self._row_bytes(column) for column in part.columns.values())
        step = max(1, min(piece.stop - piece.start, _BLOCK_BYTES // max(1, size)))
        bounds = [*range(piece.start, piece.stop, step), piece.stop]
        for start, stop in itertools.pairwise(bounds):
            block = {}
            for name, column in part.columns.items():
                path, key = self._where[column.key]
                with _opened(path) as file, _told(f"{column.place}, rows {start:,} to {stop:,}"):
                    block[name] = _values(column, file[key][start:stop])
            yield block


def look(path: Path) -> None:
    """Open a file, and what it lists."""
    with _opened(path) as file:
        for name, dataset in _datasets(file, path):
            _column(name, dataset, "")


class _told:
    """Turn what h5py raises into a `SourceError` that says where. Context manager."""

    def __init__(self, where: Path | str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: object) -> None:
        if isinstance(err, _ERRORS) and not isinstance(err, SourceError):
            raise SourceError(f"{self.where} cannot be read: {err}", path=str(self.where)) from err


# Any: h5py has no types.
def _opened(path: Path) -> Any:
    import h5py

    with _told(path):
        return h5py.File(path, "r")


def _datasets(group: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the datasets of a file by path, in the order of their names."""
    import h5py

    todo, count = [("", group)], 0
    while todo:
        prefix, group = todo.pop(0)
        for name in sorted(group):
            count += 1
            place = f"{prefix}{name}"
            if count > _MOST:
                raise SourceError(f"{path} has more than {_MOST:,} datasets: it is not one of columns.", path=str(path))
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                target = getattr(link, "filename", "") or getattr(link, "path", "")
                raise SourceError(f"{path}, {place} is a link to {target}, which is not followed.", path=str(path))
            found = group[name]
            if isinstance(found, h5py.Dataset):
                _check_inside(found, f"{path}, {place}")
                yield place, found
            elif isinstance(found, h5py.Group) and place.count("/") < _DEPTH:
                todo.append((f"{place}/", found))


def _check_inside(dataset: Any, where: str) -> None:
    """Refuse a dataset whose numbers are in other files."""
    outside = [str(name) for name, *_ in dataset.external or ()]
    if dataset.is_virtual:
        outside += [source.file_name for source in dataset.virtual_sources() if source.file_name != "."]
    if outside:
        raise SourceError(f"{where} has its numbers in {outside[0]}, another file, which is not read.", path=where)


def _column(key: str, dataset: Any, place: str) -> Column:
    import h5py

    kind = dataset.dtype
    content: Content = "other"
    if h5py.check_string_dtype(kind) is not None:
        content = "text"
    elif h5py.check_vlen_dtype(kind) == np.uint8 or (kind.kind == "V" and kind.names is None and kind.subdtype is None):
        content = "files"
    elif kind.kind in "biuf":
        content = "numbers"
    if dataset.shape is None or (content == "files" and len(dataset.shape) != 1):
        content = "other"  # h5py.Empty has a dtype and no shape
    plain = np.dtype(object if kind.hasobject else kind.str)  # h5py's own carries what does not pickle
    return Column(key, tuple(dataset.shape or ()), plain, content, place)


def _values(column: Column, values: Any) -> Any:
    """Return values as they are stored: text as `str`, encoded images as `bytes`."""
    if column.content == "files":
        return [value.tobytes() for value in values]
    if column.content == "text":
        array = np.asarray(values, object)
        texts = [value.decode() if isinstance(value, bytes) else str(value) for value in array.reshape(-1)]
        return np.array([*texts, None], object)[:-1].reshape(array.shape)
    return values
