"""How LitData stores a value of each kind (litdata/streaming/serializers.py). Nothing is unpickled."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from recordzoo.errors import SourceError
from recordzoo.formats.leaves import list_of_bytes, pil_image, shaped
from recordzoo.formats.litdata_json import nested_value

_PICKLED = ("pickle", "graph")
_NUMPY = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "", "", "?")
_TORCH = (
    "f4",
    "f4",
    "f8",
    "f8",
    "",
    "",
    "",
    "",
    "f2",
    "f2",
    "",
    "u1",
    "i1",
    "i2",
    "i2",
    "i4",
    "i4",
    "i8",
    "i8",
    "?",
    "u2",
)
"""The dtype of each number (litdata/constants.py); complex numbers and bfloat16 are not read."""


# Any: values of all kinds.
@dataclass(frozen=True, slots=True)
class Leaf:
    """How the values of one leaf are stored.

    Attributes:
        name: What the index calls it.
        decode: Bytes to value; raises what `BAD_VALUE` lists. None: it would have to be unpickled.
    """

    name: str
    decode: Callable[[bytes], Any] | None = field(compare=False)


def leaf_of(name: str, where: str) -> Leaf:
    """Return what the index calls so.

    Raises:
        SourceError: It is unknown.
    """
    kind, _, config = name.partition(":")
    if kind in _PICKLED:
        return Leaf(name, None)
    if kind in _SIMPLE:
        return Leaf(name, _SIMPLE[kind])
    if kind in ("no_header_numpy", "no_header_tensor"):
        dtypes = _NUMPY if kind == "no_header_numpy" else _TORCH
        return Leaf(name, partial(_flat, dtype=_dtype(dtypes, int(config) if config.isdecimal() else -1)))
    raise SourceError(f"{where} is stored as {name[:100]!r}, which is not known.")


def _dtype(dtypes: tuple[str, ...], number: int) -> str:
    dtype = dtypes[number] if 0 <= number < len(dtypes) else ""
    if not dtype:
        raise ValueError(f"dtype {number}, which is not read")
    return f"<{dtype}"


def _flat(data: bytes, dtype: str) -> Any:
    return np.frombuffer(data, dtype)


def _array(data: bytes, order: str, dtypes: tuple[str, ...]) -> Any:
    """Read an array, before which the number of its dtype, that of its dimensions, and these are stored (uint32)."""
    number, dimensions = struct.unpack_from(f"{order}II", data)
    if dimensions > len(data) // 4:
        raise ValueError(f"an array of {dimensions:,} dimensions")
    shape = struct.unpack_from(f"{order}{dimensions}I", data, 8)
    return shaped(data[8 + 4 * dimensions :], _dtype(dtypes, number), shape)


def _int(data: bytes) -> int:
    return int(struct.unpack("<q", data)[0])


def _float(data: bytes) -> float:
    return float(struct.unpack("<d", data)[0])


def _bool(data: bytes) -> bool:
    return data[0] != 0


_FILES = ("bytes", "jpeg", "image", "file", "tifffile", "tiff", "audio", "video", "nifti", "mesh", "pdf")
_SIMPLE: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(_FILES, bytes),
    "str": bytes.decode,
    "text": bytes.decode,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "pil": pil_image,
    "jpeg_array": list_of_bytes,
    "numpy": partial(_array, order="<", dtypes=_NUMPY),
    "tensor": partial(_array, order=">", dtypes=_TORCH),
    "json": nested_value,
}
