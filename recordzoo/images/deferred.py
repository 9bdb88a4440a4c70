"""A PIL image that is decoded only when its pixels are read, as a loader may need only a part of them."""

import contextlib
from collections.abc import Iterator
from typing import Any

from PIL import Image

from recordzoo.images import decode
from recordzoo.images.frames import Frame, open_encoded


class Deferred(Image.Image):
    """An RGB image with a size and, so far, no pixels.

    Args:
        data: The encoded image.

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
        """Whether the pixels were read, and may have been changed."""
        return self._data is None

    def load(self):  # type: ignore[no-untyped-def]  # as Pillow's
        """Decode it, as Pillow does."""
        if self._data is not None:
            data, self._data = self._data, None
            self.im = decode.decoded_rgb(data).im
        return super().load()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle a plain image."""
        return _same, (self.copy(),)


def _same(image: Image.Image) -> Image.Image:
    return image


@contextlib.contextmanager
def deferring() -> Iterator[None]:
    """Make `decode_rgb` return `Deferred` images in this thread."""
    before, decode.instead.make = decode.instead.make, Deferred
    try:
        yield
    finally:
        decode.instead.make = before
