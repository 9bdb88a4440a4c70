"""Transforms that change values of pixels: colors, conversion to a tensor, `Normalize`, `RandomErasing`.

Each step stands beside the function that reads its transform.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torchvision import tv_tensors
from typing_extensions import override

from recordzoo.transforms.geometry import ATTEMPTS
from recordzoo.transforms.plan import Operation, Plan, StepReader, UnknownTransformError, is_v2, with_step
from recordzoo.transforms.steps import Action, Draws, Erase, PixelOp, Size, Step, between


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
