"""Parquet files: the parts of one, and how an export writes them: ``data/train-00000-of-00005.parquet``, as at the Hub.

``datasets`` writes its features as JSON under the key ``huggingface`` of the schema (src/datasets/arrow_writer.py).
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from recordzoo.base.packages import need
from recordzoo.base.types import JSON
from recordzoo.errors import OtherSourceError
from recordzoo.formats.arrow import ROWS_AT_ONCE, ArrowPart, TableParts
from recordzoo.formats.arrow_values import ARRAYS
from recordzoo.formats.base import fault
from recordzoo.formats.samples import Content, ExportSample, Field
from recordzoo.formats.writing import Files, Shard, Tick, Writer, json_text, plain, synced

if TYPE_CHECKING:
    import pyarrow

NESTED_ARRAYS = b"recordzoo.arrays"
"""Under this key a schema has the columns whose lists of lists are arrays, each with its number of dimensions."""

_FOLDER = "data"
_DEFAULT_SPLIT = "train"  # what `datasets` calls data without splits
_GROUP_ROWS = 1000
_GROUP_BYTES = 64 << 20


def look(path: Path) -> TableParts:
    """Find a file's columns and parts."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as table:
        found, metadata = TableParts(table.schema_arrow), table.metadata
        first_row = 0
        without = set(table.schema_arrow.names)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if group.num_rows < 0:
                raise fault(path, f": row group {number} has {group.num_rows} rows.")
            without -= {name for name in without if _has_paths(group, name)}
            found.add(ArrowPart(first_row, max(1, group.total_byte_size), number, number + 1))
            first_row += group.num_rows
        found.without_paths = without
    return found


# Any: pyarrow's.
def _has_paths(group: Any, name: str) -> bool:
    """Whether a row group may have paths of a column of files: its statistics do not say that all are null."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == f"{name}.path":
            known = column.statistics
            return known is None or not known.has_null_count or known.null_count < column.num_values
    return False


# Any: pyarrow's.
def batches(path: Path, start: int, stop: int) -> Iterator[Any]:
    """Yield the rows of some row groups in batches."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as table:
        yield from table.iter_batches(ROWS_AT_ONCE, row_groups=range(start, stop))


class ParquetWriter(Writer):
    """Writes the columns image, label, name, the other fields."""

    name = "parquet"

    def __init__(self, content: Content, splits: Sequence[str]) -> None:
        super().__init__(content, splits)
        need("pyarrow", "parquet", "Parquet is written")

    @override
    def write(self, shard: Shard, folder: Path, tick: Tick) -> Files:
        import pyarrow.parquet

        split = (shard.split or _DEFAULT_SPLIT).replace("-", "_")  # in names of files "-" stands before the number
        name = f"{_FOLDER}/{split}-{shard.number:05d}-of-{shard.total:05d}.parquet"
        (folder / _FOLDER).mkdir(exist_ok=True)
        schema = self._schema()
        with open(folder / name, "wb") as file:
            with pyarrow.parquet.ParquetWriter(file, schema, use_dictionary=False) as writer:
                rows: list[dict[str, Any]] = []
                num_bytes = 0
                for _, sample in self.samples(shard, tick):
                    rows.append(self._row(sample))
                    num_bytes += len(sample.image)
                    if len(rows) == _GROUP_ROWS or num_bytes >= _GROUP_BYTES:
                        writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                        rows, num_bytes = [], 0
                if rows:
                    writer.write_table(pyarrow.Table.from_pylist(rows, schema))
            return {name: synced(file)}

    @override
    def finish(self, folder: Path, shards: Sequence[Shard], written: Sequence[Files]) -> None:
        """Write nothing: the schema has the names of the classes."""

    # Any: values of all kinds.
    def _row(self, sample: ExportSample) -> dict[str, Any]:
        row: dict[str, Any] = {
            "image": {"bytes": sample.image, "path": sample.name.rpartition("/")[2]},
            "name": sample.name,
        }
        if sample.label is not None:
            row["label"] = sample.label
        for field in self.content.fields:
            value = sample.fields[field.name]
            if value is None or field.kind == "bytes":
                row[column_name(field)] = value
            elif field.kind == "image":
                row[column_name(field)] = {"bytes": value, "path": None}
            elif field.kind == "json":
                row[column_name(field)] = json_text(field, sample)
            else:
                row[column_name(field)] = _lists(field, value, sample.name)
        return row

    def _schema(self) -> "pyarrow.Schema":
        import pyarrow

        columns = {"image": _column_of(Field("image", "image"))}
        if self.content.label_field is not None:
            names = {"names": list(self.content.classes), "_type": "ClassLabel"}
            columns["label"] = (pyarrow.int64(), names if self.content.classes else _value("int64"))
        columns["name"] = (pyarrow.string(), _value("string"))
        columns |= {column_name(field): _column_of(field) for field in self.content.fields}
        features = {name: feature for name, (_, feature) in columns.items()}
        about = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
        if nested := {column_name(field): len(field.shape) for field in self.content.fields if None in field.shape[1:]}:
            about[NESTED_ARRAYS] = json.dumps(nested).encode()
        return pyarrow.schema([(name, kind) for name, (kind, _) in columns.items()], about)


def column_name(field: Field) -> str:
    """Return a field's column: its own name, unless the export uses that."""
    return f"{field.name}_field" if field.name in ("label", "name") else field.name


def _value(dtype: str) -> JSON:
    return {"dtype": dtype, "_type": "Value"}


# Any: a type of pyarrow.
def _column_of(field: Field) -> tuple[Any, JSON]:
    """Return the type of a column, and its feature of `datasets`."""
    import pyarrow

    if field.kind == "image":
        return pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())]), {"_type": "Image"}
    if field.kind == "bytes":
        return pyarrow.binary(), _value("binary")
    if field.kind == "json":
        return pyarrow.string(), _value("string")
    kind, feature = pyarrow.from_numpy_dtype(np.dtype(field.dtype)), _value(field.dtype)
    for _ in field.shape:
        kind, feature = pyarrow.list_(kind), {"feature": feature, "_type": "Sequence"}
    if len(field.shape) in ARRAYS and None not in field.shape[1:]:
        feature = {"shape": list(field.shape), "dtype": field.dtype, "_type": ARRAYS[len(field.shape)]}
    return kind, feature


# Any: an array of any dtype.
def _lists(field: Field, value: Any, name: str) -> Any:
    """Return an array as lists."""
    shape = np.shape(value)
    if None in field.shape[1:] and 0 in shape and any(shape[shape.index(0) :]):
        raise OtherSourceError(
            f"{name}: {field.name} is an empty array {list(shape)}; lists of Parquet keep no shape after a 0. Export "
            "to webdataset or tfrecord."
        )
    return plain(value)
