"""Read lists and tables into columns of cells, collecting all faults; find the columns that the user means."""

import csv
import io
import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from recordzoo.base.files import read_small
from recordzoo.base.settings import is_installed, need
from recordzoo.base.text import JSON, Faults, counted, did_you_mean, encoding_problems, shown
from recordzoo.errors import ArgumentError, NotPreparedError, SourceError

PARQUET = ".parquet"
LIST_ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", PARQUET)
"""Extensions of list files."""

PATH_COLUMNS = (
    *("path", "image", "file", "filename", "filepath"),
    *("file_name", "file_path", "image_path", "img_path", "image_file", "image_name", "image_id", "img", "id"),
)
"""Usual names of the column of paths."""

LABEL_COLUMNS = ("label", "class", "target", "category", "labels", "class_id", "label_id", "category_id")
"""Usual names of the column of labels."""

TARGET_KINDS = ("class", "int", "float", "multilabel", "text")
"""Kinds of targets."""

_BOXES = (("xmin", "xmax"), ("x1", "x2"), ("x1", "y1", "w"), ("x", "y", "w", "h"), ("x", "y", "width"), ("bbox",))
"""Columns of tables of boxes: in small letters, without other characters."""

_READ_BOXES = "boxes are read from COCO's JSON, YOLO's texts and Pascal VOC's XML"
_RARE = ("folder", "suffix", "separator")  # are in the JSON of columns only if they are given
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MOST_SHARED = 1 << 16
_MAX_LIST_BYTES = 16 << 30
_MARKS, _LEAST_MARKS = {"0", "1", "0.0", "1.0"}, 2
_MISSING = ("NoneType", "NAType", "NaTType")  # None, and pandas's
_LINE = re.compile(r"(?P<path>.*[^ ]) +(?P<label>[^ ]+)", re.DOTALL)


class Texts(list[str]):
    """The cells of a column. While few cells are distinct, equal ones share an object: 8 bytes a line, not 100."""

    def __init__(self) -> None:
        self._shared: dict[str, str] = {}

    def add(self, cell: str) -> None:
        """Add a cell."""
        shared = self._shared
        self.append(shared.setdefault(cell, cell) if len(shared) < _MOST_SHARED else shared.get(cell, cell))


@dataclass
class ListTable:
    """Columns of cells under their names, the line on which each row begins, and what is wrong with them so far.

    Attributes:
        texts: Columns that the table's types declare as text, even if they look like numbers.
    """

    header: list[str]
    columns: list[Texts]
    lines: "array[int]"
    faults: Faults
    texts: set[str] = field(default_factory=set)


def _from_cells(rows: Iterator[tuple[int, list[str]]], faults: Faults) -> ListTable:
    """Build a table from rows of cells with their lines; the first row names the columns."""
    _, names = next(rows, (0, []))
    table = ListTable([name.strip() for name in names], [Texts() for _ in names], array("q"), faults)
    for line, cells in rows:
        if len(cells) != len(names):
            faults.add(f"{counted(len(cells), 'column')}, not {len(names)}", line)
        elif any("\0" in cell for cell in cells):
            faults.add("a NUL byte", line)
        else:
            for column, cell in zip(table.columns, cells, strict=True):
                column.add(cell.strip())
            table.lines.append(line)
    return table


def _text_of(data: bytes, newline: str | None) -> io.TextIOWrapper:
    """Read a list's text in pieces, without the byte order mark of some editors."""
    return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline=newline)


def _plain_cells(data: bytes, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Yield `path label` lines: the label follows the last spaces, or the tab if there is one."""
    yield 0, ["path", "label"]
    for number, line in enumerate(_text_of(data, None), 1):
        if line.startswith("#") or not line.strip():
            continue
        if "\t" in line:
            yield number, line.rstrip("\n").split("\t")
        elif match := _LINE.fullmatch(line.strip(" \n")):
            yield number, [match["path"], match["label"]]
        else:
            hint = "; with commas, the list's name must end with .csv" if "," in line else ""
            faults.add(f"no label (a line is: path, space or tab, label{hint})", number)


def _cells(data: bytes, separator: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table that are not blank."""
    reader = csv.reader(_text_of(data, ""), delimiter=separator, skipinitialspace=True, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as err:
        hint = " (a quotation mark that is not closed?)" if b'"' in data else ""
        faults.add(f"{err}{hint}", line)


def _json_rows(data: bytes, faults: Faults) -> Iterator[tuple[int, Mapping[Any, Any]]]:
    """Yield the objects of JSON lines."""
    for line, each in enumerate(_text_of(data, None), 1):
        if not each.strip():
            continue
        try:
            row = json.loads(each, parse_float=_finite)
        except (ValueError, RecursionError) as err:
            faults.add(f"no JSON ({err})", line)
            continue
        if isinstance(row, dict):
            yield line, row
        else:
            faults.add(f"a JSON {type(row).__name__}, not an object", line)


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:80]} fits no type of numbers")
    return number


