"""Transforms that change colors of PIL images, and `RandomErasing`; each step beside its reader."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from recordzoo.transforms.geometry import ATTEMPTS
from recordzoo.transforms.plan import Plan, StepReader, UnknownTransformError, with_step
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
