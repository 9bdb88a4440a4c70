"""Images that are hard to show, by code: odd modes and shapes, huge, cut, not images at all."""

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from tests.fakes.folder import bad_image, cut_image
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.records import write_records

HOSTILE_NAMES = (
    '</script><img src=x onerror="alert(1)">',
    "\"quoted\" & 'single' <b>bold",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x1b[2J",
    "<!-- <script x",
    '</script x="1',
    "{{js}}{{data}}",
    "鸟类 アホウドリ 새 طائر",
    "Größe Übergröße ñandú",
    "very " * 60,
)
"""Names of classes and files that would act where they are not escaped; none has a slash but the first."""


def odd_images() -> dict[str, bytes]:
    """Each by a name that says what it is; all can be shown."""
    rng = np.random.default_rng(3)
    photo = picture(rng, 300, 200, 0.3, (90, 50, 100, 90))
    ramp = np.linspace(1000, 3000, 90 * 120).reshape(90, 120)
    alpha = photo.convert("RGBA")
    alpha.putalpha(Image.radial_gradient("L").resize(photo.size))
    keyed = photo.convert("P")
    return {
        "gray.png": encoded(photo.convert("L"), "PNG"),
        "bilevel.png": encoded(photo.convert("1"), "PNG"),
        "palette.png": encoded(keyed, "PNG"),
        "palette-clear.png": encoded(keyed, "PNG", transparency=keyed.getpixel((150, 95))),
        "alpha.png": encoded(alpha, "PNG"),
        "gray-alpha.png": encoded(alpha.convert("LA"), "PNG"),
        "cmyk.jpg": encoded(photo.convert("CMYK"), "JPEG"),
        "sixteen-bit.png": encoded(Image.fromarray(ramp.astype(np.uint16)), "PNG"),
        "float.tiff": encoded(Image.fromarray(np.where(ramp > 2900, np.nan, ramp).astype(np.float32)), "TIFF"),
        "int.tiff": encoded(Image.fromarray(ramp.astype(np.int32)), "TIFF"),
        "constant16.png": encoded(Image.fromarray(np.full((20, 20), 7, np.uint16)), "PNG"),
        "dot.png": encoded(Image.new("RGB", (1, 1), "red"), "PNG"),
        "line.png": encoded(picture(rng, 3000, 2), "PNG"),
        "pole.png": encoded(picture(rng, 2, 3000), "PNG"),
        "turned.jpg": encoded(photo, "JPEG", exif=_turned()),
        "animation.webp": encoded(photo, "WEBP", save_all=True, append_images=[photo.rotate(9)]),
        "large.jpg": jpeg(picture(rng, 2400, 1800, 0.6, (500, 400, 900, 700))),
    }


def broken_images() -> dict[str, bytes]:
    """None of these can be shown: no image; one that is cut; two with so many pixels that they are not decoded."""
    return {
        "nothing.jpg": bad_image(),
        "cut.jpg": cut_image(),
        "empty.png": b"",
        "bomb.png": png_header(30_000, 30_000),
        "wide.png": png_header(12_000, 9_000),
    }


def write_odd_set(path: Path) -> Path:
    """Write a record set of odd and broken images in one class, and an image in each class with a hostile name."""
    images = {**odd_images(), **broken_images()}
    small = encoded(Image.new("RGB", (20, 10), (200, 30, 30)), "PNG")
    return write_records(
        path,
        [*images.values(), *[small] * len(HOSTILE_NAMES)],
        names=[f"odd/{name}" for name in images] + [f"{name}/{name}.png" for name in HOSTILE_NAMES],
        arrays={"target": np.array([0] * len(images) + [1 + number for number in range(len(HOSTILE_NAMES))])},
        classes=["odd", *HOSTILE_NAMES],
        encoding="image",
        bad={"odd/empty.png": "no decoder recognises it"},
    )


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is, and has hardly any pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def _turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # a viewer turns it by 90 degrees; torchvision does not
    return exif.tobytes()
