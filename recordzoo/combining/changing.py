"""`add_field`: add a field to the records of a set; `split`: divide them into train and val. Shards are shared."""

import csv
import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from recordzoo.base.arrays import AnyArray
from recordzoo.base.bars import default_progress
from recordzoo.base.progress import Progress
from recordzoo.base.text import name_first
from recordzoo.base.types import JSON
from recordzoo.combining.making import make_linked
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.preparing import Options
from recordzoo.recipes.base import Table
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.recipes.from_sets.splitting import Division
from recordzoo.recipes.list_kinds import Cells
from recordzoo.records.kinds import FieldKind, FieldSpec
from recordzoo.records.manifest import ENDING, RESERVED_FIELDS, is_field_name
from recordzoo.records.reader import RecordReader
from recordzoo.system.npy import map_file

_SHOWN = 10


@dataclass(frozen=True, eq=False)
class NewField:
    """A new field; a `Change`.

    Attributes:
        name: The field's name.
        values: The field's values, [n, ...].
        spec: The field's type.
    """

    name: str
    values: AnyArray
    spec: FieldSpec

    def to_json(self) -> dict[str, JSON]:
        """The entry in the new set's manifest."""
        data = np.ascontiguousarray(self.values)
        return {"field": {"name": self.name, "digest": hashlib.sha256(data.tobytes()).hexdigest()}}

    def apply(self, table: Table, parts: Sequence[SetPart]) -> Table:
        """Return the table with the field."""
        arrays, fields = {**table.arrays, self.name: self.values}, {**table.fields, self.name: self.spec}
        return replace(table, arrays=arrays, fields=fields)


def add_field(
    records: str | os.PathLike[str],
    values: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Any] | AnyArray,
    name: str,
    *,
    output: str | os.PathLike[str] | None = None,
    refresh: bool | Literal["if-changed"] = False,
    progress: Progress | None = None,
) -> Path:
    """Give each record of a set a value of a new field. Only arrays are written; shards are shared by hard links.

    Whole numbers become an int field, numbers with a fraction a float field, texts a class field: the classes are the
    texts, sorted. Numbers with leading zeros in a table, such as postcodes, are texts. Without `output` the set is
    replaced atomically.

    Args:
        records: The record set's directory.
        values: A table with a header (``.csv``, ``.tsv``): rows match records by the column "name" if there is one,
            else by position; the values are in the column with the field's name, or in the only other one. A ``.npy``
            file, an array or a list: by position. A dict: by name.
        name: The field's name.
        output: The new set's directory; `records` stays as it is. Default: `records` is replaced.
        refresh: With `output`: as in `OwnOptions`.
        progress: Receives the progress and the names without a record.

    Returns:
        The directory of the set with the field.

    Raises:
        ArgumentError: The field already exists, or its name is invalid; records without a value, which are listed; or
            the set is at a URL.
        SourceError: The file cannot be read as a table of values.
        OtherSourceError: `output` holds something else, or another process changed the set during the call.
        ManifestError: There is no record set at `records`.

    Examples:
        >>> import recordzoo
        >>> recordzoo.add_field("photos.records", "ages.csv", "age")  # doctest: +SKIP
        PosixPath('/home/me/photos.records')
    """
    reader = RecordReader(records)
    if not is_field_name(name):
        raise ArgumentError(
            f"{name!r} cannot be a field's name: small letters, digits and _ only, on Windows no device's name, and "
            f"none of {', '.join(RESERVED_FIELDS)}."
        )
    if name in reader.manifest.fields:
        raise ArgumentError(f"{reader.path} has a field {name!r} already.")
    progress = progress or default_progress()
    given = _read(Path(values).expanduser(), name) if isinstance(values, str | os.PathLike) else values
    column = _joined(reader, given, progress) if isinstance(given, Mapping) else given
    if len(column) != len(reader):
        raise ArgumentError(f"There are {len(column):,} values, and {reader.path} has {len(reader):,} records.")
    change = NewField(name, *_typed(column))
    return make_linked([SetPart(reader)], output, Options(refresh=refresh, progress=progress), change=change)


def _read(path: Path, field: str) -> Mapping[str, Any] | Sequence[Any] | AnyArray:
    """Read a file of values."""
    if path.suffix not in (".npy", ".csv", ".tsv"):
        raise ArgumentError(f"{path} cannot be read as values: it must be a .csv, .tsv or .npy file.")
    try:
        if path.suffix == ".npy":
            return map_file(path)
        with open(path, encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",") if row]
    except (OSError, ValueError, EOFError, csv.Error) as err:
        raise SourceError(f"{path} cannot be read as values: {err}") from err
    others = [column for column in header if column != "name"]
    if field not in others and len(others) != 1:
        raise SourceError(f"{path} has the columns {', '.join(header)}: none is called {field!r}.")
    if short := [number for number, row in enumerate(rows, 2) if len(row) != len(header)]:
        raise SourceError(f"{path}, row {short[0]}: it has not {len(header)} columns, as the header has.")
    place = header.index(field if field in others else others[0])
    texts = _numbers([row[place].strip() for row in rows])
    if "name" not in header:
        return texts
    names = [row[header.index("name")] for row in rows]
    if twice := sorted(each for each, count in Counter(names).items() if count > 1):
        raise SourceError(f"{path} has several rows of one name: {name_first(twice, _SHOWN)}.")
    return dict(zip(names, texts, strict=True))


