"""Read list files and tables whole, report all faults at once, and convert columns to fields."""

import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.settings import command, is_installed, need
from recordzoo.base.text import JSON, is_device, name_first
from recordzoo.errors import ArgumentError, NotPreparedError, SourceError
from recordzoo.net.download import RemoteFile
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import ListSource, Note, look
from recordzoo.recipes.columns import (
    LABEL_COLUMNS,
    LIST_ENDINGS,
    NUM_SHOWN,
    PARQUET,
    PATH_COLUMNS,
    USUAL,
    Column,
    Columns,
    Faults,
    ListTable,
    Places,
    check_encoding,
    read_table,
    text_of,
)
from recordzoo.recipes.declared import is_image
from recordzoo.recipes.list_kinds import Cells, ListField
from recordzoo.recipes.recipe import Blob, BlobField, Recipe, Stored, Table
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind
from recordzoo.records.made_from import LIST_FILE
from recordzoo.records.manifest import NAME_PATTERN, RESERVED_FIELDS, Manifest
from recordzoo.records.reader import RecordReader

_MISSING = ("NoneType", "NAType", "NaTType")  # None, and pandas's

# Any, here and below: values of all kinds.


def from_rows(rows: Iterable[tuple[int, Mapping[Any, Any]]], faults: Faults) -> ListTable:
    """Build a table from rows with their lines; missing values are empty cells."""
    table = ListTable()
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


def parquet_table(path: Path, faults: Faults) -> ListTable:
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


def object_table(data: Any, faults: Faults) -> ListTable:
    """Read a table that passed `check_table`."""
    if hasattr(data, "to_batches"):
        return from_rows(enumerate(_batch_rows(data.to_batches())), faults)
    return from_rows(enumerate(data.to_dict("records") if hasattr(data, "to_dict") else data), faults)


