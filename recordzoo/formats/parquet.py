"""Parquet files: the parts of one, read in batches. A child process opens each first: pyarrow may crash on damage."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import recordzoo
from recordzoo.formats.arrow import ROWS_AT_ONCE, ArrowPart, TableParts
from recordzoo.formats.base import fault

OPENING_S = 30.0
"""Time limit to open a file."""

_opened: set[tuple[Path, int, int]] = set()  # paths, sizes and times

_CHILD = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
from recordzoo.formats.parquet import look
for path in json.loads(sys.stdin.readline()):
    try:
        look(Path(path))
    except Exception:
        pass
    print(flush=True)
"""


def open_first(paths: Sequence[Path]) -> None:
    """Open files in a child process before this process does. Exceptions there are ignored: they occur again here.

    Raises:
        SourceError: The child process crashed, or took too long.
    """
    states = {(path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths}
    if states <= _opened:
        return
    search = [str(Path(recordzoo.__file__).absolute().parent.parent), *(os.path.abspath(entry) for entry in sys.path)]
    command = [sys.executable, "-I", "-c", _CHILD, json.dumps(search)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps([os.fspath(path.absolute()) for path in paths]) + "\n")
        child.stdin.flush()
        for path in paths:
            timer = threading.Timer(OPENING_S, child.kill)
            timer.start()
            answer = child.stdout.readline()
            timer.cancel()
            if not answer:
                text = f" is damaged: the library that reads it crashed, or took more than {OPENING_S:.0f} s."
                raise fault(path, text)
    _opened.update(states)


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
