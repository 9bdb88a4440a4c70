"""Render opened images, with their actions, to rows of a batch: many in one call of compiled code.

The first call does crop, resize, crop, flip, in this order; a second one changes colors. `render` handles any other
sequence; `erase` erases boxes of the finished values.

At the end, small images that are stored as pixels. For an image of 32 x 32, Python's work takes longer than the pixels:
the crops and flips of all images of a piece are decided by a few operations on arrays, and one call of compiled code
looks each pixel up in a table of finished values.
"""

import ctypes
import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from recordzoo.images.decode import ArrayFrame, Frame, JpegFrame
from recordzoo.images.turbojpeg import Box, UnusualImage, decompress_address
from recordzoo.loader.compiled import BYTES, Compiled, Job, PixelSource, Span, address_of, compiled_code, compiled_now
from recordzoo.loader.geometry import BLACK
from recordzoo.loader.plan import (
    Action,
    Arithmetic,
    Crop,
    Erase,
    Flip,
    PixelOp,
    Plan,
    Pointwise,
    Resampling,
    Resize,
    Size,
    Step,
)
from recordzoo.loader.table import PIXEL_OPS, CompiledOp, compiled_form, on_picture

Precision = Literal["exact", "fast"]
PRECISIONS = ("exact", "fast")

_MOST_MOVED_BYTES = 1 << 15
"""Size of the largest image for `MovedWriter`: copying the stored pixels of larger ones takes longer than it saves."""


def render(frame: Frame, actions: Sequence[Action], precision: Precision) -> torch.Tensor:
    """Apply the actions to an image.

    Args:
        frame: The image. If it is cropped first, only that part is decoded.
        actions: The actions, in this order, except `Erase`: see `erase`.
        precision: "exact": torchvision's own results. "fast": an image that shrinks to half (a quarter, an eighth) or
            less is decoded at that size.

    Returns:
        uint8 [3, H, W], of any memory layout; a copy, never the frame's own memory.
    """
    image, done = _decoded(frame, actions, precision)
    for is_change, group in itertools.groupby(actions[done:], lambda action: isinstance(action, PixelOp)):
        if is_change:
            image = _changed(image, [action for action in group if isinstance(action, PixelOp)], precision)
            continue
        for action in group:
            if isinstance(action, Crop):
                image = _cropped(image, action)
            elif isinstance(action, Flip):
                image = image.flip(-2 if action.is_vertical else -1)
            elif isinstance(action, Resize):
                image = _resized(image, action, precision)
    return image


def erase(values: NDArray[np.float32], actions: Sequence[Action]) -> None:
    """Erase boxes of a finished image, [3, H, W]."""
    for action in actions:
        if isinstance(action, Erase):
            box = values[:, action.top : action.top + action.height, action.left : action.left + action.width]
            box[:] = np.array(action.values, np.float32)[:, None, None]


def _decoded(frame: Frame, actions: Sequence[Action], precision: Precision) -> tuple[torch.Tensor, int]:
    """Decode the part that the first crop keeps, if it lies inside; return the part and the number of actions done."""
    first = actions[0] if actions else None
    box, done, size = None, 0, (frame.height, frame.width)
    if isinstance(first, Crop) and first.is_inside(size):
        box, done, size = (first.left, first.top, first.width, first.height), 1, (first.height, first.width)
    following = actions[done] if len(actions) > done else None
    denominator = denominator_of(size, following) if precision == "fast" else 1
    return _tensor(frame.pixels(box, denominator)), done


def denominator_of(size: Size, action: Action | None) -> int:
    """Return the denominator of the reduced size for decoding in fast precision before a resize."""
    if not isinstance(action, Resize) or not action.resampling.mode:
        return 1
    ratio = min(size[0] / action.height, size[1] / action.width)
    return next((denominator for denominator in (8, 4, 2) if ratio >= denominator), 1)


