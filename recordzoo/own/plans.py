"""How the values of a field are stored: chosen from some of them; and one value as it is stored.

Arrays stay arrays of their dtype. A field's arrays have one dtype and one number of dimensions, any shapes, and None
where a sample has no value. Only numbers, text, lists and what is nested become JSON.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import SampleError
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
from recordzoo.recipes.recipe import BlobField, look, sniffed_ending
from recordzoo.records.manifest import MAX_DIMENSIONS
from recordzoo.records.shard import stored_bytes

Kind = Literal["image", "bytes", "picture", "pixels", "raw", "array", "json"]
"""How a field is stored: "image" and "bytes" untouched; "picture" as PNG; "pixels" and "raw" as raw numbers; "array" as
a row of an array file; "json"."""

Parts = tuple[str, ...] | dict[str, str]
"""The fields of a tuple's items, or of a dict's values by key."""

ROW_BYTES = 1024
"""An array up to this size is a row of an array file: a million of them are in memory while they are put together."""

PATH_HINT = "; of a file, give the bytes: Path(...).read_bytes()"

_PAGE_BYTES = 4096
"""A picture up to this size takes a page of a shard, or less, however it is stored."""

_ENCODINGS = {"image": "image", "bytes": "bytes", "picture": "image", "pixels": "raw", "raw": "raw"}


class UnevenError(SampleError):
    """A field's value is not like those before it, and all of them can be stored in another way.

    ``field`` names the item of the sample; ``plans`` say how it, or a part of it, can be stored. ``parts`` is given if
    the item's parts change.
    """


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
    def blob_field(self) -> BlobField | None:
        """How the record set stores the field's values; None for rows of an array."""
        if self.kind == "array":
            return None
        return BlobField(_ENCODINGS.get(self.kind, "json"), None, "|u1" if self.kind == "pixels" else self.dtype)


@dataclass
class Encoded:
    """A sample as it is stored.

    Attributes:
        blobs: Field, bytes, ending of an image's file.
        row: For each array field its value, and for each raw field, as ``<field>.shape``, the shape.
    """

    blobs: list[tuple[FieldPlan, bytes, str]] = field(default_factory=list)
    row: dict[str, NDArray[Any]] = field(default_factory=dict)  # Any: numbers of any dtype

    @property
    def size_bytes(self) -> int:
        """The bytes of all of it."""
        return sum(len(data) for _, data, _ in self.blobs) + sum(array.nbytes for array in self.row.values())

    # Any, here and below: values are whatever a dataset gives.
    def add(self, plan: FieldPlan, value: Any, of: str = "") -> None:
        """Add the value of a field.

        Args:
            plan: How the field is stored.
            value: The value; None: there is none.
            of: The item of the sample that the field is a part of.

        Raises:
            UnevenError: The value needs another plan.
            SampleError: The value cannot be stored.
        """
        if value is None and plan.kind != "array":
            if plan.kind in ("raw", "pixels"):
                self.row[f"{plan.name}.shape"] = np.zeros(len(plan.shape), np.uint32)
        elif plan.kind in ("image", "bytes"):
            if not isinstance(value, bytes | bytearray | memoryview):
                raise _wrong(plan, value, "bytes")
            data = bytes(value)
            self.blobs.append((plan, data, sniffed_ending(data) if plan.kind == "image" else ""))
        elif plan.kind == "picture" and is_picture(value):
            self.blobs.append((plan, *picture_bytes(value)))
        elif plan.kind == "json":
            try:
                self.blobs.append((plan, json_bytes(value), ""))
            except SampleError as err:
                raise SampleError(f"{plan.name!r} holds {err}") from None
        else:
            self._add_numbers(plan, value, of or plan.name)

    def _add_numbers(self, plan: FieldPlan, value: Any, key: str) -> None:
        array = as_pixels(value) if plan.kind == "pixels" else as_array(value)
        if plan.kind in ("picture", "pixels") and (array is None or plan.kind == "picture"):
            raise _no_picture(plan, value, key)
        if plan.kind == "array":
            if array is None or array.dtype.str != plan.dtype or array.shape != plan.shape:
                raise _uneven(plan, value, array, key)
            self.row[plan.name] = array.copy()  # the caller may reuse the array for the next sample
        elif array is None or (array.dtype.str, array.ndim) != (plan.dtype, len(plan.shape)):
            if plan.kind == "pixels" and is_picture(value):
                raise _no_picture(plan, value, key)
            raise _wrong(plan, value, f"{np.dtype(plan.dtype)} numbers of {len(plan.shape)} dimensions")
        else:
            self.blobs.append((plan, np.ascontiguousarray(array).tobytes(), ""))
            self.row[f"{plan.name}.shape"] = np.array(array.shape, np.uint32)


