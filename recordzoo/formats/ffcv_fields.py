"""The fields of FFCV's files: their descriptors, and a sample's value from its metadata and its bytes in the pages.

After ffcv/types.py and ffcv/fields/{basics,rgb_image,bytes,json,ndarray}.py of libffcv/ffcv.
"""

import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from recordzoo.errors import SourceError
from recordzoo.recipes.images import PNG_LEVEL
from recordzoo.records.manifest import MAX_DIMENSIONS

FLOAT, INT, RGB, BYTES, ARRAY, JSON, TENSOR = range(7)
"""How FFCV numbers the types of its fields."""

_CUSTOM = 255
_JPG, _RAW = 0, 1
_DESCRIPTOR = np.dtype([("type", "<u1"), ("name", "<u1", 16), ("arguments", "<u1", 1024)], align=True)
_ARRAY_ARGUMENTS = np.dtype([("shape", "<u8", 32), ("length", "<u8")])
_SPAN = np.dtype([("ptr", "<u8"), ("size", "<u8")])
_METADATA = {
    FLOAT: np.dtype("<f8"),
    INT: np.dtype("<i8"),
    RGB: np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("data_ptr", "<u8")]),
    BYTES: _SPAN,
    JSON: _SPAN,
    ARRAY: np.dtype("<u8"),
    TENSOR: np.dtype("<u8"),
}
_DTYPE = re.compile(r"[<>|]([biuf])([1248])")

Take = Callable[[int, int], bytes]
"""Gives so many bytes at a place of the pages."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field.

    Attributes:
        key: Its name in the file; FFCV keeps 16 letters of it.
        type: One of the numbers above.
        dtype, shape: Of arrays.
    """

    key: str
    type: int
    dtype: str = ""
    shape: tuple[int, ...] = ()

    @property
    def metadata(self) -> "np.dtype[Any]":
        """The dtype of the field in a sample's row: its value, or where the value is."""
        return _METADATA[self.type]


def descriptors(file: BinaryIO, count: int, error: Callable[[str], SourceError]) -> tuple[list[Field], int]:
    """Read the descriptors of the fields; also return how many bytes they have.

    Raises:
        SourceError: They are cut or damaged, or of a class of somebody's own.
    """
    data = file.read(count * _DESCRIPTOR.itemsize)
    if len(data) < count * _DESCRIPTOR.itemsize or count == 0:
        raise error("its fields are cut")
    fields: list[Field] = []
    for entry in np.frombuffer(data, _DESCRIPTOR):
        key = entry["name"].tobytes().partition(b"\0")[0].decode("ascii", "backslashreplace")
        if key in [field.key for field in fields]:
            key = f"{key}_{len(fields)}"  # FFCV cuts long names
        kind = int(entry["type"])
        if kind == _CUSTOM:
            raise error(
                f"the field {key!r} is of a class of its writer's own, which is not stored. Read it with FFCV and "
                "that class, and store the dataset with recordzoo.convert"
            )
        if kind not in _METADATA:
            raise error(f"the field {key!r} has type {kind}, which FFCV does not have")
        try:
            fields.append(Field(key, kind, *(_array(entry["arguments"].tobytes()) if kind in (ARRAY, TENSOR) else ())))
        except ValueError as err:
            raise error(f"the field {key!r}: {err}") from err
    return fields, len(data)


def _array(arguments: bytes) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape of an array field.

    Raises:
        ValueError: They are none.
    """
    header = np.frombuffer(arguments, _ARRAY_ARGUMENTS, 1)[0]
    start = _ARRAY_ARGUMENTS.itemsize
    text = arguments[start : start + min(int(header["length"]), len(arguments))]
    try:
        ((_, dtype),) = json.loads(text)
    except (ValueError, TypeError, RecursionError) as err:
        raise ValueError(f"an array of the dtype {text[:60]!r}, which is not read") from err
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise ValueError(f"an array of the dtype {str(dtype)[:60]!r}, which is not read")
    shape = [int(length) for length in header["shape"]]
    while shape and shape[-1] == 0:
        shape.pop()
    if len(shape) > MAX_DIMENSIONS or math.prod(shape) * np.dtype(dtype).itemsize > 1 << 32:
        raise ValueError(f"an array of shape {shape}, which cannot be stored")
    return dtype, tuple(shape)


# Any: an entry of a row; a value of any field.
def value_of(field: Field, entry: Any, size: int, take: Take, as_png: bool) -> Any:
    """Return a sample's value of a field.

    Args:
        field: The field.
        entry: What the sample's row has of it.
        size: How many bytes its image has in the pages, by the table.
        take: Gives bytes of the pages.
        as_png: Encode pixels without loss, because other samples of the field have encoded images.

    Raises:
        ValueError: It is not what the field says.
    """
    if field.type == FLOAT:
        return float(entry)
    if field.type == INT:
        return int(entry)
    if field.type == RGB:
        return _image(entry, size, take, as_png)
    if field.type in (ARRAY, TENSOR):
        dtype = np.dtype(field.dtype)
        data = take(int(entry), math.prod(field.shape) * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(field.shape)
    data = take(int(entry["ptr"]), int(entry["size"]))
    if field.type == BYTES:
        return data
    try:
        return json.loads(data.partition(b"\0")[0])
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


# Any: an image's file or its pixels.
def _image(entry: Any, size: int, take: Take, as_png: bool) -> Any:
    height, width = int(entry["height"]), int(entry["width"])
    if entry["mode"] == _JPG:
        if not size:
            raise ValueError("the table of the pages has no such image")
        return take(int(entry["data_ptr"]), size)
    if entry["mode"] != _RAW:
        raise ValueError(f"an image of mode {entry['mode']}, which FFCV does not have")
    if size != height * width * 3 or not size:
        raise ValueError(f"pixels of {height} x {width}, but {size:,} bytes")
    pixels = np.frombuffer(take(int(entry["data_ptr"]), size), np.uint8).reshape(height, width, 3)
    if not as_png:
        return pixels
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=PNG_LEVEL)
    return buffer.getvalue()
