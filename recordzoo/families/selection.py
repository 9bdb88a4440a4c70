"""Selections: the records of a set that a dataset shows, and their targets: labels, or what a user's data had.

Targets in pixels of their image are made as transforms of v2 know them; where `transform` leaves them behind, a warning
says so.
"""

import functools
import io
import operator
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional
from typing_extensions import override

from recordzoo.base.text import did_you_mean
from recordzoo.errors import ArgumentError, CorruptRecordError, ManifestError, NotPreparedError, OtherSourceError
from recordzoo.images.decode import RecordName, from_pixels, is_pixels, naming, open_picture
from recordzoo.recipes.recipe import NO_TARGET
from recordzoo.records.arrays import as_floats, leads_out
from recordzoo.records.manifest import FieldKind, is_label
from recordzoo.records.reader import RecordReader

# Any, in all of this module: targets are labels, or anything that a user's dataset returns; arrays are of any dtype.


class Uneven(list[Any]):
    """Targets that stay a list in a batch: arrays of different shapes, or some of them None."""


class Selection:
    """Which positions of a record set a dataset shows, in which order, and with which labels.

    Args:
        reader: The record set.
        split: A split of it; "" for all positions in canonical order. Pickles as its name.
        positions: Any positions instead, int64 [n].
        targets: Labels of these positions, int64 [n]; an array of the record set by default.
        column: The name of that array.
        listed_in: The raw file that lists the split, for the error.

    Attributes:
        has_labels: Whether targets are labels (ints), which nobody can change in place.

    Raises:
        NotPreparedError: The record set has no such split: the raw data lacked its list.
    """

    has_labels: ClassVar[bool] = True

    def __init__(
        self,
        reader: RecordReader,
        split: str = "",
        positions: NDArray[np.int64] | None = None,
        targets: NDArray[np.int64] | None = None,
        column: str = "target",
        listed_in: str = "",
    ) -> None:
        if positions is None and split and split not in reader.manifest.splits:
            has = f"; it has {', '.join(reader.manifest.splits) or 'none'}"
            raise not_listed(reader, f"split {split!r}", listed_in or "its list or file", has)
        self.reader = reader
        self.split = split
        self.column = column
        self._given = positions
        self._given_targets = targets
        self._positions = positions if positions is not None else reader.split(split) if split else None
        self._length = len(reader) if self._positions is None else len(self._positions)

    def __len__(self) -> int:
        return self._length

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reader, self.split, self._given, self._given_targets, self.column)

    def position(self, index: int) -> int:
        """Return the position that a (non-negative) index stands for."""
        return index if self._positions is None else int(self._positions[index])

    def positions(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of some (non-negative) indices, int64 of the same shape."""
        return indices if self._positions is None else self._positions[indices]

    def all_positions(self) -> NDArray[np.int64]:
        """Return all positions, int64 [n]: an array of 8 bytes a sample, so not for each batch."""
        return np.arange(self._length, dtype=np.int64) if self._positions is None else self._positions

    def target(self, index: int) -> Any:
        """Return the label of a (non-negative) index."""
        if self._given_targets is not None:
            return int(self._given_targets[index])
        return int(self.reader.array(self.column)[self.position(index)])

    def targets(self, indices: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return all labels, or those of some (non-negative) indices: a new int64 [n]."""
        if self._given_targets is not None:
            found = self._given_targets
        else:
            found = self.reader.array(self.column)
            if self._positions is not None:
                indices = self._positions if indices is None else self._positions[indices]
        if indices is not None:
            found = found[indices]
        return found.astype(np.int64, copy=True)

    def batch_targets(self, indices: NDArray[np.int64]) -> Any:
        """Return the targets of some (non-negative) indices for a batch: as an array if they are numbers."""
        return self.targets(indices) if type(self) is Selection else [self.target(index) for index in indices.tolist()]

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names of the targets, in the order of their labels; none if they have none."""
        manifest = self.reader.manifest
        spec = manifest.fields.get(self.column)
        return (spec.names if spec is not None and spec.kind is FieldKind.CLASS else manifest.classes) or ()

    def array(self, name: str) -> NDArray[Any]:
        """Return an array field of all records shown, [n, ...]."""
        found = self.reader.array(name)
        return found if self._positions is None else found[self._positions]

    def names(self) -> list[str]:
        """Return the names of all records shown, in the order of `all_positions`."""
        names: Sequence[str] = self.reader.names
        if self._positions is None:
            return list(names)
        if 2 * len(self._positions) > len(names):  # iterating is about five times as fast as indexing
            names = list(names)
        return [names[position] for position in self._positions.tolist()]


def selection_of(dataset: object) -> Selection | None:
    """Return the samples of a dataset of one record set, in torchvision's v2 wrapper, too; None for any other."""
    found = getattr(dataset, "_selection", None)
    return found if isinstance(found, Selection) else None


class UnlabelledSelection(Selection):
    """A selection of samples without labels: the target of each is None."""

    def target(self, index: int) -> None:
        """Return None."""

    def targets(self, indices: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return None for all, or for some (non-negative) indices: a new object array [n]."""
        return np.full(len(self) if indices is None else len(indices), None, object)


def not_listed(reader: RecordReader, what: str, listed_in: str, has: str = "") -> NotPreparedError:
    """Make the error for a split, or labels, whose list was missing in the raw data."""
    return NotPreparedError(
        f"{reader.path} has no {what}: {listed_in} was missing when it was prepared{has}. If it is there now, prepare "
        "again with refresh=True.",
        path=str(reader.path),
    )


def list_targets(selection: Selection) -> list[Any]:
    """Return all labels as torchvision's ``targets``: a list of ints."""
    targets: list[Any] = selection.targets().tolist()
    return targets


def list_paths(selection: Selection, folder: str, ending: str, prefix: str = "", name_ending: str = "") -> list[str]:
    """Return the paths of files that belong to the records: their names in another folder and with another ending.

    Args:
        folder: The directory in which the files are, existing or not.
        ending: Their ending with its dot.
        prefix: A prefix of all records' names that the files' names lack.
        name_ending: The suffix of all names; by default, each name's part from its last dot.
    """
    names = (name.removeprefix(prefix) for name in selection.names())
    stems = (name.removesuffix(name_ending) if name_ending else name.rpartition(".")[0] for name in names)
    return join_names(folder, [stem + ending for stem in stems])


def list_index(index: object, length: int) -> int | None:
    """Normalise a list index to 0 ... length - 1; None for a slice.

    Raises:
        IndexError, TypeError: As a list does, in the same words.
    """
    if isinstance(index, slice):
        return None
    try:
        number = operator.index(index)  # type: ignore[arg-type]  # refused here if it is no index
    except TypeError:
        return [][index]  # type: ignore[call-overload, no-any-return]  # raises in a list's own words
    if not -length <= number < length:
        raise IndexError("list index out of range")
    return number % length


def join_name(folder: str, name: str, *, anywhere: bool = False) -> str:
    """Return the path of a record's name ("class/file.jpg") under a directory, as torchvision writes it.

    Args:
        folder: The directory.
        name: The name.
        anywhere: Allow names that lead out of the directory, as in lists. Such a path is shown and never opened.

    Raises:
        CorruptRecordError: The record's name leads out of the directory.
    """
    if not anywhere and leads_out(name):
        raise CorruptRecordError(f"The record's name {name!r} leads out of {folder}: it is not made a path.", name=name)
    return os.path.join(folder, name if os.sep == "/" else name.replace("/", os.sep))


def join_names(folder: str, names: Sequence[str], *, anywhere: bool = False) -> list[str]:
    """As `join_name`, for many names; faster if no name is absolute or has two dots."""
    start = os.path.join(folder, "")
    if os.sep != "/":
        return [join_name(folder, name, anywhere=anywhere) for name in names]
    return [
        join_name(folder, name, anywhere=anywhere) if name.startswith("/") or ".." in name else start + name
        for name in names
    ]


class ValueSelection(Selection):
    """A selection whose targets are what the user's dataset returned: numbers, tuples, images, dicts."""

    has_labels = False

    @functools.cached_property
    def _form(self) -> "SampleForm":
        return sample_form(self.reader)

    def target(self, index: int) -> Any:
        """Return the target of a (non-negative) index."""
        return self.targets(np.array([index], np.int64))[0]

    def targets(self, indices: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return all targets, or those of some (non-negative) indices: a new object array [n]."""
        columns = self._columns(self.all_positions() if indices is None else self.positions(indices))
        found = np.empty(len(columns[0]), object)
        for number in range(len(found)):
            found[number] = self._joined([_item(column, number) for column in columns])
        return found

    @override
    def batch_targets(self, indices: NDArray[np.int64]) -> Any:
        return self._joined(self._columns(self.positions(indices)))

    @property
    def _fields(self) -> tuple[str, ...]:
        """The fields that form a target."""
        return self._form.part_fields or ("target",)

    def _columns(self, positions: NDArray[np.int64]) -> list[NDArray[Any] | list[Any]]:
        """Return the values of each field of the targets at some positions."""
        return [self._values(name, positions) for name in self._fields]

    def _values(self, name: str, positions: NDArray[np.int64]) -> NDArray[Any] | list[Any]:
        """Return the values of a field at some positions; here as the user's dataset returned them."""
        found = [stored_value(self.reader, self._form, name, position) for position in positions.tolist()]
        blob = self.reader.manifest.blobs.get(name)
        is_uneven = blob is not None and blob.encoding == "raw" and blob.shape is None
        return Uneven(found) if is_uneven else found

    def _joined(self, values: Sequence[Any]) -> Any:
        """Join a sample's values to its target, or columns to a batch; None if no value is there."""
        if all(value is None for value in values):
            return None
        parts = self._form.parts
        if isinstance(parts, Mapping):
            return dict(zip(parts, values, strict=True))
        return tuple(values) if parts else values[0]


class FieldSelection(ValueSelection):
    """A selection whose targets are one field, or a tuple of several, typed by the field's kind.

    A class or whole number is an int; a float is numpy.float32, or float64 if a number of the field needs it; several
    labels are float32 [C] of 0 and 1.

    Args:
        column: The field; or the fields, as a tuple.
    """

    column: Any  # a name, or a tuple of names; the base class has one name

    @property
    @override
    def _fields(self) -> tuple[str, ...]:
        return (self.column,) if isinstance(self.column, str) else self.column

    @functools.cached_property
    def _doubles(self) -> frozenset[str]:
        """The fields with numbers that float32 would change."""
        arrays = {name: self.reader.array(name) for name in self._fields if name in self.reader.columns}
        return frozenset(
            name
            for name, array in arrays.items()
            if self.reader.manifest.fields[name].kind is FieldKind.FLOAT and as_floats(array).dtype == np.float64
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names of the first target that is a class."""
        specs = map(self.reader.manifest.fields.__getitem__, self._fields)
        return next((spec.names or () for spec in specs if spec.kind is FieldKind.CLASS), ())

    @override
    def _joined(self, values: Sequence[Any]) -> Any:
        return values[0] if isinstance(self.column, str) else tuple(values)

    @override
    def _values(self, name: str, positions: NDArray[np.int64]) -> NDArray[Any] | list[Any]:
        manifest = self.reader.manifest
        if name in manifest.blobs:
            return super()._values(name, positions)
        found = self.reader.array(name)[positions]
        if manifest.fields[name].kind in (FieldKind.FLOAT, FieldKind.MULTILABEL):
            return found.astype(np.float64 if name in self._doubles else np.float32)
        return found.astype(np.int64) if is_label(found.dtype.str, found.shape) else found


@dataclass(frozen=True, slots=True)
class SampleForm:
    """How the samples of a user's dataset looked before they were stored.

    Attributes:
        parts: The fields that form a target: as a tuple, or as a dict by its keys.
        tensors: Fields that the dataset gave as tensors.
        pictures: Fields that hold images or pixels, and how many dimensions the dataset's arrays or tensors had; 0 if
            it gave images.
    """

    parts: tuple[str, ...] | Mapping[str, str] = ()
    tensors: frozenset[str] = frozenset()
    pictures: Mapping[str, int] = field(default_factory=dict)

    @property
    def part_fields(self) -> tuple[str, ...]:
        """The fields of `parts`."""
        return tuple(self.parts.values() if isinstance(self.parts, Mapping) else self.parts)


def sample_form(reader: RecordReader) -> SampleForm:
    """Read from an (untrusted) manifest how the samples looked before they were stored."""
    form = reader.manifest.metadata.get("sample", {})
    fields = {*reader.manifest.blobs, *reader.columns}
    try:
        parts = form.get("parts", {}).get("target", ())
        found = SampleForm(
            dict(parts) if isinstance(parts, Mapping) else tuple(parts),
            frozenset(form.get("tensors", ())),
            {name: operator.index(dimensions) for name, dimensions in form.get("pictures", {}).items()},
        )
        if not fields.issuperset({*found.part_fields, *found.tensors, *found.pictures}):
            raise ValueError("a field that is not there")
    except (AttributeError, TypeError, ValueError) as err:
        text = f'{reader.path}: the metadata\'s "sample" does not describe its fields ({err}).'
        raise ManifestError(text, path=str(reader.path)) from err
    return found


def stored_value(reader: RecordReader, form: SampleForm, field: str, position: int) -> Any:
    """Return a field's value, None if there is none. A stored tensor or image becomes one again."""
    if field in form.pictures and reader.has(field, position):
        return _picture(reader, field, position, form.pictures[field], is_tensor=field in form.tensors)
    value = reader.value(field, position)
    if isinstance(value, np.ndarray):
        value = value.copy()  # the stored array is read-only
        return torch.from_numpy(value) if field in form.tensors else value
    if isinstance(form.parts, Mapping) and field in form.tensors and isinstance(value, int | float):
        dtype = (reader.manifest.blobs.get(field) or reader.manifest.arrays[field]).dtype
        return torch.from_numpy(np.array(value, dtype)) if dtype else value  # a tensor without dimensions
    return value


def _picture(reader: RecordReader, field: str, position: int, dimensions: int, *, is_tensor: bool) -> Any:
    """Return an image, or its pixels: an array [H, W] or [H, W, C], a tensor [H, W] or [C, H, W]."""
    with naming(reader.path, RecordName(reader, position)):
        image = open_picture(reader, position, field)
        image.load()
    if not dimensions:
        return image
    pixels = np.array(image)
    if dimensions > pixels.ndim:
        pixels = pixels[..., None]
    if not is_tensor:
        return pixels
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(pixels, -1, 0) if pixels.ndim > 2 else pixels))


def _item(values: NDArray[Any] | list[Any], number: int) -> Any:
    return int(values[number]) if isinstance(values[number], np.integer) else values[number]


def stored_selection(
    reader: RecordReader, split: str = "", target_type: str | Sequence[str] | None = None
) -> Selection:
    """Select a split of a record set, or all of it, with the given targets. Default: the set's own.

    Raises:
        ArgumentError: It has no such field.
        OtherSourceError: It has other fields than images, and none of them is the target.
    """
    manifest, form = reader.manifest, sample_form(reader)
    column: Any  # a name, or a tuple of names
    if target_type is not None:
        valid = [name for name in manifest.fields if name != "image"]
        names = check_fields(reader, target_type, valid)
        if not names:
            raise ArgumentError(f"target_type is {target_type!r}; it must name at least one of {', '.join(valid)}.")
        column = target_type if isinstance(target_type, str) else names
    elif manifest.default_target is not None and "sample" not in manifest.metadata:
        column = manifest.default_target
    elif manifest.label_field is not None and not form.parts:
        column = manifest.label_field
    elif "target" in manifest.fields or form.parts:
        return ValueSelection(reader, split)
    elif others := [name for name in manifest.fields if name != "image"]:
        raise OtherSourceError(
            f'{reader.path} has no "target", which ImageFolder gives with each image. target_type chooses one of '
            f"{', '.join(others)}.",
            path=str(reader.path),
        )
    else:  # as images without classes
        count = len(reader.split(split)) if split else len(reader)
        return Selection(reader, split, targets=np.full(count, NO_TARGET, np.int64))
    spec = manifest.arrays.get(column) if isinstance(column, str) else None
    is_plain = spec is not None and is_label(spec.dtype, spec.shape)
    return (Selection if is_plain else FieldSelection)(reader, split, column=column)


def check_fields(
    reader: RecordReader, target_type: str | Sequence[str], valid: Sequence[str], valid_values: str = "Valid values"
) -> tuple[str, ...]:
    """Return the fields of a record set that the argument `target_type` names; `valid_values` begins a sentence."""
    names = (target_type,) if isinstance(target_type, str) else tuple(target_type)
    for name in names:
        if name not in valid:
            raise ArgumentError(
                f"Unknown value {name!r} for argument target_type. {valid_values} for {reader.path} are "
                f"{', '.join(valid)}.{did_you_mean(str(name), valid)}"
            )
    return names


def raw_image(reader: RecordReader, position: int) -> Any:
    """Turn raw pixels into the image that torchvision's loader would return; other numbers into an array or tensor."""
    value = reader.decoded("image", position)
    if is_pixels(value.dtype.str, value.shape):
        return from_pixels(value).convert("RGB")
    return stored_value(reader, sample_form(reader), "image", position)


def raw_file(reader: RecordReader, position: int) -> tuple[bytes, str]:
    """Return raw values as a file that loaders know, and its ending: PNG for pixels, .npy for other numbers."""
    value = reader.decoded("image", position)
    buffer = io.BytesIO()
    if is_pixels(value.dtype.str, value.shape):
        from_pixels(value).save(buffer, "png")
        return buffer.getvalue(), ".png"
    np.save(buffer, value, allow_pickle=False)
    return buffer.getvalue(), ".npy"


_GEOMETRY = {name for name, kind in vars(v2).items() if getattr(kind, "__module__", "").endswith("._geometry")}
"""The names of v2's transforms of geometry; those of torchvision's first transforms are called alike."""


def warn_if_left_behind(dataset: Any, targets: Sequence[str]) -> None:
    """Warn if the dataset's `transform` moves pixels under a target that nothing moves.

    Args:
        dataset: The dataset, whose transforms are set.
        targets: What is in pixels: "target_type 'bbox'".
    """
    if not targets or dataset.transform is None or dataset.target_transform is not None:
        return
    moving = next((name for name in _names_in(dataset.transform) if name in _GEOMETRY), None)
    if moving is None:
        return
    has_argument = "transforms" in signature(type(dataset).__init__).parameters
    way = "pass transforms=" if has_argument else "use torchvision.datasets.wrap_dataset_for_transforms_v2"
    warnings.warn(
        f"{type(dataset).__name__}: {moving} in transform= moves the image, but not {targets[0]}, which is in "
        f"its pixels. To move both, {way}.",
        stacklevel=3,
    )


def _names_in(transform: Any) -> Iterator[str]:
    """Yield the names of a transform and of those within it, as in Compose, that are torchvision's."""
    if type(transform).__module__.startswith("torchvision.transforms"):
        yield type(transform).__name__
    within = getattr(transform, "transforms", ())
    for each in within if isinstance(within, list | tuple) else ():
        yield from _names_in(each)


def as_mask(mask: Any) -> tv_tensors.Mask:
    """Make a mask [H, W] of an image or array with one channel."""
    found = tv_tensors.Mask(mask if isinstance(mask, Image.Image) else torch.tensor(mask))
    return tv_tensors.Mask(found[0]) if found.ndim == 3 and found.shape[0] == 1 else found


def with_form(form: str, target: Any, image: Any) -> Any:
    """Return a target in pixels of its image as transforms of v2 know it."""
    if form == "mask":
        return as_mask(target)
    height, width = functional.get_size(image)
    if form == "points":
        return tv_tensors.KeyPoints(target, canvas_size=(height, width))
    if form == "seen points":
        return tv_tensors.KeyPoints(target[:, :2], canvas_size=(height, width)), target[:, 2]
    return tv_tensors.BoundingBoxes(target, format=form, canvas_size=(height, width))
