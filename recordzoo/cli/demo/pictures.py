"""Generated pictures, seeded: gradients, a coloured shape and grain, so that they compress as photographs do."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Box = tuple[float, float, float, float]


def picture(rng: np.random.Generator, width: int, height: int, hue: float = 0.0, box: Box | None = None) -> Image.Image:
    """Make an RGB picture: a soft background, grain, and in `box` (x, y, w, h) an ellipse of colour `hue` (0..1)."""
    coarse = rng.integers(40, 216, (4, 4, 3), dtype=np.uint8)
    background = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    if box is not None:
        x, y, w, h = box
        colour = Image.new("HSV", (1, 1), (int(hue * 255), 220, 230)).convert("RGB").getpixel((0, 0))
        ImageDraw.Draw(background).ellipse((x, y, x + w, y + h), fill=colour)
    grain = rng.integers(-14, 15, (height, width, 1), dtype=np.int16)
    pixels: NDArray[np.int16] = np.asarray(background, dtype=np.int16) + grain
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def jpeg(image: Image.Image, quality: int = 85) -> bytes:
    """Encode as JPEG."""
    return encoded(image, "JPEG", quality=quality)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:  # Any: Pillow's own options
    """Encode in a format that Pillow writes."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
