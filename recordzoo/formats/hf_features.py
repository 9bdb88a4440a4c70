"""The fields of a record set as columns of `datasets`: features and values."""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.formats.samples import Content, Field, printable
from recordzoo.records.kinds import FieldKind
from recordzoo.records.reader import RecordReader

_AT_ONCE = 1000
_MAX_COLUMNS = 256
ARRAYS = {2: "Array2D", 3: "Array3D", 4: "Array4D", 5: "Array5D"}
"""Features of arrays, of which the first dimension may differ."""

_TAKEN = ("label", "name")


# Any, here and below: features of `datasets`, values of all kinds.
@dataclass(frozen=True)
class HFColumn:
    """A column.

    Attributes:
        field: The field.
        name: The column's name: that of the field, unless the export uses it.
        feature: Its feature of `datasets`.
        is_text: Whether values are written as JSON text, because their types differ.
    """

    field: Field
    name: str
    feature: Any
    is_text: bool = False

    def value(self, value: Any) -> Any:
        """Return a value for `datasets`."""
        if value is None:
            return None
        if self.field.kind == "image":
            return {"bytes": value, "path": None}
        if self.is_text:
            return json.dumps(value)
        if self.field.kind == "json":
            return printable(value) if isinstance(value, str) else value
        return value  # bytes, an array or a number


def columns_of(content: Content) -> Sequence[HFColumn]:
    """Return the columns beside image, label and name. Reads all JSON values, to find their types."""
    return [_column(content.reader, field) for field in content.fields]


def features_of(
    content: Content, columns: Sequence[HFColumn], labels: NDArray[np.int64] | None, classes: Sequence[str]
) -> Any:
    """Return the `datasets.Features` of some records.

    Args:
        content: The record set.
        columns: Its columns beside image, label and name.
        labels: The labels; None if there are none.
        classes: Their names.
    """
    import datasets

    features: dict[str, Any] = {"image": datasets.Image()}
    if labels is not None:
        features["label"] = label_feature(labels, classes)
    features["name"] = datasets.Value("string")
    return datasets.Features(features | {column.name: column.feature for column in columns})


def label_feature(labels: NDArray[Any], classes: Sequence[Any]) -> Any:
    """Return a `ClassLabel` if all labels have a name of their own, or are -1; otherwise a number."""
    import datasets

    names = [printable(str(name)) for name in classes]
    fits = len(labels) == 0 or (labels.min() >= -1 and labels.max() < len(names))
    if names and fits and len(set(names)) == len(names):
        return datasets.ClassLabel(names=names)
    return datasets.Value("int64")


def _column(reader: RecordReader, field: Field) -> HFColumn:
    import datasets

    name = f"{field.name}_field" if field.name in _TAKEN else field.name
    if field.kind == "json":
        feature = _json_feature(reader, field.name)
        if feature is not None:
            return HFColumn(field, name, feature)
        mixed = datasets.Json() if hasattr(datasets, "Json") else datasets.Value("string")
        return HFColumn(field, name, mixed, is_text=True)
    if field.kind in ("image", "bytes"):
        return HFColumn(field, name, datasets.Image() if field.kind == "image" else datasets.Value("binary"))
    return HFColumn(field, name, _number_feature(reader, field))


def _number_feature(reader: RecordReader, field: Field) -> Any:
    import datasets

    spec = reader.manifest.fields[field.name]
    if field.kind == "numbers" and spec.kind is FieldKind.CLASS and spec.names is not None:
        return label_feature(reader.array(field.name), spec.names)
    if len(field.shape) in ARRAYS and None not in field.shape[1:]:
        return getattr(datasets, ARRAYS[len(field.shape)])(field.shape, field.dtype)
    feature: Any = datasets.Value(field.dtype)
    for length in reversed(field.shape):
        feature = datasets.List(feature, length=-1 if length is None else length)
    return feature


def _json_feature(reader: RecordReader, name: str) -> Any:
    """Return the common feature of a JSON field's values; None if their types differ."""
    import datasets
    import pyarrow

    schema = pyarrow.schema([(name, pyarrow.null())])
    values = _json_values(reader, name)
    try:
        while some := list(itertools.islice(values, _AT_ONCE)):
            found = pyarrow.schema([(name, pyarrow.array(some).type)])
            schema = pyarrow.unify_schemas([schema, found], promote_options="permissive")
            if _num_columns(schema.field(0).type) > _MAX_COLUMNS:  # dicts whose keys are data
                return None
    except (pyarrow.ArrowException, UnicodeError, OverflowError, TypeError, ValueError):
        return None
    kind = schema.field(0).type
    return datasets.Features.from_arrow_schema(schema)[name] if kind != pyarrow.null() else datasets.Value("string")


def _json_values(reader: RecordReader, name: str) -> Iterator[Any]:
    for position in range(len(reader)):
        if reader.has(name, position):
            value = reader.value(name, position)
            yield printable(value) if isinstance(value, str) else value


def _num_columns(kind: Any) -> int:
    children = [kind.field(number).type for number in range(kind.num_fields)]
    return 1 + sum(map(_num_columns, children))
