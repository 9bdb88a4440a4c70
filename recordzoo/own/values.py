"""Values of samples as they are stored: numbers as arrays, images as files without loss, the rest as JSON.

Only numbers, text, lists and what is nested become JSON; arrays stay arrays of their dtype.
"""

import contextlib
import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image

from recordzoo.errors import SampleError, SourceError
from recordzoo.recipes.recipe import PNG_LEVEL

_CHANNELS = (1, 3, 4)
_MAX_NAME = 4096  # characters of a class name in a manifest
_RAW_MODES = ("L", "RGB", "RGBA")
_PREDICTOR = 317  # a TIFF tag; 2: differences of neighbours are compressed

# Any: what Pillow's save takes.
_Encoding = tuple[str, dict[str, Any]]
_PNG: _Encoding = ("png", {"compress_level": PNG_LEVEL})
_TIFF: _Encoding = ("tiff", {"compression": "raw"})  # an image from a TIFF of JPEGs would become one again
_PACKED_TIFF: _Encoding = ("tiff", {"compression": "tiff_adobe_deflate", "tiffinfo": {_PREDICTOR: 2}})

ENCODINGS: dict[str, tuple[_Encoding, ...]] = {
    **dict.fromkeys((*_RAW_MODES, "1", "LA", "P"), (_PNG,)),
    **dict.fromkeys(("CMYK", "F", "I", "I;16B", "LAB", "PA", "YCbCr"), (_TIFF,)),
    "I;16": (_PACKED_TIFF, _TIFF),  # a PNG comes back as mode I before Pillow 10.3
}
"""How images of each mode are stored: the first encoding from which an image comes back identical.

Pillow 10.1, 10.3, 11.3, 12.2 and 13.0 read all of them alike, whichever of them wrote them, but for YCbCr: before 13
such a TIFF is written and cannot be read, so there the mode is refused. IM keeps it, but will be gone in Pillow 15.
"""


# Any, here and below: a value is whatever a dataset gives.
def as_array(value: Any) -> NDArray[Any] | None:
    """Return numbers, an array or a tensor as a little-endian array; None for anything else.

    A dtype that the format has not (complex, strings, objects, long double), or a mask, makes it anything else.
    """
    if isinstance(value, bool | float):
        return np.asarray(value)
    if isinstance(value, int):
        return np.asarray(value, np.int64) if -(1 << 63) <= value < 1 << 63 else None
    if _is_tensor(value):
        try:
            value = value.detach().cpu().numpy()
        except (TypeError, RuntimeError):  # bfloat16, sparse, quantized
            return None
    if not isinstance(value, np.ndarray | np.generic) or isinstance(value, np.ma.MaskedArray):
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return None
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def as_pixels(value: Any) -> NDArray[np.uint8] | None:
    """Return uint8 pixels [H, W] or [H, W, C] of an image, an array or a tensor ([C, H, W]); None for anything else."""
    if isinstance(value, Image.Image):
        return np.asarray(value) if value.mode in _RAW_MODES else None
    array = as_array(value)
    if array is None or array.dtype != np.uint8 or array.ndim not in (2, 3) or 0 in array.shape:
        return None
    if array.ndim > 2 and _is_tensor(value):
        array = np.moveaxis(array, 0, 2)
    return array if array.ndim == 2 or array.shape[2] in _CHANNELS else None


def is_picture(value: Any) -> bool:
    """Whether a value is an image: Pillow's, or uint8 pixels."""
    return isinstance(value, Image.Image) or as_pixels(value) is not None


def picture_bytes(value: Any) -> tuple[bytes, str]:
    """Encode an image losslessly; also return its file's ending.

    Raises:
        SampleError: No format keeps its mode and pixels.
    """
    image = value
    if not isinstance(value, Image.Image):
        pixels = np.ascontiguousarray(cast(NDArray[np.uint8], as_pixels(value)))
        image = Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels)
    if image.mode == "P":
        image = _with_all_colours(image)
    for kind, options in ENCODINGS.get(image.mode, ()):
        buffer = io.BytesIO()
        try:
            image.save(buffer, kind, **options)
            if _is_kept(image, buffer):
                return buffer.getvalue(), f".{kind}"
        except (OSError, ValueError, KeyError):  # an encoder or decoder that this Pillow does not have
            continue
    raise SampleError(
        f"an image of mode {image.mode}, which no lossless format of Pillow {PIL.__version__} keeps; convert() it first"
    )


