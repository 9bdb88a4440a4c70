"""The columns of a table as values of samples: files as bytes, numbers, arrays, text; nested values as JSON."""

import base64
import datetime
import decimal
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import SourceError
from recordzoo.formats.arrow import storage
from recordzoo.raw.member import MAX_MEMBER_BYTES
from recordzoo.recipes.images import sniffed_ending
from recordzoo.system.files import open_at_once

ARRAYS = {2: "Array2D", 3: "Array3D", 4: "Array4D", 5: "Array5D"}
"""Features of `datasets` for arrays, of which the first dimension may differ."""

_HEAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, and the field that it becomes.

    Attributes:
        key: Its name in the table.
        name: The field.
        is_file: Each value is the bytes or the path of a file.
        paths: The field for these paths; "" if there are none.
        kind: How the field is stored; "" if that is inferred.
        shape: An array's shape, None for a dimension that differs.
    """

    key: str
    name: str
    is_file: bool = False
    paths: str = ""
    kind: str = ""
    shape: tuple[int | None, ...] = ()


# Any, here and below: pyarrow has no types; features are JSON; values are of all kinds.
def holds_files(kind: Any, feature: Mapping[str, Any]) -> bool:
    """Whether a column holds files: structs of bytes and path, or of one of them."""
    import pyarrow

    kind = storage(kind)
    if pyarrow.types.is_struct(kind):
        names = {kind.field(number).name for number in range(kind.num_fields)}
        return names == {"bytes", "path"}
    return feature.get("_type") == "Image" and (_is_text(kind) or _is_binary(kind))


def stored_as(kind: Any) -> str:
    """Return the kind that follows from a column's type: text, and JSON for nested types."""
    import pyarrow

    types, kind = pyarrow.types, storage(kind)
    if types.is_dictionary(kind):
        kind = kind.value_type
    if _is_binary(kind):
        return "bytes"
    return "" if _is_number(kind) or (_is_list(kind) and _is_number(_innermost(kind))) else "json"


def shape_of(feature: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Return the shape of an `Array2D` ... `Array5D`; () of other features."""
    shape = feature.get("shape")
    if feature.get("_type") not in ARRAYS.values() or not isinstance(shape, list):
        return ()
    return tuple(each if isinstance(each, int) else None for each in shape)


def values_of(column: Column, array: Any, folder: Path, *, is_anywhere: bool) -> dict[str, Sequence[Any]]:
    """Return the values of some rows: those of the column's field, and of its field of paths.

    Args:
        column: The column.
        array: Its rows, a `pyarrow.Array`.
        folder: Where relative paths begin.
        is_anywhere: Whether paths may lead out of the folder.
    """
    import pyarrow

    while isinstance(array, pyarrow.ExtensionArray):
        array = array.storage
    if isinstance(array, pyarrow.DictionaryArray):
        array = array.dictionary_decode()
    if column.is_file:
        data, paths = _files(array)
        files = [
            _read(path, folder, is_anywhere) if each is None else each for each, path in zip(data, paths, strict=True)
        ]
        found: dict[str, Sequence[Any]] = {column.name: files}
        return found | ({column.paths: paths} if column.paths else {})
    return {column.name: _values(array, column.shape)}


def _files(array: Any) -> tuple[list[bytes | None], list[str | None]]:
    import pyarrow

    if pyarrow.types.is_struct(array.type):
        names = [array.type.field(number).name for number in range(array.type.num_fields)]
        children = dict(zip(names, array.flatten(), strict=True))  # with the nulls of the struct itself
        return children["bytes"].to_pylist(), children["path"].to_pylist()
    none: list[Any] = [None] * len(array)
    return (none, array.to_pylist()) if _is_text(array.type) else (array.to_pylist(), none)


def _read(path: str | None, folder: Path, is_anywhere: bool) -> bytes | None:
    """Read the image at a path; refuse anything else, because the path is untrusted."""
    if path is None:
        return None
    place = folder / path
    try:
        if not is_anywhere and not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder)):
            raise SourceError(f"it leads out of {folder}. If you trust the file, pass --allow-paths (allow_paths=True)")
        with open(place, "rb", opener=open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_MEMBER_BYTES:
                raise SourceError(f"it is no file, or has more than {MAX_MEMBER_BYTES:,} bytes")
            head = file.read(_HEAD_BYTES)
            if not sniffed_ending(head):
                raise SourceError("it is no image")
            return head + file.read()
    except (OSError, ValueError, SourceError) as err:
        text = err.strerror if isinstance(err, OSError) else err
        raise SourceError(f"its bytes are not stored, and the path {path!r} is not read: {text}") from err


def _values(array: Any, shape: tuple[int | None, ...]) -> Sequence[Any]:
    """Return numbers, arrays, text, bytes, or values that JSON can express."""
    kind = array.type
    if _is_number(kind):
        numbers = array.fill_null(False if str(kind) == "bool" else 0).to_numpy(zero_copy_only=False)
        return [number if valid else None for number, valid in zip(numbers, array.is_valid().to_pylist(), strict=True)]
    if _is_list(kind) and _is_number(_innermost(kind)) and (shape or not _is_list(kind.value_type)):
        return [_numbers(scalar, shape) for scalar in array]
    values = array.to_pylist()
    return values if _is_text(kind) or _is_binary(kind) else [_plain(value) for value in values]


def _numbers(scalar: Any, shape: tuple[int | None, ...]) -> NDArray[Any] | list[Any] | None:
    """Return a list of numbers as an array; as a list if some are null."""
    values = scalar.values
    if values is None:
        return None
    length = len(values)
    while _is_list(values.type):
        values = values.flatten()
    if values.null_count:
        plain: list[Any] = scalar.as_py()
        return plain
    numbers: NDArray[Any] = np.asarray(values.to_numpy(zero_copy_only=False))
    if None in shape[1:]:
        return numbers.reshape(_sizes(scalar.values))
    return numbers.reshape(*(length if each is None else each for each in shape)) if shape else numbers


def _sizes(lists: Any) -> list[int]:
    """Return the shape of lists of lists."""
    found = [len(lists)]
    while _is_list(lists.type):
        lengths = set(lists.value_lengths().to_pylist())
        if len(lengths) > 1:
            raise ValueError(f"its lists are no array: they have {sorted(map(str, lengths))} values")
        found.append(lengths.pop() if lengths else 0)
        lists = lists.flatten()
    return found


def _plain(value: Any) -> Any:
    """Return a value for JSON: times in ISO 8601, decimals as text, bytes in base64."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, decimal.Decimal) else value


def _innermost(kind: Any) -> Any:
    while _is_list(kind):
        kind = kind.value_type
    return kind


def _is_list(kind: Any) -> bool:
    import pyarrow

    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    import pyarrow

    types = pyarrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _is_binary(kind: Any) -> bool:
    return str(kind).startswith(("binary", "large_binary", "fixed_size_binary"))
