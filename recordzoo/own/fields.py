"""What a field is: `Field` turns its values into bytes and numbers; `Fields` are those of a dataset's samples.

`Field.of` decides how a field is stored, by the values of some samples, and `Field.including` by each later one that
does not fit; `Field.put` stores one. `recordzoo.families.selection` reads them. A field's arrays have one dtype and
one number of dimensions, any shapes, and None where a sample has no value.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.text import JSON
from recordzoo.errors import ArgumentError, SampleError
from recordzoo.formats.base import field_name
from recordzoo.own.values import (
    as_array,
    as_pixels,
    at_position,
    describe,
    is_json,
    is_picture,
    json_bytes,
    picture_bytes,
)
from recordzoo.recipes.declared import is_image
from recordzoo.recipes.recipe import look, sniffed_ending
from recordzoo.records.manifest import MAX_DIMENSIONS, RESERVED_FIELDS, BlobSpec, is_field_name
from recordzoo.records.shard import stored_bytes

Kind = Literal["image", "bytes", "picture", "pixels", "raw", "array", "json"]
"""How a field is stored: "image" and "bytes" untouched; "picture" as PNG; "pixels" and "raw" as raw numbers; "array" as
a row of an array file; "json"."""

# Any: a number, a key, or None.
Parts = Mapping[Any, str]
"""What the parts of a sample, or of an item of it, are called: of a tuple by number, of a dict by key; else by None."""

_ROW_BYTES = 1024
"""An array up to this size is a row of an array file: a million of them are in memory while they are put together."""

_PAGE_BYTES = 4096
"""A picture up to this size takes a page of a shard, or less, however it is stored."""

_ENCODINGS = {"image": "image", "bytes": "bytes", "picture": "image", "pixels": "raw", "raw": "raw"}


class MisfitError(SampleError):
    """A value is not like those before it."""


class UnevenError(SampleError):
    """A value is not like those before it; its `fields` can store all of them, some as other `kinds` than before."""


# Any, here and below: values are whatever a dataset gives.
def _misfit(name: str, value: Any, expected: str) -> MisfitError:
    return MisfitError(f"{name!r} holds a {describe(value)}, not {expected}")


@dataclass
class Encoded:
    """A sample as it is stored.

    Attributes:
        blobs: Field, bytes, ending of an image's file.
        row: For each array field its value, and for each raw field, as ``<field>.shape``, the shape.
    """

    blobs: "list[tuple[Field, bytes, str]]" = field(default_factory=list)
    row: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """The bytes of all of it."""
        return sum(len(data) for _, data, _ in self.blobs) + sum(array.nbytes for array in self.row.values())


@dataclass(frozen=True, slots=True)
class Field:
    """How one field is stored; of numbers also their dtype, and the shape of a row or the number of dimensions.

    Attributes:
        kind: As `Kind` has it; "none" while all samples have None.
        is_tensor: The dataset gives tensors.
        dimensions: The number of dimensions, if images come as arrays or tensors; 0 for PIL images.
    """

    name: str
    kind: Kind | Literal["none"] = "none"
    dtype: str = ""
    shape: tuple[int, ...] = ()
    is_tensor: bool = False
    dimensions: int = 0

    @classmethod
    def of(
        cls, name: str, values: Mapping[int, Any], kind: Kind | None = None, *, is_first: bool, in_dict: bool
    ) -> "Field":
        """Choose by the first value of some, and again if a later one is not like it.

        Args:
            name: Its name.
            values: At least one value, by position.
            kind: How the user wants it to be stored.
            is_first: It is the first one, or "image": small arrays are no rows.
            in_dict: Its arrays have shapes of their own and are no images.

        Raises:
            SampleError: A value cannot be stored, or not like those before it; the message has its position.
        """
        there = {position: value for position, value in values.items() if value is not None}
        if not there:
            return cls(name, "json" if kind == "json" else "none")
        position, value = next(iter(there.items()))
        with at_position(position):
            chosen = cls._like(name, value, kind or _kind(name, value, is_first=is_first, in_dict=in_dict))
        if kind is None and chosen.kind == "picture" and _is_smaller_raw(list(there.values())):
            chosen = cls._like(name, value, "pixels")
        for position, value in values.items():
            with at_position(position):
                chosen = chosen.including(value, is_fixed=kind is not None)
        return chosen

    @classmethod
    def _like(cls, name: str, value: Any, kind: Kind) -> "Field":
        """Return the field of a kind for a value, and others like it."""
        given = as_array(value)
        numbers = as_pixels(value) if kind == "pixels" else given
        dimensions = given.ndim if given is not None and kind in ("picture", "pixels") else 0
        found = cls(name, kind, is_tensor=hasattr(value, "detach"), dimensions=dimensions)
        if kind not in ("array", "raw", "pixels"):
            return found
        if numbers is None:
            raise SampleError(f"{name!r} is a {describe(value)}; it cannot be stored as {kind}")
        return replace(found, dtype=numbers.dtype.str, shape=numbers.shape)

    def including(self, value: Any, *, is_fixed: bool) -> "Field":
        """Return how a value is stored with all those before it.

        Raises:
            SampleError: They cannot be, or only in another way, and the field `is_fixed`.
        """
        try:
            self.put(value, Encoded())
        except MisfitError as err:
            if is_fixed or (wider := self._wider(value)) is None:
                raise SampleError(str(err)) from None
            return wider
        return self

    def _wider(self, value: Any) -> "Field | None":
        """Return how a value that does not fit is stored with all those before it; None if they cannot be."""
        array = as_array(value)
        if self.kind in ("picture", "pixels"):  # PNG or arrays can store all of them
            if is_picture(value):
                return replace(self, kind="picture", dtype="", shape=())
            if array is None or array.dtype != np.uint8 or array.ndim != self.dimensions:
                return None
            return replace(self, kind="raw", dtype="|u1", shape=array.shape)
        if self.kind != "array":
            return None
        is_alike = value is None or self._is_like(array)
        if is_alike and (self.shape or self.is_tensor or np.dtype(self.dtype).kind == "f"):
            return replace(self, kind="raw")
        is_array = array is not None and (array.ndim > 0 or bool(self.shape))
        return Field(self.name, "json") if is_alike or (is_json(value) and not is_array) else None

    @property
    def spec(self) -> BlobSpec | None:
        """How the record set stores the values; None for rows of an array."""
        if self.kind == "array":
            return None
        return BlobSpec(_ENCODINGS.get(self.kind, "json"), None, "|u1" if self.kind == "pixels" else self.dtype)

    def put(self, value: Any, encoded: Encoded) -> None:
        """Add a value to a sample.

        Raises:
            MisfitError: It is not of this kind, dtype or number of dimensions.
            SampleError: It cannot be stored.
        """
        if self.name == "boxes" and (said := getattr(getattr(value, "format", None), "value", "XYXY")) != "XYXY":
            raise SampleError(f"'boxes' are {said}, not XYXY: apply torchvision's v2.ConvertBoundingBoxFormat('XYXY').")
        if self.kind == "array":
            row = as_array(value)
            if row is None or not self._is_like(row) or row.shape != self.shape:
                raise _misfit(self.name, value, f"{np.dtype(self.dtype)} {list(self.shape) or ''}".rstrip())
            encoded.row[self.name] = row.copy()  # the caller may reuse the array for the next sample
        elif self.kind in ("raw", "pixels"):
            array = as_pixels(value) if self.kind == "pixels" else as_array(value)
            if value is not None and not self._is_like(array):
                what = "an image" if self.kind == "pixels" else f"{np.dtype(self.dtype)} numbers"
                raise _misfit(self.name, value, f"{what} of {len(self.shape)} dimensions")
            shape = np.zeros(len(self.shape)) if array is None else array.shape
            encoded.row[f"{self.name}.shape"] = np.array(shape, np.uint32)
            if array is not None:
                encoded.blobs.append((self, np.ascontiguousarray(array).tobytes(), ""))
        elif value is not None:
            encoded.blobs.append((self, *self._file(value)))

    def _file(self, value: Any) -> tuple[bytes, str]:
        """Return the bytes of a value that is no array, and the ending of an image's file."""
        if self.kind == "json":
            try:
                return json_bytes(value), ""
            except SampleError as err:
                raise SampleError(f"{self.name!r} holds {err}") from None
        if self.kind == "picture" and is_picture(value):
            return picture_bytes(value)
        if self.kind in ("image", "bytes") and isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            return data, sniffed_ending(data) if self.kind == "image" else ""
        what = {"none": "None as before", "picture": "an image"}
        raise _misfit(self.name, value, what.get(self.kind, "bytes"))

    # Any: of any dtype.
    def _is_like(self, array: NDArray[Any] | None) -> bool:
        """Whether an array has the dtype and the number of dimensions of the field's arrays."""
        return array is not None and (array.dtype.str, array.ndim) == (self.dtype, len(self.shape))


