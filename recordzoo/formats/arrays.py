"""Arrays by name, as in HDF5 and NumPy files: find images and labels per split, and read their samples."""

import contextlib
import re
import struct
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.errors import ArgumentError, SourceError
from recordzoo.formats.base import Foreign, Piece, Sample, fault, ranges
from recordzoo.formats.naming import CLASSES, IMAGES, LABELS, SPLITS, field_name, image_ending, split_name
from recordzoo.raw.member import MAX_MEMBER_BYTES
from recordzoo.records.manifest import MAX_DIMENSIONS

Content = Literal["numbers", "text", "files", "other"]
"""The content of a column: numbers, text, encoded images, or an unsupported type."""

_WORDS = re.compile(r"[/_.\-\s]+")
_CHANNELS = (1, 3, 4)
_BLOCK_BYTES = 64 << 20
_MAX_CLASSES = 1 << 16
_ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True, slots=True)
class Column:
    """An array of a file.

    Attributes:
        key: Its name, with "/" between the groups or folders and the name: ``train/images``.
        shape: The first dimension counts samples.
        path, name: The file, and the name in it.
        about_bytes: Approximate bytes per row.
        start: Offset of the first row in the file; negative: in the unpacked member of a compressed `.npz`.
        step: Pieces begin at multiples of it.
        problem: Why the column cannot be read; "" if it can.
    """

    key: str
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    content: Content
    path: Path
    name: str
    about_bytes: int
    start: int = 0
    step: int = 1
    problem: str = ""

    @property
    def place(self) -> str:
        """The column's location, for messages."""
        return f"{self.path}, {self.name}" if self.name else str(self.path)

    @property
    def is_image(self) -> bool:
        """Whether the column can hold one image per sample."""
        return self.content == "files" or (self.content == "numbers" and len(self.shape) in (3, 4))

    def __str__(self) -> str:
        return f"{self.content if self.content in ('text', 'files') else self.dtype} {list(self.shape)}"

    def check(self) -> None:
        """Refuse columns that cannot be stored."""
        row_bytes = bytes_of(self.dtype, self.shape[1:])
        is_known = self.content in ("text", "files") or (self.content == "numbers" and self.dtype.itemsize <= 8)
        problem = self.problem if is_known else f" holds {self.dtype}, which is not read"
        if not row_bytes:
            problem = problem or f" has {self}: a sample of it is empty"
        if len(self.shape) - 1 > MAX_DIMENSIONS or row_bytes > MAX_MEMBER_BYTES:
            problem = problem or f" has {self}: a sample of it is too large"
        if problem:
            raise SourceError(f"{self.place}{problem}.", path=str(self.path))


_Columns = dict[str, Column]
"""Columns by name without the split, or by field."""


