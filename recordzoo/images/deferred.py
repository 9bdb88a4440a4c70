"""A PIL image that is decoded on the first read of its pixels: a loader may need only a part."""

import contextlib
from collections.abc import Iterator
from typing import Any

from PIL import Image

from recordzoo.images import decode
from recordzoo.images.frames import Frame, open_encoded


class Deferred(Image.Image):
    """An RGB image whose size is known and whose pixels are not decoded yet.

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
        """Whether the pixels were read, and so may have been changed."""
        return self._data is None

    def load(self):  # type: ignore[no-untyped-def]  # like Pillow's
        """Decode the pixels, as Pillow does."""
        if self._data is not None:
            data, self._data = self._data, None
            self.im = decode.decoded_rgb(data).im
        return super().load()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as a plain image."""
        return _same, (self.copy(),)


def _same(image: Image.Image) -> Image.Image:
    return image


@contextlib.contextmanager
def deferring() -> Iterator[None]:
    """Let `decode_rgb` return `Deferred` images in this thread."""
    before, decode.instead.make = decode.instead.make, Deferred
    try:
        yield
    finally:
        decode.instead.make = before