def _kind(name: str, value: Any, *, is_first: bool, in_dict: bool) -> Kind:
    """Choose a kind for a value; see `Field.of`."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "image" if look(bytes(value)).problem is None or name == "image" else "bytes"
    array = as_array(value)
    is_small = array is not None and array.nbytes <= _ROW_BYTES and not is_first
    if is_picture(value) and not (is_small or in_dict):
        return "picture"
    if array is not None and array.ndim <= MAX_DIMENSIONS:
        return "array" if array.ndim == 0 or (is_small and not in_dict) else "raw"
    try:
        json_bytes(value)
    except SampleError as err:
        raise SampleError(f"{name!r} is a {describe(value)}: neither an image nor numbers nor JSON ({err})") from None
    return "json"


def _is_smaller_raw(values: Sequence[Any]) -> bool:
    """Whether images of one shape are no larger as raw pixels: a page of a shard holds one, or PNG gains nothing."""
    pixels = [as_pixels(value) for value in values]
    if len({None if each is None else each.shape for each in pixels}) != 1 or pixels[0] is None:
        return False
    if pixels[0].nbytes <= _PAGE_BYTES:
        return True
    return stored_bytes(pixels[0].nbytes) * len(values) <= sum(
        stored_bytes(len(picture_bytes(value)[0])) for value in values
    )


def _part_of(value: Any, key: Any) -> Any:
    """Return an item of a dict or tuple, None if it has no such item; by None, the value itself."""
    if key is None or value is None:
        return value
    return value.get(key) if isinstance(value, Mapping) else value[key]


def _parts(name: str, values: Collection[Any], taken: Collection[str]) -> Parts:
    """Return the fields of a dict with arrays, or of a tuple that always has as many numbers and arrays."""
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, Mapping) for value in there):
        items = [item for value in there for item in value.items()]
        has_arrays = any(hasattr(each, "dtype") and as_array(each) is not None for _, each in items)
        if has_arrays and all(isinstance(key, str) for key, _ in items):
            return _named_parts(name, dict.fromkeys(key for key, _ in items), taken)
    lengths = {len(value) if isinstance(value, tuple) else 0 for value in there}
    if len(lengths) != 1:
        return {None: name}
    arrays = [as_array(part) for value in there if isinstance(value, tuple) for part in value]
    are_numbers = len(there) == len(values) and all(each is not None for each in arrays)
    are_parts = are_numbers or any(each is not None and each.ndim for each in arrays)
    return {i: f"{name}_{i}" for i in range(lengths.pop())} if are_parts and arrays else {None: name}


def _lacking(parts: Parts, value: Any) -> str:
    """Say what a value of an item should be instead; "" if it is None, or has no other parts than the item's."""
    if value is None or None in parts:
        return ""
    if 0 in parts:
        return "" if isinstance(value, tuple) and len(value) == len(parts) else f"a tuple of {len(parts)}"
    has_parts = isinstance(value, Mapping) and value.keys() <= parts.keys()
    return "" if has_parts else f"a dict of {', '.join(parts)}"


