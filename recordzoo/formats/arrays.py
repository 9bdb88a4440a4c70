"""Arrays by name, as HDF5 and NumPy files have them: which are images and labels of which split, and their samples."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.formats.base import Foreign, Piece, Sample
from recordzoo.formats.naming import CLASSES, IMAGES, LABELS, SPLITS, field_name, split_name
from recordzoo.raw.member import MAX_MEMBER_BYTES
from recordzoo.recipes.images import sniffed_ending
from recordzoo.records.manifest import MAX_DIMENSIONS

Content = Literal["numbers", "text", "files", "other"]
"""What a column holds: numbers, text, encoded images or other bytes, or what is not read."""

_WORDS = re.compile(r"[/_.\-\s]+")
_CHANNELS = (1, 3, 4)
_SMALL, _NOTES = 4096, 100


@dataclass(frozen=True, slots=True)
class Column:
    """An array of a file.

    Attributes:
        key: Its name, with "/" between the groups or folders and the name: ``train/images``.
        shape: Its shape; the first dimension counts samples.
        dtype: Of numbers.
        content: What it holds.
        place: Where it is, for messages.
    """

    key: str
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    content: Content
    place: str

    @property
    def row_bytes(self) -> int:
        """The bytes of a sample; about, where they differ."""
        return self.dtype.itemsize * int(np.prod([1, *self.shape[1:]], dtype=object))

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers that a record can store."""
        return self.content == "numbers" and self.dtype.kind in "biuf" and self.dtype.itemsize <= 8

    @property
    def is_image(self) -> bool:
        """Whether it can be one image a sample."""
        return self.content == "files" or (self.content == "numbers" and len(self.shape) in (3, 4))


@dataclass(frozen=True, slots=True)
class Part:
    """The columns of a split.

    Attributes:
        split: Its name; "" if there is only one.
        count: How many samples it has.
        columns: By the field that each becomes.
        channels_first: Whether its pixels are [C, H, W].
    """

    split: str
    count: int
    columns: Mapping[str, Column]
    channels_first: bool = False


@dataclass
class _Group:
    """The columns that may be those of one split, by their names without it."""

    split: str
    columns: dict[str, Column] = field(default_factory=dict)


class Columns(Foreign):
    """Samples that are the rows of arrays. A class of it lists `columns`, calls `arrange`, and gives blocks of rows."""

    def arrange(self, columns: Sequence[Column]) -> list[Part]:
        """Find the images and labels, and the split of each; set `classes` and `notes`.

        Raises:
            ArgumentError: The person names an array that is not there.
            SourceError: There are no images, or it is not clear which or how they are.
        """
        groups = _grouped(columns)
        self.check_fields(sorted({column.key for column in columns} | {key for g in groups for key in g.columns}))
        images = {group.split: image for group in groups if (image := self._image(group)) is not None}
        self._join(groups, images)
        parts, besides = [], []
        for group in groups:
            image = images.get(group.split)
            if image is None:
                besides += list(group.columns.values())
                continue
            part, others = self._part(group, image)
            parts.append(part)
            besides += others
        if not parts:
            shown = ", ".join(f"{c.key} ({_shown(c)})" for c in columns[:20]) or "nothing"
            raise SourceError(
                f"{self.location} has no images with a usual name (images, image, img, x, ...). It has {shown}. "
                "Name them: --field KEY=image (fields=).",
                path=self.location,
            )
        self._check_used(parts)
        if len(parts) == 1:
            parts = [Part("", parts[0].count, parts[0].columns, parts[0].channels_first)]
        self._keep(besides)
        self._fields = list(dict.fromkeys(name for part in parts for name in part.columns))
        self._parts = {part.split: part for part in parts}
        return parts

    @abstractmethod
    def whole(self, column: Column) -> NDArray[Any]:
        """Read a small column."""

    @abstractmethod
    def blocks(self, part: Part, piece: Piece) -> Iterator[Mapping[str, Any]]:  # Any: arrays and lists of values
        """Yield the columns' next rows, by field; as many of each."""

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        part = self._parts[piece.split]
        number, digits = piece.start, max(6, len(str(part.count - 1)))
        prefix = f"{part.split}/" if part.split else ""
        for block in self.blocks(part, piece):
            for row in range(len(block["image"])):
                sample = {
                    name: None if name not in block else self._value(part, name, block[name][row], number)
                    for name in self._fields
                }
                image = sample["image"]
                ending = sniffed_ending(image) if isinstance(image, bytes) else ""
                yield {"name": f"{prefix}{number:0{digits}d}{ending}", **sample}
                number += 1

    def _join(self, groups: Sequence[_Group], images: Mapping[str, Column]) -> None:
        """Move labels, and what the person names, from other groups to the only one that has as many images."""
        for group in groups:
            for base, column in list(group.columns.items()) if group.split not in images else ():
                is_named = base in self.fields or column.key in self.fields
                fits = [g for g in groups if g.split in images and column.shape[:1] == images[g.split].shape[:1]]
                if (
                    len(fits) == 1
                    and base not in fits[0].columns
                    and (is_named or (base in LABELS and column.is_number))
                ):
                    fits[0].columns[base] = group.columns.pop(base)

    def _check_used(self, parts: Sequence[Part]) -> None:
        """Refuse names for arrays that are of no sample."""
        used = {key for part in parts for c in part.columns.values() for key in (c.key, _names(c.key)[1])}
        if unused := next((key for key in self.fields if key not in used), None):
            counts = " or ".join(f"{part.count:,}" for part in parts)
            raise ArgumentError(
                f"{self.location}: {unused!r}, which argument fields names, has not a row for each image; there are "
                f"{counts} images."
            )

    def _image(self, group: _Group) -> Column | None:
        """Return the images of a group: those that the person names, or the first with a usual name."""
        if said := self._said(group, "image"):
            if not said.is_image:
                raise SourceError(f"{said.place} has {_shown(said)}, which are not one image a sample.")
            return said
        return next(
            (c for key in IMAGES if (c := group.columns.get(key)) and self._is_free(c, key) and c.is_image), None
        )

    def _said(self, group: _Group, meaning: str) -> Column | None:
        found = [c for key, c in group.columns.items() if meaning in (self.fields.get(key), self.fields.get(c.key))]
        return found[0] if found else None

    def _is_free(self, column: Column, key: str) -> bool:
        return key not in self.fields and column.key not in self.fields

    def _part(self, group: _Group, image: Column) -> tuple[Part, list[Column]]:
        """Return the split of a group, and its columns that have another length."""
        count = image.shape[0]
        target = self._said(group, "target") or next(
            (
                c
                for key in LABELS
                if (c := group.columns.get(key)) and c is not image and self._is_free(c, key) and c.content == "numbers"
            ),
            None,
        )
        found, besides = {"image": image}, []
        for key, column in group.columns.items():
            name = self.fields.get(column.key) or self.fields.get(key) or field_name(key)
            name = "image" if column is image else "target" if column is target else name
            if column is not target and column is not image and column.shape[:1] != (count,):
                besides.append(column)
                continue
            if column.shape[:1] != (count,):
                raise SourceError(f"{column.place} has {_shown(column)}, but {image.place} {_shown(image)}.")
            if found.get(name, column) is not column:
                raise SourceError(
                    f"{column.place} and {found[name].place} would both become the field {name!r}. Name one of them: "
                    "--field KEY=FIELD (fields=)."
                )
            _check(column)
            found[name] = column
        return Part(group.split, count, found, _channels_first(image)), besides

    def _keep(self, besides: Sequence[Column]) -> None:
        """Take class names from columns that are of no sample, and small ones as notes."""
        notes: dict[str, JSON] = {}
        for column in besides:
            if not (column.content == "text" or column.is_number) or len(notes) == _NOTES:
                continue
            if int(np.prod(column.shape, dtype=object)) > _SMALL or column.dtype.itemsize > _SMALL:
                continue
            values = self.whole(column).tolist()
            base = _WORDS.sub("_", column.key.rpartition("/")[2].lower())
            if column.content == "text" and base in CLASSES and len(column.shape) == 1 and self.classes is None:
                self.classes = values
            elif column.dtype.kind != "f" or np.isfinite(np.asarray(values)).all():  # JSON has finite numbers only
                notes[column.key] = values
        self.notes = {"besides": notes} if notes else {}

    # Any: a row of an array, or a value of a list.
    def _value(self, part: Part, name: str, value: Any, number: int) -> Any:
        column = part.columns[name]
        if column.content != "numbers":
            return value.tolist() if isinstance(value, np.ndarray) else value
        if name == "image":
            return np.moveaxis(value, 0, 2) if part.channels_first else value
        if name != "target" or value.size != 1:
            return value
        label = value.reshape(()).item()
        if self.classes is not None and isinstance(label, int) and not 0 <= label < len(self.classes):
            raise SourceError(
                f"{column.place}, row {number:,}: label {label}, but there are {len(self.classes)} classes."
            )
        return int(label) if isinstance(label, bool) else label


