"""List files: `path label` a line, or a table with a header; read whole, and every fault of it named at once."""

import hashlib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import ArgumentError, NotPreparedError, SourceError
from recordzoo.recipes.list_table import LIST_ENDINGS, Faults, Table, read_table
from recordzoo.records.manifest import NAME_PATTERN
from recordzoo.system.names import is_device

_PATH_COLUMNS = ("path", "image", "file", "filename", "filepath")
_LABEL_COLUMNS = ("label", "class", "target", "category")
_SPLIT_COLUMN = "split"
_CLASS_COLUMN = "class_name"
_TAKEN = ("image", "target", "name", "names", "names_offsets")

_WHOLE = re.compile(r"[+-]?[0-9]{1,100}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|nan|inf)", re.IGNORECASE)
_SPLIT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_PADDED = re.compile(r"[+-]?0[0-9]")
_INT64 = range(-(1 << 63), 1 << 63)
_EXACT_FLOATS = range(-(1 << 53), (1 << 53) + 1)
_MAX_CLASS_CHARACTERS = 4096


@dataclass(frozen=True)
class ListFile:
    """What a list says, in its order: N records.

    Attributes:
        path: The list itself, absolute.
        names: N paths as they stand in it, with "/" between the parts. One that stands twice is here twice.
        lines: Where in the file each of them stands, counted from 1.
        targets: int64 [N], the labels: as they stand there, or indices into `classes`.
        classes: Class names in label order; None if the labels are whole numbers without names.
        arrays: Further columns of numbers: int64 or float64 [N], by field name.
        texts: Further columns of anything else: N strings, by field name.
        splits: int64 positions of each split, in the list's order.
        digest: Changes when any of that does, however it is written down.
    """

    path: Path
    names: Sequence[str]
    lines: Sequence[int]
    targets: NDArray[np.int64]
    classes: Sequence[str] | None
    arrays: Mapping[str, NDArray[Any]]  # Any: of either dtype
    texts: Mapping[str, Sequence[str]]
    splits: Mapping[str, NDArray[np.int64]]
    digest: str

    @property
    def base(self) -> Path:
        """The directory that its relative paths are relative to: its own."""
        return self.path.parent


def read_list(path: Path) -> ListFile:
    """Read a list file.

    Raises:
        ArgumentError: Its name does not end as that of a list.
        NotPreparedError: There is no such file, or it cannot be read.
        SourceError: It is not a list: the message names lines and what is wrong with them.
    """
    path = path.absolute()
    ending = path.suffix.lower()
    if ending not in LIST_ENDINGS:
        raise ArgumentError(f"{path} is no list: its name must end with {', '.join(LIST_ENDINGS)}.")
    try:
        data = path.read_bytes()
    except OSError as err:
        raise NotPreparedError(f"{path}: the list cannot be read ({err.strerror}).", path=str(path)) from err
    faults = Faults(path)
    return _interpreted(path, read_table(path, data, faults), faults)


def _interpreted(path: Path, table: Table, faults: Faults) -> ListFile:
    """Make of a table's cells what they stand for."""
    path_column, label_column = _find_columns(path, table)
    names: Sequence[str] = table.columns[path_column]
    if os.sep != "/":
        names = [cell.replace(os.sep, "/") for cell in names]
    labels = table.columns[label_column]
    for what, cells in (("path", names), ("label", labels)):
        for line, cell in zip(table.lines, cells, strict=True):
            if not cell:
                faults.add(line, f"no {what}")
    others = _other_columns(table, {path_column, label_column}, faults)
    splits = _splits(table.lines, others.pop(_SPLIT_COLUMN, []), faults)
    targets, classes = _labels(labels, table.lines, others, faults)
    if not names:
        faults.add(1, "the list names no files")
    faults.raise_if_any()
    digest = hashlib.sha256()
    header = [str(path_column), str(label_column), *table.header]
    for row in itertools.chain([header], zip(*table.columns, strict=True)):
        digest.update("".join(f"{cell}\0" for cell in row).encode())
    columns = {name: _numbers(cells) for name, cells in others.items()}
    return ListFile(
        path=path,
        names=names,
        lines=table.lines,
        targets=targets,
        classes=classes,
        arrays={name: numbers for name, numbers in columns.items() if numbers is not None},
        texts={name: others[name] for name, numbers in columns.items() if numbers is None},
        splits=splits,
        digest=digest.hexdigest(),
    )


def _find_columns(path: Path, table: Table) -> tuple[int, int]:
    """Find the columns of paths and labels by their names."""
    known = [name.lower() for name in table.header]
    found = []
    for wanted in (_PATH_COLUMNS, _LABEL_COLUMNS):
        name = next((name for name in wanted if name in known), None)
        if name is None:
            shown = ", ".join(map(repr, table.header)) or "nothing"
            raise SourceError(
                f"{path}, line 1: the first line must name the columns, one of them {wanted[0]!r} (or "
                f"{', '.join(wanted[1:])}); it has {shown[:300]}. Such as: path,label",
                path=str(path),
                lines=[1],
            )
        found.append(known.index(name))
    return found[0], found[1]


