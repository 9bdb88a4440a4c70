"""Images opened, and what was decided for each → rows of a batch, many in one call of the compiled `kernel`.

It can do what nearly all transforms come to, a crop, a resize, a crop, a flip; the rest is left to `render`.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray

from recordzoo.batches.compiled import BYTES, Kernel, PixelSource, Span, address_of, job_of
from recordzoo.batches.pointwise import Pointwise
from recordzoo.batches.render import Precision, denominator_of, is_inside, resamples
from recordzoo.batches.steps import Action, Crop, Flip, Resampling, Resize, Size
from recordzoo.loading.frames import ArrayFrame, Frame, JpegFrame
from recordzoo.loading.turbojpeg import Box, UnusualImage, decompress_address


class Shape(NamedTuple):
    """What happens to an image, if it is no more than this, and in this order."""

    crop: Crop | None
    resize: Resize | None
    window: Crop | None  # of what was resized
    flip: bool


def shape_of(actions: Sequence[Action], size: Size, resamples: Callable[[Resampling], bool]) -> Shape | None:
    """Read what happens to an image of a size; None if that is something else than a `Shape`.

    Args:
        actions: What was decided.
        size: Height and width of the image.
        resamples: Whether it may be resampled here.
    """
    crop = resize = window = None
    flip = False
    for action in actions:
        if isinstance(action, Flip):
            flip = not flip
            continue
        if flip or window or (crop and not resize and isinstance(action, Crop)):
            return None
        if isinstance(action, Crop):
            if not is_inside(action, size):
                return None
            crop, window = (crop, action) if resize else (action, None)
        elif resize or not resamples(action.resampling):
            return None
        else:
            resize = action
        size = action.height, action.width
    return Shape(crop, resize, window, flip)


def _span(size_in: int, size_out: int, first: int, count: int, support: int) -> tuple[Span, int]:
    """Return which pixels `count` of the resampled ones are made of, and how many these are."""
    scale = size_in / size_out
    reach = support * max(scale, 1.0)
    start = max(int((first + 0.5) * scale - reach + 0.5), 0)
    stop = min(int((first + count - 0.5) * scale + reach + 0.5), size_in)
    return Span(size_in, size_out, first, start), stop - start


class RowRenderer:
    """Makes images into rows of a batch.

    Args:
        height: Of each.
        width: Of each.
        pointwise: What happens to their values; None to leave them as they are.
        precision: How images are made.
        found: What `compiled.kernel` returned.
    """

    def __init__(
        self, height: int, width: int, pointwise: Pointwise | None, precision: Precision, found: Kernel
    ) -> None:
        self._height, self._width, self._precision, self._kernel = height, width, precision, found
        self._resamples = functools.partial(resamples, found, precision=precision)
        self._values: Any = BYTES  # of either dtype
        if pointwise is not None and pointwise.operations is not None:
            self._values = pointwise.apply_(torch.from_numpy(BYTES).to(torch.float32)[:, None])[:, 0].numpy()
        self._decompress = decompress_address()
        found.compile(self._values.dtype)  # now, and not while the user waits for a batch

    def make(self, images: Sequence[tuple[Frame, list[Action]]], rows: torch.Tensor) -> list[int]:
        """Make images into rows, the numbers of which it returns are left to do.

        Args:
            images: Of `frames.OPENED_AT_ONCE` at most, opened in this thread, none since.
            rows: As many, [n, 3, height, width], contiguous or channels-last.
        """
        left, jobs = [], []
        for number, (frame, actions) in enumerate(images):
            job = self._job(frame, actions, number)
            if job is None:
                left.append(number)
            else:
                jobs.append(job)
        if not jobs:
            return left
        is_last = rows.stride(1) == 1
        out = (rows.permute(0, 2, 3, 1) if is_last else rows).view(len(rows), -1).numpy()
        try:
            failed = self._render(jobs, out, is_last=is_last)
        except MemoryError:  # one by one they may have enough, and the one that has not is named
            return list(range(len(images)))
        for number in failed:
            frame = images[number][0]
            assert isinstance(frame, JpegFrame)
            frame.decompressor.begin_again()
            left.append(number)
        return left

    # Any: jobs, an array of either dtype.
    def _render(self, jobs: list[tuple[Any, ...]], out: NDArray[Any], *, is_last: bool) -> list[int]:
        size = self._height, self._width
        return self._kernel.render(jobs, self._decompress, size, self._values, out, is_last=is_last)

    # Any: as above.
    def _job(self, frame: Frame, actions: list[Action], place: int) -> tuple[Any, ...] | None:
        shape = shape_of(actions, (frame.height, frame.width), self._resamples)
        if shape is None or not isinstance(frame, JpegFrame | ArrayFrame):
            return None
        final = shape.window or shape.resize or shape.crop or frame
        if (final.height, final.width) != (self._height, self._width):
            return None
        x, y, width, height = 0, 0, frame.width, frame.height
        if shape.crop:
            x, y, width, height = shape.crop.left, shape.crop.top, shape.crop.width, shape.crop.height
        if min(width, height, self._width, self._height) < 1:
            return None
        scale = 1
        if self._precision == "fast" and isinstance(frame, JpegFrame):
            scale = denominator_of((height, width), shape.resize)
        # The image that is resampled: what is left of the stored one when it was cropped, and decoded at a fraction.
        origin_x, origin_y = x // scale, y // scale
        width, height = -(-(x + width) // scale) - origin_x, -(-(y + height) // scale) - origin_y
        filter_number = self._kernel.filter_number(shape.resize.resampling.mode) if shape.resize else 0
        columns_out, rows_out = (shape.resize.width, shape.resize.height) if shape.resize else (width, height)
        first_x, first_y = (shape.window.left, shape.window.top) if shape.window else (0, 0)
        across, columns = _span(width, columns_out, first_x, self._width, filter_number + 1)
        down, rows = _span(height, rows_out, first_y, self._height, filter_number + 1)
        left, top = (origin_x + across.source) * scale, (origin_y + down.source) * scale
        box = left, top, min(columns * scale, frame.width - left), min(rows * scale, frame.height - top)
        source = _array_source(frame, box) if isinstance(frame, ArrayFrame) else _jpeg_source(frame, box, scale)
        if source is None:
            return None
        return job_of(source, down, across, filter_number, flip=shape.flip, place=place)


def _array_source(frame: ArrayFrame, box: Box) -> PixelSource | None:
    array, (left, top, width, height) = frame.array, box
    if array.strides[1:] != (3, 1):
        return None
    return PixelSource(0, address_of(array), 0, 0, array.strides[0], top, left, height, width)


def _jpeg_source(frame: JpegFrame, box: Box, denominator: int) -> PixelSource | None:
    data, decompressor = frame.data, frame.decompressor
    if not decompressor.is_ready_for(data):
        return None
    is_whole = box == (0, 0, frame.width, frame.height)
    try:
        region = decompressor.prepare(data, frame.header, None if is_whole else box, denominator)
    except UnusualImage:
        return None
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    decoded_width, decoded_height, left, top, width, height = region
    handle, pitch = decompressor.handle or 0, 3 * decoded_width
    return PixelSource(handle, address, len(data), decoded_height, pitch, top, left, height, width)
