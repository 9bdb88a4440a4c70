"""An opened image that is not decoded yet: its size is known, and any part of it can be decoded.

A random crop needs about half of a photograph's pixels; which half depends on the photograph's size.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.images.decode import decoded_rgb, from_pixels, instead
from recordzoo.images.turbojpeg import Box, Decompressor, UnusualImage, library
from recordzoo.recipes.jpeg import is_plain_jpeg

try:
    import simplejpeg
except ImportError:  # no wheel for this machine, or not installed
    simplejpeg = None


class Frame(Protocol):
    """An image in RGB, with the pixels of torchvision's loader."""

    width: int
    height: int

    def pixels(self, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """Return the pixels of a box, or of the whole image, uint8 [h, w, 3]; maybe a view.

        Args:
            box: A box inside the image, in its pixels.
            denominator: 1, 2, 4 or 8: decode at 1 / denominator of the size if the frame can, else at full size.
        """


class ArrayFrame:
    """Decoded pixels, uint8 [H, W, 3]."""

    def __init__(self, array: NDArray[np.uint8]) -> None:
        self.array = array
        self.height, self.width = array.shape[:2]

    def pixels(self, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """See `Frame`; always at full size."""
        if box is None:
            return self.array
        left, top, width, height = box
        return self.array[top : top + height, left : left + width]


class JpegFrame:
    """A plain JPEG file; only the requested part is decoded, in any thread.

    Args:
        data: The file. It must be plain (see `recordzoo.recipes.jpeg`), else the pixels of a part may be wrong.
        decompressor: A decompressor of this thread. It stays ready for this file until it reads another header.

    Raises:
        UnusualImage: The decoder does not support it.
    """

    def __init__(self, data: bytes, decompressor: Decompressor) -> None:
        self.data, self.decompressor = data, decompressor
        self.header = decompressor.header(data)
        self.width, self.height = self.header.width, self.header.height

    def pixels(self, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """See `Frame`."""
        try:
            ready = self.decompressor if self.decompressor.is_ready_for(self.data) else _decompressors.next()
            return ready.region(self.data, self.header, box, denominator)
        except UnusualImage:  # the decoder warned of damage; Pillow decides whether it is an error
            return ArrayFrame(np.asarray(decoded_rgb(self.data))).pixels(box)


def open_encoded(data: bytes, *, is_plain: bool | None = None) -> Frame:
    """Open an encoded image. It is decoded at once unless it is a plain JPEG and libjpeg-turbo 3 is installed.

    Args:
        data: The file.
        is_plain: Whether it is a plain JPEG. Default: detected, in less than a tenth of the decoding time.

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
            # Pillow warns of larger images or refuses them.
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
    """List the decoders of ordinary JPEGs, in the order of preference."""
    found = library()
    return [
        *([f"libjpeg-turbo 3 ({found._name})"] if found else []),
        *(["simplejpeg"] if simplejpeg and not found else []),
        "Pillow",
    ]


OPENED_AT_ONCE = 16
"""Number of images that one thread can hold open; each needs its own decompressor."""


class _Decompressors(threading.local):
    """The decompressors of this thread, used in turn."""

    def __init__(self) -> None:
        self._made: list[Decompressor] = []
        self._turn = 0

    def next(self) -> Decompressor:
        """Return the least recently used one."""
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
        except ValueError:  # an error or a warning; Pillow decides which
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


class Deferred(Image.Image):
    """An RGB image whose size is known and whose pixels are not decoded yet.

    Attributes:
        frame: Decodes a part of the image; valid until the same thread has opened 16 more images.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.frame: Frame = open_encoded(data)
        self._data: bytes | None = data
        self._mode = "RGB"
        self._size = (self.frame.width, self.frame.height)

    @property
    def is_loaded(self) -> bool:
        """Whether the pixels were read, and so may have been changed."""
        return self._data is None

    def load(self):  # type: ignore[no-untyped-def]  # like Pillow's
        """Decode the pixels, as Pillow does."""
        if self._data is not None:
            data, self._data = self._data, None
            self.im = decoded_rgb(data).im
        return super().load()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as a plain image."""
        return _same, (self.copy(),)


def _same(image: Image.Image) -> Image.Image:
    return image


@contextlib.contextmanager
def deferring() -> Iterator[None]:
    """Let `decode_rgb` return `Deferred` images in this thread."""
    before, instead.make = instead.make, Deferred
    try:
        yield
    finally:
        instead.make = before
