"""Values that MDS and LitData store alike: images of Pillow, lists of images, arrays. ValueError: it is damaged."""

import itertools
import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_MAX_DIMENSIONS = 32


def pil_image(data: bytes) -> Image.Image:
    """Read an image that is stored as pixels: width, height, length of the mode (uint32), mode, ``tobytes()``."""
    width, height, length = struct.unpack_from("<III", data)
    mode, pixels = data[12 : 12 + length], data[12 + length :]
    if length > 16 or width * height > 8 * len(pixels):  # mode 1 has eight pixels in a byte
        raise ValueError(f"an image of {width} x {height} pixels in {len(pixels):,} bytes")
    return Image.frombytes(mode.decode("ascii"), (width, height), pixels)


def list_of_bytes(data: bytes, start: int = 0) -> tuple[bytes, ...]:
    """Read a list: the number of elements, the size of each (uint32), and the elements.

    Args:
        data: The stored value.
        start: Where the number is.
    """
    (count,) = struct.unpack_from("<I", data, start)
    sizes = struct.unpack_from(f"<{count}I", data, start + 4) if count <= len(data) // 4 else (len(data),)
    ends = np.cumsum([start + 4 + 4 * count, *sizes]).tolist()
    if ends[-1] != len(data):
        raise ValueError(f"a list of {count:,} elements in {len(data):,} bytes")
    return tuple(data[begin:end] for begin, end in itertools.pairwise(ends))


# Any: numbers of all kinds.
def shaped(data: bytes, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array of these bytes and this shape."""
    if len(shape) > _MAX_DIMENSIONS or math.prod(shape) * np.dtype(dtype).itemsize != len(data):
        raise ValueError(f"an array of {dtype} {list(shape[:_MAX_DIMENSIONS])} in {len(data):,} bytes")
    return np.frombuffer(data, dtype).reshape(shape) if data else np.zeros(shape, dtype)
