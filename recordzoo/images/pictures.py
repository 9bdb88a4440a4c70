"""Open the image at a position of a record set, stored as an image file or as raw pixels."""

import numpy as np
from PIL import Image

from recordzoo.images.decode import RecordName, naming
from recordzoo.recipes.images import open_image
from recordzoo.records.reader import RecordReader

_CHANNELS = ((), (1,), (3,), (4,))


def open_picture(reader: RecordReader, position: int, field: str = "image") -> Image.Image:
    """Return a stored image in its own mode. An encoded image is opened, not decoded.

    Raises:
        KeyError, IndexError, LookupError, CorruptRecordError: As `RecordReader.read`.
        ImageError: Pillow cannot open it, or the field has no images.
    """
    with naming(reader.path, RecordName(reader, position)):
        if reader.manifest.blobs[field].encoding == "raw":
            return from_pixels(reader.decoded(field, position))
        return open_image(reader.read(field, position))


def is_pixels(dtype: str, shape: tuple[int, ...] | None) -> bool:
    """Whether raw values are pixels: uint8 [H, W] or [H, W, C] with 1, 3 or 4 channels."""
    return dtype == "|u1" and (shape is None or (len(shape) in (2, 3) and tuple(shape[2:]) in _CHANNELS))


def from_pixels(pixels: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> Image.Image:
    """Return an image of raw pixels.

    Raises:
        OSError: The array has another type or shape.
    """
    if not is_pixels(pixels.dtype.str, pixels.shape) or 0 in pixels.shape:
        raise OSError(f"an array {pixels.dtype}{list(pixels.shape)} is no image: uint8 [H, W] or [H, W, C] is one")
    return Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels)