def _batch_rows(batches: Iterable[Any]) -> Iterator[Mapping[Any, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


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


def read_rows(path: Path) -> tuple[ListTable, Faults]:
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


def interpret(path: Path, table: ListTable, faults: Faults, asked: Columns) -> ListFile:
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


def digest_of(table: ListTable) -> str:
    """Return the digest of all cells and columns, whatever their roles."""
    digest = hashlib.sha256()
    header = [f"{name}\1" if name in table.texts else name for name in table.header]
    for row in itertools.chain([header], zip(*table.columns, strict=True)):
        digest.update("".join(f"{cell}\0" for cell in row).encode())
    return digest.hexdigest()


def _fields(table: ListTable, places: Places, faults: Faults) -> dict[str, int]:
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


def _name_classes(fields: dict[str, ListField], named: Mapping[str, int], table: ListTable, faults: Faults) -> None:
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


_NOTE = "\0"  # in the name of a member that is no file: <column> NUL <position>


# Any: arguments of `ListRecipe`.
def list_recipe(**settings: Any) -> "ListRecipe":
    """Return the recipe of a list."""
    return ListRecipe(**settings)


class ListRecipe(Recipe):
    """The files of a list; `root` is the list. `find` keeps its result for `build_table`; pickled copies do not.

    Args:
        shuffle_seed: Write the records in a random order that follows from this number and the paths, so that
            shards read front to back give a mixture. The record set's order stays that of the list.
        layout: Options that change how the set is stored (``num_shards``, ``shard_bytes``); the manifest keeps them.
        columns: The columns that the user named.
        skips_missing: Skip rows whose files are missing.
        data: A table in memory in place of the list; `root` only gives the directory for its relative paths.
    """

    kind = dataset = SetKind.LIST
    part = ""
    origin = "list"
    raw_files: tuple[RemoteFile, ...] = ()

    # Any: see `object_table`.
    def __init__(
        self,
        shuffle_seed: int | None = None,
        layout: Mapping[str, int] | None = None,
        columns: Columns = USUAL,
        skips_missing: bool = False,
        data: Any = None,
    ) -> None:
        self.fields = {"image": BlobField("image")}
        self.written: dict[str, JSON] = {"shuffle_seed": shuffle_seed, **(layout or {}), "columns": columns.to_json()}
        self._columns, self._skips_missing, self._data = columns, skips_missing, data
        self._list: ListFile | None = None
        self._missing: dict[str, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes get their rows with their unit.
        return {**self.__dict__, "_list": None, "_data": None, "_missing": {}}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return self.written

    def is_of(self, manifest: Manifest, root: Path) -> bool:
        """See `Recipe`. False if the list has changed since the set was made."""
        held = manifest.metadata
        is_mine = super().is_of(manifest, root) and held.get("written") == self.written
        return is_mine and held.get("list") == self.digest(root)

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the list."""
        return root.absolute().with_suffix(".records")

    @override
    def title(self, root: Path) -> str:
        return root.name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", root, *self._columns.words())

    def read(self, root: Path) -> ListFile:
        """Read the list, including rows whose files are missing.

        Raises:
            ArgumentError, NotPreparedError, PrepareError, SourceError: As `read_list`.
        """
        path = root.absolute()
        return interpret(path, *self._rows(path), self._columns)

    def digest(self, root: Path) -> str:
        """Return the digest of the list's cells, whatever their roles; raises as `read`."""
        table, faults = self._rows(root.absolute())
        faults.raise_if_any()
        return digest_of(table)

    def _rows(self, path: Path) -> tuple[ListTable, Faults]:
        if self._data is None:
            return read_rows(path)
        faults = Faults(path, "row")
        return object_table(self._data, faults), faults

    def find(self, root: Path) -> Source | None:
        """Read the list.

        Raises:
            ArgumentError, NotPreparedError, PrepareError, SourceError: As `read_list`.
        """
        listed = self._list = self._without_missing(self.read(root))
        self.fields = {"image": BlobField("image"), **{name: BlobField("json") for name in _texts(listed)}}
        lines = dict(zip(reversed(listed.files), reversed(listed.lines), strict=True))
        seed = self.written["shuffle_seed"]
        names = list(lines) if seed is not None else list(dict.fromkeys(listed.files))
        if seed is not None:
            names.sort(key=lambda name: _shuffle_key(seed, name))
        return ListSource(listed.path, names, _notes(listed), lines, listed.digest, listed.word)

    def _without_missing(self, listed: ListFile) -> ListFile:
        if not self._skips_missing:
            return listed
        looked = {name: look(os.path.join(listed.base, name)) for name in dict.fromkeys(listed.files)}
        self._missing = {name: found for name, found in looked.items() if isinstance(found, str)}
        if not self._missing or len(self._missing) == len(looked):  # if all files are missing, the source reports it
            return listed
        return listed.kept(np.array([name not in self._missing for name in listed.files]))

    def choice(self) -> str:
        """Describe how `find` read the columns and which rows it skipped; "" before `find`."""
        if self._list is None:
            return ""
        left_out = name_first([f"{name} ({why})" for name, why in self._missing.items()], NUM_SHOWN)
        return self._list.choice + (f"; left out: {left_out}" if self._missing else "")

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [root.name]

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: `LIST_FILE`."""
        if self._list is None:
            return {}
        path = os.fspath(self._list.path) if self._data is None else None
        places = {"list": path, "root": os.fspath(self._list.base)}
        return {LIST_FILE: json.dumps(places, indent=1).encode()}

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        column, is_note, position = member.name.partition(_NOTE)
        if is_note:
            yield Blob(column, position, member.read())
        else:
            yield Blob("image", member.name, member.read(), checked=is_image(member.name))

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`: the list's order."""
        listed = self._list
        assert listed is not None
        texts = _texts(listed)
        return Table(
            names=listed.names,
            keys={
                "image": listed.files,
                **{column: [str(position) for position in range(len(listed.files))] for column in texts},
            },
            arrays={name: f.values for name, f in listed.fields.items() if isinstance(f.values, np.ndarray)},
            splits=listed.splits,
            fields={name: field.spec for name, field in listed.fields.items()},
            default_target=listed.default_target,
            metadata={"list": listed.digest, "written": self.written},
            skipped=self._missing,
        )


def list_path(reader: RecordReader) -> str | None:
    """Return the list that a record set was made from, if the file beside it says so. That file may be untrusted."""
    try:
        path = json.loads(reader.extra(LIST_FILE) or b"")["list"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return path if isinstance(path, str) else None


def _texts(listed: ListFile) -> dict[str, Sequence[str]]:
    return {name: f.values for name, f in listed.fields.items() if not isinstance(f.values, np.ndarray)}


# Any: a seed is any number.
def _shuffle_key(seed: Any, name: str) -> bytes:
    # Not NumPy's generators: their streams may change with its version.
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()


def _notes(listed: ListFile) -> dict[str, Sequence[Note]]:
    """Write the text of each position as JSON, by the name of its file."""
    notes: dict[str, list[Note]] = {}
    for column, texts in _texts(listed).items():
        for position, (name, text) in enumerate(zip(listed.files, texts, strict=True)):
            data = json.dumps(text, ensure_ascii=False).encode()
            notes.setdefault(name, []).append((f"{column}{_NOTE}{position}", data))
    return dict(notes)
