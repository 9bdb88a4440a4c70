"""Split the text of a list file into columns of cells; collect all faults."""

import codecs
import csv
import io
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from recordzoo.errors import SourceError

PARQUET = ".parquet"
LIST_ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", PARQUET)
"""Extensions of list files."""

PATH_COLUMNS = ("path", "image", "file", "filename", "filepath")
"""Usual names of the column of paths."""

NUM_SHOWN = 20
"""Number of faults that a message names."""

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
# UTF-32 comes first: one of its marks begins with one of UTF-16's.
_OTHER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_MOST_SHARED = 1 << 16
_LINE = re.compile(r"(?P<path>.*[^ ]) +(?P<label>[^ ]+)", re.DOTALL)


class Faults:
    """Collects the faults of a list; a row is a "line" or a "row" in messages."""

    def __init__(self, path: Path, word: str = "line") -> None:
        self._path, self.word = path, word
        self.first = 0 if word == "row" else 1
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, what: str) -> None:
        """Add a fault of a line."""
        self._found.append((line, what))

    def raise_if_any(self) -> None:
        """Raise an error that names the faults.

        Raises:
            SourceError: There are faults.
        """
        if not self._found:
            return
        found = sorted(set(self._found))
        lines: dict[str, list[str]] = {}
        for line, what in found[:NUM_SHOWN]:
            lines.setdefault(what, []).append(str(line))
        shown = "; ".join(f"{self.word}{'s'[: len(at) > 1]} {', '.join(at)}: {what}" for what, at in lines.items())
        more = f"; and {len(found) - NUM_SHOWN} more" if len(found) > NUM_SHOWN else ""
        raise SourceError(
            f"{self._path} cannot be used: {shown}{more}.", path=str(self._path), lines=[line for line, _ in found]
        )


class Column(list[str]):
    """The cells of a column. While few cells are distinct, equal ones share an object: 8 bytes a line, not 100."""

    def __init__(self) -> None:
        self._shared: dict[str, str] = {}

    def add(self, cell: str) -> None:
        """Add a cell."""
        shared = self._shared
        self.append(shared.setdefault(cell, cell) if len(shared) < _MOST_SHARED else shared.get(cell, cell))


@dataclass
class Table:
    """Columns of cells under their names, and the line on which each row begins.

    Attributes:
        texts: Columns that the table's types declare as text, even if they look like numbers.
    """

    header: list[str] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    lines: "array[int]" = field(default_factory=lambda: array("q"))
    texts: set[str] = field(default_factory=set)

    def begin(self, header: list[str]) -> None:
        """Name the columns."""
        self.header = header
        self.columns = [Column() for _ in header]

    def add(self, line: int, cells: list[str], faults: Faults) -> None:
        """Add a row if it is complete."""
        if len(cells) != len(self.header):
            faults.add(line, f"{_columns(len(cells))}, not {len(self.header)}")
        elif any("\0" in cell for cell in cells):
            faults.add(line, "a NUL byte")
        else:
            for column, cell in zip(self.columns, cells, strict=True):
                column.add(cell.strip())
            self.lines.append(line)


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def read_table(path: Path, data: bytes, faults: Faults) -> Table:
    """Read a list's rows; the columns of a plain one are "path" and "label"."""
    separator = _SEPARATORS.get(path.suffix.lower())
    return _plain(data, faults) if separator is None else _with_header(data, separator, faults)


def check_encoding(data: bytes, faults: Faults) -> None:
    """Refuse a list that is not UTF-8.

    Raises:
        SourceError: It is not UTF-8; the message names the lines.
    """
    encoding = next((name for mark, name in _OTHER_MARKS if data.startswith(mark)), None)
    if encoding is not None:
        faults.add(1, f"the file is {encoding}; save it as UTF-8")
        faults.raise_if_any()
    try:
        data.decode()
    except UnicodeDecodeError:
        for number, line in enumerate(data.splitlines(), 1):
            try:
                line.decode()
            except UnicodeDecodeError as err:
                faults.add(number, f"byte {err.start + 1} is not UTF-8 (0x{line[err.start]:02x})")
        faults.raise_if_any()
        raise AssertionError("a file that is not UTF-8 has a line that is not") from None


def text_of(data: bytes, newline: str | None) -> io.TextIOWrapper:
    """Read a list's text in pieces, without the byte order mark of some editors."""
    return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline=newline)


def _plain(data: bytes, faults: Faults) -> Table:
    """Read `path label` lines: the label follows the last spaces, or the tab if there is one."""
    table = Table()
    table.begin(["path", "label"])
    for number, line in enumerate(text_of(data, None), 1):
        if line.startswith("#") or not line.strip():
            continue
        if "\t" in line:
            table.add(number, line.rstrip("\n").split("\t"), faults)
        elif match := _LINE.fullmatch(line.strip(" \n")):
            table.add(number, [match["path"], match["label"]], faults)
        else:
            hint = "; with commas, the list's name must end with .csv" if "," in line else ""
            faults.add(number, f"no label (a line is: path, space or tab, label{hint})")
    return table


def _with_header(data: bytes, separator: str, faults: Faults) -> Table:
    """Read a table whose first line names the columns; blank lines are skipped."""
    table = Table()
    for line, cells in _cells(data, separator, faults):
        if table.header:
            table.add(line, cells, faults)
        else:
            table.begin([cell.strip() for cell in cells])
    return table


def _cells(data: bytes, separator: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text_of(data, ""), delimiter=separator, skipinitialspace=True, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as err:
        hint = " (a quotation mark that is not closed?)" if b'"' in data else ""
        faults.add(line, f"{err}{hint}")
