"""Render the pixels of a frame after its actions, exactly or fast."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from recordzoo.images.frames import Frame
from recordzoo.pixels.compiled import Compiled
from recordzoo.pixels.compiling import compiled_code, compiled_now
from recordzoo.transforms.steps import Action, Arithmetic, Crop, Erase, Flip, PixelOp, Resampling, Resize, Size
from recordzoo.transforms.table import on_picture

Precision = Literal["exact", "fast"]
PRECISIONS = ("exact", "fast")


def render(frame: Frame, actions: Sequence[Action], precision: Precision) -> torch.Tensor:
    """Apply the actions to an image.

    Args:
        frame: The image. If it is cropped first, only that part is decoded.
        actions: The actions, in this order, except `Erase`: see `erase_`.
        precision: "exact": torchvision's own results. "fast": an image that shrinks to half (a quarter, an eighth) or
            less is decoded at that size, and without numba torch resamples instead of Pillow.

    Returns:
        uint8 [3, H, W], of any memory layout; a copy, never the frame's own memory.
    """
    image, done = _decoded(frame, actions, precision)
    for action in actions[done:]:
        if isinstance(action, Crop):
            image = _cropped(image, action)
        elif isinstance(action, Flip):
            image = image.flip(-1)
        elif isinstance(action, PixelOp):
            image = _tensor(np.array(on_picture(action, to_picture(image))))
        elif isinstance(action, Resize):
            image = _resized(image, action, precision)
    return image


def erase_(values: torch.Tensor, actions: Sequence[Action]) -> torch.Tensor:
    """Erase boxes of a finished image, [3, H, W], in place, and return it."""
    for action in actions:
        if isinstance(action, Erase):
            box = values[:, action.top : action.top + action.height, action.left : action.left + action.width]
            box.copy_(torch.tensor(action.values)[:, None, None])
    return values


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
    padded = image.new_zeros((3, crop.height, crop.width))
    y, x = max(-top, 0), max(-left, 0)
    padded[:, y : y + inside.shape[1], x : x + inside.shape[2]] = inside
    return padded


def _resized(image: torch.Tensor, action: Resize, precision: Precision) -> torch.Tensor:
    resampling = action.resampling
    if image.shape[1:] == (action.height, action.width):
        return image
    found = _compiled(precision) if min(action.height, action.width, *image.shape[1:]) > 0 else None
    if found is not None and resamples(found, action, precision):
        pixels, like = image.permute(1, 2, 0).numpy(), whose(found, resampling)
        return _tensor(found.resize(pixels, action.height, action.width, resampling.mode, like))
    if precision == "fast" and resampling.mode:
        return resample(image, action.height, action.width, resampling.mode)
    if resampling.arithmetic != "Pillow":
        resized: torch.Tensor = resampling.resize(image, [action.height, action.width])
        return resized
    picture = to_picture(image)
    return _tensor(np.array(resampling.resize(picture, [action.height, action.width])))


def _compiled(precision: Precision) -> Compiled | None:
    return compiled_code() if precision == "fast" else compiled_now()


def resample(image: torch.Tensor, height: int, width: int, mode: str) -> torch.Tensor:
    """Resize uint8 [3, H, W] with Pillow's antialiased filter in 16-bit weights: results differ by a step or so.

    At 1.3 times the target size, torch takes 0.2 ms, OpenCV's area average 0.45 ms, Pillow 0.63 ms.
    """
    _, rows, columns = image.shape
    # A batch of one, whose strides say "channels last": that layout has vectorised code for uint8, on the CPU.
    whole = image.as_strided((1, 3, rows, columns), (rows * image.stride(1), *image.stride()))
    if image.device.type != "cpu":
        whole = whole.float()
    resized = torch.nn.functional.interpolate(whole, (height, width), mode=mode, antialias=True)[0]
    return resized if resized.dtype is torch.uint8 else resized.round_().clamp_(0, 255).to(torch.uint8)


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
