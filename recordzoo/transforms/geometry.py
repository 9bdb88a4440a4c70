"""Transforms that move pixels: crops, resizes, flips. Each step stands beside the function that reads its transform."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from PIL import Image
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as v1_functional
from torchvision.transforms.v2 import functional as v2_functional
from typing_extensions import override

from recordzoo.transforms.plan import Plan, UnknownTransformError, is_v2, with_step
from recordzoo.transforms.steps import Action, Arithmetic, Crop, Draws, Flip, Resampling, Resize, Size, Step, between

ATTEMPTS = 10
"""torchvision's attempts to find a box of a random area and aspect ratio."""


@dataclass(frozen=True)
class RandomResizedCropStep(Step):
    """`RandomResizedCrop`.

    Attributes:
        resamplings: The resampling methods; timm draws one for each image.
    """

    size: Size
    scale: tuple[float, float]
    ratio: tuple[float, float]
    resamplings: tuple[Resampling, ...]

    moves = True

    @cached_property
    def num_draws(self) -> int:  # type: ignore[override]  # computed once
        """The resampling if there are several, area and aspect ratio of each attempt, top and left."""
        return (len(self.resamplings) > 1) + 2 * ATTEMPTS + 2

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        if len(self._resizes) == 1:
            return [self._crop(size, draws), self._resizes[0]]
        return [self._crop(size, draws[1:]), self._resizes[int(draws[0] * len(self._resizes))]]

    @override
    def output(self, size: Size | None) -> Size | None:
        return self.size

    @cached_property
    def _resizes(self) -> list[Resize]:
        return [Resize(*self.size, each) for each in self.resamplings]

    @cached_property
    def _log_ratio(self) -> tuple[float, float]:
        return math.log(self.ratio[0]), math.log(self.ratio[1])

    def _crop(self, size: Size, draws: Draws) -> Crop:
        height, width = size
        area = height * width
        for number in range(0, 2 * ATTEMPTS, 2):
            wanted = area * between(*self.scale, draws[number])
            aspect = math.exp(between(*self._log_ratio, draws[number + 1]))
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
class ResizeStep(Step):
    """`Resize`, to a height and width or by the shorter side."""

    size: tuple[int, ...]
    max_size: int | None
    resampling: Resampling

    moves = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        return [Resize(*self._resized(size), self.resampling)]

    @override
    def output(self, size: Size | None) -> Size | None:
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
class CenterCropStep(Step):
    """`CenterCrop`; an image that is too small gets black borders."""

    size: Size

    moves = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        (top, height), (left, width) = map(_centered, size, self.size)
        return [Crop(top, left, height, width)]

    @override
    def output(self, size: Size | None) -> Size | None:
        return self.size


@dataclass(frozen=True)
class RandomCropStep(Step):
    """`RandomCrop` with black padding.

    Attributes:
        size: Height and width.
        padding: Left, top, right, bottom.
    """

    size: Size
    padding: tuple[int, int, int, int]

    num_draws = 2
    moves = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        left, top, right, bottom = self.padding
        free = (size[0] + top + bottom - self.size[0], size[1] + left + right - self.size[1])
        if min(free) < 0:
            padded = size[0] + top + bottom, size[1] + left + right
            raise ValueError(f"Required crop size {self.size} is larger than input image size {padded}")
        return [Crop(int(draws[0] * (free[0] + 1)) - top, int(draws[1] * (free[1] + 1)) - left, *self.size)]

    @override
    def output(self, size: Size | None) -> Size | None:
        return self.size


@dataclass(frozen=True)
class RandomFlipStep(Step):
    """`RandomHorizontalFlip`."""

    probability: float

    num_draws = 1
    keeps_size = True
    moves = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        return [Flip()] if draws[0] < self.probability else []