def _no_picture(plan: FieldPlan, value: Any, key: str) -> SampleError:
    """Return the error for a value that a field of pictures cannot store; PNG or arrays can store all of them."""
    array, text = as_array(value), f"{key!r} holds images of several kinds"
    if is_picture(value):
        return UnevenError(text, field=key, plans=[FieldPlan(plan.name, "picture")], worthless=True)
    if array is None or array.dtype != np.uint8 or array.ndim != plan.dimensions:
        return _wrong(plan, value, "an image")
    raw = FieldPlan(plan.name, "raw", "|u1", (0,) * array.ndim, plan.is_tensor)
    return UnevenError(f"{key!r} holds a {describe(value)}, no image", field=key, plans=[raw], worthless=True)


def _uneven(plan: FieldPlan, value: Any, array: NDArray[Any] | None, key: str) -> SampleError:
    """Return the error for a value that is no row of an array: other shapes stay arrays, numbers become JSON."""
    text = f"{key!r} holds a {describe(value)}, not {np.dtype(plan.dtype)} {list(plan.shape) or ''}".rstrip()
    if value is None or (array is not None and (array.dtype.str, array.ndim) == (plan.dtype, len(plan.shape))):
        new = _with_gaps(plan)
    elif not is_json(value) or (array is not None and plan.shape):
        return SampleError(text if array is None else f"{text}. {_ONE_DTYPE}")
    else:
        new = FieldPlan(plan.name, "json")
    parts = {"parts": None} if new.kind == "json" and new.name != key else {}
    plans = [FieldPlan(key, "json") if parts else new]
    return UnevenError(text, field=key, plans=plans, worthless=True, **parts)


_ONE_DTYPE = 'The arrays of a field have one dtype and one number of dimensions; kinds={FIELD: "json"} stores lists'


def _with_gaps(plan: FieldPlan) -> FieldPlan:
    """Return a plan that keeps arrays of other shapes, and None: whole numbers become JSON, others stay arrays."""
    if not plan.shape and np.dtype(plan.dtype).kind != "f" and not plan.is_tensor:
        return FieldPlan(plan.name, "json")
    return FieldPlan(plan.name, "raw", plan.dtype, (0,) * len(plan.shape), plan.is_tensor)


def _wrong(plan: FieldPlan, value: Any, expected: str) -> SampleError:
    return SampleError(f"{plan.name!r} holds a {describe(value)}, not {expected}")


def choose_all(
    name: str, values: Mapping[int, Any], *, kinds: Mapping[str, Kind], taken: Collection[str], is_first: bool = False
) -> tuple[Parts | None, list[FieldPlan]]:
    """Choose how an item of the samples is stored, from its values by position: as one field, or each of its parts.

    Args:
        name: What the item is called.
        values: At least one value.
        kinds: How fields are stored, for the fields that the user names.
        taken: The names of other fields.
        is_first: The item is the first one of the samples: small arrays are no rows.

    Returns:
        The fields of its parts, None if it is one field; how each field is stored.

    Raises:
        SampleError: A value cannot be stored; the message has its position.
    """
    parts = None if name in kinds else _parts(name, values, taken)
    if parts is None:
        return None, [choose(name, values, is_first=is_first, kind=kinds.get(name))]
    plans = []
    for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
        column = {position: part_of(value, key) for position, value in values.items()}
        in_dict = isinstance(parts, dict)
        plans.append(choose(part, column, is_first=is_first, kind=kinds.get(part), in_dict=in_dict))
    return parts, plans


def part_of(value: Any, key: Any) -> Any:
    """Return an item of a dict or tuple; None if it has no such item."""
    return value.get(key) if isinstance(value, Mapping) else None if value is None else value[key]


def _parts(name: str, values: Mapping[int, Any], taken: Collection[str]) -> Parts | None:
    """Return the fields of a dict with arrays, or of a tuple that always has as many numbers and arrays."""
    there = [value for value in values.values() if value is not None]
    if there and all(isinstance(value, Mapping) for value in there):
        items = [item for value in there for item in value.items()]
        if any(_is_array(each) for _, each in items) and all(isinstance(key, str) for key, _ in items):
            return name_parts(name, dict.fromkeys(key for key, _ in items), taken)
    lengths = {len(value) if isinstance(value, tuple) else 0 for value in there}
    if len(lengths) != 1 or lengths == {0}:
        return None
    columns = [[as_array(part) for part in column] for column in zip(*there, strict=True)]
    are_arrays = any(each is not None and each.ndim for column in columns for each in column)
    dtypes = [{None if each is None else each.dtype.str for each in column} for column in columns]
    is_even = len(there) == len(values) and all(len(each) == 1 and None not in each for each in dtypes)
    return tuple(f"{name}_{i}" for i in range(len(columns))) if are_arrays or is_even else None


