"""How MDS stores a value of each kind (streaming/base/format/mds/encodings.py). Nothing is unpickled."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from recordzoo.errors import SourceError
from recordzoo.formats.leaves import list_of_bytes, pil_image, shaped

_SHAPE_DTYPES = ("<u1", "<u2", "<u4", "<u8")
_DTYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}


# Any: values of all kinds.
@dataclass(frozen=True, slots=True)
class Encoding:
    """How the values of a column are stored.

    Attributes:
        name: What the index calls it.
        size: The bytes of each value; None if it is stored with each.
        decode: Bytes to value; raises what `BAD_VALUE` lists.
    """

    name: str
    size: int | None
    decode: Callable[[bytes], Any] = field(compare=False)


def encoding_of(name: Any, where: str) -> Encoding:
    """Return what the index calls so.

    Raises:
        SourceError: It is a pickle, or unknown.
    """
    if name == "pkl":
        raise SourceError(
            f"{where} is stored with Python's pickle (pkl), which may run code when it is read. Write it again with "
            "another encoding."
        )
    if isinstance(name, str) and name in _SIMPLE:
        return Encoding(name, None, _SIMPLE[name])
    kind, _, config = str(name).partition(":")
    if kind == "int" and not config:
        return Encoding(kind, 8, _int)
    if kind in _DTYPES.values() and not config:
        dtype = np.dtype(kind).newbyteorder("<")
        return Encoding(kind, dtype.itemsize, partial(_scalar, dtype=dtype.str))
    if kind == "ndarray":
        return _array_encoding(str(name), config, where)
    raise SourceError(f"{where} has the encoding {str(name)[:100]!r}, which is not known.")


def _array_encoding(name: str, config: str, where: str) -> Encoding:
    """Return the encoding ``ndarray``, ``ndarray:dtype`` or ``ndarray:dtype:2,3``."""
    dtype, _, text = config.partition(":")
    try:
        shape = tuple(int(part) for part in text.split(",")) if text else None
    except ValueError:
        shape = (0,)
    if (dtype and dtype not in _DTYPES.values()) or (shape and min(shape) < 1):
        raise SourceError(f"{where} has the encoding {name[:100]!r}, which is not known.")
    size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object)) if dtype and shape else None
    return Encoding(name, size, partial(_array, dtype=dtype, shape=shape))


def _int(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _str_int(data: bytes) -> int:
    return int(data.decode())


def _str_float(data: bytes) -> float:
    return float(data.decode())


def _scalar(data: bytes, dtype: str) -> Any:
    return np.frombuffer(data, dtype)[0]


def _array(data: bytes, dtype: str, shape: tuple[int, ...] | None) -> Any:
    """Read an array, before which its dtype and its shape are stored, unless all have the same."""
    start = 0
    if not dtype:
        dtype, start = _DTYPES[data[0]], 1
    if shape is None:
        dimensions, kind = data[start] >> 2, np.dtype(_SHAPE_DTYPES[data[start] % 4])
        end = start + 1 + dimensions * kind.itemsize
        shape, start = tuple(np.frombuffer(data[start + 1 : end], kind, dimensions).tolist()), end
    return shaped(data[start:], np.dtype(dtype).newbyteorder("<").str, shape)


def _images(data: bytes) -> tuple[Any, ...]:
    return tuple(map(pil_image, list_of_bytes(data, 4)))


def _json(data: bytes) -> Any:
    return json.loads(data.decode())


_SIMPLE: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "str": bytes.decode,
    "json": _json,
    "jpeg": bytes,
    "png": bytes,
    "pil": pil_image,
    "jpeg_array": list_of_bytes,
    "jpegarray": list_of_bytes,
    "list[jpeg]": partial(list_of_bytes, start=4),  # after four bytes without a meaning
    "list[png]": partial(list_of_bytes, start=4),
    "list[pil]": _images,
    "str_int": _str_int,
    "str_float": _str_float,
    "str_decimal": bytes.decode,  # as text: no digit is lost
}
