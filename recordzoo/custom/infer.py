"""Find the schema of a dataset from some of its samples."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from recordzoo.custom.plans import PATH_HINT, FieldPlan, Kind, Parts, choose_all
from recordzoo.custom.schema import Form, Schema, names_of
from recordzoo.custom.values import at_position
from recordzoo.errors import ArgumentError, SampleError
from recordzoo.recipes.class_folders import is_image
from recordzoo.records.manifest import RESERVED_FIELDS, is_field_name

_TUPLE = ("image", "target")


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
        kinds: How fields are stored, for the fields that the user names.
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
    parts: dict[str, Parts] = {}
    plans: dict[str, FieldPlan] = {}
    for number, key in enumerate(fields):
        taken = {*fields, *plans} - {key}
        inner, found = choose_all(key, values[key], kinds=kinds, taken=taken, is_first=number == 0)
        parts |= {key: inner} if inner else {}
        plans |= {plan.name: plan for plan in found}
    if form == "dict" and "image" not in kinds:
        _refuse_path(values.get("image", {}))
    if form != "dict" and names is None and "image" not in kinds:
        _refuse_path({position: value for position, value in values.get("image", {}).items() if _is_image_path(value)})
    if form != "dict" and names is None and plans.get("image", FieldPlan("", "raw")).kind in ("array", "json", "none"):
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
                f"position {position}: 'image' is a path, {os.fspath(value)[:100]!r}{PATH_HINT}. A list "
                "of files (.csv) is prepared as it is: recordzoo.prepare('list.csv').",
                position=position,
            )


def _check_kinds(kinds: Mapping[str, Kind]) -> None:
    for name, kind in kinds.items():
        if kind not in get_args(Kind):
            raise ArgumentError(
                f"Unknown value {kind!r} for {name!r} in argument kinds. Valid values are {get_args(Kind)}."
            )


def _check_parts(fields: Sequence[str], parts: Mapping[str, Parts]) -> None:
    """Raise if the name of a part of a tuple or dict is taken."""
    names = [
        *(name for name in fields if name not in parts),
        *(name for inner in parts.values() for name in names_of(inner)),
    ]
    wrong = next((name for name in names if names.count(name) > 1 or not is_field_name(name)), None)
    if wrong is not None:
        raise ArgumentError(
            f"A part of a tuple or dict would become the field {wrong!r}, which is not a valid name, or is another "
            "field's. Pass fields with other names."
        )


def _form(sample: Any) -> tuple[Form, tuple[str, ...]]:
    if isinstance(sample, Mapping):
        return "dict", tuple(sample)
    if isinstance(sample, tuple | list) and sample:
        default = (*_TUPLE, *(f"field_{i}" for i in range(2, len(sample))))[: len(sample)]
        return "tuple", tuple(getattr(sample, "_fields", default))
    return "value", _TUPLE[:1]


def _field_names(form: Form, keys: tuple[str, ...], names: Sequence[str] | Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the names of the fields."""
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
