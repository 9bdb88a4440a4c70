"""Which fields the samples of a dataset have, found from some of them; and a sample as blobs and rows of arrays."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import ArgumentError, SampleError
from recordzoo.own.values import (
    SMALL_BYTES,
    as_array,
    as_pixels,
    describe,
    is_json,
    is_picture,
    json_bytes,
    picture_bytes,
)
from recordzoo.prepare.convert import image_problem
from recordzoo.recipes.base import BlobField
from recordzoo.recipes.images import sniffed_ending
from recordzoo.records.manifest import MAX_DIMENSIONS, NAME_PATTERN
from recordzoo.records.shard import stored_bytes

Kind = Literal["image", "bytes", "picture", "pixels", "raw", "array", "json"]
"""How a field is stored: "image" and "bytes" untouched; "picture" as PNG; "pixels" and "raw" as raw numbers; "array" as
a row of an array file; "json"."""

Form = Literal["tuple", "dict", "value"]

_ENCODINGS = {"image": "image", "bytes": "bytes", "picture": "image", "pixels": "raw", "raw": "raw", "json": "json"}
_TUPLE = ("image", "target")
_TAKEN = ("name", "names", "names_offsets", "split")


class UnevenError(SampleError):
    """A field's values turned out not to be alike; ``field`` names it. It can be stored in the way ``kind`` says."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How one field is stored; of numbers also their dtype, and the shape of a row or the number of dimensions.

    Attributes:
        is_tensor: The dataset gives tensors.
        dimensions: Of pictures and pixels, if the dataset gives arrays or tensors: how many these have; 0 for images.
    """

    name: str
    kind: Kind
    dtype: str = ""
    shape: tuple[int, ...] = ()
    is_tensor: bool = False
    dimensions: int = 0

    @property
    def blob_field(self) -> BlobField | None:
        """What the record set says of it; None for an array."""
        if self.kind == "array":
            return None
        return BlobField(_ENCODINGS[self.kind], None, "|u1" if self.kind == "pixels" else self.dtype)


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


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a dataset's samples.

    Attributes:
        form: What a sample is: a tuple, a dict, or one value.
        keys: Of a dict, its keys.
        names: What its items are called, in their order.
        parts: For an item that is a tuple of numbers and arrays: the fields that these are.
        fields: How each field is stored.
    """

    form: Form
    keys: tuple[str, ...]
    names: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]]
    fields: Mapping[str, FieldPlan]

    # Any: JSON values.
    def to_json(self) -> dict[str, Any]:
        """What a record set keeps of it."""
        return {
            "form": self.form,
            "fields": list(self.names),
            "parts": {key: list(names) for key, names in self.parts.items()},
            "tensors": [plan.name for plan in self.fields.values() if plan.is_tensor],
            "pictures": {p.name: p.dimensions for p in self.fields.values() if p.kind in ("picture", "pixels")},
        }

    def identity(self) -> str:
        """All of it as text."""
        return json.dumps({**self.to_json(), "plans": [asdict(plan) for plan in self.fields.values()]})

    def widened(self, name: str, kind: Kind) -> "Schema":
        """The same with one field, or the parts of one item, stored in another way."""
        parts = {key: names for key, names in self.parts.items() if key != name}
        fields = {key: plan for key, plan in self.fields.items() if key not in self.parts.get(name, ())}
        plan = replace(self.fields.get(name, FieldPlan(name, kind)), kind=kind, dtype="", shape=())
        return replace(self, parts=parts, fields={**fields, name: plan})

    # Any: samples and values are whatever a dataset gives.
    def encode(self, sample: Any) -> Encoded:
        """Make blobs and rows of a sample.

        Raises:
            UnevenError: A field is not like that of the samples that were looked at.
            SampleError: It cannot be stored.
        """
        encoded = Encoded()
        for key, value in self._items(sample):
            names = self.parts.get(key)
            if names is None:
                self._encode(self.fields[key], value, encoded)
                continue
            if not isinstance(value, tuple) or len(value) != len(names):
                raise _uneven(key, value, f"a tuple of {len(names)}")
            for name, part in zip(names, value, strict=True):
                self._encode(self.fields[name], part, encoded, of=key)
        return encoded

    def _items(self, sample: Any) -> Iterable[tuple[str, Any]]:
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

    def _encode(self, plan: FieldPlan, value: Any, encoded: Encoded, of: str = "") -> None:
        if plan.kind in ("image", "bytes"):
            if not isinstance(value, bytes | bytearray | memoryview):
                raise _wrong(plan, value, "bytes")
            data = bytes(value)
            encoded.blobs.append((plan, data, sniffed_ending(data) if plan.kind == "image" else ""))
        elif plan.kind == "picture":
            if not is_picture(value):
                raise _wrong(plan, value, "an image")
            encoded.blobs.append((plan, *picture_bytes(value)))
        elif plan.kind == "json":
            try:
                encoded.blobs.append((plan, json_bytes(value), ""))
            except SampleError as err:
                raise SampleError(f"{plan.name!r} holds {err}") from None
        else:
            self._encode_numbers(plan, value, encoded, of or plan.name)

    def _encode_numbers(self, plan: FieldPlan, value: Any, encoded: Encoded, key: str) -> None:
        array = as_pixels(value) if plan.kind == "pixels" else as_array(value)
        if plan.kind == "array":
            if array is None or array.dtype.str != plan.dtype or array.shape != plan.shape:
                raise _uneven(key, value, f"{np.dtype(plan.dtype)} {list(plan.shape) or ''}".rstrip())
            encoded.row[plan.name] = array.copy()  # whoever gave it may put the next sample's numbers into it
            return
        if array is None or (array.dtype.str, array.ndim) != (plan.dtype, len(plan.shape)):
            if plan.kind == "pixels" and is_picture(value):
                raise UnevenError(f"{key!r} holds images of several kinds", field=key, kind="picture", worthless=True)
            raise _wrong(plan, value, f"{np.dtype(plan.dtype)} numbers of {len(plan.shape)} dimensions")
        encoded.blobs.append((plan, np.ascontiguousarray(array).tobytes(), ""))
        encoded.row[f"{plan.name}.shape"] = np.array(array.shape, np.uint32)