def _centered(have: int, want: int) -> tuple[int, int]:
    """Return start and length of a centered crop, rounded as in torchvision."""
    if want > have:
        return -((want - have) // 2), want
    return round((have - want) / 2.0), want


def random_resized_crop(plan: Plan, transform: Any) -> Plan:
    """Read `RandomResizedCrop`."""
    scale, ratio = tuple(map(float, transform.scale)), tuple(map(float, transform.ratio))
    if len(scale) != 2 or len(ratio) != 2 or min(ratio) <= 0 or scale[0] > scale[1] or ratio[0] > ratio[1]:
        raise UnknownTransformError("its scale or its ratio is no range")
    modes = transform.interpolation if isinstance(transform.interpolation, tuple) else (transform.interpolation,)
    resamplings = tuple(_resampling(plan, transform, mode) for mode in modes)
    return _before_float(plan, RandomResizedCropStep(_pair(transform.size), scale, ratio, resamplings))


def resize(plan: Plan, transform: Any) -> Plan:
    """Read `Resize`."""
    size = transform.size
    size = (size,) if isinstance(size, int) else size
    if not isinstance(size, Sequence) or not all(isinstance(side, int) and side > 0 for side in size):
        raise UnknownTransformError("it has no size of whole numbers")
    if transform.max_size is not None and (len(size) == 2 or transform.max_size <= size[0]):
        raise UnknownTransformError("size and max_size contradict each other")  # torchvision raises when called
    resampling = _resampling(plan, transform, transform.interpolation)
    return _before_float(plan, ResizeStep(tuple(size), transform.max_size, resampling))


def center_crop(plan: Plan, transform: Any) -> Plan:
    """Read `CenterCrop`."""
    return _before_float(plan, CenterCropStep(_pair(transform.size)))


def random_crop(plan: Plan, transform: Any) -> Plan:
    """Read `RandomCrop`."""
    if transform.pad_if_needed:
        raise UnknownTransformError("it pads as needed")
    padding = transform.padding
    if padding and (transform.padding_mode != "constant" or transform.fill != 0):
        raise UnknownTransformError("it pads with something else than black")
    return _before_float(plan, RandomCropStep(_pair(transform.size), _padding(padding, type(transform))))


def flip(plan: Plan, transform: Any) -> Plan:
    """Read `RandomHorizontalFlip`; it only moves values, so float images are supported too."""
    return with_step(plan, RandomFlipStep(float(transform.p)))


def _before_float(plan: Plan, step: Step) -> Plan:
    if plan.pointwise.operations is not None:
        raise UnknownTransformError("the image is float by then; before ToTensor or ToDtype it would be known")
    return with_step(plan, step)


def _pair(size: Any) -> Size:
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return int(height), int(width)


def _padding(padding: Any, kind: type) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom; v2 keeps left, right, top, bottom."""
    if not padding:
        return 0, 0, 0, 0
    if kind is v2.RandomCrop:
        left, right, top, bottom = padding
        return left, top, right, bottom
    sides = (padding,) if isinstance(padding, int) else tuple(padding)
    left, top = sides[0], sides[1] if len(sides) > 1 else sides[0]
    return (left, top, sides[2], sides[3]) if len(sides) == 4 else (left, top, left, top)


def _resampling(plan: Plan, transform: Any, interpolation: Any) -> Resampling:
    """Read a transform's resampling; keep torchvision's function of the same version: v1 and v2 differ."""
    functional = v2_functional if is_v2(transform) else v1_functional
    antialias = transform.antialias

    def resized(image: Any, size: list[int]) -> Any:
        return functional.resize(image, size, interpolation=interpolation, antialias=antialias)

    # For PIL images, v2 warns that it antialiases anyway, and v1 rejects names of modes: both must be called.
    is_antialiased = antialias is True if plan.is_tensor else antialias is not False
    is_known = is_antialiased and (plan.is_tensor or is_v2(transform) or type(interpolation) is not str)
    arithmetic: Arithmetic = "Pillow" if not plan.is_tensor else "torch" if is_v2(transform) else "float"
    return Resampling(resized, _FILTERS.get(interpolation, "") if is_known else "", arithmetic)


_FILTERS: dict[Any, str] = {
    name: mode.value
    for mode, number in (
        (InterpolationMode.BILINEAR, Image.Resampling.BILINEAR),
        (InterpolationMode.BICUBIC, Image.Resampling.BICUBIC),
    )
    for name in (mode, mode.value, number)  # v2 keeps the form that was given
}
