"""The text of a list file → rows of cells; every fault of it is kept, to be named with the others."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from recordzoo.errors import SourceError

LIST_ENDINGS = (".txt", ".csv", ".tsv")
"""What the name of a list file ends with."""

NUM_SHOWN = 20
"""How many faults of a list a message names."""

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
# UTF-32 comes first: one of its marks begins with one of UTF-16's.
_OTHER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_LINE = re.compile(r"(?P<path>.*[^ ]) +(?P<label>[^ ]+)", re.DOTALL)


class Faults:
    """Collects what is wrong with a list."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, what: str) -> None:
        """Note what is wrong with a line."""
        self._found.append((line, what))

    def raise_if_any(self) -> None:
        """Say what was found.

        Raises:
            SourceError: Something was.
        """
        if not self._found:
            return
        found = sorted(set(self._found))
        lines: dict[str, list[str]] = {}
        for line, what in found[:NUM_SHOWN]:
            lines.setdefault(what, []).append(str(line))
        shown = "; ".join(f"line{'s'[: len(at) > 1]} {', '.join(at)}: {what}" for what, at in lines.items())
        more = f"; and {len(found) - NUM_SHOWN} more" if len(found) > NUM_SHOWN else ""
        raise SourceError(
            f"{self._path} cannot be used: {shown}{more}.", path=str(self._path), lines=[line for line, _ in found]
        )


@dataclass
class Table:
    """Rows of cells, all as long as the header, and the line on which each begins."""

    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, line: int, cells: list[str], faults: Faults) -> None:
        """Add a row if it is whole."""
        if len(cells) != len(self.header):
            faults.add(line, f"{_columns(len(cells))}, not {len(self.header)}")
        elif any("\0" in cell for cell in cells):
            faults.add(line, "a NUL byte")
        else:
            self.rows.append([cell.strip() for cell in cells])
            self.lines.append(line)

    def column(self, index: int) -> list[str]:
        """Return the cells of a column."""
        return [row[index] for row in self.rows]


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def read_table(path: Path, data: bytes, faults: Faults) -> Table:
    """Read a list's rows; the columns of a plain one are "path" and "label".

    Raises:
        SourceError: It is not UTF-8.
    """
    text = _decoded(data, faults)
    separator = _SEPARATORS.get(path.suffix.lower())
    return _plain(text, faults) if separator is None else _with_header(text, separator, faults)


def _decoded(data: bytes, faults: Faults) -> str:
    """Return a list's text, without the mark that some editors put at its start.

    Raises:
        SourceError: It is not UTF-8.
    """
    encoding = next((name for mark, name in _OTHER_MARKS if data.startswith(mark)), None)
    if encoding is not None:
        faults.add(1, f"the file is {encoding}; save it as UTF-8")
        faults.raise_if_any()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        for number, line in enumerate(data.splitlines(), 1):
            try:
                line.decode()
            except UnicodeDecodeError as err:
                faults.add(number, f"byte {err.start + 1} is not UTF-8 (0x{line[err.start]:02x})")
    faults.raise_if_any()
    raise AssertionError("a file that is not UTF-8 has a line that is not")


def _plain(text: str, faults: Faults) -> Table:
    """Read `path label` lines: the label follows the last spaces, or the tab if there is one."""
    table = Table(["path", "label"])
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
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


def _with_header(text: str, separator: str, faults: Faults) -> Table:
    """Read a table whose first line names the columns; blank lines are passed over."""
    table = Table()
    for line, cells in _cells(text, separator, faults):
        if table.header:
            table.add(line, cells, faults)
        else:
            table.header = [cell.strip() for cell in cells]
    return table


def _cells(text: str, separator: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as err:
        hint = " (a quotation mark that is not closed?)" if '"' in text else ""
        faults.add(line, f"{err}{hint}")
