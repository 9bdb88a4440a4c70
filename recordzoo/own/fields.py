"""`Fields`: which fields samples have and how each is stored, found from some samples; a sample as blobs and rows.

A field's arrays have one dtype and one number of dimensions, any shapes, and None where a sample has no value.
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

Form = Literal["tuple", "dict", "value"]

# Any: a number, a key, or None.
Parts = Mapping[Any, str]
"""The fields that an item of a sample becomes: of a tuple by number, of a dict by key; of any other by None."""

_ROW_BYTES = 1024
"""An array up to this size is a row of an array file: a million of them are in memory while they are put together."""

_PAGE_BYTES = 4096
"""A picture up to this size takes a page of a shard, or less, however it is stored."""

_ENCODINGS = {"image": "image", "bytes": "bytes", "picture": "image", "pixels": "raw", "raw": "raw"}
_USUAL_NAMES = ("image", "target")
_PATH_HINT = "; of a file, give the bytes: Path(...).read_bytes()"
_ONE_DTYPE = 'The arrays of a field have one dtype and one number of dimensions; kinds={FIELD: "json"} stores lists'


class UnevenError(SampleError):
    """A field's value is not like those before it, and all of them can be stored in another way.

    ``field`` names the item of the sample; ``plans`` say how it, or a part of it, can be stored. ``parts`` is given if
    the item's parts change.
    """


def _uneven(text: str, item: str, *plans: "FieldPlan", **parts: Parts) -> UnevenError:
    return UnevenError(text, field=item, plans=plans, worthless=True, **parts)


# Any, here and below: values are whatever a dataset gives.
def _holds(name: str, value: Any, expected: str) -> str:
    return f"{name!r} holds a {describe(value)}, not {expected}"


def _json_instead(text: str, item: str) -> UnevenError:
    return _uneven(text, item, FieldPlan(item, "json"), parts={None: item})


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How one field is stored; of numbers also their dtype, and the shape of a row or the number of dimensions.

    Attributes:
        kind: As `Kind` has it; "none" while all samples have None.
        is_tensor: The dataset gives tensors.
        dimensions: The number of dimensions, if images come as arrays or tensors; 0 for PIL images.
    """

    name: str
    kind: Kind | Literal["none"]
    dtype: str = ""
    shape: tuple[int, ...] = ()
    is_tensor: bool = False
    dimensions: int = 0

    @property
    def blob_field(self) -> BlobSpec | None:
        """How the record set stores the field's values; None for rows of an array."""
        if self.kind == "array":
            return None
        return BlobSpec(_ENCODINGS.get(self.kind, "json"), None, "|u1" if self.kind == "pixels" else self.dtype)

    # Any: of any dtype.
    def has_look_of(self, array: NDArray[Any] | None) -> bool:
        """Whether an array has the dtype and the number of dimensions of the field's arrays."""
        return array is not None and (array.dtype.str, array.ndim) == (self.dtype, len(self.shape))

    def misfit(self, value: Any, item: str) -> SampleError:
        """Return the error for a value that does not fit: an `UnevenError` if another plan stores it and all before it.

        Args:
            value: The value; None: there is none.
            item: The item of the sample that the field is a part of.
        """
        array, expected = as_array(value), "bytes"
        if self.kind == "array":  # of other shapes, arrays stay arrays; numbers become JSON
            text = _holds(item, value, f"{np.dtype(self.dtype)} {list(self.shape) or ''}".rstrip())
            is_alike = value is None or self.has_look_of(array)
            if is_alike and (self.shape or self.is_tensor or np.dtype(self.dtype).kind == "f"):
                return _uneven(text, item, replace(self, kind="raw", shape=(0,) * len(self.shape)))
            if is_alike or (is_json(value) and (array is None or not (array.ndim or self.shape))):
                return _json_instead(text, item)
            return SampleError(text if array is None else f"{text}. {_ONE_DTYPE}")
        if self.kind in ("picture", "pixels"):  # PNG or arrays can store all of them
            if is_picture(value):
                return _uneven(f"{item!r} holds images of several kinds", item, FieldPlan(self.name, "picture"))
            if array is not None and array.dtype == np.uint8 and array.ndim == self.dimensions:
                raw = FieldPlan(self.name, "raw", "|u1", (0,) * array.ndim, self.is_tensor)
                return _uneven(f"{item!r} holds a {describe(value)}, no image", item, raw)
            expected = "an image"
        elif self.kind == "raw":
            expected = f"{np.dtype(self.dtype)} numbers of {len(self.shape)} dimensions"
        return SampleError(_holds(self.name, value, expected))


