"""Read list files and tables whole, report all faults at once, and convert columns to fields."""

import hashlib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import ArgumentError, NotPreparedError
from recordzoo.recipes.list_columns import LABEL_COLUMNS, USUAL, Columns, Places
from recordzoo.recipes.list_kinds import Cells, ListField
from recordzoo.recipes.list_rows import from_rows, json_rows, parquet_table
from recordzoo.recipes.list_table import LIST_ENDINGS, PARQUET, Faults, Table, check_encoding, read_table
from recordzoo.records.kinds import FieldKind, FieldSpec
from recordzoo.records.manifest import NAME_PATTERN, RESERVED_FIELDS
from recordzoo.system.names import is_device

_CLASS_COLUMN = "class_name"
_TAKEN = {"image", *RESERVED_FIELDS} - {"split"}  # a field, if another column says the splits
_LABEL = "target"
"""The field of a label whose column the user did not name."""

_SPLIT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True)
class ListFile:
    """The N records of a list, in its order.

    Attributes:
        path: The list itself, absolute.
        word: The word for its lines in messages: "line" or "row".
        names: N names of records: the paths, or the column of names.
        files: N paths as written, with "/" between the parts; duplicates stay.
        lines: The number of each record's line (from 1) or row (from 0).
        fields: Targets, then further columns, by the names of their fields.
        num_targets: Number of targets; the first one is the default.
        image: The column of paths.
        splits: int64 positions of each split, in the list's order.
        digest: Digest of all cells and columns, independent of the file's format.
    """

    path: Path
    word: str
    names: Sequence[str]
    files: Sequence[str]
    lines: Sequence[int]
    fields: Mapping[str, ListField]
    num_targets: int
    image: str
    splits: Mapping[str, NDArray[np.int64]]
    digest: str

    @property
    def base(self) -> Path:
        """The directory that its relative paths are relative to: its own."""
        return self.path.parent

    @property
    def default_target(self) -> str:
        """The field of the default target."""
        return next(iter(self.fields))

    @property
    def choice(self) -> str:
        """A description of how the columns were read, for the user to check."""
        read = [field.shown(name) for name, field in self.fields.items()]
        targets, others = ", ".join(read[: self.num_targets]), ", ".join(read[self.num_targets :])
        splits = f"; splits: {', '.join(self.splits)}" if self.splits else ""
        return (
            f"images from {self.image!r}; targets: {targets}{f'; further fields: {others}' if others else ''}{splits}"
        )

    def kept(self, keep: NDArray[np.bool_]) -> "ListFile":
        """Return the list of some of its rows."""
        rows, new_position = np.flatnonzero(keep).tolist(), np.cumsum(keep) - 1
        return replace(
            self,
            names=[self.names[row] for row in rows],
            files=[self.files[row] for row in rows],
            lines=[self.lines[row] for row in rows],
            fields={name: field.kept(keep) for name, field in self.fields.items()},
            splits={name: new_position[found[keep[found]]] for name, found in self.splits.items()},
        )


def read_list(path: Path, asked: Columns = USUAL) -> ListFile:
    """Read a list file.

    Args:
        path: The file.
        asked: The columns that the user named.

    Raises:
        ArgumentError: Its name does not end as that of a list, or it lacks a column that was named.
        NotPreparedError: There is no such file, or it cannot be read.
        PrepareError: pyarrow, which reads Parquet, is not installed.
        SourceError: It is not a list; the message names the faulty lines.
    """
    return interpret(path.absolute(), *read_rows(path.absolute()), asked)


def read_rows(path: Path) -> tuple[Table, Faults]:
    """Read the cells of a list file and its faults; raises as `read_list`."""
    ending = path.suffix.lower()
    if ending not in LIST_ENDINGS:
        raise ArgumentError(f"{path} is no list: its name must end with {', '.join(LIST_ENDINGS)}.")
    faults = Faults(path, "row" if ending == PARQUET else "line")
    try:
        data = b"" if ending == PARQUET and path.is_file() else path.read_bytes()
    except OSError as err:
        raise NotPreparedError(f"{path}: the list cannot be read ({err.strerror}).", path=str(path)) from err
    if ending == PARQUET:
        return parquet_table(path, faults), faults
    check_encoding(data, faults)
    table = from_rows(json_rows(data, faults), faults) if ending == ".jsonl" else read_table(path, data, faults)
    return table, faults


