"""Some samples of a dataset → the schema of all."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from numpy.typing import NDArray

from recordzoo.custom.schema import FieldPlan, Form, Kind, Schema, UnevenError, at_position
from recordzoo.custom.values import as_array, as_pixels, describe, is_json, is_picture, picture_bytes
from recordzoo.errors import ArgumentError, SampleError
from recordzoo.recipes.class_folders import is_image
from recordzoo.recipes.jpeg import look
from recordzoo.records.manifest import MAX_DIMENSIONS, RESERVED_FIELDS, is_field_name
from recordzoo.records.shard import stored_bytes

ROW_BYTES = 1024
"""An array up to this size is a row of an array file: a million of them are in memory while they are put together."""

_PAGE_BYTES = 4096
"""A picture up to this size takes a page of a shard, or less, however it is stored."""

_TUPLE = ("image", "target")
_PATH_HINT = "; of a file, give the bytes: Path(...).read_bytes()"


def infer(
    samples: Mapping[int, Any],
    names: Sequence[str] | Mapping[str, str] | None,
    kinds: Mapping[str, Kind],
    *,
    has_gaps: bool = False,
) -> Schema:
    """Find the fields of a dataset's samples from some of them, by position.

    Args:
        samples: At least one sample.
        names: What the items of a tuple are called; by default "image" (or "input", if it is none), "target",
            "field_2", "field_3", ... For a dict: other names than its keys, by key.
        kinds: How fields are stored, for those of which the person says it.
        has_gaps: As `Schema` has it.

    Raises:
        ArgumentError: The names do not fit the samples, or cannot be names.
        SampleError: A value cannot be stored; the message has its position and type.
    """
    _check_kinds(kinds)
    first = next(iter(samples.values()))
    form, keys = _form(first)
    fields = _field_names(form, keys, names)
    whole = Schema(form, keys, fields, {}, {})
    values: dict[str, dict[int, Any]] = {name: {} for name in fields}
    for position, sample in samples.items():
        with at_position(position):
            for key, value in whole.items(sample):
                values[key][position] = value
    parts: dict[str, tuple[str, ...]] = {}
    plans: dict[str, FieldPlan] = {}
    for number, key in enumerate(fields):
        inner = _parts(values[key]) if key not in kinds else 0
        parts |= {key: tuple(f"{key}_{i}" for i in range(inner))} if inner else {}
        for index, name in enumerate(parts.get(key, (key,))):
            column = {p: value[index] for p, value in values[key].items()} if inner else values[key]
            plans[name] = _plan(name, column, is_first=number == 0, kind=kinds.get(name), has_gaps=has_gaps)
    if form == "dict" and "image" not in kinds:
        _refuse_path(values.get("image", {}))
    if form != "dict" and names is None and "image" not in kinds:
        _refuse_path({position: value for position, value in values.get("image", {}).items() if _is_image_path(value)})
    if form != "dict" and names is None and plans.get("image", FieldPlan("", "raw")).kind in ("array", "json"):
        return infer(samples, ("input", *fields[1:]), kinds, has_gaps=has_gaps)
    unknown = sorted(set(kinds).difference(plans))
    if unknown:
        raise ArgumentError(f"Argument kinds names {', '.join(unknown)}, but the fields are {', '.join(plans)}.")
    _check_parts(fields, parts)
    return Schema(form, keys, fields, parts, plans, has_gaps)


# Any: whatever a dataset gives.
def _is_image_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and is_image(os.fspath(value))


# Any: whatever a dataset gives.
def _refuse_path(images: Mapping[int, Any]) -> None:
    """Refuse text as an image: it is a path, and would be stored as such."""
    for position, value in images.items():
        if isinstance(value, str | os.PathLike):
            raise SampleError(
                f"position {position}: 'image' is a path, {os.fspath(value)[:100]!r}{_PATH_HINT}. A list "
                "of files (.csv) is prepared as it is: recordzoo.prepare('list.csv').",
                position=position,
            )


def _check_kinds(kinds: Mapping[str, Kind]) -> None:
    for name, kind in kinds.items():
        if kind not in get_args(Kind):
            raise ArgumentError(
                f"Unknown value {kind!r} for {name!r} in argument kinds. Valid values are {get_args(Kind)}."
            )


def _check_parts(fields: Sequence[str], parts: Mapping[str, Sequence[str]]) -> None:
    """Refuse parts of a tuple that would be called as something else is."""
    names = [*(name for name in fields if name not in parts), *(name for inner in parts.values() for name in inner)]
    wrong = next((name for name in names if names.count(name) > 1 or not is_field_name(name)), None)
    if wrong is not None:
        raise ArgumentError(
            f"A part of a tuple would become the field {wrong!r}, which is not a valid name, or is another field's. "
            "Pass fields with other names."
        )


def _form(sample: Any) -> tuple[Form, tuple[str, ...]]:
    if isinstance(sample, Mapping):
        return "dict", tuple(sample)
    if isinstance(sample, tuple | list) and sample:
        default = (*_TUPLE, *(f"field_{i}" for i in range(2, len(sample))))[: len(sample)]
        return "tuple", tuple(getattr(sample, "_fields", default))
    return "value", _TUPLE[:1]


def _field_names(form: Form, keys: tuple[str, ...], names: Sequence[str] | Mapping[str, str] | None) -> tuple[str, ...]:
    """Return what the fields are called."""
    fields = keys
    if isinstance(names, Mapping):
        if form != "dict" or not set(names) <= set(keys):
            raise ArgumentError(
                f"Argument fields renames {', '.join(names)}, but a sample is a {form} of {', '.join(keys)}."
            )
        fields = tuple(names.get(key, key) for key in keys)
    elif names is not None:
        if form == "dict" or len(names) != len(keys):
            raise ArgumentError(f"Argument fields has {len(names)} names, but a sample is a {form} of {len(keys)}.")
        fields = tuple(names)
    for name in fields:
        if not isinstance(name, str) or not is_field_name(name) or fields.count(name) > 1:
            raise ArgumentError(_why_no_name(name))
    return fields


# Any: keys of all kinds.
def _why_no_name(name: Any) -> str:
    if name in RESERVED_FIELDS:
        kept = "names" if name.startswith("name") else "splits"
        hint = f"Pass fields={{{name!r}: '{name}_'}}."
        return f"{name!r} cannot be a field's name: record sets keep their {kept} there. {hint}"
    return (
        f"{name!r} cannot be a field's name: small letters, digits and _ only, each once, and on Windows no device's "
        "name. Pass fields with other names."
    )


def _parts(values: Mapping[int, Any]) -> int:
    """How many parts an item has that always is a tuple of as many numbers or arrays; 0 if it is none."""
    lengths = {len(value) if isinstance(value, tuple) else 0 for value in values.values()}
    if len(lengths) != 1:
        return 0
    count = lengths.pop()
    columns = [[as_array(value[i]) for value in values.values()] for i in range(count)]
    even = all(None not in map(_look, column) and len(set(map(_look, column))) == 1 for column in columns)
    return count if even else 0


def _look(array: NDArray[Any] | None) -> tuple[str, tuple[int, ...]] | None:
    return None if array is None else (array.dtype.str, array.shape)


def _plan(
    name: str, values: Mapping[int, Any], *, is_first: bool, kind: Kind | None, has_gaps: bool = False
) -> FieldPlan:
    """Choose how a field is stored, from its values by position."""
    position, value = next(iter(values.items()))
    if has_gaps:
        position, value = next((item for item in values.items() if item[1] is not None), (position, value))
    is_asked = kind is not None
    with at_position(position):
        kind = kind or _kind(name, value, is_first)
    if kind == "array":
        looks = {_look(as_array(each)) for each in values.values()}
        if (None in looks or len(looks) != 1) and not is_asked:
            kind = "json"
    if kind == "picture" and not is_asked and _is_smaller_raw(list(values.values())):
        kind = "pixels"
    is_tensor = hasattr(value, "detach")
    given = as_array(value) if kind in ("picture", "pixels") else None
    dimensions = 0 if given is None else given.ndim
    if kind in ("array", "raw", "pixels"):
        array = as_pixels(value) if kind == "pixels" else as_array(value)
        if array is None:
            raise SampleError(f"position {position}: {name!r} is a {describe(value)}; it cannot be stored as {kind}.")
        plan = FieldPlan(name, kind, array.dtype.str, array.shape, is_tensor, dimensions)
    else:
        plan = FieldPlan(name, kind, is_tensor=is_tensor, dimensions=dimensions)
    schema = Schema("value", (), (name,), {}, {name: plan}, has_gaps)
    for position, value in values.items():
        with at_position(position):
            try:
                schema.encode(value)
            except UnevenError as err:
                if is_asked:
                    raise SampleError(f"{err}; kinds asks for {kind!r}") from None
                return replace(plan, kind=err.details["kind"], dtype="", shape=())
    return plan


def _kind(name: str, value: Any, is_first: bool) -> Kind:
    if isinstance(value, bytes | bytearray | memoryview):
        return "image" if look(bytes(value)).problem is None or name == "image" else "bytes"
    array = as_array(value)
    small = array is not None and array.nbytes <= ROW_BYTES and not is_first
    if is_picture(value) and not small:
        return "picture"
    if array is not None and array.ndim <= MAX_DIMENSIONS:
        return "array" if array.ndim == 0 or small else "raw"
    if is_json(value):
        return "json"
    hint = _PATH_HINT if isinstance(value, os.PathLike) else ""
    raise SampleError(f"{name!r} is a {describe(value)}: neither an image nor numbers nor JSON{hint}")


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
