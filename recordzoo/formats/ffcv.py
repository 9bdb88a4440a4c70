"""FFCV: `.beton` files, read without ffcv, which wants numba and a library that is compiled on installing.

What is where follows ffcv/types.py, ffcv/writer.py and ffcv/memory_allocator.py of libffcv/ffcv (version 2 of the
format): a header, a descriptor for each field, a row of metadata for each sample, pages with the values that have no
fixed size, and at the end a table of where each of these values is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.base import Foreign, Piece, Sample, field_name, split_name
from recordzoo.formats.ffcv_fields import FLOAT, INT, RGB, Field, descriptors, value_of
from recordzoo.formats.ranges import ranges
from recordzoo.recipes.images import sniffed_ending
from recordzoo.sources.member import MAX_MEMBER_BYTES

LOOKS_FOR = "files *.beton or *.ffcv"

_ENDINGS = (".beton", ".ffcv")
_HEADER = np.dtype(
    [("version", "<u2"), ("fields", "<u2"), ("page_size", "<u4"), ("samples", "<u8"), ("table", "<u8")], align=True
)
_ALLOCATION = np.dtype([("sample", "<u8"), ("ptr", "<u8"), ("size", "<u8")])
_VERSION = 2
_MIN_PAGE = 1 << 21
_BLOCK = 1 << 20
_IMAGES = ("image", "images", "img", "x", "input")
_TARGETS = ("label", "labels", "target", "targets", "y")
_SPLIT = re.compile(r"(train|val|valid|validation|test)(?![a-z])", re.IGNORECASE)


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `Format`."""
    path = Path(location)
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix in _ENDINGS and each.is_file())
    else:
        files = [path] if path.is_file() and (path.suffix in _ENDINGS or _begins_like_one(path)) else []
    return Betons(location, fields, files) if files else None


def _begins_like_one(path: Path) -> bool:
    """Whether version and size of a page are those of such a file."""
    with path.open("rb") as file:
        head = file.read(_HEADER.itemsize)
    if len(head) < _HEADER.itemsize:
        return False
    header = np.frombuffer(head, _HEADER)[0]
    page = int(header["page_size"])
    return bool(header["version"] == _VERSION and page >= _MIN_PAGE and page & (page - 1) == 0 and header["table"])


class Betons(Foreign):
    """The samples of one or several files; pieces are ranges of samples. Of several files, each is a split."""

    format = "ffcv"

    def __init__(self, location: str, fields: Mapping[str, str], files: Sequence[Path]) -> None:
        super().__init__(location, fields)
        self._betons = {path: Beton(path) for path in files}
        first, *others = self._betons.values()
        for other in others:
            if other.keys() != first.keys():
                raise SourceError(
                    f"{other.path} has the fields {', '.join(other.keys())}, but {first.path} has "
                    f"{', '.join(first.keys())}. Import them one by one.",
                    path=str(other.path),
                )
        self.check_fields(first.keys())
        modes = {key: set().union(*(beton.modes[key] for beton in self._betons.values())) for key in first.modes}
        self._mixed = {key for key, found in modes.items() if len(found) > 1}
        self._names = _names(first.fields, fields)
        splits = _splits(files)
        self.pieces = [
            Piece(
                f"{path.name}[{start}:{stop}]", (stop - start) * beton.sample_bytes, (path,), start, stop, splits[path]
            )
            for path, beton in self._betons.items()
            for start, stop in ranges(beton.count, beton.sample_bytes)
        ]

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        (path,) = piece.files
        beton = self._betons[path]
        prefix = f"{piece.split}/" if piece.split else ""
        digits = max(6, len(str(beton.count - 1)))
        for number, values in enumerate(beton.read(piece.start, piece.stop, self._mixed), piece.start):
            sample = {self._names[key]: value for key, value in values.items()}
            image = sample.get("image")
            ending = sniffed_ending(image) if isinstance(image, bytes) else ""
            yield {"name": f"{prefix}{number:0{digits}d}{ending}", **sample}


