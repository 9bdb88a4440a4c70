"""Convert tables with typed values (JSON lines, Parquet, pandas, Arrow, dicts) to columns of cells."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recordzoo.base.packages import is_installed, need
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.recipes.list_table import PATH_COLUMNS, Column, Faults, Table, text_of

_MISSING = ("NoneType", "NAType", "NaTType")  # None, and pandas's

# Any, here and below: values of all kinds.


def from_rows(rows: Iterable[tuple[int, Mapping[Any, Any]]], faults: Faults) -> Table:
    """Build a table from rows with their lines; missing values are empty cells."""
    table = Table()
    columns: dict[str, Column] = {}
    for line, row in rows:
        for key, value in row.items():
            name = str(key)
            column = columns.setdefault(name, Column())
            column.extend([""] * (len(table.lines) - len(column)))
            try:
                cell = _cell(value)
            except ValueError as err:
                faults.add(line, f"{name!r} holds {err}")
                cell = ""
            if isinstance(value, str):
                table.texts.add(name)
            column.add(cell.strip())
        table.lines.append(line)
    for column in columns.values():
        column.extend([""] * (len(table.lines) - len(column)))
    table.header, table.columns = list(columns), list(columns.values())
    return table


def _cell(value: Any) -> str:
    """Format a value as a cell of a list file; a list as its items, separated by commas.

    Raises:
        ValueError: The value has no form as a cell.
    """
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if type(value).__name__ in _MISSING or value != value:  # NaN
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes | bytearray):
        raise ValueError("bytes")
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [_cell(item) for item in value]
        if any("," in item for item in items):
            raise ValueError(f"a list with a comma in {next(item for item in items if ',' in item)!r}")
        return ",".join(items)
    text = str(value)
    if "\0" in text:
        raise ValueError("a NUL character")
    return text.encode(errors="replace").decode()


def json_rows(data: bytes, faults: Faults) -> Iterator[tuple[int, Mapping[Any, Any]]]:
    """Yield the objects of JSON lines."""
    for line, each in enumerate(text_of(data, None), 1):
        if not each.strip():
            continue
        try:
            row = json.loads(each)
        except (ValueError, RecursionError) as err:
            faults.add(line, f"no JSON ({err})")
            continue
        if isinstance(row, dict):
            yield line, row
        else:
            faults.add(line, f"a JSON {type(row).__name__}, not an object")


def has_paths(path: Path) -> bool:
    """Whether a Parquet file is a table of paths: it has a text column with a usual name, and no bytes."""
    if not path.is_file() or not is_installed("pyarrow"):
        return False
    import pyarrow
    from pyarrow import parquet, types

    try:
        schema = parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError, ValueError):
        return False
    others = (types.is_struct, types.is_binary, types.is_large_binary)
    if any(is_other(kind) for is_other in others for kind in schema.types):
        return False
    texts = [each.name.lower() for each in schema if types.is_string(each.type) or types.is_large_string(each.type)]
    return any(name in texts for name in PATH_COLUMNS)


def parquet_table(path: Path, faults: Faults) -> Table:
    """Read a Parquet file.

    Raises:
        PrepareError: pyarrow is not installed.
        SourceError: The file is cut or damaged.
    """
    need("pyarrow", "A Parquet table is read")
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            return from_rows(enumerate(_batch_rows(file.iter_batches())), faults)
    except (pyarrow.ArrowException, OSError, ValueError) as err:
        text = " ".join(str(err).split())[:200]
        raise SourceError(f"{path} is no table, or damaged ({type(err).__name__}: {text}).", path=str(path)) from err


def check_table(data: Any) -> None:
    """Refuse anything but a pandas or Arrow table or a list of dicts.

    Raises:
        ArgumentError: It is something else, or two columns have the same name.
    """
    if hasattr(data, "to_batches"):
        names = list(data.schema.names)
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):
        names = list(data.columns)
    elif isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return
    else:
        raise ArgumentError(
            f"Argument data is of type {type(data).__name__}; it must be a name, a path, an address, a pandas or Arrow "
            "table, or a list of dicts. Any dataset of Python's is stored by convert()."
        )
    if len(set(names)) < len(names):
        raise ArgumentError(f"Argument data is a table with columns of equal names: {names}.")


def object_table(data: Any, faults: Faults) -> Table:
    """Read a table that passed `check_table`."""
    if hasattr(data, "to_batches"):
        return from_rows(enumerate(_batch_rows(data.to_batches())), faults)
    return from_rows(enumerate(data.to_dict("records") if hasattr(data, "to_dict") else data), faults)


def _batch_rows(batches: Iterable[Any]) -> Iterator[Mapping[Any, Any]]:
    for batch in batches:
        yield from batch.to_pylist()
