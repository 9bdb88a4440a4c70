"""One image → what a variant stores of it."""

import io
from typing import Any

import PIL
from PIL import Image

from recordzoo.recipes.images import PNG_LEVEL, open_image, quiet
from recordzoo.recipes.variants.variant import Variant

RESAMPLING = Image.Resampling.BILINEAR
"""Pillow's, antialiased: `torchvision.transforms.Resize` at its default. So ``Resize(256)`` of an original and the raw
variant "256" are the same pixels."""

ENCODER = f"Pillow {PIL.__version__}"


def converted(data: bytes, variant: Variant) -> tuple[bytes, tuple[int, int]]:
    """Return what is stored of an encoded image, and its width and height.

    The pixels are those of torchvision's loader: RGB, EXIF's orientation not applied. An image that is no larger than
    the variant and of its format already is stored untouched.

    Raises:
        Exception: Of any type: it cannot be decoded, or not be encoded so.
    """
    with quiet():
        image = open_image(data)
        pixels = image.convert("RGB")  # decodes all of it: a truncated one is found even if it is stored untouched
        size = variant.size_of(*pixels.size)
        if variant.side is not None and size == pixels.size and image.format == variant.format.upper():
            return data, size
        if size != pixels.size:
            pixels = pixels.resize(size, RESAMPLING)
        if variant.format == "raw":
            return pixels.tobytes(), size
        buffer = io.BytesIO()
        pixels.info.clear()  # EXIF, ICC profiles, comments
        pixels.save(buffer, variant.format, **_encoding(variant))
        return buffer.getvalue(), size


def _encoding(variant: Variant) -> dict[str, Any]:
    if variant.format == "png":
        return {"compress_level": PNG_LEVEL}
    if variant.format == "webp":
        return {"quality": variant.quality}
    return {"quality": variant.quality, "subsampling": "4:2:0"}