def interpret(path: Path, table: Table, faults: Faults, asked: Columns) -> ListFile:
    """Convert a table's cells to fields.

    Raises:
        ArgumentError: It lacks a column that was named.
        SourceError: Some cells cannot be used.
    """
    places = Places.find(path, table, asked)
    files: Sequence[str] = table.columns[places.image]
    if os.sep != "/":
        files = [cell.replace(os.sep, "/") for cell in files]
    names = files if places.name is None else table.columns[places.name]
    for what, cells in (("path", files), ("name", names)):
        for line, cell in zip(table.lines, cells, strict=True):
            if not cell and (what == "path" or names is not files):
                faults.add(line, f"no {what}")
    named = _fields(table, places, faults)
    if not files:
        faults.raise_if_any()
        faults.add(faults.first, "the list names no files")
    splits = {} if places.split is None else _splits(table.lines, table.columns[places.split], faults)
    fields = {}
    for name, index in named.items():
        header = table.header[index]
        column = Cells(
            header, header if places.is_named else "label", table.columns[index], table.lines, header in table.texts
        )
        is_target = index in places.targets
        fields[name] = column.target(places.targets[index], faults) if is_target else column.field()
    _name_classes(fields, named, table, faults)
    faults.raise_if_any()
    return ListFile(
        path=path,
        word=faults.word,
        names=names,
        files=files,
        lines=table.lines,
        fields=fields,
        num_targets=len(places.targets),
        image=table.header[places.image],
        splits=splits,
        digest=digest_of(table),
    )


def digest_of(table: Table) -> str:
    """Return the digest of all cells and columns, whatever their roles."""
    digest = hashlib.sha256()
    header = [f"{name}\1" if name in table.texts else name for name in table.header]
    for row in itertools.chain([header], zip(*table.columns, strict=True)):
        digest.update("".join(f"{cell}\0" for cell in row).encode())
    return digest.hexdigest()


def _fields(table: Table, places: Places, faults: Faults) -> dict[str, int]:
    """Return the columns that become fields by the fields' names, targets first."""
    used = {places.image, places.split, places.name}
    fields: dict[str, int] = {}
    taken = {*_TAKEN, *(table.header[index].lower() for index in used if index is not None)}
    if not places.is_named:
        (label,) = places.targets
        fields[_LABEL] = label
        used.add(label)
        taken |= {_LABEL, table.header[label].lower()}
    for index in [*places.targets, *(each for each in range(len(table.header)) if each not in places.targets)]:
        name = table.header[index]
        field = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        if index in used:
            continue
        if not name:
            what = f"column {index + 1} has no name (pandas writes such a one unless told index=False)"
        elif not NAME_PATTERN.fullmatch(field):
            what = f"the column {name!r} cannot become a field: give it a name of letters, digits and _"
        elif is_device(field):
            what = f"the column {name!r} would be a file that Windows takes for a device: rename it"
        elif field in taken:
            what = f"the column {name!r} has the name of another, or of a field that every set has: rename it"
        else:
            fields[field] = index
            taken.add(field)
            continue
        faults.add(faults.first, what)
    return fields


def _splits(lines: Sequence[int], cells: Sequence[str], faults: Faults) -> dict[str, NDArray[np.int64]]:
    positions: dict[str, list[int]] = {}
    for position, cell in enumerate(cells):
        name = re.sub("[ _]", "-", cell.lower())
        if _SPLIT_NAME.fullmatch(name):
            positions.setdefault(name, []).append(position)
        elif cell:
            faults.add(lines[position], f"{cell!r} cannot be the name of a split: letters, digits and - can")
    return {name: np.array(found, np.int64) for name, found in positions.items()}


def _name_classes(fields: dict[str, ListField], named: Mapping[str, int], table: Table, faults: Faults) -> None:
    """Name labels 0 to n - 1 by the column of class names, if there is one; the column then becomes no field."""
    target = next(iter(fields), None)
    if target is None or _CLASS_COLUMN not in fields or table.header[named[target]].lower() not in LABEL_COLUMNS:
        return
    field = fields[target]
    if field.spec != FieldSpec(FieldKind.CLASS) or not isinstance(field.values, np.ndarray):
        return
    numbers = field.values.tolist()
    distinct = sorted(set(numbers))
    if distinct == list(range(len(distinct))):
        names = _class_names(numbers, table.lines, table.columns[named[_CLASS_COLUMN]], faults)
        fields[target] = replace(field, spec=FieldSpec(FieldKind.CLASS, tuple(names)))
        del fields[_CLASS_COLUMN]


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