def _is_kept(image: Image.Image, file: io.BytesIO) -> bool:
    with Image.open(file) as found:
        if (found.mode, found.size) != (image.mode, image.size) or found.tobytes() != image.tobytes():
            return False
        return image.mode not in ("P", "PA") or found.convert("RGBA").tobytes() == image.convert("RGBA").tobytes()


def _with_all_colours(image: Image.Image) -> Image.Image:
    """Return a palette image whose palette has all colours: Pillow drops the bits of pixels that have none."""
    mode = image.palette.mode if image.palette is not None else "RGB"
    palette = image.getpalette(mode) or []
    missing = (int(np.asarray(image).max()) + 1) * len(mode) - len(palette)
    if missing > 0:
        image = image.copy()
        image.putpalette([*palette, *[0] * missing], mode)
    return image


def json_bytes(value: Any) -> bytes:
    """Encode a value as JSON; arrays and tensors become lists, tuples too.

    Raises:
        SampleError: It holds something that JSON cannot express; the message says where.
    """
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError) as err:  # a list in itself, a number of 5,000 digits
        raise SampleError(f"a {describe(value)} that JSON cannot hold ({err})") from None
    return text.encode("utf-8", "surrogatepass")


def is_json(value: Any) -> bool:
    """Whether `json_bytes` takes a value."""
    try:
        json_bytes(value)
    except SampleError:
        return False
    return True


def update(digest: "hashlib._Hash", value: Any) -> None:
    """Add a value to a digest: its type, its numbers, its pixels.

    Raises:
        SampleError: It cannot be stored.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        digest.update(b"b" + len(value).to_bytes(8, "little") + bytes(value))
    elif isinstance(value, Image.Image):
        digest.update(f"i{value.mode}{value.size}".encode() + value.tobytes())
    elif (array := as_array(value)) is not None:
        digest.update(f"a{array.dtype.str}{array.shape}".encode() + array.tobytes())
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        digest.update(f"c{len(value)}".encode())
        for key, item in items:
            digest.update(repr(key).encode("utf-8", "surrogatepass"))
            update(digest, item)
    else:
        digest.update(b"j" + json_bytes(value))


def check_class_names(names: Iterable[str], where: str) -> None:
    """Raise for names of classes that a manifest does not take; `where` is the file that has them."""
    longest = max(names, key=len, default="")
    if len(longest) > _MAX_NAME:
        raise SourceError(
            f"{where}: the name of a class has {len(longest):,} letters, and {_MAX_NAME:,} are the most: "
            f"{longest[:80]!r}...",
            path=where,
        )


def is_storable(name: str) -> bool:
    """Whether a record may have a name: a text in UTF-8, or bytes of a file's name that is in none."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def describe(value: Any) -> str:
    """Describe a value for a message: its type, and the dtype and shape of numbers."""
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{name} ({value.dtype} {list(value.shape)})"
    return f"{name} (mode {value.mode})" if isinstance(value, Image.Image) else name


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numpy") and type(value).__module__.partition(".")[0] != "numpy"


def _plain(value: Any, keys: tuple[Any, ...] = ()) -> Any:
    """Return a value as what `json` writes.

    Args:
        value: The value.
        keys: Where it is in the value that is encoded.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _no_json(f"{value}, which JSON has not", keys)
        return value
    if isinstance(value, dict):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise _no_json(f"a dict with the key {odd!r}, a {describe(odd)}; JSON's keys are strings", keys)
        return {key: _plain(item, (*keys, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, (*keys, number)) for number, item in enumerate(value)]
    array = as_array(value)
    if array is None:
        raise _no_json(f"a {describe(value)}, which JSON has not", keys)
    return _plain(array.tolist(), keys)


def _no_json(text: str, keys: tuple[Any, ...]) -> SampleError:
    place = "".join(f"[{key!r}]" for key in keys)
    return SampleError(f"{text}, at {place}" if place else text)


@contextlib.contextmanager
def at_position(position: int, of: str = "") -> Iterator[None]:
    """Put the position of a sample in front of an error's message.

    Args:
        position: The position; negative if it is not known here.
        of: What it counts in, if that is a part of the samples only.
    """
    try:
        yield
    except SampleError as err:
        if "position" in err.details or position < 0:
            raise
        text = f"position {position}{of and f' {of}'}: {str(err).rstrip('.')}."
        raise type(err)(text, **err.details, position=position) from None