def _named_parts(name: str, keys: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return a field for each key: the key, or after the item's name if another field is called so."""
    found: dict[str, str] = {}
    for key in keys:
        plain = field_name(key)
        found[key] = f"{name}_{plain}" if plain in taken or plain in found.values() else plain
    return found


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a dataset's samples.

    Attributes:
        items: What the items of a sample are called.
        kinds: How fields are stored, for the fields that the user names.
        has_gaps: Whether a sample may be without its "image". Any other field may have None: it has no value then.
        parts: The fields of each item: several for a tuple of numbers and arrays, or a dict with arrays.
        fields: How each field is stored.
    """

    items: Parts
    kinds: Mapping[str, Kind]
    has_gaps: bool = False
    parts: Mapping[str, Parts] = field(default_factory=dict)
    fields: Mapping[str, Field] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """What a record set keeps of it."""
        several = {item: parts for item, parts in self.parts.items() if None not in parts}
        return {
            "fields": list(self.items.values()),
            "parts": {item: list(each.values()) if 0 in each else dict(each) for item, each in several.items()},
            "tensors": [each.name for each in self.fields.values() if each.is_tensor],
            "pictures": {e.name: e.dimensions for e in self.fields.values() if e.kind in ("picture", "pixels")},
        }

    def identity(self) -> str:
        """All of it as text."""
        return json.dumps(asdict(self))

    def with_item(self, item: str, values: Mapping[int, Any], *, is_first: bool = False) -> "Fields":
        """Choose how an item of the samples is stored, from values by position: as one field, or each of its parts.

        Raises:
            SampleError: A value cannot be stored; the message has its position.
        """
        taken = {*self.items.values(), *self.fields} - {item}
        parts = {None: item} if item in self.kinds else _parts(item, list(values.values()), taken)
        return self._with_parts(item, parts, values, is_first=is_first)

    def _with_parts(self, item: str, parts: Parts, values: Mapping[int, Any], *, is_first: bool = False) -> "Fields":
        """Store an item as some fields; one that has values already keeps them, and gets the last of these."""
        gone = {*self.parts.get(item, {}).values()} - {*parts.values()}
        found = {name: each for name, each in self.fields.items() if name not in gone}
        for key, name in parts.items():
            column = {position: _part_of(value, key) for position, value in values.items()}
            kind, before = self.kinds.get(name), found.get(name)
            if before is not None and before.kind != "none":
                found[name] = before.including(list(column.values())[-1], is_fixed=kind is not None)
            else:
                found[name] = Field.of(name, column, kind, is_first=is_first, in_dict=isinstance(key, str))
        return replace(self, parts={**self.parts, item: parts}, fields=found)

    def encode(self, sample: Any) -> Encoded:
        """Turn a sample into blobs and rows.

        Raises:
            UnevenError: A value is not like those before it, and other fields can store all of them.
            SampleError: It cannot be stored.
        """
        encoded = Encoded()
        for item, value in self.values_of(sample):
            parts = self.parts[item]
            needs_image = item == "image" and None in parts and not self.has_gaps
            if value is None and needs_image and self.fields[item].kind not in ("none", "json", "array"):
                raise SampleError("'image' holds None, not an image")
            try:
                if expected := _lacking(parts, value):
                    raise _misfit(item, value, expected)
                for key, name in parts.items():
                    self.fields[name].put(_part_of(value, key), encoded)
            except MisfitError as err:
                if (wider := self._wider(item, value)) is None:
                    raise SampleError(str(err)) from None
                kinds = {each.name: each.kind for each in wider.fields.values() if self.fields.get(each.name) != each}
                raise UnevenError(str(err), fields=wider, kinds=kinds, worthless=True) from None
        return encoded

    def _wider(self, item: str, value: Any) -> "Fields | None":
        """Return the fields that store a value of an item that does not fit, and all before it; None if none do.

        Raises:
            SampleError: It cannot be stored.
        """
        parts, seen = self.parts[item], {-2: None, -1: value}
        if None in parts and self.fields[item].kind == "none":
            return self.with_item(item, seen)
        if not _lacking(parts, value):
            return self._with_parts(item, parts, seen)
        if isinstance(value, Mapping) and 0 not in parts and all(isinstance(key, str) for key in value):
            more = _named_parts(item, [key for key in value if key not in parts], self.fields)
            return self._with_parts(item, {**parts, **more}, seen)
        before = [self.fields[name] for name in parts.values()]
        if 0 not in parts or not is_json(value) or any(each.kind != "array" or each.shape for each in before):
            return None
        others = {name: each for name, each in self.fields.items() if each not in before}  # numbers of several lengths
        return replace(self, parts={**self.parts, item: {None: item}}, fields={**others, item: Field(item, "json")})

    def values_of(self, sample: Any) -> list[tuple[str, Any]]:
        """Return the items of a sample with their names.

        Raises:
            SampleError: It has other items.
        """
        is_dict = isinstance(sample, Mapping)
        keys = sample.keys() if is_dict else range(len(sample)) if isinstance(sample, tuple | list) else ()
        if None not in self.items and {*keys} != self.items.keys():
            expected = f"tuple of {len(self.items)}" if 0 in self.items else f"dict of {', '.join(self.items)}"
            found = f", but of {', '.join(map(str, keys))[:300]}" if is_dict else ""
            raise SampleError(f"a {describe(sample)} that is no {expected}{found}")
        return [(name, sample if key is None else sample[key]) for key, name in self.items.items()]


def infer(
    samples: Mapping[int, Any],
    names: Sequence[str] | Mapping[str, str] | None,
    kinds: Mapping[str, Kind],
    *,
    has_gaps: bool = False,
) -> Fields:
    """Find the fields of a dataset's samples from some of them, by position.

    Args:
        samples: At least one sample.
        names: What the items of a tuple are called; by default "image" (or "input", if it is none), "target",
            "field_2", "field_3", ... For a dict: other names than its keys, by key.
        kinds: How fields are stored, for the fields that the user names.
        has_gaps: As `Fields` has it.

    Raises:
        ArgumentError: The names do not fit the samples, or cannot be names.
        SampleError: A value cannot be stored; the message has its position and type.
    """
    for name, kind in kinds.items():
        if kind not in get_args(Kind):
            raise ArgumentError(
                f"Unknown value {kind!r} for {name!r} in argument kinds. Valid values are {get_args(Kind)}."
            )
    first = next(iter(samples.values()))
    found = Fields(_items(first, names), dict(kinds), has_gaps)
    values: dict[str, dict[int, Any]] = {}
    for position, sample in samples.items():
        with at_position(position):
            for item, value in found.values_of(sample):
                values.setdefault(item, {})[position] = value
    for item, column in values.items():
        found = found.with_item(item, column, is_first=item in (next(iter(values)), "image"))
    # The first item is an image until it turns out to be none.
    is_guess = names is None and not isinstance(first, Mapping)
    if "image" not in kinds:
        _refuse_path(values.get("image", {}), is_guess=is_guess)
    if is_guess and "image" in found.fields and found.fields["image"].kind in ("array", "json", "none"):
        return infer(samples, ("input", *list(values)[1:]), kinds, has_gaps=has_gaps)
    if unknown := sorted(set(kinds).difference(found.fields)):
        raise ArgumentError(f"Argument kinds names {', '.join(unknown)}, but the fields are {', '.join(found.fields)}.")
    _check_names([name for parts in found.parts.values() for name in parts.values()])
    return found


def _refuse_path(images: Mapping[int, Any], *, is_guess: bool) -> None:
    """Refuse text as an image: it is a path, and would be stored as such."""
    for position, value in images.items():
        if isinstance(value, str | os.PathLike) and (not is_guess or is_image(os.fspath(value))):
            raise SampleError(
                f"position {position}: 'image' is a path, {os.fspath(value)[:100]!r}; of a file, give the bytes: "
                "Path(...).read_bytes(). A list of files (.csv) is prepared as it is: recordzoo.prepare('list.csv').",
                position=position,
            )


def _check_names(names: Sequence[Any]) -> None:
    """Raise if a name cannot be that of a field, or is another's, too."""
    for name in names:
        if not isinstance(name, str) or name in RESERVED_FIELDS or not is_field_name(name) or names.count(name) > 1:
            raise ArgumentError(
                f"{name!r} cannot be a field's name: small letters, digits and _ only, each name once, on Windows no "
                f"device's, and none of {', '.join(sorted(RESERVED_FIELDS))}. Pass fields with other names, such as "
                f"fields={{{name!r}: '{name}_'}}."
            )


def _items(sample: Any, names: Sequence[str] | Mapping[str, str] | None) -> Parts:
    """Return what the items of samples are called.

    Raises:
        ArgumentError: The names do not fit the samples, or are no names of fields.
    """
    if isinstance(sample, Mapping):
        form, found = "dict", {key: key for key in sample}
    elif isinstance(sample, tuple | list) and sample:
        usual = ("image", "target", *(f"field_{i}" for i in range(2, len(sample))))[: len(sample)]
        form, found = "tuple", dict(enumerate(getattr(sample, "_fields", usual)))
    else:
        form, found = "value", {None: "image"}
    if isinstance(names, Mapping):
        if not names.keys() <= found.keys():
            given = ", ".join(found.values())
            raise ArgumentError(f"Argument fields renames {', '.join(names)}, but a sample is a {form} of {given}.")
        found |= names
    elif names is not None:
        if form == "dict" or len(names) != len(found):
            raise ArgumentError(f"Argument fields has {len(names)} names, but a sample is a {form} of {len(found)}.")
        found = dict(zip(found, names, strict=True))
    _check_names(list(found.values()))
    return found