@dataclass
class Encoded:
    """A sample as it is stored.

    Attributes:
        blobs: Field, bytes, ending of an image's file.
        row: For each array field its value, and for each raw field, as ``<field>.shape``, the shape.
    """

    blobs: list[tuple[FieldPlan, bytes, str]] = field(default_factory=list)
    row: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """The bytes of all of it."""
        return sum(len(data) for _, data, _ in self.blobs) + sum(array.nbytes for array in self.row.values())

    def add(self, plan: FieldPlan, value: Any, item: str = "") -> None:
        """Add the value of a field; `item` is the item of the sample that the field is a part of.

        Raises:
            UnevenError: The value needs another plan.
            SampleError: The value cannot be stored.
        """
        data, ending = b"", ""
        if plan.name == "boxes" and (said := getattr(getattr(value, "format", None), "value", "XYXY")) != "XYXY":
            raise SampleError(f"'boxes' are {said}, not XYXY: apply torchvision's v2.ConvertBoundingBoxFormat('XYXY').")
        if plan.kind == "array":
            row = as_array(value)
            if row is None or not plan.has_look_of(row) or row.shape != plan.shape:
                raise plan.misfit(value, item or plan.name)
            self.row[plan.name] = row.copy()  # the caller may reuse the array for the next sample
            return
        if value is None:
            if plan.kind in ("raw", "pixels"):
                self.row[f"{plan.name}.shape"] = np.zeros(len(plan.shape), np.uint32)
            return
        if plan.kind in ("image", "bytes") and isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            ending = sniffed_ending(data) if plan.kind == "image" else ""
        elif plan.kind == "picture" and is_picture(value):
            data, ending = picture_bytes(value)
        elif plan.kind == "json":
            try:
                data = json_bytes(value)
            except SampleError as err:
                raise SampleError(f"{plan.name!r} holds {err}") from None
        else:  # numbers; what else came here fits no plan
            array = as_pixels(value) if plan.kind == "pixels" else as_array(value)
            if array is None or not plan.has_look_of(array):
                raise plan.misfit(value, item or plan.name)
            data = np.ascontiguousarray(array).tobytes()
            self.row[f"{plan.name}.shape"] = np.array(array.shape, np.uint32)
        self.blobs.append((plan, data, ending))


def _choose_all(
    name: str, values: Mapping[int, Any], *, kinds: Mapping[str, Kind], taken: Collection[str], is_first: bool = False
) -> tuple[Parts, list[FieldPlan]]:
    """Choose how an item of the samples is stored, from its values by position: as one field, or each of its parts.

    Args:
        name: What the item is called.
        values: At least one value.
        kinds: How fields are stored, for the fields that the user names.
        taken: The names of other fields.
        is_first: The item is the first one, or "image": small arrays are no rows.

    Raises:
        SampleError: A value cannot be stored; the message has its position.
    """
    parts = {None: name} if name in kinds else _parts(name, values, taken)
    plans = []
    for key, part in parts.items():
        column = {position: _part_of(value, key) for position, value in values.items()}
        plans.append(_choose(part, column, is_first=is_first, kind=kinds.get(part), in_dict=isinstance(key, str)))
    return parts, plans


def _part_of(value: Any, key: Any) -> Any:
    """Return an item of a dict or tuple, None if it has no such item; by None, the value itself."""
    if key is None or value is None:
        return value
    return value.get(key) if isinstance(value, Mapping) else value[key]


