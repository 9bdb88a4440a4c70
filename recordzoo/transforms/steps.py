"""What a geometric transform does to one image: steps that torchvision's transforms are read into.

A step is told an image's size and some numbers between 0 and 1, and answers with actions: a crop at these pixels, a
resize to that size, a flip. They are what torchvision's own `get_params` would decide, from the loader's own numbers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import torch

from recordzoo.transforms.changes import Change, Size

Draws = Sequence[float]
"""Numbers from 0 to 1, 1 excluded."""


Arithmetic = Literal["Pillow", "torch", "float"]
"""How torchvision resamples bytes: PIL images with Pillow's integers, tensors with torch's (v2) or as float32 (v1)."""


@dataclass(slots=True)  # not frozen: twice as fast to create, and there are many
class Crop:
    """Crop a box. Pixels outside the image are black."""

    top: int
    left: int
    height: int
    width: int

    def is_inside(self, size: Size) -> bool:
        """Whether the box lies within an image of this height and width."""
        return min(self.top, self.left) >= 0 and self.top + self.height <= size[0] and self.left + self.width <= size[1]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How torchvision was told to resample.

    Attributes:
        resize: torchvision's function: (PIL image or tensor, [height, width]) -> the same resized.
        mode: "bilinear" or "bicubic" if the antialiased filters of that name are meant; otherwise "".
        arithmetic: Whose bytes come out; "Pillow" where the image is a PIL image at this point.
    """

    resize: Callable[[Any, list[int]], Any]  # Any: a PIL image or a tensor, whichever is given
    mode: str
    arithmetic: Arithmetic


@dataclass(frozen=True, slots=True)
class Resize:
    """Resample to a size."""

    height: int
    width: int
    resampling: Resampling


@dataclass(frozen=True, slots=True)
class Flip:
    """Mirror left and right."""


@dataclass(slots=True)  # as above
class Erase:
    """Set a box of the finished image to one value for each channel."""

    top: int
    left: int
    height: int
    width: int
    values: tuple[float, float, float]


Geometry = Crop | Resize | Flip
"""What moves pixels."""

Action = Geometry | Change | Erase


