"""Convert the columns of a list or a table to fields, and report all faults at once; the recipe of lists."""

import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.settings import command
from recordzoo.base.text import JSON, MAX_SHOWN, counted, is_device, name_first, quote, shorten
from recordzoo.errors import SourceError
from recordzoo.own.columns import (
    LABEL_COLUMNS,
    TARGET_KINDS,
    USUAL,
    Columns,
    ListTable,
    Places,
    boxes_in,
    is_left_out,
    read_list,
)
from recordzoo.own.listing import Column, Listing, ListingRecipe
from recordzoo.own.values import check_class_names
from recordzoo.records.arrays import as_floats
from recordzoo.records.manifest import (
    NAME_PATTERN,
    RESERVED_FIELDS,
    SPLIT_PATTERN,
    BlobSpec,
    FieldKind,
    FieldSpec,
    Manifest,
    SetKind,
)
from recordzoo.records.reader import RecordReader, extra_object
from recordzoo.records.writer import LIST_FILE

_CLASS_COLUMN = "class_name"
_TAKEN = {"image", *RESERVED_FIELDS} - {"split"}  # a field, if another column says the splits
_LABEL = "target"
"""The field of a label whose column the user did not name."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,100}")
_WHOLE_FLOAT = re.compile(r"[+-]?[0-9]{1,100}(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
_GAPS = frozenset({"", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "NULL", "null", "None"})
"""Cells of a column of numbers that hold none: what pandas, R and spreadsheets write."""

_PADDED = re.compile(r"[+-]?0[0-9]")
_FRACTION = re.compile(r"[.e]", re.IGNORECASE)
_INT64 = range(-(1 << 63), 1 << 63)
_EXACT_FLOATS = range(-(1 << 53), (1 << 53) + 1)
_MAX_DIGITS = 100
_NUM_NAMED = 3
_MAX_LABELS_BYTES = 4 << 30

# Any, here and below: values of all kinds.


def _fits(cell: str, whole: range) -> bool:
    """Whether a type has a number with all its digits, if it has these whole numbers; true for what is no number."""
    if not _NUMBER.fullmatch(cell):
        return True
    if cell.lstrip("+-").isdecimal():
        return len(cell) < _MAX_DIGITS and int(cell) in whole
    return not math.isinf(float(cell)) or cell.lstrip("+-").lower().startswith("inf")


class Cells:
    """A column of a list, which becomes a field.

    Args:
        table: The list.
        index: The column.
        what: The word for its values in messages: "label", or the header.
        separator: What stands between several labels.
    """

    def __init__(self, table: ListTable, index: int, what: str, separator: str) -> None:
        self._column, self._what, self._separator = table.header[index], what, separator
        self._cells, self._lines, self._faults = table.columns[index], table.lines, table.faults
        self._is_text = self._column in table.texts

    def _numbers(self) -> NDArray[Any] | None:  # Any: of either dtype
        """Return the numbers, NaN for gaps; None if a cell is not a number.

        Numbers with leading zeros, such as postcodes, are names.
        """
        filled = [cell for cell in self._cells if cell not in _GAPS]
        if self._is_text or not filled or not all(map(_NUMBER.fullmatch, filled)) or any(map(_PADDED.match, filled)):
            return None
        if len(filled) == len(self._cells) and all(cell.lstrip("+-").isdecimal() for cell in filled):
            self._refuse_misfits(_INT64)
            return np.array([int(cell) for cell in filled], np.int64)
        return self._floats()

    def _floats(self) -> NDArray[np.float64]:
        self._refuse_misfits(_EXACT_FLOATS)
        return np.array([math.nan if cell in _GAPS else float(cell) for cell in self._cells], np.float64)

    def _refuse_misfits(self, whole: range) -> None:
        """Raise, with the faults before, if a number fits no type that has these whole numbers."""
        wrong = {cell for cell in set(self._cells) if not _fits(cell, whole)}
        self._refuse(wrong.__contains__, f"fits no type of numbers ({self._as_text})")
        self._faults.raise_if_any()

    def field(self) -> Column:
        """Return the field of a column that is not a target: numbers if all cells are numbers, else text.

        Raises:
            SourceError: A number fits no type.
        """
        numbers = self._numbers()
        if numbers is None:
            return self._texts()
        return self._made(FieldKind.FLOAT if numbers.dtype.kind == "f" else FieldKind.INT, numbers)

    def _made(self, kind: FieldKind, values: NDArray[Any], names: Sequence[str] | None = None) -> Column:
        return Column(FieldSpec(kind, None if names is None else tuple(names)), values)

    def _texts(self) -> Column:
        return Column(FieldSpec(FieldKind.TEXT), self._cells, BlobSpec("json"))

    def target(self, kind: str | None) -> Column:
        """Return a target; without a kind it is a class, or a float if all cells are numbers, some with a fraction.

        Raises:
            SourceError: A cell does not have that kind, or there were faults before.
        """
        is_float = kind is None and any(map(_FRACTION.search, self._cells)) and self._numbers() is not None
        if is_float:
            self._refuse_gaps(_GAPS, f" (for NaN, pass --target {quote(f'{self._column}:float')})")
        elif kind in (None, "class", "int"):
            self._refuse_gaps({""})
        if kind == "text":
            return self._texts()
        if is_float or kind == "float":
            self._refuse(lambda cell: cell not in _GAPS and not _NUMBER.fullmatch(cell), "is no number")
            return self._made(FieldKind.FLOAT, as_floats(self._floats()))
        if kind == "int":
            self._refuse(lambda cell: cell and not _WHOLE_FLOAT.fullmatch(cell), "is no whole number")
            self._faults.raise_if_any()
            return self._made(FieldKind.INT, self._whole())
        return self._labels() if kind == "multilabel" else self._classes()

    def _refuse(self, is_wrong: Callable[[str], object], why: str) -> None:
        """Add a fault for each cell that is wrong."""
        for line, cell in zip(self._lines, self._cells, strict=True):
            if is_wrong(cell):
                self._faults.add(f"the {self._what} {cell[:80]!r} {why}", line)

    def _refuse_gaps(self, gaps: Set[str], hint: str = "") -> None:
        for line, cell in zip(self._lines, self._cells, strict=True):
            if cell in gaps:
                self._faults.add(f"no {self._what}{hint}", line)

    @property
    def _as_text(self) -> str:
        return f"for texts, pass --target {quote(f'{self._column}:text')}"

    def _whole(self) -> NDArray[np.int64]:
        number_of = {cell: int(cell.partition(".")[0]) for cell in set(self._cells)}
        self._refuse(lambda cell: number_of[cell] not in _INT64, "has more than 64 bits")
        self._faults.raise_if_any()
        return np.fromiter((number_of[cell] for cell in self._cells), np.int64, len(self._cells))

    def _classes(self) -> Column:
        """Return whole numbers unchanged; other cells become class names, numbered in sorted order."""
        if not self._is_text and all(map(_WHOLE.fullmatch, self._cells)):
            self._check_spellings()
            return self._made(FieldKind.CLASS, self._whole())
        numbers = self._numbers()  # as pandas writes them if one was missing: 0.0, 10.0
        if numbers is not None and np.isnan(numbers).any():
            self._refuse_gaps(_GAPS)
        elif numbers is not None and (numbers == np.round(numbers)).all():
            self._refuse(lambda cell: abs(float(cell)) >= _EXACT_FLOATS.stop, "is no class's number")
            self._faults.raise_if_any()
            return self._made(FieldKind.CLASS, numbers.astype(np.int64))
        self._refuse(lambda cell: cell.startswith('{"'), f"is an object, no class ({self._as_text})")
        names = sorted(set(self._cells))
        label_of = {name: label for label, name in enumerate(names)}
        labels = np.fromiter((label_of[cell] for cell in self._cells), np.int64, len(self._cells))
        return self._made(FieldKind.CLASS, labels, names)

    def _check_spellings(self) -> None:
        """Refuse different texts for the same number: they may be one class or two."""
        first: dict[int, str] = {}
        for line, cell in zip(self._lines, self._cells, strict=True):
            if cell != (known := first.setdefault(int(cell), cell)):
                what = f"the {self._what}s {cell!r} here and {known!r} above are the same number: use one spelling"
                self._faults.add(what, line)

    def _labels(self) -> Column:
        """Return uint8 [N, C] of 0 and 1."""
        labels_of = {cell: {label.strip() for label in cell.split(self._separator)} - {""} for cell in set(self._cells)}
        names = sorted(set().union(*labels_of.values()))
        if not names or len(names) * len(self._cells) > _MAX_LABELS_BYTES:
            how_many = f"{len(names):,} different labels, too many" if names else "no labels"
            self._faults.add(f"{self._what} has {how_many} for the kind multilabel", next(iter(self._lines), 1))
            self._faults.raise_if_any()
        place_of = {name: place for place, name in enumerate(names)}
        found = np.zeros((len(self._cells), len(names)), np.uint8)
        for number, cell in enumerate(self._cells):
            found[number, [place_of[label] for label in labels_of[cell]]] = 1
        return self._made(FieldKind.MULTILABEL, found, names)


def interpret(path: Path, table: ListTable, asked: Columns) -> Listing:
    """Convert a table's cells to fields.

    The order, duplicates and spelling of paths stay; "/" stands between their parts.

    Raises:
        ArgumentError: It lacks a column that was named.
        SourceError: Some cells cannot be used; the message names the faulty lines.
    """
    faults = table.faults
    if not table.header:
        faults.raise_if_any()
    places = Places.find(path, table, asked)
    files: Sequence[str] = table.columns[places.image]
    if (suffix := asked.suffix) is not None:
        files = [cell if cell.endswith(suffix) or not cell else f"{cell}{suffix}" for cell in files]
    if os.sep != "/":
        files = [cell.replace(os.sep, "/") for cell in files]
    if not asked.targets:
        _refuse_boxes(path, table, files)
    names = files if places.name is None else table.columns[places.name]
    for what, cells in (("path", files), ("name", names)):
        for line, cell in zip(table.lines, cells, strict=True):
            if not cell and (what == "path" or names is not files):
                faults.add(f"no {what}", line)
    named = _fields(table, places, is_named=bool(asked.targets))
    if not files:
        faults.raise_if_any()
        faults.add("the list names no files", faults.first)
    splits = {} if places.split is None else _splits(table, places.split)
    fields: dict[str, Column] = {}
    for name, index in named.items():
        is_target = index in places.targets
        what = "label" if is_target and not asked.targets else table.header[index]
        column = Cells(table, index, what, asked.separator)
        fields[name] = column.target(places.targets[index]) if is_target else column.field()
    _name_classes(fields, named, table)
    faults.raise_if_any()
    check_class_names((name for field in fields.values() for name in field.spec.names or ()), str(path))
    base = path.parent if asked.folder is None else Path(os.path.abspath(path.parent / asked.folder))
    return Listing(
        path=path,
        base=base,
        files={"image": files},
        names=names,
        columns=fields,
        splits=splits,
        default_target=next(iter(fields)),
        lines=table.lines,
        word=faults.word,
        choice="; ".join(_choice(table, places, named, fields, splits)),
        digest=digest_of(table),
        where=f"Relative paths are relative to {base}; other directories and endings: --image-dir DIR, --image-suffix "
        "ENDING (image_dir, image_suffix).",
    )


def _refuse_boxes(path: Path, table: ListTable, files: Sequence[str]) -> None:
    """Refuse a table of boxes, several of an image: their classes are those of objects."""
    if len(set(files)) < len(files) and (boxes := boxes_in(table.header)):
        raise SourceError(
            f"{path} looks like a table of boxes, a row each: {', '.join(table.header)[:300]}; {boxes}. If each row is "
            "an image with a class of its own, name the column of classes: --target COLUMN (targets=)."
        )


def _choice(
    table: ListTable, places: Places, named: Mapping[str, int], fields: Mapping[str, Column], splits: Iterable[str]
) -> Iterator[str]:
    """Yield how the columns were read, for the user to check."""
    read = []
    for name, field in fields.items():
        kind = places.targets.get(named[name], "")
        read.append(_described(name, table.header[named[name]], field, is_guess=kind is None))
    targets, others = read[: len(places.targets)], read[len(places.targets) :]
    yield f"images from {table.header[places.image]!r}"
    for what, found in (("targets", targets), ("further fields", others), ("splits", splits)):
        if found:
            yield f"{what}: {', '.join(found)}"
    if any(is_left_out(table, index) for index in range(len(table.header))):
        yield "a column without a name, of row numbers or of empty cells, is left out"
    first: dict[str, str] = {}
    target = next(iter(places.targets))
    rows = zip(table.columns[places.image], table.columns[target], strict=True)
    if several := {path for path, label in rows if first.setdefault(path, label) != label}:
        yield f"{counted(len(several), 'image has', 'images have')} rows with different labels: each row is a record"


def _described(name: str, header: str, field: Column, *, is_guess: bool) -> str:
    """Describe a field: its column, its kind, and the first names of its classes or the range of their numbers."""
    column = "" if name == header else f" from {header!r}"
    kind, names = str(field.spec.kind), field.spec.names
    if names is not None:
        kind += f", {counted(len(names), 'name')}: {shorten(name_first(names, _NUM_NAMED), MAX_SHOWN)}"
    elif field.spec.kind is FieldKind.CLASS:
        numbers = np.asarray(field.values)
        kind += f", {numbers.min()} to {numbers.max()}"
    if is_guess and field.spec.kind is FieldKind.CLASS:
        kind += f"; another kind ({', '.join(TARGET_KINDS)}): --target {quote(f'{header}:KIND')}"
    return f"{name}{column} ({kind})"


def digest_of(table: ListTable) -> str:
    """Return the digest of all cells and columns, whatever their roles."""
    digest = hashlib.sha256()
    header = [f"{name}\1" if name in table.texts else name for name in table.header]
    for row in itertools.chain([header], zip(*table.columns, strict=True)):
        digest.update("".join(f"{cell}\0" for cell in row).encode())
    return digest.hexdigest()


def _fields(table: ListTable, places: Places, *, is_named: bool) -> dict[str, int]:
    """Return the columns that become fields by the fields' names, targets first; `is_named`: by the user."""
    used = {places.image, places.split, places.name}
    fields: dict[str, int] = {}
    taken = {*_TAKEN, *(table.header[index].lower() for index in used if index is not None)}
    if not is_named:
        (label,) = places.targets
        fields[_LABEL] = label
        used.add(label)
        taken |= {_LABEL, table.header[label].lower()}
    for index in [*places.targets, *(each for each in range(len(table.header)) if each not in places.targets)]:
        name = table.header[index]
        field = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        if index in used or is_left_out(table, index):
            continue
        if field not in taken and NAME_PATTERN.fullmatch(field) and not is_device(field):
            fields[field] = index
            taken.add(field)
        else:
            table.faults.add(
                f"column {index + 1}, {name!r}, cannot become a field: give it a name of letters, digits and _ that no "
                f"other column has, no device of Windows, and none of {', '.join(sorted(_TAKEN))}",
                table.faults.first,
            )
    return fields