def _other_columns(table: Table, used: set[int], faults: Faults) -> dict[str, list[str]]:
    """Return the further columns by the names of their fields, the split's and the class names' among them."""
    columns: dict[str, list[str]] = {}
    taken = {*_TAKEN, *(table.header[index].lower() for index in used)}
    for index, name in enumerate(table.header):
        if index in used:
            continue
        field = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        if not name:
            faults.add(1, f"column {index + 1} has no name (pandas writes such a one unless told index=False)")
        elif not NAME_PATTERN.fullmatch(field):
            faults.add(1, f"the column {name!r} cannot become a field: give it a name of letters, digits and _")
        elif is_device(field):
            faults.add(1, f"the column {name!r} would be a file that Windows takes for a device: rename it")
        elif field in taken:
            faults.add(1, f"the column {name!r} has the name of another, or of a field that every set has: rename it")
        else:
            columns[field] = table.columns[index]
            taken.add(field)
    return columns


def _splits(lines: Sequence[int], cells: Sequence[str], faults: Faults) -> dict[str, NDArray[np.int64]]:
    positions: dict[str, list[int]] = {}
    for position, cell in enumerate(cells):
        name = re.sub("[ _]", "-", cell.lower())
        if _SPLIT_NAME.fullmatch(name):
            positions.setdefault(name, []).append(position)
        elif cell:
            faults.add(lines[position], f"{cell!r} cannot be the name of a split: letters, digits and - can")
    return {name: np.array(found, np.int64) for name, found in positions.items()}


def _labels(
    labels: Sequence[str], lines: Sequence[int], others: dict[str, list[str]], faults: Faults
) -> tuple[NDArray[np.int64], list[str] | None]:
    """Return targets and class names; takes the column of class names out of the others if it is one of them."""
    if not all(map(_WHOLE.fullmatch, labels)):
        classes = sorted(set(labels))
        for line, label in zip(lines, labels, strict=True):
            if len(label) > _MAX_CLASS_CHARACTERS:
                faults.add(line, f"a label of {len(label):,} characters")
        label_of = {name: number for number, name in enumerate(classes)}
        return np.fromiter((label_of[label] for label in labels), np.int64, len(labels)), classes
    number_of = {label: int(label) for label in set(labels)}
    numbers = [number_of[label] for label in labels]
    for line, number in zip(lines, numbers, strict=True):
        if number not in _INT64:
            faults.add(line, f"the label {number} has more than 64 bits")
    _check_spellings(labels, numbers, lines, faults)
    faults.raise_if_any()
    distinct = sorted(set(numbers))
    if _CLASS_COLUMN not in others or distinct != list(range(len(distinct))):
        return np.array(numbers, np.int64), None
    return np.array(numbers, np.int64), _class_names(numbers, lines, others.pop(_CLASS_COLUMN), faults)


def _check_spellings(labels: Sequence[str], numbers: Sequence[int], lines: Sequence[int], faults: Faults) -> None:
    """Refuse texts that differ and stand for the same number: they may be two classes or one."""
    first: dict[int, str] = {}
    reported: set[str] = set()
    for label, number, line in zip(labels, numbers, lines, strict=True):
        known = first.setdefault(number, label)
        if label != known and label not in reported:
            reported.add(label)
            faults.add(line, f"the labels {label!r} here and {known!r} above are the same number: use one spelling")


def _class_names(numbers: Sequence[int], lines: Sequence[int], cells: Sequence[str], faults: Faults) -> list[str]:
    """Return the names of labels 0 to n - 1."""
    names: dict[int, str] = {}
    label_of: dict[str, int] = {}
    for number, line, name in zip(numbers, lines, cells, strict=True):
        known = names.setdefault(number, name)
        label = label_of.setdefault(name, number)
        if not name:
            faults.add(line, f"no {_CLASS_COLUMN}")
        elif known != name:
            faults.add(line, f"label {number} is called {name!r} here and {known!r} above")
        elif label != number:
            faults.add(line, f"{name!r} is label {number} here and label {label} above")
    return [names[number] for number in sorted(names)]


def are_fractions(classes: Sequence[str]) -> bool:
    """Whether all names of classes are numbers, and not all of them whole: values to predict rather than classes."""
    return all(map(_NUMBER.fullmatch, classes)) and not all(map(_WHOLE.fullmatch, classes))


# Any: of either dtype.
def _numbers(cells: Sequence[str]) -> NDArray[Any] | None:
    """Return a column of numbers, NaN where a cell is empty; None if it is no such column, or would lose digits.

    Numbers with zeros before them, such as postcodes, are names.
    """
    filled = [cell for cell in cells if cell]
    if not filled or not all(map(_NUMBER.fullmatch, filled)) or any(map(_PADDED.match, filled)):
        return None
    whole = [int(cell) for cell in filled if _WHOLE.fullmatch(cell)]
    if len(whole) == len(cells) and all(number in _INT64 for number in whole):
        return np.array(whole, np.int64)
    if not all(number in _EXACT_FLOATS for number in whole):
        return None
    return np.array([float(cell or "nan") for cell in cells], np.float64)
