"""Read torchvision's transforms: those that move pixels, those that change colors, and those that change values.

Each step stands before the functions that read its transform.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as v1_functional
from torchvision.transforms.v2 import functional as v2_functional
from typing_extensions import override

from recordzoo.loader.plan import (
    Action,
    Arithmetic,
    Crop,
    Draws,
    Erase,
    Flip,
    Operation,
    PixelOp,
    Plan,
    Resampling,
    Resize,
    Size,
    Step,
    StepReader,
    UnknownTransformError,
    between,
    is_v2,
    with_step,
)

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

    def free(self, size: Size) -> tuple[int, int]:
        """Return how far the crop can move down and right in an image of a size.

        Raises:
            ValueError: The image is too small, in torchvision's words.
        """
        left, top, right, bottom = self.padding
        padded = size[0] + top + bottom, size[1] + left + right
        if padded[0] < self.size[0] or padded[1] < self.size[1]:
            raise ValueError(f"Required crop size {self.size} is larger than input image size {padded}")
        return padded[0] - self.size[0], padded[1] - self.size[1]

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        down, across = self.free(size)
        left, top, _, _ = self.padding
        return [Crop(int(draws[0] * (down + 1)) - top, int(draws[1] * (across + 1)) - left, *self.size)]

    @override
    def output(self, size: Size | None) -> Size | None:
        return self.size


@dataclass(frozen=True)
class PadStep(Step):
    """`Pad` with black.

    Attributes:
        padding: Left, top, right, bottom.
    """

    padding: tuple[int, int, int, int]

    moves = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        left, top, right, bottom = self.padding
        return [Crop(-top, -left, size[0] + top + bottom, size[1] + left + right)]

    @override
    def output(self, size: Size | None) -> Size | None:
        left, top, right, bottom = self.padding
        return size and (size[0] + top + bottom, size[1] + left + right)


@dataclass(frozen=True)
class RandomFlipStep(Step):
    """`RandomHorizontalFlip` or `RandomVerticalFlip`."""

    probability: float
    is_vertical: bool = False

    num_draws = 1
    keeps_size = True
    moves = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        return [Flip(self.is_vertical)] if draws[0] < self.probability else []


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


def vertical_flip(plan: Plan, transform: Any) -> Plan:
    """Read `RandomVerticalFlip`, as `flip`."""
    return with_step(plan, RandomFlipStep(float(transform.p), is_vertical=True))


def pad(plan: Plan, transform: Any) -> Plan:
    """Read `Pad`."""
    if transform.padding_mode != "constant" or transform.fill != 0:
        raise UnknownTransformError("it pads with something else than black")
    return _before_float(plan, PadStep(_padding(transform.padding, type(transform))))


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


@dataclass(frozen=True)
class ChangeStep(Step):
    """A change with a probability: `RandomGrayscale`, `RandomInvert`, ..."""

    probability: float
    change: PixelOp

    num_draws = 1
    keeps_size = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        return [self.change] if draws[0] < self.probability else []


@dataclass(frozen=True)
class ColorJitterStep(Step):
    """`ColorJitter`: brightness, contrast, saturation and hue in a random order.

    Attributes:
        ranges: The range of each factor, by the operation's name; None: the operation is skipped.
    """

    ranges: Mapping[str, tuple[float, float] | None]

    num_draws = 5  # a factor per operation, then their order
    keeps_size = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        found: list[Action] = []
        names = list(self.ranges)
        place = int(draws[-1] * math.factorial(len(names)))
        for left in range(len(names), 0, -1):
            place, chosen = divmod(place, left)
            name = names.pop(chosen)
            if (limits := self.ranges[name]) is not None:
                found.append(PixelOp(name, (between(*limits, draws[left - 1]),)))
        return found


@dataclass(frozen=True)
class RandomAffineStep(Step):
    """`RandomAffine`, and `RandomRotation` as one that only turns; by the nearest pixel.

    Attributes:
        degrees, translate, scale, shear, center: As of the transform; shear is a range for x and one for y.
        fill: The color outside of the moved image.
        turns: Whether Pillow's rotation gives the bytes.
    """

    degrees: tuple[float, float]
    translate: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (1.0, 1.0)
    shear: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    center: tuple[float, float] | None = None
    fill: Any = None
    turns: bool = False

    num_draws = 6  # angle, translations, scale, shears
    keeps_size = True
    moves = None

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        angle = between(*self.degrees, draws[0])
        if self.turns:
            return [PixelOp("rotate", (angle, self.fill, self.center))]
        across, down = self.translate[0] * size[1], self.translate[1] * size[0]
        translate = [round(between(-across, across, draws[1])), round(between(-down, down, draws[2]))]
        shear = [between(*self.shear[:2], draws[4]), between(*self.shear[2:], draws[5])]
        return [PixelOp("affine", (angle, translate, between(*self.scale, draws[3]), shear, self.fill, self.center))]


@dataclass(frozen=True)
class BlurStep(Step):
    """`GaussianBlur`.

    Attributes:
        window: Width and height of the window, both odd.
        sigma: The range of sigma.
    """

    window: tuple[int, int]
    sigma: tuple[float, float]

    num_draws = 1
    keeps_size = True
    is_exact = False

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        sigma = between(*self.sigma, draws[0])
        return [PixelOp("blur", (*self.window, sigma, sigma))]


@dataclass(frozen=True)
class RandomErasingStep(Step):
    """`RandomErasing` with one value for each channel."""

    probability: float
    scale: tuple[float, float]
    ratio: tuple[float, float]
    values: tuple[float, float, float]

    num_draws = 3 + 2 * ATTEMPTS  # decision, top, left; then area and aspect ratio of each attempt
    keeps_size = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        if draws[0] >= self.probability:
            return []
        height, width = size
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for number in range(3, self.num_draws, 2):
            area = height * width * between(*self.scale, draws[number])
            aspect = math.exp(between(low, high, draws[number + 1]))
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if h < height and w < width:
                top, left = int(draws[1] * (height - h + 1)), int(draws[2] * (width - w + 1))
                return [Erase(top, left, h, w, self.values)]
        return []


def of_pictures(read: Callable[[Any], Step]) -> StepReader:
    """Restrict a reader to PIL images: torchvision computes other bytes for tensors."""

    def reader(plan: Plan, transform: Any) -> Plan:
        if plan.is_tensor:
            raise UnknownTransformError("the image is a tensor by then; before ToTensor or ToImage it would be known")
        return with_step(plan, read(transform))

    return reader


def sometimes(name: str, *attributes: str) -> StepReader:
    """Read a transform that applies one operation with probability `p`; `attributes` are the operation's arguments."""

    def read(transform: Any) -> Step:
        arguments = tuple(getattr(transform, attribute) for attribute in attributes)
        return ChangeStep(float(transform.p), PixelOp(name, arguments))

    return of_pictures(read)


