"""Encoded images: the ending that a file of one should have, opening one, and what may be wrong with one."""

import contextlib
import io
import threading
import warnings
from collections.abc import Iterator

from PIL import Image, UnidentifiedImageError

PNG_LEVEL = 3
"""Of photographs: half the time of the default, 6, and 2% more bytes."""

_filters = threading.Lock()

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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence Pillow's warnings, of odd EXIF blocks say: they are for who reads the image, not for who stores it."""
    # Filters belong to the whole process: they are changed only for this moment, and by one thread at a time.
    with _filters, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def problem_of(err: Exception, data: bytes) -> str:
    """Say why an image cannot be opened or decoded, by what was raised."""
    if isinstance(err, UnidentifiedImageError):
        return "no image format that Pillow knows" if data else "an empty file"
    return f"{type(err).__name__}: {err}"[:300]
