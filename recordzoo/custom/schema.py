"""Which fields samples have and how each is stored; a sample as blobs and rows of arrays."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.types import JSON
from recordzoo.custom.values import (
    as_array,
    as_pixels,
    describe,
    is_json,
    is_picture,
    json_bytes,
    picture_bytes,
)
from recordzoo.errors import SampleError
from recordzoo.recipes.base import BlobField
from recordzoo.recipes.images import sniffed_ending

Kind = Literal["image", "bytes", "picture", "pixels", "raw", "array", "json"]
"""How a field is stored: "image" and "bytes" untouched; "picture" as PNG; "pixels" and "raw" as raw numbers; "array" as
a row of an array file; "json"."""

Form = Literal["tuple", "dict", "value"]

_ENCODINGS = {"image": "image", "bytes": "bytes", "picture": "image", "pixels": "raw", "raw": "raw", "json": "json"}


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
        has_gaps: Whether a sample may have None for a field of images, bytes or raw numbers: it has no value then.
    """

    form: Form
    keys: tuple[str, ...]
    names: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]]
    fields: Mapping[str, FieldPlan]
    has_gaps: bool = False

    def to_json(self) -> dict[str, JSON]:
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
        for key, value in self.items(sample):
            names = self.parts.get(key)
            if names is None:
                self._encode(self.fields[key], value, encoded)
                continue
            if not isinstance(value, tuple) or len(value) != len(names):
                raise _uneven(key, value, f"a tuple of {len(names)}")
            for name, part in zip(names, value, strict=True):
                self._encode(self.fields[name], part, encoded, of=key)
        return encoded

    def items(self, sample: Any) -> Iterable[tuple[str, Any]]:
        """Give the items of a sample under the names of their fields.

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

    def _encode(self, plan: FieldPlan, value: Any, encoded: Encoded, of: str = "") -> None:
        if value is None and self.has_gaps and plan.kind not in ("json", "array"):
            if plan.kind in ("raw", "pixels"):
                encoded.row[f"{plan.name}.shape"] = np.zeros(len(plan.shape), np.uint32)
        elif plan.kind in ("image", "bytes"):
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


class at_position:
    """Put the position of a sample before what is wrong with it. Context manager.

    Args:
        position: The position.
        of: What it counts in, if that is a part of the samples only.
    """

    def __init__(self, position: int, of: str = "") -> None:
        self.position, self._of = position, f" {of}" if of else ""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: object) -> None:
        if isinstance(err, SampleError) and "position" not in err.details:
            text = f"position {self.position}{self._of}: {str(err).rstrip('.')}."
            raise type(err)(text, **err.details, position=self.position) from None
