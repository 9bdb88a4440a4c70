"""What a file of a sample holds, by the ending of its name: text, a number, JSON, an array, or just bytes."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from recordzoo.system.npy import array_of, header_of

IMAGES = frozenset(
    ("jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "pnm", "gif", "bmp", "tif", "tiff", "avif", "img", "image")
)
"""Endings of images; WebDataset's writer takes the last two for JPEG."""

IDS = frozenset(("id", "index", "inx"))
"""Endings of numbers that may be text in a sample that comes later."""

_NUMBER = re.compile(rb"\s*[+-]?[0-9]{1,100}\s*")


# Any, here and below: numbers, arrays, text, JSON or bytes.
def decode(ending: str, data: bytes) -> Any:
    """Return what a file holds. WebDataset's own decoding is the model (webdataset/autodecode.py), without its pickles.

    Args:
        ending: The last part of its name, in small letters: of ``left.png`` that is ``png``.
        data: Its bytes.

    Raises:
        ValueError: It holds something else.
    """
    return _DECODERS.get(ending, bytes)(data)


def is_decoded(ending: str) -> bool:
    """Whether a file with an ending becomes anything but bytes."""
    return ending in _DECODERS


def stored_as(name: str, kind: str) -> str:
    """Return how values are stored, as `convert` has it; "" if that follows from them: numbers and arrays.

    Args:
        name: The extension.
        kind: What its files are read as: an ending that is decoded, "text" or "bytes".
    """
    if kind == "bytes":
        return "image" if name.rpartition(".")[2] in IMAGES else "bytes"
    return "json" if kind == "text" or _DECODERS[kind] in (as_text, as_json) else ""


def as_text(data: bytes) -> str:
    """Return text in UTF-8.

    Raises:
        ValueError: It is none.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as err:
        raise ValueError(f"it is no text in UTF-8 ({err})") from None


def as_number(data: bytes) -> int:
    """Return a whole number in decimal digits.

    Raises:
        ValueError: It is none.
    """
    if not _NUMBER.fullmatch(data):
        raise ValueError(f"{data[:40]!r} is no whole number")
    return int(data)


def as_json(data: bytes) -> Any:
    """Return what JSON says; NaN and Infinity, which Python writes and JSON has not, become None.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return json.loads(data, parse_constant=lambda name: None)
    except (ValueError, RecursionError) as err:
        raise ValueError(f"it is no JSON ({err})") from None


def as_npy(data: bytes) -> NDArray[Any]:
    """Return an array that `numpy.save` wrote, without copying it. Nothing is allocated for a forged shape.

    Raises:
        ValueError: It is none, or one of objects (pickles) or of a dtype that record sets have not.
    """
    try:
        header = header_of(data)
        _, shape, _, dtype, start = header
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are never unpickled")
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise ValueError(f"dtype {dtype}")
        if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != len(data) - start:
            raise ValueError(f"shape {list(shape)} of {dtype} in {len(data) - start:,} bytes")
        return array_of(data, header)
    except (ValueError, OverflowError) as err:
        raise ValueError(f"it is no array that is read here ({err})") from None


_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), as_number),
    **dict.fromkeys(("txt", "text", "transcript"), as_text),
    **dict.fromkeys(("json", "jsn"), as_json),
    "npy": as_npy,
}