def _splits(table: ListTable, column: int) -> dict[str, NDArray[np.int64]]:
    positions: dict[str, list[int]] = {}
    for position, (line, cell) in enumerate(zip(table.lines, table.columns[column], strict=True)):
        name = re.sub("[ _]", "-", cell.lower())
        if SPLIT_PATTERN.fullmatch(name):
            positions.setdefault(name, []).append(position)
        elif cell:
            table.faults.add(f"{cell!r} cannot be the name of a split: letters, digits and - can", line)
    return {name: np.array(found, np.int64) for name, found in positions.items()}


def _name_classes(fields: dict[str, Column], named: Mapping[str, int], table: ListTable) -> None:
    """Name labels 0 to n - 1 by the column of class names, if there is one; the column then becomes no field."""
    target = next(iter(fields), "")
    if _CLASS_COLUMN not in fields or table.header[named[target]].lower() not in LABEL_COLUMNS:
        return
    if fields[target].spec != FieldSpec(FieldKind.CLASS):
        return
    labels = np.asarray(fields[target].values).tolist()
    numbers = sorted(set(labels))
    if numbers != list(range(len(numbers))):
        return
    names: dict[int, str] = {}
    label_of: dict[str, int] = {}
    for number, line, name in zip(labels, table.lines, table.columns[named[_CLASS_COLUMN]], strict=True):
        known = names.setdefault(number, name)
        label = label_of.setdefault(name, number)
        if not name:
            table.faults.add(f"no {_CLASS_COLUMN}", line)
        elif known != name:
            table.faults.add(f"label {number} is called {name!r} here and {known!r} above", line)
        elif label != number:
            table.faults.add(f"{name!r} is label {number} here and label {label} above", line)
    fields[target] = replace(fields[target], spec=FieldSpec(FieldKind.CLASS, tuple(names[each] for each in numbers)))
    del fields[_CLASS_COLUMN]