def has_images(keys: Sequence[str]) -> bool:
    """Whether the names of some arrays are those of images."""
    return any(_names(key)[1] in IMAGES for key in keys)


def _names(key: str) -> tuple[str, str]:
    """Return the split that a key names, or else its folder; and what is left of its name."""
    folder, _, last = key.lower().rpartition("/")
    known = next((word for word in _WORDS.split(key.lower()) if word in SPLITS), None)
    if known is None:
        return split_name(folder), "_".join(_WORDS.split(last))
    return known, "_".join(word for word in _WORDS.split(last) if word != known) or known


def _grouped(columns: Sequence[Column]) -> list[_Group]:
    """Group columns by the split in their names, or by the folder in which they are."""
    groups: dict[str, _Group] = {}
    for column in columns:
        split, base = _names(column.key)
        group = groups.setdefault(split, _Group(split))
        if base in group.columns:
            raise SourceError(f"{column.place} and {group.columns[base].place} have the same meaning: {split} {base}.")
        group.columns[base] = column
    order = {name: number for number, name in enumerate(SPLITS)}
    return sorted(groups.values(), key=lambda group: order.get(group.split, len(order)))


def _channels_first(image: Column) -> bool:
    """Whether pixels are [C, H, W]: 1, 3 or 4 of them come first, and not last."""
    if image.content == "files" or image.dtype != np.uint8:
        return False
    if len(image.shape) != 4:
        return False
    first, last = (image.shape[axis] in _CHANNELS for axis in (1, 3))
    if first and last:
        raise SourceError(
            f"{image.place} has {_shown(image)}: channels may be the second or the last dimension. Store the dataset "
            "with recordzoo.convert.",
        )
    return first


def _check(column: Column) -> None:
    """Refuse a column that cannot be stored."""
    if column.content == "other" or (column.content == "numbers" and not column.is_number):
        raise SourceError(f"{column.place} holds {column.dtype}, which is not read.")
    if column.row_bytes == 0:
        raise SourceError(f"{column.place} has {_shown(column)}: a sample of it is empty.")
    if len(column.shape) - 1 > MAX_DIMENSIONS or column.row_bytes > MAX_MEMBER_BYTES:
        raise SourceError(f"{column.place} has {_shown(column)}: a sample of it is too large.")


def _shown(column: Column) -> str:
    return f"{column.content if column.content in ('text', 'files') else column.dtype} {list(column.shape)}"