# Any: whatever a dataset gives.
def _keys_differ(sample: Any, keys: Sequence[str]) -> str:
    """Say which keys of a dict are missing and which are too many."""
    if not isinstance(sample, Mapping):
        return ""
    missing = [f"no {key!r}" for key in keys if key not in sample]
    return ": " + ", ".join([*missing, *(f"{key!r} besides" for key in sample if key not in keys)])


def _uneven(field_name: str, value: Any, expected: str) -> SampleError:
    if not is_json(value):
        return SampleError(f"{field_name!r} holds a {describe(value)}, not {expected}")
    return UnevenError(
        f"{field_name!r} holds a {describe(value)}, not {expected}", field=field_name, kind="json", worthless=True
    )


def _wrong(plan: FieldPlan, value: Any, expected: str) -> SampleError:
    return SampleError(f"{plan.name!r} holds a {describe(value)}, not {expected}")


def infer(
    samples: Mapping[int, Any], names: Sequence[str] | Mapping[str, str] | None, kinds: Mapping[str, Kind]
) -> Schema:
    """Find the fields of a dataset's samples from some of them, by position.

    Args:
        samples: At least one sample.
        names: What the items of a tuple are called; by default "image" (or "input", if it is none), "target",
            "field_2", "field_3", ... For a dict: other names than its keys, by key.
        kinds: How fields are stored, for those of which the person says it.

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
            for key, value in whole._items(sample):
                values[key][position] = value
    parts: dict[str, tuple[str, ...]] = {}
    plans: dict[str, FieldPlan] = {}
    for number, key in enumerate(fields):
        inner = _parts(values[key]) if key not in kinds else 0
        parts |= {key: tuple(f"{key}_{i}" for i in range(inner))} if inner else {}
        for index, name in enumerate(parts.get(key, (key,))):
            column = {p: value[index] for p, value in values[key].items()} if inner else values[key]
            plans[name] = _plan(name, column, is_first=number == 0, kind=kinds.get(name))
    if form != "dict" and names is None and plans.get("image", FieldPlan("", "raw")).kind in ("array", "json"):
        return infer(samples, ("input", *fields[1:]), kinds)
    unknown = sorted(set(kinds).difference(plans))
    if unknown:
        raise ArgumentError(f"kinds names {', '.join(unknown)}; the fields are {', '.join(plans)}.")
    _check_parts(fields, parts)
    return Schema(form, keys, fields, parts, plans)


def _check_kinds(kinds: Mapping[str, Kind]) -> None:
    for name, kind in kinds.items():
        if kind not in get_args(Kind):
            raise ArgumentError(
                f"Unknown value {kind!r} for {name!r} in argument kinds. Valid values are {get_args(Kind)}."
            )


def _check_parts(fields: Sequence[str], parts: Mapping[str, Sequence[str]]) -> None:
    """Refuse parts of a tuple that would be called as something else is.

    Raises:
        ArgumentError: There are some.
    """
    names = [*(name for name in fields if name not in parts), *(name for inner in parts.values() for name in inner)]
    wrong = next((name for name in names if names.count(name) > 1 or not NAME_PATTERN.fullmatch(name)), None)
    if wrong is not None:
        raise ArgumentError(
            f"A part of a tuple would be the field {wrong!r}, which is no name, or that of another field."
        )


def _form(sample: Any) -> tuple[Form, tuple[str, ...]]:
    if isinstance(sample, Mapping):
        return "dict", tuple(sample)
    if isinstance(sample, tuple | list) and sample:
        default = (*_TUPLE, *(f"field_{i}" for i in range(2, len(sample))))[: len(sample)]
        return "tuple", tuple(getattr(sample, "_fields", default))
    return "value", _TUPLE[:1]


def _field_names(form: Form, keys: tuple[str, ...], names: Sequence[str] | Mapping[str, str] | None) -> tuple[str, ...]:
    """Return what the fields are called.

    Raises:
        ArgumentError: `names` does not fit the samples, or something cannot be a name.
    """
    fields = keys
    if isinstance(names, Mapping):
        if form != "dict" or not set(names) <= set(keys):
            raise ArgumentError(f"fields renames {', '.join(names)}; a sample is a {form} of {', '.join(keys)}.")
        fields = tuple(names.get(key, key) for key in keys)
    elif names is not None:
        if form == "dict" or len(names) != len(keys):
            raise ArgumentError(f"fields has {len(names)} names; a sample is a {form} of {len(keys)}.")
        fields = tuple(names)
    for name in fields:
        is_name = isinstance(name, str) and NAME_PATTERN.fullmatch(name) and name not in _TAKEN
        if not is_name or fields.count(name) > 1:
            raise ArgumentError(
                f"{name!r} cannot be a field's name: small letters, digits and _ only, each once, and not "
                f"{', '.join(map(repr, _TAKEN))}. Pass fields with other names."
            )
    return fields


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


def _plan(name: str, values: Mapping[int, Any], *, is_first: bool, kind: Kind | None) -> FieldPlan:
    """Choose how a field is stored, from its values by position."""
    position, value = next(iter(values.items()))
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
    schema = Schema("value", (), (name,), {}, {name: plan})
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
        return "image" if image_problem(bytes(value)) is None or name == "image" else "bytes"
    array = as_array(value)
    small = array is not None and array.nbytes <= SMALL_BYTES and not is_first
    if is_picture(value) and not small:
        return "picture"
    if array is not None and array.ndim <= MAX_DIMENSIONS:
        return "array" if array.ndim == 0 or small else "raw"
    if is_json(value):
        return "json"
    raise SampleError(f"{name!r} is a {describe(value)}: neither an image nor numbers nor JSON")


def _is_smaller_raw(values: Sequence[Any]) -> bool:
    """Whether images of one shape are no larger as raw pixels: a page of a shard holds one, or PNG gains nothing."""
    pixels = [as_pixels(value) for value in values]
    if len({None if each is None else each.shape for each in pixels}) != 1 or pixels[0] is None:
        return False
    if pixels[0].nbytes <= SMALL_BYTES:
        return True
    return stored_bytes(pixels[0].nbytes) * len(values) <= sum(
        stored_bytes(len(picture_bytes(value)[0])) for value in values
    )


class at_position:
    """Put the position of a sample before what is wrong with it. Context manager."""

    def __init__(self, position: int) -> None:
        self.position = position

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: object) -> None:
        if isinstance(err, SampleError) and "position" not in err.details:
            text = str(err).rstrip(".")
            raise type(err)(f"position {self.position}: {text}.", **err.details, position=self.position) from None