def _numbers(texts: Sequence[str]) -> list[Any]:
    """Parse texts as numbers if all non-empty ones are numbers; None for an empty text."""
    numbers = Cells("", "", [text for text in texts if text], [], is_text=False).numbers()
    kind: type = str if numbers is None else int if numbers.dtype.kind == "i" else np.float32
    return [kind(text) if text else None for text in texts]


def _joined(reader: RecordReader, given: Mapping[str, Any], progress: Progress) -> list[Any]:
    """Return each record's value by its name."""
    names = list(reader.names)
    column = [given.get(each) for each in names]
    if unused := sorted(given.keys() - set(names)):
        progress.note(f"{len(unused):,} names are no record's: {name_first(unused, _SHOWN)}.")
    if missing := [each for each, value in zip(names, column, strict=True) if value is None]:
        raise ArgumentError(
            f"{len(missing):,} of {len(names):,} records of {reader.path} have no value: {name_first(missing, _SHOWN)}."
        )
    return column


def _typed(column: Sequence[Any] | AnyArray) -> tuple[AnyArray, FieldSpec]:
    """Return the values as an array, and their type."""
    if not isinstance(column, np.ndarray) and (empty := [n for n, value in enumerate(column) if value is None]):
        raise ArgumentError(
            f"{len(empty):,} records have no value: position {name_first(list(map(str, empty)), _SHOWN)}."
        )
    try:
        found = np.asarray(column)
    except ValueError as err:  # of several shapes
        raise ArgumentError(f"The values have several shapes: {err}") from err
    if found.dtype.kind == "U" and found.ndim == 1:
        names, numbers = np.unique(found, return_inverse=True)
        return numbers.astype(np.int64), FieldSpec(FieldKind.CLASS, tuple(names.tolist()))
    if found.dtype.kind in "bi" or (found.dtype.kind == "u" and found.dtype.itemsize < 8):
        return found.astype(np.int64), FieldSpec(FieldKind.INT)
    if found.dtype.kind == "f" and found.dtype.itemsize <= 8:
        return found, FieldSpec(FieldKind.FLOAT)
    raise ArgumentError(f"The values are {found.dtype}; a field holds numbers, or texts as classes.")


def split(
    records: str | os.PathLike[str],
    val: float | str,
    *,
    by: str | None = None,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    refresh: bool | Literal["if-changed"] = False,
    progress: Progress | None = None,
) -> Path:
    """Divide the records of a set into the splits train and val, in a new set that shares its shards.

    Each class has the same share of val, up to rounding. The same set, share and seed give the same division. If the
    set has a split train, that split is divided and the others stay; otherwise all records without a split are divided.

    Args:
        records: The record set's directory; it stays as it is.
        val: The share of val: 0.1, or "10%".
        by: Records with the same value of this field stay together, in train or in val: a patient, a scene.
        seed: Another number gives another division.
        output: The new set's directory. Default: ``photos-split.records`` beside ``photos.records``.
        refresh: As in `OwnOptions`.
        progress: Receives the progress.

    Returns:
        The new set's directory.

    Raises:
        ArgumentError: There is no such field or share; the set has a split val; one of the splits would be empty; or
            the set is at a URL.
        OtherSourceError: `output` holds something else.
        ManifestError: There is no record set at `records`.

    Examples:
        >>> import recordzoo
        >>> recordzoo.split("photos.records", "10%")  # doctest: +SKIP
        PosixPath('/home/me/photos-split.records')
    """
    reader = RecordReader(records)
    division = Division(_share(val), by, seed)
    place = split_place(records) if output is None else output
    return make_linked([SetPart(reader)], place, Options(refresh=refresh, progress=progress), change=division)


def split_place(records: str | os.PathLike[str]) -> Path:
    """Return the default path of the divided set: beside the original."""
    path = Path(records).expanduser().absolute()
    return path.with_name(f"{path.name.removesuffix(ENDING)}-split{ENDING}")


def _share(val: float | str) -> float:
    """Read a share: 0.1, "0.1" or "10%"."""
    text = str(val).strip()
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ArgumentError(f"Argument val (--val) is {val!r}; it must be a share, such as 10% or 0.1.")
    return share
