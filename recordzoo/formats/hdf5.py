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
from recordzoo.formats.arrays import Column, Columns, Content, bytes_of, texts, told
from recordzoo.formats.base import Foreign, fault
from recordzoo.formats.child import open_first
from recordzoo.raw.member import MAX_MEMBER_BYTES

LOOKS_FOR = "files *.h5, *.hdf5 or *.hdf"

_ENDINGS = (".h5", ".hdf5", ".hdf")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_DEPTH = 2


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `Format`."""
    path = Path(location)
    there = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [
        each
        for each in there
        if each.is_file() and (each.suffix.lower() in _ENDINGS or (each == path and _begins(each)))
    ]
    if not files:
        return None
    need("h5py", "hdf5", "HDF5 is read")
    open_first("recordzoo.formats.hdf5", "look", files)
    prefixes = [f"{file.stem}/" if len(files) > 1 else "" for file in files]  # named like groups
    return HDF5(location, fields, [c for file, pre in zip(files, prefixes, strict=True) for c in look(file, pre)])


def _begins(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SIGNATURE)) == _SIGNATURE


class HDF5(Columns):
    """The rows of the datasets of some files."""

    format = "hdf5"

    # Any: as in `Columns`.
    @override
    def rows(self, column: Column, bounds: Sequence[int]) -> Iterator[Sequence[Any] | NDArray[Any]]:
        with _opened(column.path) as file:
            for start, stop in itertools.pairwise(bounds):
                with told(f"{column.place}, rows {start:,} to {stop:,}"):
                    values = file[column.name][start:stop]
                if column.content == "files":
                    values = [value.tobytes() for value in values]
                yield texts(column, values) if column.content == "text" else values


def look(path: Path, prefix: str = "") -> list[Column]:
    """List the datasets of a file; `prefix` stands before the key of each."""
    with _opened(path) as file, told(path):
        return [_column(path, name, prefix, dataset) for name, dataset in _datasets(file, path, "", _DEPTH)]


# Any, here and below: h5py has no types.
def _opened(path: Path) -> Any:
    import h5py

    with told(path):
        return h5py.File(path, "r")


def _datasets(group: Any, path: Path, start: str, depth: int) -> Iterator[tuple[str, Any]]:
    import h5py

    for name in sorted(group):
        place, link = f"{start}{name}", group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            target = getattr(link, "filename", "") or getattr(link, "path", "")
            raise fault(path, f", {place} is a link to {target}, which is not followed.")
        found = group[name]
        if isinstance(found, h5py.Dataset):
            yield place, found
        elif isinstance(found, h5py.Group) and depth:
            yield from _datasets(found, path, f"{place}/", depth - 1)


def _column(path: Path, name: str, prefix: str, dataset: Any) -> Column:
    import h5py

    kind, shape = dataset.dtype, tuple(dataset.shape or ())  # h5py.Empty has a dtype and no shape
    about_bytes = bytes_of(kind, shape[1:])
    content: Content = "numbers" if kind.kind in "biuf" else "other"
    is_opaque = kind.kind == "V" and kind.names is None and kind.subdtype is None
    if h5py.check_string_dtype(kind) is not None:
        content = "text"
    elif len(shape) == 1 and (is_opaque or h5py.check_vlen_dtype(kind) == np.uint8):
        content = "files"
    if content != "numbers" and shape[:1] > (0,):
        about_bytes = max(1, path.stat().st_size // shape[0])
    plain = np.dtype(object if kind.hasobject else kind.str)  # h5py's own dtype does not pickle
    step = dataset.chunks[0] if dataset.chunks else 1
    return Column(f"{prefix}{name}", shape, plain, content, path, name, about_bytes, 0, step, _problem(dataset))


def _problem(dataset: Any) -> str:
    """Say why a dataset cannot be read: its data is elsewhere or was never written, or a chunk is too large."""
    outside = [str(name) for name, *_ in dataset.external or ()]
    if dataset.is_virtual:
        outside += [source.file_name for source in dataset.virtual_sources() if source.file_name != "."]
    if outside:
        return f" has its numbers in {outside[0]}, another file, which is not read"
    if dataset.is_virtual or not dataset.shape or not dataset.shape[0]:
        return ""
    if dataset.chunks is None:
        is_whole = dataset.id.get_storage_size() >= math.prod(dataset.shape) * dataset.dtype.itemsize
    elif math.prod(dataset.chunks) * dataset.dtype.itemsize > MAX_MEMBER_BYTES:
        return f": chunks of {dataset.chunks} are too large"
    else:
        counts = zip(dataset.shape, dataset.chunks, strict=True)
        is_whole = dataset.id.get_num_chunks() >= math.prod(-(-length // chunk) for length, chunk in counts)
    return "" if is_whole else ": not all of it was written"
