"""`Fields`: which fields samples have, found from some samples; a sample as blobs and rows of arrays."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from recordzoo.base.text import JSON
from recordzoo.errors import ArgumentError, SampleError
from recordzoo.own.values import (
    PATH_HINT,
    Encoded,
    FieldPlan,
    Kind,
    Parts,
    UnevenError,
    as_array,
    at_position,
    choose,
    choose_all,
    describe,
    is_json,
    name_parts,
    part_of,
)
from recordzoo.recipes.declared import is_image
from recordzoo.records.manifest import RESERVED_FIELDS, is_field_name

Form = Literal["tuple", "dict", "value"]


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a dataset's samples.

    Attributes:
        form: What a sample is: a tuple, a dict, or one value.
        keys: If a sample is a dict, its keys.
        names: What its items are called, in their order.
        parts: For an item that is a tuple of numbers and arrays, or a dict with arrays: the fields that these are.
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
        return {
            "form": self.form,
            "fields": list(self.names),
            "parts": {key: each if isinstance(each, dict) else list(each) for key, each in self.parts.items()},
            "tensors": [plan.name for plan in self.fields.values() if plan.is_tensor],
            "pictures": {p.name: p.dimensions for p in self.fields.values() if p.kind in ("picture", "pixels")},
        }

    def identity(self) -> str:
        """All of it as text."""
        return json.dumps({**self.to_json(), "plans": [asdict(plan) for plan in self.fields.values()]})

    def widened(self, err: UnevenError) -> "Fields":
        """Return the schema with one item stored as an `UnevenError` says."""
        name, plans = err.details["field"], {plan.name: plan for plan in err.details["plans"]}
        before = self.parts.get(name)
        now = err.details.get("parts", before)
        kept = {key: each for key, each in self.parts.items() if key != name} | ({name: now} if now else {})
        gone = {name} if now else set(names_of(before)) - set(names_of(now))
        fields = {key: plan for key, plan in self.fields.items() if key not in gone}
        return replace(self, parts=kept, fields={**fields, **plans})

    # Any: samples and values are whatever a dataset gives.
    def encode(self, sample: Any) -> Encoded:
        """Turn a sample into blobs and rows.

        Raises:
            UnevenError: A field is not like that of the samples that were looked at.
            SampleError: It cannot be stored.
        """
        encoded = Encoded()
        for key, value in self.items(sample):
            parts = self.parts.get(key)
            if parts is None:
                self._encode(key, value, encoded)
            elif isinstance(parts, dict):
                self._check_keys(key, parts, value)
                for inner, name in parts.items():
                    self._add(key, name, part_of(value, inner), encoded)
            else:
                if value is not None and (not isinstance(value, tuple) or len(value) != len(parts)):
                    raise _not_parts(key, value, f"a tuple of {len(parts)}")
                for number, name in enumerate(parts):
                    self._add(key, name, part_of(value, number), encoded)
        return encoded

    def _encode(self, key: str, value: Any, encoded: Encoded) -> None:
        plan = self.fields[key]
        if value is None and key == "image" and not self.has_gaps and plan.kind not in ("none", "json", "array"):
            raise SampleError(f"{key!r} holds a NoneType, not an image")
        if plan.kind == "none" and value is not None:
            parts, plans = choose_all(key, {-2: None, -1: value}, kinds={}, taken=self.fields.keys() - {key})
            text = f"{key!r} holds a {describe(value)}, and None before"
            raise UnevenError(text, field=key, parts=parts, plans=plans, worthless=True)
        encoded.add(plan, value)

    def _add(self, key: str, name: str, value: Any, encoded: Encoded) -> None:
        """Add a part of an item."""
        if self.fields[name].kind == "none" and value is not None:
            plans = [choose(name, {-2: None, -1: value}, in_dict=isinstance(self.parts[key], dict))]
            text = f"{name!r} holds a {describe(value)}, and None before"
            raise UnevenError(text, field=key, plans=plans, worthless=True)
        encoded.add(self.fields[name], value, key)

    def _check_keys(self, key: str, parts: dict[str, str], value: Any) -> None:
        """Raise unless the value is a dict with the expected keys; the message names the fields of the other keys."""
        if value is None:
            return
        if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value):
            raise _not_parts(key, value, f"a dict of {', '.join(parts)}")
        if more := [each for each in value if each not in parts]:
            found = name_parts(key, more, self.fields.keys())
            plans = [choose(name, {-2: None, -1: value[each]}, in_dict=True) for each, name in found.items()]
            text = f"{key!r} holds a dict with {', '.join(map(repr, more))}, which the samples before have not"
            raise UnevenError(text, field=key, parts={**parts, **found}, plans=plans, worthless=True)

    def items(self, sample: Any) -> Iterable[tuple[str, Any]]:
        """Yield the items of a sample with the names of their fields.

        Raises:
            SampleError: It has other items.
        """
        if self.form == "value":
            return [(self.names[0], sample)]
        if self.form == "dict":
            if not isinstance(sample, Mapping) or len(sample) != len(self.keys) or set(sample) != set(self.keys):
                raise SampleError(
                    f"a {describe(sample)} that is no dict of {', '.join(self.keys)}{_keys_differ(sample, self.keys)}"
                )
            return [(name, sample[key]) for key, name in zip(self.keys, self.names, strict=True)]
        if not isinstance(sample, tuple | list) or len(sample) != len(self.names):
            raise SampleError(f"a {describe(sample)} that is no tuple of {len(self.names)}")
        return zip(self.names, sample, strict=True)


# Any: whatever a dataset gives.
def _keys_differ(sample: Any, keys: Sequence[str]) -> str:
    """Describe the missing and the unexpected keys of a dict."""
    if not isinstance(sample, Mapping):
        return ""
    missing = [f"no {key!r}" for key in keys if key not in sample]
    return ": " + ", ".join([*missing, *(f"{key!r} besides" for key in sample if key not in keys)])


# Any: whatever a dataset gives.
def _not_parts(key: str, value: Any, expected: str) -> SampleError:
    """Return the error for an item that is not the expected tuple or dict; without arrays, all can become JSON."""
    text = f"{key!r} holds a {describe(value)}, not {expected}"
    inner = value if isinstance(value, tuple | list) else (value,)
    if (
        expected.startswith("a dict")
        or not is_json(value)
        or any((array := as_array(each)) is not None and array.ndim for each in inner)
    ):
        return SampleError(text)
    return UnevenError(text, field=key, parts=None, plans=[FieldPlan(key, "json")], worthless=True)


def names_of(parts: Parts | None) -> list[str]:
    """Return the fields of an item's parts."""
    return list(parts.values() if isinstance(parts, dict) else parts or ())


_TUPLE = ("image", "target")


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
    _check_kinds(kinds)
    first = next(iter(samples.values()))
    form, keys = _form(first)
    fields = _field_names(form, keys, names)
    whole = Fields(form, keys, fields, {}, {})
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
    return Fields(form, keys, fields, parts, plans, has_gaps)


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