# Any, here and below: values of all kinds.


def _from_rows(rows: Iterable[tuple[int, Mapping[Any, Any]]], faults: Faults) -> ListTable:
    """Build a table from rows of values with their lines; missing values are empty cells."""
    columns: dict[str, Texts] = {}
    lines, texts = array("q"), set()
    for line, row in rows:
        for key, value in row.items():
            name = str(key)
            column = columns.setdefault(name, Texts())
            column.extend([""] * (len(lines) - len(column)))
            try:
                cell = _cell(value)
            except ValueError as err:
                faults.add(f"{name!r} holds {err}", line)
                cell = ""
            if isinstance(value, str):
                texts.add(name)
            column.add(cell.strip())
        lines.append(line)
    for column in columns.values():
        column.extend([""] * (len(lines) - len(column)))
    return ListTable(list(columns), list(columns.values()), lines, faults, texts)


def _cell(value: Any) -> str:
    """Format a value as a cell of a list file; a list as its items, separated by commas.

    Raises:
        ValueError: The value has no form as a cell.
    """
    value = value.tolist() if hasattr(value, "tolist") else value  # NumPy's
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


def _parquet_rows(path: Path) -> Iterator[Mapping[Any, Any]]:
    """Yield the rows of a Parquet file.

    Raises:
        PrepareError: pyarrow is not installed.
        SourceError: The file is cut or damaged.
    """
    need("pyarrow", "A Parquet table is read")
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as err:
        text = " ".join(str(err).split())[:200]
        raise SourceError(f"{path} is no table, or damaged ({type(err).__name__}: {text}).", path=str(path)) from err


def rows_of(data: Any) -> Iterator[Mapping[Any, Any]]:
    """Return the rows of a pandas or Arrow table, or of a list of dicts.

    Raises:
        ArgumentError: It is something else, or two columns have the same name.
    """
    if hasattr(data, "to_batches"):
        names: Sequence[Any] = data.schema.names
        rows: Iterator[Mapping[Any, Any]] = (row for batch in data.to_batches() for row in batch.to_pylist())
    elif hasattr(data, "itertuples") and hasattr(data, "columns"):
        names = list(data.columns)
        rows = (dict(zip(names, row, strict=True)) for row in data.itertuples(index=False, name=None))
    elif isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        names, rows = [], iter(data)
    else:
        raise ArgumentError(
            f"Argument data is of type {type(data).__name__}; it must be a name, a path, an address, a pandas or Arrow "
            "table, or a list of dicts. Any dataset of Python's is stored by convert()."
        )
    if len(set(names)) < len(names):
        raise ArgumentError(f"Argument data is a table with columns of equal names: {names}.")
    return rows


def read_list(path: Path, data: Any = None) -> ListTable:
    """Read the cells of a list file, or of a table in memory.

    Raises:
        ArgumentError: It is no list by its name.
        NotPreparedError: It cannot be read.
        PrepareError: pyarrow, which reads Parquet, is not installed.
        SourceError: It is not UTF-8, or a damaged table.
    """
    ending = path.suffix.lower()
    if data is not None:
        return _from_rows(enumerate(rows_of(data)), Faults(path, "row"))
    if ending not in LIST_ENDINGS:
        raise ArgumentError(f"{path} is no list: its name must end with {', '.join(LIST_ENDINGS)}.")
    if ending == PARQUET and path.is_file():
        return _from_rows(enumerate(_parquet_rows(path)), Faults(path, "row"))
    try:
        content = read_small(path, _MAX_LIST_BYTES)
    except OSError as err:
        raise NotPreparedError(f"{path}: the list cannot be read ({err.strerror}).", path=str(path)) from err
    faults = Faults(path, "line")
    for line, problem in encoding_problems(content):
        faults.add(f"{problem}; save it as UTF-8", line)
    faults.raise_if_any()
    if ending == ".jsonl":
        return _from_rows(_json_rows(content, faults), faults)
    separator = _SEPARATORS.get(ending)
    rows = _plain_cells(content, faults) if separator is None else _cells(content, separator, faults)
    return _from_cells(rows, faults)


