"""An image that is opened and not yet decoded: first its size is known, then the pixels of a part are decoded.

A random crop needs about half of a photograph's pixels; which half depends on the photograph's size.
"""

import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.images.decode import decoded_rgb
from recordzoo.images.pictures import from_pixels
from recordzoo.images.turbojpeg import Box, Decompressor, UnusualImage, library
from recordzoo.recipes.jpeg import is_plain_jpeg

try:
    import simplejpeg
except ImportError:  # there is no wheel for this machine, or it was not wanted
    simplejpeg = None


class Frame(Protocol):
    """An image in RGB, as torchvision's loader would give it."""

    width: int
    height: int

    def pixels(self, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """Return uint8 [h, w, 3] of a box inside the image, or of all of it; maybe a view.

        Args:
            box: In pixels of the image.
            denominator: 1, 2, 4 or 8: decode at this fraction of the size, if the frame can; otherwise at full size.
        """


class ArrayFrame:
    """Pixels that need no decoding.

    Args:
        array: uint8 [H, W, 3].
    """

    def __init__(self, array: NDArray[np.uint8]) -> None:
        self.array = array
        self.height, self.width = array.shape[:2]

    def pixels(self, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """Return pixels, always at full size."""
        if box is None:
            return self.array
        left, top, width, height = box
        return self.array[top : top + height, left : left + width]


class JpegFrame:
    """A plain JPEG file, of which only the requested part is decoded; in any thread.

    Args:
        data: The file. It must be plain (see `recordzoo.recipes.jpeg`); otherwise the pixels of a part may be wrong.
        decompressor: One of this thread's. It stays ready for this file until it reads the header of another one.

    Raises:
        UnusualImage: This decoder does not take it.
    """

    def __init__(self, data: bytes, decompressor: Decompressor) -> None:
        self.data, self.decompressor = data, decompressor
        self.header = decompressor.header(data)
        self.width, self.height = self.header.width, self.header.height

    def pixels(self, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """Return pixels, as `Frame` says."""
        try:
            ready = self.decompressor if self.decompressor.is_ready_for(self.data) else _decompressors.next()
            return ready.region(self.data, self.header, box, denominator)
        except UnusualImage:  # the decoder warned of damage; Pillow decides whether that is an error
            return ArrayFrame(np.asarray(decoded_rgb(self.data))).pixels(box)


def open_encoded(data: bytes, *, is_plain: bool | None = None) -> Frame:
    """Open an encoded image. It is decoded at once if it is no plain JPEG, or libjpeg-turbo 3 is missing.

    Args:
        data: The file.
        is_plain: Whether it is a plain JPEG; by default determined here, in less than a tenth of the decoding time.

    Raises:
        OSError: Pillow cannot read it.
    """
    if is_plain is None:
        is_plain = is_plain_jpeg(data)
    if is_plain and library() is not None:
        try:
            frame = JpegFrame(data, _decompressors.next())
        except UnusualImage:
            pass
        else:
            # Of larger images Pillow warns, or refuses them.
            if Image.MAX_IMAGE_PIXELS is None or frame.width * frame.height <= Image.MAX_IMAGE_PIXELS:
                return frame
    return ArrayFrame(_decoded(data) if is_plain else np.asarray(decoded_rgb(data)))


def open_raw(pixels: NDArray[np.uint8]) -> Frame:
    """Open stored pixels: uint8 [H, W], or [H, W, C] with 1, 3 or 4 channels.

    Raises:
        ImageError: The array has another type or shape.
    """
    if pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3:
        return ArrayFrame(pixels)
    return ArrayFrame(np.asarray(from_pixels(pixels).convert("RGB")))


def decoders() -> list[str]:
    """Name the decoders of ordinary JPEGs, in the order in which they are tried."""
    found = library()
    return [
        *([f"libjpeg-turbo 3 ({found._name})"] if found else []),
        *(["simplejpeg"] if simplejpeg and not found else []),
        "Pillow",
    ]


OPENED_AT_ONCE = 16
"""How many images can be open and ready to be decoded in one thread; each needs its own decompressor."""


class _Decompressors(threading.local):
    """The decompressors of this thread, used in turn."""

    def __init__(self) -> None:
        self._made: list[Decompressor] = []
        self._turn = 0

    def next(self) -> Decompressor:
        """Return the one that was not used for longest."""
        if len(self._made) < OPENED_AT_ONCE:
            self._made.append(Decompressor())
        self._turn = (self._turn + 1) % len(self._made)
        return self._made[self._turn]


_decompressors = _Decompressors()


def _decoded(data: bytes) -> NDArray[np.uint8]:
    """Decode a plain JPEG as a whole."""
    if simplejpeg is not None and library() is None and _is_usual(data):
        try:
            pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False)
        except ValueError:  # an error or a warning; Pillow decides whether it is an error
            pass
        else:
            return pixels
    return np.asarray(decoded_rgb(data))


def _is_usual(data: bytes) -> bool:
    try:
        height, width, colors, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return False
    limit = Image.MAX_IMAGE_PIXELS
    return colors in ("YCbCr", "Gray") and (limit is None or height * width <= limit)