def _tensor(pixels: NDArray[np.uint8]) -> torch.Tensor:
    # Raw pixels are read-only and belong to the frame.
    return torch.from_numpy((pixels if pixels.flags.writeable else pixels.copy()).transpose(2, 0, 1))


def _cropped(image: torch.Tensor, crop: Crop) -> torch.Tensor:
    top, left, bottom, right = crop.top, crop.left, crop.top + crop.height, crop.left + crop.width
    inside = image[:, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if inside.shape[1:] == (crop.height, crop.width):
        return inside
    padded = torch.tensor(crop.fill, dtype=torch.uint8)[:, None, None].repeat(1, crop.height, crop.width)
    y, x = max(-top, 0), max(-left, 0)
    padded[:, y : y + inside.shape[1], x : x + inside.shape[2]] = inside
    return padded


def _resized(image: torch.Tensor, action: Resize, precision: Precision) -> torch.Tensor:
    resampling = action.resampling
    if image.shape[1:] == (action.height, action.width):
        return image
    found = compiled_for(precision) if min(action.height, action.width, *image.shape[1:]) > 0 else None
    if found is not None and resamples(found, action, precision):
        pixels, like = image.permute(1, 2, 0).numpy(), whose(found, resampling)
        return _tensor(found.resize(pixels, action.height, action.width, resampling.mode, like))
    if resampling.arithmetic != "Pillow":
        resized: torch.Tensor = resampling.resize(image, [action.height, action.width])
        return resized
    picture = to_picture(image)
    return _tensor(np.array(resampling.resize(picture, [action.height, action.width])))


def _changed(image: torch.Tensor, changes: Sequence[PixelOp], precision: Precision) -> torch.Tensor:
    size = image.shape[1], image.shape[2]
    # Single images are always torchvision's own, where a batch may differ by a step.
    is_exact = all(PIXEL_OPS[change.name].tolerance == 0 for change in changes)
    found = compiled_for(precision) if is_exact and min(size) > 0 else None
    forms = None if found is None else forms_of(found, changes, size, precision)
    if found is not None and forms is not None:
        pixels = np.ascontiguousarray(image.permute(1, 2, 0).numpy()).reshape(1, -1)
        made = np.empty_like(pixels)
        found.change(pixels, [0], size, [forms], BYTES, made, is_last=True)
        return _tensor(made.reshape(*size, 3))
    picture = to_picture(image)
    for change in changes:
        picture = on_picture(change, picture)
    return _tensor(np.array(picture))


def forms_of(found: Compiled, changes: Sequence[PixelOp], size: Size, precision: Precision) -> list[CompiledOp] | None:
    """Return the compiled forms of changes; None if compiled code cannot do all of them as torchvision does."""
    known = found.exact_changes if changes else ()
    forms = [compiled_form(change, size) for change in changes]
    is_exact = precision == "fast" or all(change.name in known for change in changes)
    asked = [form for form in forms if form is not None]
    return asked if is_exact and len(asked) == len(forms) else None


def compiled_for(precision: Precision) -> Compiled | None:
    """Return compiled code for single images; "exact" does not wait for it: Pillow gives the same pixels."""
    return compiled_code() if precision == "fast" else compiled_now()


def resamples(found: Compiled, resize: Resize, precision: Precision) -> bool:
    """Whether compiled code does a resize: always in fast precision, in exact if the results are torchvision's."""
    like = resize.resampling.arithmetic
    # Without AVX2, torch itself gives other bytes for results of one pixel width.
    is_exact = like in found.exact and (like == "Pillow" or resize.width > 1)
    return bool(resize.resampling.mode) and (precision == "fast" or is_exact)


def whose(found: Compiled, resampling: Resampling) -> Arithmetic:
    """Return the library whose weights compiled code uses: that of torchvision if exact here, else Pillow."""
    return resampling.arithmetic if resampling.arithmetic in found.exact else "Pillow"


def to_picture(image: torch.Tensor) -> Image.Image:
    """Convert uint8 [3, H, W] to a PIL image, RGB."""
    _, height, width = image.shape
    if image.stride()[::2] != (1, 3):
        return Image.fromarray(np.ascontiguousarray(image.permute(1, 2, 0).numpy()))
    # Rows with gaps, as a crop has them: `fromarray` would first copy them into an image filled with zeros, which takes
    # a tenth of the time of the resize.
    pitch = image.stride(1)
    pixels = image.as_strided(((height - 1) * pitch + 3 * width,), (1,)).numpy()
    picture = Image.new("RGB", (width, height), None)
    picture.frombytes(pixels, "raw", "RGB", pitch)
    return picture


class Shape(NamedTuple):
    """The actions on an image that compiled code can do, in this order."""

    crop: Crop | None
    resize: Resize | None
    window: Crop | None  # a crop of the resized image
    flip: int  # 1: left and right; 2: top and bottom; 3: both
    changes: list[PixelOp]


def shape_of(actions: Sequence[Action], size: Size, resamples: Callable[[Resize], bool]) -> Shape | None:
    """Convert the actions on an image of a size, except `Erase`, to a `Shape`; None if they do not fit."""
    crop = resize = window = None
    flip = 0
    changes: list[PixelOp] = []
    for action in actions:
        if isinstance(action, Erase):
            continue
        if isinstance(action, PixelOp):
            changes.append(action)
        elif isinstance(action, Flip):
            if changes:
                changes.append(PixelOp("upend" if action.is_vertical else "mirror"))
            else:
                flip ^= 2 if action.is_vertical else 1
        elif changes or flip or window or (crop and not resize and isinstance(action, Crop)):
            return None
        elif isinstance(action, Crop):
            if not action.is_inside(size):
                return None
            crop, window = (crop, action) if resize else (action, None)
            size = action.height, action.width
        elif resize or not resamples(action):
            return None
        else:
            resize = action
            size = action.height, action.width
    return Shape(crop, resize, window, flip, changes)


def _span(size_in: int, size_out: int, first: int, count: int, support: int) -> tuple[Span, int]:
    """Return the source pixels of `count` output pixels, from `first` on, and the number of these sources."""
    scale = size_in / size_out
    reach = support * max(scale, 1.0)
    start = max(int((first + 0.5) * scale - reach + 0.5), 0)
    stop = min(int((first + count - 0.5) * scale + reach + 0.5), size_in)
    return Span(size_in, size_out, first, start), stop - start


def _values_of(pointwise: Pointwise | None) -> Any:  # Any: of either dtype
    """Return the value to write for each byte of each channel, [3, 256]."""
    if pointwise is None or pointwise.operations is None:
        return BYTES
    return pointwise.apply_(torch.from_numpy(BYTES).to(torch.float32)[:, None])[:, 0].numpy()


_Work = tuple[Job, list[CompiledOp]]
"""What compiled code does for an image: its job for `Compiled.render`, then changes."""


class RowRenderer:
    """Makes images into rows of a batch.

    Args:
        pointwise: Operations on the values; None: keep bytes.
        found: The compiled code.
    """

    def __init__(
        self, height: int, width: int, pointwise: Pointwise | None, precision: Precision, found: Compiled
    ) -> None:
        self._height, self._width, self._precision, self._compiled = height, width, precision, found
        self._memory = threading.local()
        self._resamples = functools.partial(resamples, found, precision=precision)
        self._values = _values_of(pointwise)
        self._decompress = decompress_address()

    def make(self, images: Sequence[tuple[Frame, list[Action]]], rows: torch.Tensor) -> list[int]:
        """Render images to rows; return the numbers of the images left to `render`.

        Args:
            images: At most `frames.OPENED_AT_ONCE`, the last ones that this thread opened.
            rows: As many, [n, 3, height, width], contiguous or channels-last.
        """
        work: dict[int, _Work] = {}
        for number, (frame, actions) in enumerate(images):
            if (found := self._work(frame, actions, number)) is not None:
                work[number] = found
        if not work:
            return list(range(len(images)))
        try:
            failed = self._render(work, rows)
        except MemoryError:  # single images may fit; an image that does not is named
            return list(range(len(images)))
        for number in failed:
            frame = images[number][0]
            assert isinstance(frame, JpegFrame)
            frame.decompressor.begin_again()
        return [number for number in range(len(images)) if number not in work] + failed

    def _work(self, frame: Frame, actions: list[Action], place: int) -> _Work | None:
        """Return what compiled code does for an image, if it can do all of it."""
        shape = shape_of(actions, (frame.height, frame.width), self._resamples)
        if shape is None:
            return None
        changes = forms_of(self._compiled, shape.changes, (self._height, self._width), self._precision)
        job = None if changes is None else self._job(frame, shape, place)
        return None if changes is None or job is None else (job, changes)

    def _render(self, work: dict[int, _Work], rows: torch.Tensor) -> list[int]:
        """Make images into rows of their numbers; return the numbers of those that could not be decoded."""
        is_last = rows.stride(1) == 1
        out = (rows.permute(0, 2, 3, 1) if is_last else rows).view(len(rows), -1).numpy()
        size = self._height, self._width
        jobs, changes = [job for job, _ in work.values()], [changes for _, changes in work.values()]
        if not any(changes):
            failed = self._compiled.render(jobs, self._decompress, size, self._values, out, is_last=is_last)
        else:
            made = self._scratch(len(rows), out.shape[1])
            failed = self._compiled.render(jobs, self._decompress, size, BYTES, made, is_last=True)
            self._compiled.change(made, list(work), size, changes, self._values, out, is_last=is_last)
        return failed

    def _scratch(self, count: int, num_bytes: int) -> NDArray[np.uint8]:
        """Return this thread's image memory, reused: fresh memory costs a page fault per 4 KB."""
        found: NDArray[np.uint8] | None = getattr(self._memory, "images", None)
        if found is None or found.shape[0] < count or found.shape[1] != num_bytes:
            found = self._memory.images = np.empty((count, num_bytes), np.uint8)
        return found

    def _job(self, frame: Frame, shape: Shape, place: int) -> Job | None:
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
        # The image to resample: the stored one, cropped and decoded at a fraction of its size.
        origin_x, origin_y = x // scale, y // scale
        width, height = -(-(x + width) // scale) - origin_x, -(-(y + height) // scale) - origin_y
        numbers = 0, 0
        if shape.resize:
            resampling = shape.resize.resampling
            numbers = self._compiled.numbers_of(resampling.mode, whose(self._compiled, resampling))
        columns_out, rows_out = (shape.resize.width, shape.resize.height) if shape.resize else (width, height)
        first_x, first_y = (shape.window.left, shape.window.top) if shape.window else (0, 0)
        across, columns = _span(width, columns_out, first_x, self._width, numbers[0] + 1)
        down, rows = _span(height, rows_out, first_y, self._height, numbers[0] + 1)
        left, top = (origin_x + across.source) * scale, (origin_y + down.source) * scale
        box = left, top, min(columns * scale, frame.width - left), min(rows * scale, frame.height - top)
        source = _array_source(frame, box) if isinstance(frame, ArrayFrame) else _jpeg_source(frame, box, scale)
        return None if source is None else Job(source, down, across, *numbers, shape.flip, place)


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


class Pixels(NamedTuple):
    """Stored images of one shape.

    Attributes:
        data: Their bytes, uint8 [m], read-only.
        starts: The first byte of each image, int64 [n].
        strides: Bytes from one row, column and channel to the next.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    strides: tuple[int, int, int]


class StoredShape(NamedTuple):
    """The shape of stored images."""

    channels: int
    height: int
    width: int


def only_moves(plan: Plan, shape: StoredShape) -> bool:
    """Whether a plan makes tensors and only crops and flips these images, so that `MovedWriter` can do it."""
    if not plan.is_whole or plan.size is None or shape.channels * shape.height * shape.width > _MOST_MOVED_BYTES:
        return False
    size, is_cut = (shape.height, shape.width), False
    for step in plan.steps:
        cuts = step.result is not None
        if step.decide_many is None:
            crop = None if step.num_draws else next(iter(step.actions(size, ())), None)
            if not isinstance(crop, Crop) or crop.fill != BLACK:
                return False
            cuts = not crop.contains(size)
        if is_cut and step.result is not None:
            return False  # what a crop cut off must not come back
        is_cut, size = is_cut or cuts, step.output(size) or size
    means = [transform.mean for transform in plan.fused if hasattr(transform, "mean")]
    return shape.channels == 3 or all(np.size(mean) == 1 for mean in means)  # torchvision refuses three for one channel


def moves_of(steps: Sequence[Step], size: Size, draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Decide where the pixels of images come from; the decisions are those of each `Step.actions`.

    Args:
        steps: Crops and flips.
        size: Height and width of the stored images.
        draws: A row of random numbers for each image.

    Returns:
        For each image y0, dy, x0 and dx: row y of the result is row y0 + dy * y of the stored image; int64 [n, 4].

    Raises:
        ValueError: The images are too small, in torchvision's words.
    """
    firsts, directions = np.zeros((len(draws), 2), np.int64), np.ones((len(draws), 2), np.int64)
    start = 0
    for step in steps:
        own = draws[:, start : start + step.num_draws]
        start += step.num_draws
        if step.decide_many is not None:
            first, direction = step.decide_many(size, own)
        else:
            (crop,) = step.actions(size, [])
            assert isinstance(crop, Crop)
            first, direction = np.array([crop.top, crop.left]), np.array([1, 1])
        firsts += directions * first
        directions *= direction
        size = step.output(size) or size
    return np.stack([firsts[:, 0], directions[:, 0], firsts[:, 1], directions[:, 1]], 1)


class MovedWriter:
    """Writes moved images of one plan and shape.

    Args:
        plan: A plan that `only_moves` images of this shape.
        pointwise: Operations on the values; None: keep bytes.
    """

    def __init__(self, plan: Plan, shape: StoredShape, pointwise: Pointwise | None) -> None:
        self._plan, self._shape = plan, shape
        self._values = _values_of(pointwise)
        self._compiled = compiled_code(waits=False)

    def fill(self, images: torch.Tensor, places: NDArray[np.int64], pixels: Pixels, draws: NDArray[np.float64]) -> None:
        """Write images.

        Args:
            images: [m, channels, height, width], contiguous or channels-last.
            places: The number in `images` of each, int64 [n].
            pixels: The stored images.
            draws: A row of random numbers for each, float64 [n, `Plan.num_draws`].
        """
        size = self._shape.height, self._shape.width
        moves = moves_of(self._plan.steps, size, draws)
        values = self._values[: self._shape.channels]
        if self._compiled is None:
            self._compiled = compiled_now()
        if self._compiled is not None:
            self._compiled.move(images, *pixels, size, moves, places, values)
            return
        stored = np.lib.stride_tricks.as_strided
        for place, start, move in zip(places.tolist(), pixels.starts.tolist(), moves, strict=True):
            image = stored(pixels.data[start:], (*size, self._shape.channels), pixels.strides, writeable=False)
            made = _moved(image, move, (images.shape[2], images.shape[3]))
            for channel, table in enumerate(values):
                images[place, channel].copy_(torch.from_numpy(table[made[..., channel]]))


def _moved(image: NDArray[np.uint8], move: NDArray[np.int64], size: Size) -> NDArray[np.uint8]:
    """Move one image, [h, w, channels], without compiled code; black outside."""
    rows, columns = move[0] + move[1] * np.arange(size[0]), move[2] + move[3] * np.arange(size[1])
    is_row, is_column = (rows >= 0) & (rows < image.shape[0]), (columns >= 0) & (columns < image.shape[1])
    made = np.zeros((*size, image.shape[2]), np.uint8)
    made[np.ix_(is_row, is_column)] = image[np.ix_(rows[is_row], columns[is_column])]
    return made
