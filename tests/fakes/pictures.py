"""Generated pictures; made by the demo, which needs them too."""

import io
import struct
from typing import Any

import numpy as np
from PIL import Image

from examples import birds
from examples.birds import Box
from tests.fakes.scale import SIDE

__all__ = ["Box", "encoded", "jpeg", "picture", "with_broken_exif"]

_POOLS: dict[Any, list[Any]] = {}
_POOL_SIZE = 8


def picture(rng: np.random.Generator, width: int, height: int, hue: float = 0.0, box: Box | None = None) -> Image.Image:
    """Make an RGB picture, `scale.SIDE` times as large; see the demo's function. Of large ones few are new."""
    pool = _POOLS.setdefault((width, height, hue, box), [])
    if SIDE > 1 and len(pool) == _POOL_SIZE:
        return pool[int(rng.integers(_POOL_SIZE))]
    made = birds.picture(rng, width * SIDE, height * SIDE, hue, box)
    if SIDE > 1:
        made.encoded = {}
        pool.append(made)
    return made


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:  # Any: Pillow's own options
    """Encode in a format that Pillow writes; a picture that is not new is not encoded anew."""
    known, key = getattr(image, "encoded", {}), (kind, repr(options))
    if key not in known:
        file = io.BytesIO()
        image.save(file, kind, **options)
        known[key] = file.getvalue()
    return known[key]


def jpeg(image: Image.Image, quality: int = 85) -> bytes:
    """Encode as JPEG."""
    return encoded(image, "JPEG", quality=quality)


def with_broken_exif(data: bytes) -> bytes:
    """Put an EXIF block into a JPEG whose directory claims more entries, and longer ones, than it has."""
    tiff = b"II*\x00\x08\x00\x00\x00" + b"\xff\x00" + b"\x0f\x01\x02\x00\xff\xff\x00\x00\xff\xff\x00\x00"
    block = b"Exif\x00\x00" + tiff
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]