class Step(Protocol):
    """A geometric transform of an image.

    Attributes:
        num_draws: How many numbers it needs.
    """

    @property
    def num_draws(self) -> int:
        """How many random numbers it needs."""

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Decide what happens to an image of a size."""

    def output(self, size: Size | None) -> Size | None:
        """Return the size that comes out; None if it differs between images."""


@dataclass(frozen=True)
class RandomResizedCropStep:
    """`RandomResizedCrop`.

    Attributes:
        resamplings: How to resample; timm draws one of several for each image.
    """

    size: Size
    scale: tuple[float, float]
    ratio: tuple[float, float]
    resamplings: tuple[Resampling, ...]

    _ATTEMPTS = 10  # torchvision's

    @cached_property
    def num_draws(self) -> int:
        """Which resampling if there are several, area and aspect ratio of each attempt, then where."""
        return (len(self.resamplings) > 1) + 2 * self._ATTEMPTS + 2

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Crop a random part, resize it."""
        if len(self._resizes) == 1:
            return [self._crop(size, draws), self._resizes[0]]
        return [self._crop(size, draws[1:]), self._resizes[int(draws[0] * len(self._resizes))]]

    @cached_property
    def _resizes(self) -> list[Resize]:
        return [Resize(*self.size, each) for each in self.resamplings]

    @cached_property
    def _log_ratio(self) -> tuple[float, float]:
        return math.log(self.ratio[0]), math.log(self.ratio[1])

    def output(self, size: Size | None) -> Size | None:
        """Always the same."""
        return self.size

    def _crop(self, size: Size, draws: Draws) -> Crop:
        height, width = size
        area = height * width
        for number in range(0, 2 * self._ATTEMPTS, 2):
            wanted = area * _between(*self.scale, draws[number])
            aspect = math.exp(_between(*self._log_ratio, draws[number + 1]))
            w, h = round(math.sqrt(wanted * aspect)), round(math.sqrt(wanted / aspect))
            if 0 < w <= width and 0 < h <= height:
                return Crop(int(draws[-2] * (height - h + 1)), int(draws[-1] * (width - w + 1)), h, w)
        return self._central(height, width)

    def _central(self, height: int, width: int) -> Crop:
        h, w = height, width
        if width / height < min(self.ratio):
            h = round(width / min(self.ratio))
        elif width / height > max(self.ratio):
            w = round(height * max(self.ratio))
        return Crop((height - h) // 2, (width - w) // 2, h, w)


@dataclass(frozen=True)
class ResizeStep:
    """`Resize`, to a height and width or by the shorter side."""

    size: tuple[int, ...]
    max_size: int | None
    resampling: Resampling

    num_draws = 0

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Resize to what torchvision computes."""
        return [Resize(*self._resized(size), self.resampling)]

    def output(self, size: Size | None) -> Size | None:
        """Known if the size is, or was."""
        return (self.size[0], self.size[1]) if len(self.size) == 2 else size and self._resized(size)

    def _resized(self, size: Size) -> Size:
        if len(self.size) == 2:
            return self.size[0], self.size[1]
        height, width = size
        short, long = sorted(size)
        new_short, new_long = self.size[0], int(self.size[0] * long / short)
        if self.max_size is not None and new_long > self.max_size:
            new_short, new_long = int(self.max_size * new_short / new_long), self.max_size
        return (new_long, new_short) if width <= height else (new_short, new_long)


@dataclass(frozen=True)
class CenterCropStep:
    """`CenterCrop`; an image that is too small gets black borders."""

    size: Size

    num_draws = 0

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Crop the middle."""
        (top, height), (left, width) = map(_middle, size, self.size)
        return [Crop(top, left, height, width)]

    def output(self, size: Size | None) -> Size | None:
        """Always the same."""
        return self.size


@dataclass(frozen=True)
class RandomCropStep:
    """`RandomCrop` with black padding.

    Attributes:
        size: Height and width.
        padding: Left, top, right, bottom.
    """

    size: Size
    padding: tuple[int, int, int, int]

    num_draws = 2

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Crop anywhere in the padded image.

        Raises:
            ValueError: It is too small, in torchvision's words.
        """
        left, top, right, bottom = self.padding
        free = (size[0] + top + bottom - self.size[0], size[1] + left + right - self.size[1])
        if min(free) < 0:
            padded = size[0] + top + bottom, size[1] + left + right
            raise ValueError(f"Required crop size {self.size} is larger than input image size {padded}")
        return [Crop(int(draws[0] * (free[0] + 1)) - top, int(draws[1] * (free[1] + 1)) - left, *self.size)]

    def output(self, size: Size | None) -> Size | None:
        """Always the same."""
        return self.size


@dataclass(frozen=True)
class RandomFlipStep:
    """`RandomHorizontalFlip`."""

    probability: float

    num_draws = 1

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Flip or not."""
        return [Flip()] if draws[0] < self.probability else []

    def output(self, size: Size | None) -> Size | None:
        """The same."""
        return size


GEOMETRIC = (RandomResizedCropStep, ResizeStep, CenterCropStep, RandomCropStep, RandomFlipStep)
"""Steps whose actions are all `Geometry`."""


def decide(steps: Sequence[Step], size: Size, draws: Draws) -> list[Action]:
    """Return all that happens to an image of a size.

    Args:
        steps: The transforms.
        size: Height and width of the image.
        draws: As many numbers as they need together.
    """
    actions: list[Action] = []
    start = 0
    for step in steps:
        decided = step.actions(size, draws[start : start + step.num_draws])
        start += step.num_draws
        size = size_after(decided, size)
        actions += decided
    return actions


def size_after(actions: Sequence[Action], size: Size) -> Size:
    """Return the size of an image to which all of this happened."""
    for action in actions:
        if isinstance(action, Crop | Resize):
            size = action.height, action.width
    return size


def num_draws(steps: Sequence[Step]) -> int:
    """Return how many numbers steps need together."""
    return sum(step.num_draws for step in steps)


def resample(image: torch.Tensor, height: int, width: int, mode: str) -> torch.Tensor:
    """Resize uint8 [3, H, W] with Pillow's antialiased filter in 16-bit weights: results differ by a step or so.

    At 1.3 times the target size torch's takes 0.2 ms, OpenCV's area average 0.45 ms, Pillow's own 0.63 ms.
    """
    _, rows, columns = image.shape
    # A batch of one, whose strides say "channels last": that layout has vectorised code for uint8, on the CPU.
    whole = image.as_strided((1, 3, rows, columns), (rows * image.stride(1), *image.stride()))
    if image.device.type != "cpu":
        whole = whole.float()
    resized = torch.nn.functional.interpolate(whole, (height, width), mode=mode, antialias=True)[0]
    return resized if resized.dtype is torch.uint8 else resized.round_().clamp_(0, 255).to(torch.uint8)


def _between(low: float, high: float, draw: float) -> float:
    return low + (high - low) * draw


def _middle(have: int, want: int) -> tuple[int, int]:
    """Where a centered crop starts, as torchvision rounds it, and its length."""
    if want > have:
        return -((want - have) // 2), want
    return round((have - want) / 2.0), want