@of_pictures
def jitter(transform: Any) -> Step:
    """Read `ColorJitter`."""
    ranges: dict[str, tuple[float, float] | None] = {}
    for name in ("brightness", "contrast", "saturation", "hue"):
        limits = getattr(transform, name)
        ranges[name] = None if limits is None else (float(limits[0]), float(limits[1]))
    return ColorJitterStep(ranges)


@of_pictures
def grayscale(transform: Any) -> Step:
    """Read `Grayscale`."""
    if transform.num_output_channels != 3:
        raise UnknownTransformError("it makes images of one channel")
    return ChangeStep(1.0, PixelOp("grayscale"))


@of_pictures
def blur(transform: Any) -> Step:
    """Read `GaussianBlur`."""
    refuse_other_dtype()  # in which torchvision computes the window
    if torch.is_autocast_enabled("cpu"):
        raise UnknownTransformError("torch.autocast computes it in another dtype")
    width, height = transform.kernel_size
    return BlurStep((int(width), int(height)), (float(transform.sigma[0]), float(transform.sigma[1])))


def erase(plan: Plan, transform: Any) -> Plan:
    """Read `RandomErasing`."""
    if plan.pointwise.operations is None:
        raise UnknownTransformError("the image is not float by then")
    value = transform.value
    if isinstance(value, str) or value is None:
        raise UnknownTransformError("it fills boxes with noise")
    values = [float(each) for each in ([value] if isinstance(value, int | float) else value)]
    if len(values) not in (1, 3):
        raise UnknownTransformError("its value has not one number for each of three channels")
    red, green, blue = values * 3 if len(values) == 1 else values
    scale, ratio = tuple(map(float, transform.scale)), tuple(map(float, transform.ratio))
    step = RandomErasingStep(float(transform.p), (scale[0], scale[1]), (ratio[0], ratio[1]), (red, green, blue))
    return with_step(plan, step, erases=True)


