"""Encoded images: the ending that a file of one should have, and opening one."""

import io

from PIL import Image

_STARTS = (
    (b"\xff\xd8\xff", ".jpg"),
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tiff"),
    (b"MM\0*", ".tiff"),
    (b"P5", ".pgm"),
    (b"P6", ".ppm"),
)


def sniffed_ending(data: bytes) -> str:
    """Return ".jpg", ".png", ... by an encoded image's first bytes; "" if they are of none that is known here."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((ending for start, ending in _STARTS if data.startswith(start)), "")


def open_image(data: bytes) -> Image.Image:
    """Open an encoded image, which is decoded when its pixels are wanted.

    Raises:
        OSError: Pillow does not know it; or it is PostScript: a program, for which Pillow would start Ghostscript.
    """
    image = Image.open(io.BytesIO(data))
    if image.format == "EPS":
        raise OSError("it is PostScript, which is run and not decoded")
    return image