def _parts(name: str, values: Mapping[int, Any], taken: Collection[str]) -> Parts:
    """Return the fields of a dict with arrays, or of a tuple that always has as many numbers and arrays."""
    there = [value for value in values.values() if value is not None]
    if there and all(isinstance(value, Mapping) for value in there):
        items = [item for value in there for item in value.items()]
        if any(_is_array(each) for _, each in items) and all(isinstance(key, str) for key, _ in items):
            return _name_parts(name, dict.fromkeys(key for key, _ in items), taken)
    lengths = {len(value) if isinstance(value, tuple) else 0 for value in there}
    if len(lengths) != 1 or lengths == {0}:
        return {None: name}
    columns = [[as_array(part) for part in column] for column in zip(*there, strict=True)]
    are_arrays = any(each is not None and each.ndim for column in columns for each in column)
    dtypes = [{None if each is None else each.dtype.str for each in column} for column in columns]
    is_even = len(there) == len(values) and all(len(each) == 1 and None not in each for each in dtypes)
    return {i: f"{name}_{i}" for i in range(len(columns))} if are_arrays or is_even else {None: name}


def _name_parts(name: str, keys: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Return a field for each key: the key, or after the item's name if another field is called so."""
    found: dict[str, str] = {}
    for key in keys:
        plain = field_name(key)
        found[key] = f"{name}_{plain}" if plain in taken or plain in found.values() else plain
    return found


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and as_array(value) is not None


def _choose(
    name: str, values: Mapping[int, Any], *, is_first: bool = False, kind: Kind | None = None, in_dict: bool = False
) -> FieldPlan:
    """Choose how one field is stored: by its first value, and again if a later one is not like it.

    Args:
        in_dict: Its arrays have shapes of their own and are no images.

    Raises:
        SampleError: A value cannot be stored, or not like those before it; the message has its position.
    """
    there = {position: value for position, value in values.items() if value is not None}
    if not there:
        return FieldPlan(name, "json" if kind == "json" else "none")
    position, value = next(iter(there.items()))
    with at_position(position):
        chosen = kind or _kind(name, value, is_first=is_first, in_dict=in_dict)
    if kind is None and chosen == "picture" and _is_smaller_raw(list(there.values())):
        chosen = "pixels"
    given = as_array(value)
    array = as_pixels(value) if chosen == "pixels" else given
    dimensions = given.ndim if given is not None and chosen in ("picture", "pixels") else 0
    plan = FieldPlan(name, chosen, "", (), hasattr(value, "detach"), dimensions)
    if chosen in ("array", "raw", "pixels"):
        if array is None:
            raise SampleError(f"position {position}: {name!r} is a {describe(value)}; it cannot be stored as {chosen}.")
        plan = replace(plan, dtype=array.dtype.str, shape=array.shape)
    while True:
        for position, value in values.items():
            with at_position(position):
                try:
                    Encoded().add(plan, value)
                except UnevenError as err:
                    if kind is not None:
                        raise SampleError(f"{err}; kinds asks for {kind!r}") from None
                    plan = replace(err.details["plans"][0], is_tensor=plan.is_tensor, dimensions=dimensions)
                    break
        else:
            return plan


def _kind(name: str, value: Any, *, is_first: bool, in_dict: bool) -> Kind:
    """Choose from one value."""
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
        inside = f" ({err})" if isinstance(value, dict | list | tuple) else ""
        hint = _PATH_HINT if isinstance(value, os.PathLike) else inside
        raise SampleError(f"{name!r} is a {describe(value)}: neither an image nor numbers nor JSON{hint}") from None
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


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a dataset's samples.

    Attributes:
        form: What a sample is: a tuple, a dict, or one value.
        keys: If a sample is a dict, its keys.
        names: What its items are called, in their order.
        parts: The fields of each item: several for a tuple of numbers and arrays, or a dict with arrays.
        fields: How each field is stored.
        has_gaps: Whether a sample may be without its "image". Any other field may have None: it has no value then.
    """

    form: Form
    keys: tuple[str, ...]
    names: tuple[str, ...]
    parts: Mapping[str, Parts]
    fields: Mapping[str, FieldPlan]
    has_gaps: bool = False

    def to_json(self) -> dict[str, JSON]:
        """What a record set keeps of it."""
        several = {item: parts for item, parts in self.parts.items() if None not in parts}
        return {
            "form": self.form,
            "fields": list(self.names),
            "parts": {item: list(each.values()) if 0 in each else dict(each) for item, each in several.items()},
            "tensors": [plan.name for plan in self.fields.values() if plan.is_tensor],
            "pictures": {p.name: p.dimensions for p in self.fields.values() if p.kind in ("picture", "pixels")},
        }

    def identity(self) -> str:
        """All of it as text."""
        return json.dumps({**self.to_json(), "plans": [asdict(plan) for plan in self.fields.values()]})

    def widened(self, err: UnevenError) -> "Fields":
        """Return the schema with one item stored as an `UnevenError` says."""
        item, plans = err.details["field"], {plan.name: plan for plan in err.details["plans"]}
        before = self.parts[item]
        now = err.details.get("parts", before)
        gone = set(before.values()).difference(now.values())
        fields = {name: plan for name, plan in self.fields.items() if name not in gone}
        return replace(self, parts={**self.parts, item: now}, fields={**fields, **plans})

    def encode(self, sample: Any) -> Encoded:
        """Turn a sample into blobs and rows.

        Raises:
            UnevenError: A field is not like that of the samples that were looked at.
            SampleError: It cannot be stored.
        """
        encoded = Encoded()
        for item, value in self.items(sample):
            parts = self.parts[item]
            if value is None or None not in parts:
                self._check(item, parts, value)
            for key, name in parts.items():
                plan, part = self.fields[name], value if key is None else _part_of(value, key)
                if plan.kind == "none" and part is not None:
                    raise self._first_value(item, key, plan, part)
                encoded.add(plan, part, item)
        return encoded

    def _first_value(self, item: str, key: Any, plan: FieldPlan, value: Any) -> UnevenError:
        """Return the error for the first value of a field that had none before."""
        text, seen = f"{plan.name!r} holds a {describe(value)}, and None before", {-2: None, -1: value}
        if key is not None:
            return _uneven(text, item, _choose(plan.name, seen, in_dict=isinstance(key, str)))
        parts, plans = _choose_all(item, seen, kinds={}, taken=self.fields.keys() - {item})
        return _uneven(text, item, *plans, parts=parts)

    def _check(self, item: str, parts: Parts, value: Any) -> None:
        """Raise unless None or a value of several parts fits; all tuples can become JSON, and dicts have more keys."""
        if None in parts:
            if item == "image" and not self.has_gaps and self.fields[item].kind not in ("none", "json", "array"):
                raise SampleError(_holds(item, value, "an image"))
        elif value is None:
            return
        elif 0 in parts:
            if isinstance(value, tuple) and len(value) == len(parts):
                return
            inner = [as_array(each) for each in (value if isinstance(value, tuple | list) else (value,))]
            text = _holds(item, value, f"a tuple of {len(parts)}")
            if not is_json(value) or any(each is not None and each.ndim for each in inner):
                raise SampleError(text)
            raise _json_instead(text, item)
        elif not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise SampleError(_holds(item, value, f"a dict of {', '.join(parts)}"))
        elif more := [key for key in value if key not in parts]:
            found = _name_parts(item, more, self.fields.keys())
            plans = [_choose(name, {-2: None, -1: value[key]}, in_dict=True) for key, name in found.items()]
            text = f"{item!r} holds a dict with {', '.join(map(repr, more))}, which the samples before have not"
            raise _uneven(text, item, *plans, parts={**parts, **found})

    def items(self, sample: Any) -> Iterable[tuple[str, Any]]:
        """Yield the items of a sample with the names of their fields.

        Raises:
            SampleError: It has other items.
        """
        if self.form == "value":
            return [(self.names[0], sample)]
        if self.form == "dict":
            if not isinstance(sample, Mapping) or len(sample) != len(self.keys) or set(sample) != set(self.keys):
                found = f", but of {', '.join(map(str, sample))[:300]}" if isinstance(sample, Mapping) else ""
                raise SampleError(f"a {describe(sample)} that is no dict of {', '.join(self.keys)}{found}")
            return [(name, sample[key]) for key, name in zip(self.keys, self.names, strict=True)]
        if not isinstance(sample, tuple | list) or len(sample) != len(self.names):
            raise SampleError(f"a {describe(sample)} that is no tuple of {len(self.names)}")
        return zip(self.names, sample, strict=True)


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
    form, keys = _form(next(iter(samples.values())))
    items = _item_names(form, keys, names)
    whole = Fields(form, keys, items, {}, {})
    values: dict[str, dict[int, Any]] = {item: {} for item in items}
    for position, sample in samples.items():
        with at_position(position):
            for item, value in whole.items(sample):
                values[item][position] = value
    parts: dict[str, Parts] = {}
    plans: dict[str, FieldPlan] = {}
    for item in items:
        taken = {*items, *plans} - {item}
        parts[item], found = _choose_all(
            item, values[item], kinds=kinds, taken=taken, is_first=item in (items[0], "image")
        )
        plans |= {plan.name: plan for plan in found}
    is_guess = form != "dict" and names is None  # the first item is an image until it turns out to be none
    if "image" not in kinds:
        _refuse_path(values.get("image", {}), is_guess=is_guess)
    if is_guess and "image" in plans and plans["image"].kind in ("array", "json", "none"):
        return infer(samples, ("input", *items[1:]), kinds, has_gaps=has_gaps)
    if unknown := sorted(set(kinds).difference(plans)):
        raise ArgumentError(f"Argument kinds names {', '.join(unknown)}, but the fields are {', '.join(plans)}.")
    _check_names([name for each in parts.values() for name in each.values()])
    return Fields(form, keys, items, parts, plans, has_gaps)


def _refuse_path(images: Mapping[int, Any], *, is_guess: bool) -> None:
    """Refuse text as an image: it is a path, and would be stored as such."""
    for position, value in images.items():
        if isinstance(value, str | os.PathLike) and (not is_guess or is_image(os.fspath(value))):
            raise SampleError(
                f"position {position}: 'image' is a path, {os.fspath(value)[:100]!r}{_PATH_HINT}. A list "
                "of files (.csv) is prepared as it is: recordzoo.prepare('list.csv').",
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


def _form(sample: Any) -> tuple[Form, tuple[str, ...]]:
    if isinstance(sample, Mapping):
        return "dict", tuple(sample)
    if isinstance(sample, tuple | list) and sample:
        usual = (*_USUAL_NAMES, *(f"field_{i}" for i in range(2, len(sample))))[: len(sample)]
        return "tuple", tuple(getattr(sample, "_fields", usual))
    return "value", _USUAL_NAMES[:1]


def _item_names(form: Form, keys: tuple[str, ...], names: Sequence[str] | Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the names of the items.

    Raises:
        ArgumentError: They do not fit the samples, or are no names of fields.
    """
    items = keys
    if isinstance(names, Mapping):
        if form != "dict" or not set(names) <= set(keys):
            raise ArgumentError(
                f"Argument fields renames {', '.join(names)}, but a sample is a {form} of {', '.join(keys)}."
            )
        items = tuple(names.get(key, key) for key in keys)
    elif names is not None:
        if form == "dict" or len(names) != len(keys):
            raise ArgumentError(f"Argument fields has {len(names)} names, but a sample is a {form} of {len(keys)}.")
        items = tuple(names)
    _check_names(items)
    return items
