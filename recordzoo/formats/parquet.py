"""Parquet files: the parts of one, read in batches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recordzoo.formats.arrow import ROWS_AT_ONCE, ArrowPart, TableParts
from recordzoo.formats.base import fault


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