class ListRecipe(ListingRecipe):
    """The files of a list; `root` is the list.

    Args:
        shuffle_seed: Write the records in a random order that follows from this number and the paths, so that
            shards read front to back give a mixture. The record set's order stays that of the list.
        layout: Options that change how the set is stored (``num_shards``, ``shard_bytes``); the manifest keeps them.
        columns: The columns that the user named.
        skips_missing: Skip rows whose files are missing.
        data: A table in memory in place of the list; `root` only gives the directory for its relative paths.
        allow_paths: Paths may lead out of the list's directory; those of a table in memory may always.
    """

    kind = dataset = SetKind.LIST
    origin = "list"

    # Any: see `object_table`.
    def __init__(
        self,
        shuffle_seed: int | None = None,
        layout: Mapping[str, int] | None = None,
        columns: Columns = USUAL,
        skips_missing: bool = False,
        data: Any = None,
        *,
        allow_paths: bool = False,
    ) -> None:
        super().__init__(skips_missing=skips_missing, allow_paths=allow_paths or data is not None)
        self.written: dict[str, JSON] = {"shuffle_seed": shuffle_seed, **(layout or {}), "columns": columns.to_json()}
        self._columns, self._data, self._is_untrusted = columns, data, data is None

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_data": None}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return self.written

    def difference(self, manifest: Manifest, root: Path) -> str | None:
        """See `Recipe`: also of a list that has changed since. Options that are None may be anything."""
        held = manifest.metadata
        if manifest.kind is not SetKind.LIST:
            return f"is a record set of {manifest.title}, not of the list {root}"
        if held.get("list") != self.digest(root):
            return f"was made from another list than {root}, or that has changed since"
        written = held.get("written")
        for name, wanted in self.written.items():
            found = written.get(name) if isinstance(written, dict) else None
            if wanted is not None and wanted != found:
                if name == "columns":
                    texts = [" ".join(Columns.from_json(each or {}).words()) or "usual" for each in (found, wanted)]
                    found, wanted = texts
                return f"was written with {name} {found}, not {wanted}"
        return None

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the list."""
        return root.absolute().with_suffix(".records")

    @override
    def title(self, root: Path) -> str:
        return root.name

    @override
    def command(self, root: Path) -> str:
        allowed = ["--allow-paths"] if self._allow_paths and self._data is None else []
        return command("prepare", root, *self._columns.words(), *allowed)

    @override
    def read(self, root: Path) -> Listing:
        path = root.absolute()
        found = interpret(path, read_list(path, self._data), self._columns)
        return replace(found, metadata={"list": found.digest, "written": self.written})

    def digest(self, root: Path) -> str:
        """Return the digest of the list's cells, whatever their roles; raises as `read`."""
        table = read_list(root.absolute(), self._data)
        table.faults.raise_if_any()
        return digest_of(table)

    @override
    def order(self, names: list[str]) -> list[str]:
        if (seed := self.written["shuffle_seed"]) is None:
            return names
        # Not by NumPy's generators: their streams may change with its version.
        return sorted(names, key=lambda name: hashlib.sha256(f"{seed}\0{name}".encode()).digest())

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [root.name]

    @override
    def extras(self) -> Mapping[str, bytes]:
        if self._listing is None:
            return {}
        path = os.fspath(self._listing.path) if self._data is None else None
        return {LIST_FILE: json.dumps({"list": path, "root": os.fspath(self._listing.base)}, indent=1).encode()}


def list_path(reader: RecordReader) -> str | None:
    """Return the list that a record set was made from, if the file beside it says so. That file may be untrusted."""
    path = extra_object(reader, LIST_FILE).get("list")
    return path if isinstance(path, str) else None