class Beton:
    """A file.

    Attributes:
        path: Its path.
        fields: Its fields, in their order.
        count: How many samples it has.
        sample_bytes: About how many bytes one has.
        modes: How the images of each image field are stored.

    Raises:
        SourceError: It is cut or damaged, or of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEADER.itemsize)
            if len(head) < _HEADER.itemsize:
                raise self.error("it is cut")
            header = np.frombuffer(head, _HEADER)[0]
            if header["version"] != _VERSION:
                raise self.error(f"it begins with version {header['version']}; version {_VERSION} of FFCV is read")
            self.count, self._table, self._page = (int(header[key]) for key in ("samples", "table", "page_size"))
            if self._table == 0:
                raise self.error("FFCV did not finish writing it")
            self.fields, length = descriptors(file, int(header["fields"]), self.error)
        self._metadata_at = _HEADER.itemsize + length
        self._metadata = np.dtype([(f"f{n}", field.metadata) for n, field in enumerate(self.fields)], align=True)
        self._data_at = self._metadata_at + self.count * self._metadata.itemsize
        if not self._data_at <= self._table <= size_bytes or (size_bytes - self._table) % _ALLOCATION.itemsize:
            raise self.error(f"it is cut or damaged: {self.count:,} samples do not fit into {size_bytes:,} bytes")
        self.sample_bytes = max(1, (self._table - self._metadata_at) // max(1, self.count))
        self._sizes: dict[str, NDArray[np.uint32]] | None = None
        self.modes = self._find_modes()

    # Any: what pickle keeps; a worker process finds the sizes itself.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sizes": None}

    def error(self, what: str) -> SourceError:
        """Return an error that names the file."""
        return SourceError(f"{self.path}: {what}.", path=str(self.path))

    def keys(self) -> list[str]:
        """Return the names of the fields."""
        return [field.key for field in self.fields]

    # Any: numbers, bytes, arrays, JSON.
    def read(self, start: int, stop: int, encoded: Set[str]) -> Iterator[dict[str, Any]]:
        """Yield the values of each sample by the field's name; pixels of the fields `encoded` become PNG.

        Raises:
            SourceError: Something lies outside the pages, or is not what the field says.
        """
        sizes = self._sizes_of_images()
        rows = self._rows(start, stop)
        with self.path.open("rb") as file:

            def take(ptr: int, length: int) -> bytes:
                if not self._data_at <= ptr <= ptr + length <= self._table or length > min(
                    self._page, MAX_MEMBER_BYTES
                ):
                    raise self.error(f"{length:,} bytes at {ptr:,} are outside of its pages")
                file.seek(ptr)
                data = file.read(length)
                if len(data) < length:
                    raise self.error("it is cut")
                return data

            for number, row in enumerate(rows, start):
                values = {}
                for field, entry in zip(self.fields, row, strict=True):
                    size = int(sizes[field.key][number]) if field.key in sizes else 0
                    try:
                        values[field.key] = value_of(field, entry, size, take, field.key in encoded)
                    except ValueError as err:
                        raise self.error(f"sample {number:,}, {field.key}: {err}") from err
                yield values

    # Any: rows of the metadata.
    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        length = self._metadata.itemsize
        rows = np.fromfile(self.path, self._metadata, stop - start, offset=self._metadata_at + start * length)
        if len(rows) < stop - start:
            raise self.error("it is cut")
        return rows

    def _find_modes(self) -> dict[str, set[int]]:
        modes: dict[str, set[int]] = {field.key: set() for field in self.fields if field.type == RGB}
        for start in range(0, self.count if modes else 0, _BLOCK):
            rows = self._rows(start, min(start + _BLOCK, self.count))
            for number, field in enumerate(self.fields):
                if field.key in modes:
                    modes[field.key].update(np.unique(rows[f"f{number}"]["mode"]).tolist())
        return modes

    def _sizes_of_images(self) -> dict[str, NDArray[np.uint32]]:
        """Return the length of each image in the pages, which only the table at the end has; 0 where it has none."""
        if self._sizes is not None:
            return self._sizes
        images = [(f"f{number}", field.key) for number, field in enumerate(self.fields) if field.type == RGB]
        sizes = {key: np.zeros(self.count, np.uint32) for _, key in images}
        places = {}
        if images:
            rows = self._rows(0, self.count)
            places = {key: rows[name]["data_ptr"].copy() for name, key in images}
            del rows
        with self.path.open("rb") as file:
            file.seek(self._table)
            while images and len(block := np.frombuffer(file.read(_BLOCK * _ALLOCATION.itemsize), _ALLOCATION)):
                if block["sample"].max() >= self.count or block["size"].max() > self._page:
                    raise self.error("the table of its pages is damaged")
                for key, place in places.items():
                    ours = block[(block["ptr"] == place[block["sample"]]) & (block["size"] > 0)]
                    sizes[key][ours["sample"]] = ours["size"]
        self._sizes = sizes
        return sizes


def _names(fields: Sequence[Field], said: Mapping[str, str]) -> dict[str, str]:
    """Return what each field is called here: as the person says; image and target by name, or if only one can be it."""
    names = dict(said)
    for meaning, usual, types in (("image", _IMAGES, (RGB,)), ("target", _TARGETS, (INT,))):
        if meaning in names.values():
            continue
        open_fields = [field for field in fields if field.key not in names]
        known = [field for field in open_fields if field.key.lower() in usual]
        typed = [field for field in open_fields if field.type in types]
        numbers = [field for field in known if meaning == "target" and field.type == FLOAT]
        best = [field for field in known if field in typed] or numbers or (typed if len(typed) == 1 else [])
        if best:
            names[best[0].key] = meaning
    for field in fields:
        names.setdefault(field.key, field_name(field.key))
    if len(set(names.values())) < len(fields):
        raise SourceError(f"Two fields would get one name: {names}. Name them with --field (fields=).")
    return names


def _splits(files: Sequence[Path]) -> dict[Path, str]:
    """Return the split of each file, by how its name begins, or else by all of it; none for a single file."""
    if len(files) == 1:
        return {files[0]: ""}
    found = {path: match[1].lower() if (match := _SPLIT.match(path.stem)) else "" for path in files}
    if all(found.values()) and len(set(found.values())) == len(files):
        return found
    return {path: split_name(path.stem) for path in files}