def to_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `ToTensor`."""
    refuse_other_dtype()
    return replace(pil_to_tensor(plan, transform), pointwise=plan.pointwise.then(("div", 255.0)))


def refuse_other_dtype() -> None:
    """Refuse a transform whose result depends on torch's default dtype, if that is another one than usual."""
    if torch.get_default_dtype() is not torch.float32:
        raise UnknownTransformError("torch's default dtype is not float32")


def pil_to_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `PILToTensor`."""
    if plan.is_tensor:
        raise UnknownTransformError("the image is a tensor already")
    return replace(plan, is_tensor=True)


def to_image(plan: Plan, transform: Any) -> Plan:
    """Read `ToImage`."""
    if isinstance(tv_tensors.Image(torch.empty(1, 1, 1)) + 0, tv_tensors.Image):
        raise UnknownTransformError('torchvision.tv_tensors.set_return_type is "TVTensor"')
    return replace(plan, is_tensor=True, is_image=True)


def to_pure_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `ToPureTensor`."""
    return replace(plan, is_image=False)


def convert_dtype(plan: Plan, transform: Any) -> Plan:
    """Read `ConvertImageDtype`: v1 divides by 255, v2 multiplies by 1 / 255."""
    return _to_float(plan, transform.dtype, ("mul", 1.0 / 255) if is_v2(transform) else ("div", 255.0))


def to_dtype(plan: Plan, transform: Any) -> Plan:
    """Read `ToDtype`."""
    scaled: tuple[Operation, ...] = (("mul", 1.0 / 255),) if transform.scale else ()
    return _to_float(plan, transform.dtype, *scaled)


def normalize(plan: Plan, transform: Any) -> Plan:
    """Read `Normalize`."""
    if plan.pointwise.operations is None:
        raise UnknownTransformError("the image is not float by then")
    _refuse_erased(plan)
    mean, std = _channels(transform.mean), _channels(transform.std)
    if not all(map(np.float32, std)):
        raise UnknownTransformError("its std has a zero")
    return replace(plan, pointwise=plan.pointwise.then(("sub", mean), ("div", std)))


def _to_float(plan: Plan, dtype: object, *operations: Operation) -> Plan:
    if not plan.is_tensor:
        raise UnknownTransformError("the image is no tensor by then")
    if dtype is plan.pointwise.dtype:
        return plan
    _refuse_erased(plan)
    if dtype is not torch.float32:
        raise UnknownTransformError(f"its dtype is {dtype}; float32 and uint8 are known")
    return replace(plan, pointwise=plan.pointwise.then(*operations))


def _refuse_erased(plan: Plan) -> None:
    if plan.erases:
        raise UnknownTransformError("boxes of the image are erased by then, and would be changed, too")


def _channels(values: Any) -> tuple[float, ...]:
    if isinstance(values, torch.Tensor) and values.requires_grad:
        raise UnknownTransformError("a gradient is wanted")
    channels = tuple(float(value) for value in ([values] if isinstance(values, float | int) else values))
    if len(channels) not in (1, 3) or not all(map(math.isfinite, channels)):
        raise UnknownTransformError("it has not one number for each of three channels")
    return channels * 3 if len(channels) == 1 else channels
