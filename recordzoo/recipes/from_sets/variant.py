"""`Variant`: size, format and quality of stored images, parsed strictly from its name; converts an image."""

import io
import re
from dataclasses import asdict, dataclass
from typing import Any

import PIL
from PIL import Image

from recordzoo.base.meant import did_you_mean
from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError
from recordzoo.recipes.images import PNG_LEVEL, open_image, quiet

DEFAULT_QUALITY = 90
MAX_SIDE = 65_500
"""JPEG's maximum."""

# Bytes that a pixel takes, a little more than on photographs of ImageNet (docs/variants.md).
_BYTES_PER_PIXEL = {"jpeg": 0.36, "png": 2.0, "webp": 0.33, "raw": 3.0}
_ORIGINAL_BYTES_PER_PIXEL = 0.5
_ASPECT = 4 / 3
_HEADER_BYTES = 620  # of a JPEG: its tables
_LOSSY = ("jpeg", "webp")

_NAME = re.compile(
    r"(?:full|(?P<max>max)?(?P<side>[1-9][0-9]{0,4}))(?:-(?P<format>png|webp|raw))?(?:-q(?P<quality>[1-9][0-9]{0,2}))?"
)


@dataclass(frozen=True, slots=True)
class Variant:
    """The size and format of converted images. Without a side, they keep their full size.

    Attributes:
        short_side: Images with a longer short side are reduced to this one, in pixels.
        max_side: Images with a longer long side are reduced to this one, instead.
        format: "jpeg", "png", "webp", or "raw": pixels, uint8 [H, W, 3].
        quality: For JPEG and WebP, 1 to 100; by default 90.
    """

    short_side: int | None = None
    max_side: int | None = None
    format: str = "jpeg"
    quality: int | None = None

    def __post_init__(self) -> None:
        if self.format not in _BYTES_PER_PIXEL:
            hint = did_you_mean(str(self.format), _BYTES_PER_PIXEL)
            raise ArgumentError(
                f"Unknown format {self.format!r} of a variant (--format). Valid are "
                f"{', '.join(_BYTES_PER_PIXEL)}.{hint}"
            )
        if self.short_side is not None and self.max_side is not None:
            raise ArgumentError(
                f"A variant has a short side ({self.short_side}) or a longest side ({self.max_side}), not both."
            )
        _check_number("side of a variant", self.side, MAX_SIDE)
        if self.quality is not None and self.format not in _LOSSY:
            raise ArgumentError(f"Quality {self.quality!r} is for JPEG and WebP; {self.format} loses nothing.")
        _check_number("quality of a variant", self.quality, 100)
        if self.quality is None and self.format in _LOSSY:
            object.__setattr__(self, "quality", DEFAULT_QUALITY)

    @classmethod
    def parse(cls, name: str) -> "Variant":
        """Read a variant's name: "256", "max512-webp", "256-raw", "full-png", "256-q95".

        Raises:
            ArgumentError: It is not a variant's name, or not the canonical one.
        """
        match = _NAME.fullmatch(name) if isinstance(name, str) else None
        if match is None:
            raise ArgumentError(
                f"Unknown value {name!r} for argument variant. Valid are '256' (the short side), 'max512' (the longest "
                "side) and 'full', each with '-png', '-webp' or '-raw' behind it for another format than JPEG, and "
                "'-q95' for another quality than 90."
            )
        side = None if match["side"] is None else int(match["side"])
        variant = cls(
            short_side=None if match["max"] else side,
            max_side=side if match["max"] else None,
            format=match["format"] or "jpeg",
            quality=None if match["quality"] is None else int(match["quality"]),
        )
        if str(variant) != name:
            raise ArgumentError(f"Unknown value {name!r} for argument variant; what it says is called '{variant}'.")
        return variant

    def __str__(self) -> str:
        side = "full" if self.side is None else f"max{self.max_side}" if self.max_side else str(self.short_side)
        image_format = "" if self.format == "jpeg" else f"-{self.format}"
        quality = "" if self.quality in (None, DEFAULT_QUALITY) else f"-q{self.quality}"
        return f"{side}{image_format}{quality}"

    @property
    def side(self) -> int | None:
        """The side that is given; None for the full size."""
        return self.short_side if self.max_side is None else self.max_side

    @property
    def flags(self) -> str:
        """The options of `recordzoo prepare` that ask for it."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.quality == DEFAULT_QUALITY:
            del given["quality"]
        if self.format == "jpeg" and len(given) > 1:
            del given["format"]
        return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in given.items())

    def to_json(self) -> dict[str, JSON]:
        """Return the entry for the manifest."""
        return asdict(self)

    def size_of(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height that an image of this size gets: never larger ones.

        They are those of ``torchvision.transforms.Resize(short_side)``, and of v2's ``Resize(None, max_side)``.
        """
        short, long = sorted((width, height))
        if self.short_side is not None and short > self.short_side:
            short, long = self.short_side, int(self.short_side * long / short)
        elif self.max_side is not None and long > self.max_side:
            short, long = max(1, int(self.max_side * short / long)), self.max_side
        return (short, long) if width <= height else (long, short)

    def estimated_bytes(self, size_bytes: int) -> int:
        """Estimate, on the high side, the stored size of a photograph whose JPEG has `size_bytes`."""
        pixels = largest = size_bytes / _ORIGINAL_BYTES_PER_PIXEL
        if self.short_side is not None:
            largest = self.short_side**2 * _ASPECT
        elif self.max_side is not None:
            largest = self.max_side**2 / _ASPECT
        if self.format == "jpeg" and self.side is not None and pixels <= largest:
            return size_bytes  # stored untouched
        return int(min(pixels, largest) * _BYTES_PER_PIXEL[self.format]) + _HEADER_BYTES


def _check_number(what: str, value: object, largest: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest):
        raise ArgumentError(f"The {what} is {value!r}; it must be a whole number from 1 to {largest}.")


RESAMPLING = Image.Resampling.BILINEAR
"""Pillow's, antialiased: `torchvision.transforms.Resize` at its default. So ``Resize(256)`` of an original and the raw
variant "256" are the same pixels."""

ENCODER = f"Pillow {PIL.__version__}"


def converted(data: bytes, variant: Variant) -> tuple[bytes, tuple[int, int]]:
    """Return the bytes to store for an encoded image, and its width and height.

    The pixels are those of torchvision's loader: RGB, EXIF's orientation not applied. An image that is no larger than
    the variant and of its format already is stored untouched.

    Raises:
        Exception: Any type: the image cannot be decoded, or cannot be encoded in this way.
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