def name_parts(name: str, keys: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Return a field for each key: the key, or after the item's name if another field is called so."""
    found: dict[str, str] = {}
    for key in keys:
        plain = field_name(key)
        found[key] = f"{name}_{plain}" if plain in taken or plain in found.values() else plain
    return found


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and as_array(value) is not None


def choose(
    name: str, values: Mapping[int, Any], *, is_first: bool = False, kind: Kind | None = None, in_dict: bool = False
) -> FieldPlan:
    """Choose how one field is stored; `in_dict`: its arrays have shapes of their own and are no images."""
    there = {position: value for position, value in values.items() if value is not None}
    if not there:
        return FieldPlan(name, "json" if kind == "json" else "none")
    is_asked, has_gaps = kind is not None, len(there) < len(values)
    position, value = next(iter(there.items()))
    with at_position(position):
        first = kind or _kind(name, value, is_first=is_first, in_dict=in_dict)
    chosen = first if is_asked else _even(name, there, first, has_gaps=has_gaps, in_dict=in_dict)
    is_tensor = hasattr(value, "detach")
    given = as_array(value) if chosen in ("picture", "pixels") else None
    plan = FieldPlan(name, chosen, "", (), is_tensor, 0 if given is None else given.ndim)
    if chosen in ("array", "raw", "pixels"):
        array = as_pixels(value) if chosen == "pixels" else as_array(value)
        if array is None:
            raise SampleError(f"position {position}: {name!r} is a {describe(value)}; it cannot be stored as {chosen}.")
        plan = FieldPlan(name, chosen, array.dtype.str, array.shape, is_tensor, plan.dimensions)
    for position, value in values.items():
        with at_position(position):
            try:
                Encoded().add(plan, value)
            except UnevenError as err:
                if is_asked:
                    raise SampleError(f"{err}; kinds asks for {kind!r}") from None
                (new,) = err.details["plans"]
                return FieldPlan(name, new.kind, new.dtype, new.shape, is_tensor, plan.dimensions)
    return plan


def _kind(name: str, value: Any, *, is_first: bool, in_dict: bool) -> Kind:
    """Choose from one value."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "image" if look(bytes(value)).problem is None or name == "image" else "bytes"
    array = as_array(value)
    small = array is not None and ((array.nbytes <= ROW_BYTES and not is_first) or in_dict)
    if is_picture(value) and not small:
        return "picture"
    if array is not None and array.ndim <= MAX_DIMENSIONS:
        return "array" if array.ndim == 0 or small else "raw"
    try:
        json_bytes(value)
    except SampleError as err:
        inside = f" ({err})" if isinstance(value, dict | list | tuple) else ""
        hint = PATH_HINT if isinstance(value, os.PathLike) else inside
        raise SampleError(f"{name!r} is a {describe(value)}: neither an image nor numbers nor JSON{hint}") from None
    return "json"


def _even(name: str, there: Mapping[int, Any], kind: Kind, *, has_gaps: bool, in_dict: bool) -> Kind:
    """Choose from all values, after the first one's kind.

    Raises:
        SampleError: Some arrays have another dtype or number of dimensions than the first.
    """
    if kind in ("image", "bytes"):
        return kind
    if kind == "picture" and all(map(is_picture, there.values())):
        return "pixels" if _is_smaller_raw(list(there.values())) else kind
    arrays = {position: as_array(value) for position, value in there.items()}
    if any(each is None for each in arrays.values()):
        return "json" if kind == "array" else kind
    looks = {position: (each.dtype.str, each.ndim) for position, each in arrays.items() if each is not None}
    first, expected = next(iter(looks.items()))
    if {dimensions for _, dimensions in looks.values()} == {0}:
        if len(set(looks.values())) > 1:
            return "json"
        is_tensor = hasattr(there[first], "detach")
        return "array" if not has_gaps else "raw" if "f" in expected[0] or is_tensor else "json"
    for position, each in looks.items():
        if each != expected:
            raise SampleError(
                f"position {position}: {name!r} holds a {describe(there[position])}, and at position {first} a "
                f"{describe(there[first])}. {_ONE_DTYPE}.",
                position=position,
            )
    shapes = {each.shape for each in arrays.values() if each is not None}
    return "array" if kind == "array" and len(shapes) == 1 and not has_gaps and not in_dict else "raw"


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