@dataclass(frozen=True, slots=True)
class Columns:
    """What the user said of a list's columns. Other columns are found by their usual names.

    Attributes:
        image: The column of paths.
        targets: Columns with their kinds; None: class or float, by the values. The first is the default target.
        split: The column of splits.
        name: The column of the records' names. Default: the paths.
        folder: The directory that paths are relative to. Default: the list's.
        suffix: What paths lack at their end, such as ".png".
        separator: What stands between several labels in a cell.
    """

    image: str | None = None
    targets: Mapping[str, str | None] = field(default_factory=dict)
    split: str | None = None
    name: str | None = None
    folder: str | None = None
    suffix: str | None = None
    separator: str = ","

    def __post_init__(self) -> None:
        """Check kinds and columns.

        Raises:
            ArgumentError: `targets` is no dict of kinds, a kind does not exist, a column is named twice, or an address
                is given for one.
        """
        targets: object = self.targets
        if not isinstance(targets, Mapping):
            raise ArgumentError(
                f"Argument targets is {targets!r}; it must be a dict of columns and kinds, such as "
                "{'breed': 'class', 'age': 'float'}."
            )
        of_targets = (f"{column}:{kind}" for column, kind in self.targets.items())
        for given in (self.image, self.split, self.name, *of_targets):
            if given is not None and "://" in given:
                raise ArgumentError(f"{shown(given)} is an address, and no column's name.")
        for column, kind in self.targets.items():
            if kind is not None and kind not in TARGET_KINDS:
                raise ArgumentError(
                    f"Unknown kind {kind!r} of target {column!r} (--target {column}:{kind}). Valid kinds are "
                    f"{', '.join(TARGET_KINDS)}.{did_you_mean(str(kind), TARGET_KINDS)}"
                )
        named = [each for each in (self.image, *self.targets, self.split, self.name) if each is not None]
        if not self.separator:
            raise ArgumentError(f"Argument separator is {self.separator!r}; it must be a text between two labels.")
        if self.separator != "," and "multilabel" not in self.targets.values():
            raise ArgumentError(
                f"Argument separator (--separator) is {self.separator!r}, and no target has several labels: name its "
                "column, --target COLUMN:multilabel (targets={COLUMN: 'multilabel'})."
            )
        twice = next((each for each in named if named.count(each) > 1), None)
        if twice is not None:
            raise ArgumentError(f"Column {twice!r} is named twice: as image, target, split or name.")

    # Any: JSON, maybe from an untrusted source.
    @classmethod
    def from_json(cls, document: Any) -> "Columns":
        """Return the columns in a record set's metadata; the usual ones if there are none, or invalid ones."""
        try:
            return cls(**{**document, "targets": dict(document.get("targets", ()))})
        except (ArgumentError, AttributeError, TypeError, ValueError):
            return cls()

    def to_json(self) -> JSON:
        """Return the value for a record set's metadata; None if no column was named."""
        if self == USUAL:
            return None
        found = {**asdict(self), "targets": [list(target) for target in self.targets.items()]}
        return {key: value for key, value in found.items() if key not in _RARE or value != getattr(USUAL, key)}

    def words(self) -> list[str]:
        """Return the command line's options that name these columns."""
        named = [("--image", self.image), ("--split-column", self.split), ("--name-column", self.name)]
        named += [("--image-dir", self.folder), ("--image-suffix", self.suffix)]
        named += [("--separator", self.separator)] if self.separator != USUAL.separator else []
        named += [("--target", name if kind is None else f"{name}:{kind}") for name, kind in self.targets.items()]
        return [word for option, value in named if value is not None for word in (option, value)]