class Columns(Foreign):
    """Samples that are the rows of arrays; pieces are ranges of rows."""

    def __init__(self, location: str, fields: Mapping[str, str], columns: Sequence[Column]) -> None:
        super().__init__(location, fields)
        groups = _grouped(columns)
        self.check_fields(sorted({c.key for c in columns} | {base for group in groups.values() for base in group}))
        images = {split: image for split, group in groups.items() if (image := self._image(group))}
        if not images:
            shown = ", ".join(f"{column.key} ({column})" for column in columns[:20]) or "nothing"
            raise fault(
                location,
                f" has no images with a usual name (images, image, img, x, ...). It has {shown}. "
                "Name them: --field KEY=image (fields=).",
            )
        self._join(groups, images)
        parts = {split: self._part(groups[split], image) for split, image in images.items()}
        used = {column.key for part in parts.values() for column in part.values()}
        counts = " or ".join(f"{image.shape[0]:,}" for image in images.values())
        self._check_left([column for column in columns if column.key not in used], counts)
        self._parts = parts if len(parts) > 1 else dict.fromkeys([""], *parts.values())
        self._fields = list(dict.fromkeys(name for part in parts.values() for name in part))
        self.pieces = [piece for split, part in self._parts.items() for piece in _cut(split, part)]

    @abstractmethod
    def rows(self, column: Column, bounds: Sequence[int]) -> Iterator[Sequence[Any] | NDArray[Any]]:
        """Yield the rows from each bound to the next: numbers as an array, text as `str`, files as `bytes`."""

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        part = self._parts[piece.split]
        digits = max(6, len(str(part["image"].shape[0] - 1)))
        step = max(1, _BLOCK_BYTES // max(1, sum(column.about_bytes for column in part.values())))
        bounds = [*range(piece.start, piece.stop, step), piece.stop]
        is_first = _has_channels_first(part["image"])
        blocks = zip(*(self.rows(column, bounds) for column in part.values()), strict=True)
        rows = (row for block in blocks for row in zip(*block, strict=True))
        for number, row in enumerate(rows, piece.start):
            sample: dict[str, Any] = dict.fromkeys(self._fields) | dict(zip(part, row, strict=True))
            if is_first:
                sample["image"] = np.moveaxis(sample["image"], 0, 2)
            if isinstance(sample.get("target"), np.ndarray | np.generic) and sample["target"].size == 1:
                label = sample["target"].item()
                sample["target"] = int(label) if isinstance(label, bool) else label
            name = f"{number:0{digits}d}{image_ending(sample)}"
            yield {"name": f"{piece.split}/{name}" if piece.split else name, **sample}

    def _says(self, base: str, column: Column) -> str | None:
        """Return the user's name for a column."""
        return self.fields.get(column.key) or self.fields.get(base)

    def _find(self, group: _Columns, field: str, usual: Sequence[str]) -> Column | None:
        """Return the column that the user named for a field, or the first suitable one with a usual name."""
        free = [group[key] for key in usual if key in group and not self._says(key, group[key])]
        named = [column for base, column in group.items() if self._says(base, column) == field]
        can_be = [c for c in free if (c.is_image if field == "image" else c.content == "numbers")]
        return next(iter([*named, *can_be]), None)

    def _image(self, group: _Columns) -> Column | None:
        image = self._find(group, "image", IMAGES)
        if image is not None and not image.is_image:
            raise SourceError(f"{image.place} has {image}, which are not one image a sample.")
        return image

    def _join(self, groups: Mapping[str, _Columns], images: _Columns) -> None:
        """Move labels and columns named by the user from other groups to the only group with as many images."""
        for base, column in [item for split, group in groups.items() if split not in images for item in group.items()]:
            fits = [groups[split] for split, image in images.items() if column.shape[:1] == image.shape[:1]]
            is_wanted = self._says(base, column) or (base in LABELS and column.content == "numbers")
            if len(fits) == 1 and base not in fits[0] and is_wanted:
                fits[0][base] = column

    def _part(self, group: _Columns, image: Column) -> _Columns:
        """Return the columns with one row per image, by field."""
        target = self._find({base: c for base, c in group.items() if c is not image}, "target", LABELS)
        found = {"image": image}
        for base, column in group.items():
            usual = "image" if column is image else "target" if column is target else field_name(base)
            name = usual if column in (image, target) else self._says(base, column) or usual
            if column.shape[:1] == image.shape[:1]:
                if found.setdefault(name, column) is not column:
                    raise SourceError(
                        f"{column.place} and {found[name].place} would both become the field {name!r}. Name one of "
                        "them: --field KEY=FIELD (fields=)."
                    )
                column.check()
            elif column is target:
                raise SourceError(f"{column.place} has {column}, but {image.place} {image}.")
        _has_channels_first(image)
        return found

    def _check_left(self, left: Sequence[Column], counts: str) -> None:
        """Refuse columns named by the user that belong to no sample; take the class names from them."""
        for column in left:
            if self._says(_split_of(column.key)[1], column):
                raise ArgumentError(
                    f"{self.location}: {column.key!r}, which argument fields names, has not a row for each image; "
                    f"there are {counts} images."
                )
            last = _WORDS.sub("_", column.key.rpartition("/")[2].lower())
            is_list = column.content == "text" and len(column.shape) == 1 and column.shape[0] <= _MAX_CLASSES
            if last in CLASSES and is_list and not column.problem and self.classes is None:
                self.classes = list(*self.rows(column, [0, column.shape[0]]))
            else:
                self.left_out.append(column.key)


def bytes_of(dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> int:
    """Return the size of an array in bytes."""
    return dtype.itemsize * int(np.prod(shape, dtype=object))


def texts(column: Column, values: NDArray[Any]) -> list[Any]:
    """Return text as `str`, in lists as the array has dimensions."""
    try:
        found = [value.decode() if isinstance(value, bytes) else str(value) for value in values.reshape(-1).tolist()]
    except (ValueError, SystemError) as err:  # SystemError: CPython's error for an invalid code point
        raise SourceError(f"{column.place} is not text in UTF-8: {err}.", path=str(column.path)) from err
    shaped: list[Any] = np.array([*found, None], object)[:-1].reshape(values.shape).tolist()
    return shaped


@contextlib.contextmanager
def told(where: Path | str) -> Iterator[None]:
    """Convert errors of h5py, zipfile and NumPy to a `SourceError` with the location."""
    try:
        yield
    except SourceError:
        raise
    except (*_ERRORS, zlib.error, struct.error) as err:
        raise fault(where, f" cannot be read: {err}") from err


def has_images(keys: Sequence[str]) -> bool:
    """Whether any array has the name of images."""
    return any(_split_of(key)[1] in IMAGES for key in keys)


def _split_of(key: str) -> tuple[str, str]:
    """Return the split named by a key, or else its folder, and the rest of the key."""
    folder, _, last = key.lower().rpartition("/")
    known = next((word for word in _WORDS.split(key.lower()) if word in SPLITS), None)
    if known is None:
        return split_name(folder), "_".join(_WORDS.split(last))
    return known, "_".join(word for word in _WORDS.split(last) if word != known) or known


def _grouped(columns: Sequence[Column]) -> dict[str, _Columns]:
    """Group columns by split; usual splits in their order."""
    groups: dict[str, _Columns] = {}
    for column in columns:
        split, base = _split_of(column.key)
        other = groups.setdefault(split, {}).setdefault(base, column)
        if other is not column:
            raise SourceError(f"{column.place} and {other.place} have the same meaning: {split} {base}.")
    order = {name: number for number, name in enumerate(SPLITS)}
    return dict(sorted(groups.items(), key=lambda item: order.get(item[0], len(order))))


def _has_channels_first(image: Column) -> bool:
    """Whether pixels are [C, H, W]: 1, 3 or 4 of them come first, and not last."""
    first, last = (image.shape[axis] in _CHANNELS if image.shape[3:] else axis == 3 for axis in (1, 3))
    if image.content == "files" or image.dtype != np.uint8 or not first:
        return False
    if last:
        raise SourceError(
            f"{image.place} has {image}: channels may be the second or the last dimension. Store the dataset with "
            "recordzoo.convert.",
        )
    return True


def _cut(split: str, part: _Columns) -> Iterator[Piece]:
    paths = tuple(dict.fromkeys(column.path for column in part.values()))
    size = sum(column.about_bytes for column in part.values())
    count = part["image"].shape[0]
    is_whole = any(column.start < 0 for column in part.values())
    for start, stop in ranges(count, size, max(1, count) if is_whole else part["image"].step):
        yield Piece(f"{split or 'all'}[{start}:{stop}]", (stop - start) * size, paths, start, stop, split)
