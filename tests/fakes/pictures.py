"""Generated pictures; most are made by the package, because its demo needs them too."""

import struct

import numpy as np
from PIL import Image

from recordzoo.cli.demo import pictures
from recordzoo.cli.demo.pictures import Box, encoded, jpeg
from tests.fakes.scale import SIDE

__all__ = ["Box", "encoded", "jpeg", "picture", "with_broken_exif"]


def picture(rng: np.random.Generator, width: int, height: int, hue: float = 0.0, box: Box | None = None) -> Image.Image:
    """Make an RGB picture, `scale.SIDE` times as large; see the package's function."""
    return pictures.picture(rng, width * SIDE, height * SIDE, hue, box)


def with_broken_exif(data: bytes) -> bytes:
    """Put an EXIF block into a JPEG whose directory claims more entries, and longer ones, than it has."""
    tiff = b"II*\x00\x08\x00\x00\x00" + b"\xff\x00" + b"\x0f\x01\x02\x00\xff\xff\x00\x00\xff\xff\x00\x00"
    block = b"Exif\x00\x00" + tiff
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]