USUAL = Columns()
"""All columns are found by their usual names."""


@dataclass(frozen=True, slots=True)
class Places:
    """The numbers of the columns, by role.

    Attributes:
        image: The column of paths.
        targets: Those of targets, with their kinds.
        split: The column of splits, if there is one.
        name: The column of names, if the user named one.
    """

    image: int
    targets: Mapping[int, str | None]
    split: int | None
    name: int | None

    @classmethod
    def find(cls, path: Path, table: ListTable, asked: Columns) -> "Places":
        """Find the columns that the user named, and the others by their usual names.

        Raises:
            ArgumentError: There is no column that was named.
            SourceError: There is none with a usual name.
        """
        known = [name.lower() for name in table.header]

        def named(name: str, option: str) -> int:
            if name in table.header:
                return table.header.index(name)
            raise ArgumentError(
                f"{path} has no column {name!r} ({option}); it has {_shown(table.header)}."
                f"{did_you_mean(name, table.header)}"
            )

        def usual(names: Sequence[str]) -> int | None:
            return next((known.index(each) for each in names if each in known), None)

        image = usual(PATH_COLUMNS) if asked.image is None else named(asked.image, "--image")
        split = usual(("split",)) if asked.split is None else named(asked.split, "--split-column")
        name = None if asked.name is None else named(asked.name, "--name-column")
        if image is None:
            raise _no_column(path, table, PATH_COLUMNS, "--image COLUMN (image=) names it")
        if asked.targets:
            return cls(image, {named(column, "--target"): kind for column, kind in asked.targets.items()}, split, name)
        used = (image, name, split)
        others = [index for index in range(len(known)) if index not in used and not is_left_out(table, index)]
        label = usual(LABEL_COLUMNS)
        if label not in others and len(others) == 1:
            (label,) = others
        if label is None or label not in others:
            raise _no_column(path, table, LABEL_COLUMNS, "--target COLUMN (targets=) names it")
        return cls(image, {label: None}, split, name)


def _shown(header: Sequence[str]) -> str:
    return ", ".join(map(repr, header))[:300] or "nothing"


def is_left_out(table: ListTable, index: int) -> bool:
    """Whether a column is without a name, and empty, or the index that pandas writes: 0 to n - 1."""
    cells = table.columns[index]
    return not table.header[index] and (not any(cells) or all(cell == str(row) for row, cell in enumerate(cells)))


def boxes_in(header: Iterable[str]) -> str:
    """Say where boxes are read from, if columns are those of a table of boxes; "" if not."""
    names = {re.sub("[^a-z0-9]", "", name.lower()) for name in header}
    return _READ_BOXES if any(names.issuperset(columns) for columns in _BOXES) else ""


def _hint(table: ListTable) -> str:
    """Say what to do with a table without a column of labels, if its columns are known."""
    if boxes := boxes_in(table.header):
        return f". It looks like a table of boxes: {boxes}"
    marks = [name for name, cells in zip(table.header, table.columns, strict=True) if {*cells} <= _MARKS and any(cells)]
    if len(marks) < _LEAST_MARKS:
        return ""
    return (
        f". If {', '.join(map(repr, marks))[:300]} mark the labels of an image with 1, write them into one column, "
        "separated by commas, and pass --target COLUMN:multilabel; or name each one: --target COLUMN:int"
    )


def _no_column(path: Path, table: ListTable, wanted: Sequence[str], option: str) -> SourceError:
    hint = _hint(table) if wanted is LABEL_COLUMNS else ""
    if len(table.header) == 1 and re.search("[;\t]", table.header[0]):
        hint = ". Write commas between the columns, not semicolons or tabs"
    return SourceError(
        f"{path}, line 1: the first line must name the columns, one of them {wanted[0]!r} (or {', '.join(wanted[1:])}; "
        f"{option}); it has {_shown(table.header)}{hint}. Such as: path,label",
        path=str(path),
        lines=[1],
    )


def read_targets(words: Iterable[str]) -> dict[str, str | None]:
    """Read ``COLUMN`` and ``COLUMN:KIND`` words of a command line."""
    targets: dict[str, str | None] = {}
    for word in words:
        column, _, kind = word.rpartition(":")
        targets[column or word] = kind if column else None
    return targets
