"""Read torchvision's transforms that change pixels: colors, moves by fractions of pixels; and those that choose others.

Each step stands before the functions that read its transform. A change is a `PixelOp`.
"""

import functools
import itertools
import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torchvision import transforms as v1
from typing_extensions import override

from recordzoo.loader.geometry import fill_of, mode_of
from recordzoo.loader.plan import (
    Action,
    Draws,
    PixelOp,
    Size,
    Step,
    StepReader,
    UnknownTransformError,
    between,
    is_v2,
    of_pictures,
    refuse_other_dtype,
)


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
class DistortStep(Step):
    """`RandomPhotometricDistort`.

    Attributes:
        probability: That of each change.
        ranges: The range of each factor, by the operation's name, in torchvision's order.
    """

    probability: float
    ranges: Mapping[str, tuple[float, float]]

    num_draws = 11  # decision and factor of each, the place of contrast, decision and order of the channels
    keeps_size = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        found: list[PixelOp] = []
        for number, (name, limits) in enumerate(self.ranges.items()):
            if draws[2 * number] < self.probability:
                found.append(PixelOp(name, (between(*limits, draws[2 * number + 1]),)))
        if draws[8] >= 0.5:
            found.sort(key=lambda change: change.name == "contrast")
        if draws[9] < self.probability:
            found.append(PixelOp("permute", _ORDERS[int(draws[10] * len(_ORDERS))]))
        return [*found]


_ORDERS = list(itertools.permutations(range(3)))


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
def distort(transform: Any) -> Step:
    """Read `RandomPhotometricDistort`."""
    ranges = {}
    for name in ("brightness", "contrast", "saturation", "hue"):
        low, high = map(float, getattr(transform, name))
        ranges[name] = low, high
    return DistortStep(float(transform.p), ranges)


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


@dataclass(frozen=True)
class AffineStep(Step):
    """`RandomAffine`, and `RandomRotation` as one that only turns.

    Attributes:
        mode: The interpolation.
        fill: The color outside of the moved image.
        degrees, translate, scale, shear, center: As of the transform; shear is a range for x and one for y.
        turns: Whether Pillow's rotation gives the bytes.
    """

    mode: str
    fill: Any
    center: tuple[float, float] | None
    degrees: tuple[float, float]
    translate: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (1.0, 1.0)
    shear: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    turns: bool = False

    num_draws = 6  # angle, translations, scale, shears
    keeps_size = True
    moves = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        angle = between(*self.degrees, draws[0])
        if self.turns:
            return [PixelOp("rotate", (angle, self.mode, self.fill, self.center))]
        across, down = self.translate[0] * size[1], self.translate[1] * size[0]
        translate = [round(between(-across, across, draws[1])), round(between(-down, down, draws[2]))]
        shear = [between(*self.shear[:2], draws[4]), between(*self.shear[2:], draws[5])]
        scale = between(*self.scale, draws[3])
        return [PixelOp("affine", (angle, translate, scale, shear, self.mode, self.fill, self.center))]

    @override
    def params(self, actions: list[Action]) -> dict[str, Any]:
        (change,) = actions
        assert isinstance(change, PixelOp)
        return dict(
            zip(("angle", "translate", "scale", "shear")[: 1 if self.turns else 4], change.arguments, strict=False)
        )


@of_pictures
def random_affine(transform: Any) -> Step:
    """Read `RandomAffine`."""
    shear = list(transform.shear or ()) + [0.0] * 4
    return AffineStep(
        mode_of(transform),
        fill_of(transform),
        transform.center,
        _two(transform.degrees),
        _two(transform.translate or (0, 0)),
        _two(transform.scale or (1, 1)),
        (*_two(shear[:2]), *_two(shear[2:4])),
    )


@of_pictures
def random_rotation(transform: Any) -> Step:
    """Read `RandomRotation`."""
    if transform.expand:
        raise UnknownTransformError("it expands images, which then differ in size")
    fill, degrees = fill_of(transform), _two(transform.degrees)
    return AffineStep(mode_of(transform), fill, transform.center, degrees, turns=True)


def _two(values: Any) -> tuple[float, float]:
    first, second = map(float, values)
    return first, second


@dataclass(frozen=True)
class PerspectiveStep(Step):
    """`RandomPerspective`.

    Attributes:
        distortion: The largest move of a corner, as a share of half the image.
        mode, fill: As of `AffineStep`.
    """

    probability: float
    distortion: float
    mode: str
    fill: Any

    num_draws = 9  # the decision, then x and y of each corner
    keeps_size = True
    moves = True

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        if draws[0] >= self.probability:
            return []
        height, width = size
        count_x, count_y = (int(self.distortion * (side // 2)) + 1 for side in (width, height))
        far_x, far_y = width - count_x, height - count_y
        starts = ((0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1))
        ends = [
            (x + int(draws[1 + 2 * number] * count_x), y + int(draws[2 + 2 * number] * count_y))
            for number, (x, y) in enumerate(((0, 0), (far_x, 0), (far_x, far_y), (0, far_y)))
        ]
        return [PixelOp("perspective", (coefficients(starts, ends), self.mode, self.fill))]

    @override
    def params(self, actions: list[Action]) -> dict[str, Any] | None:
        for change in actions:
            assert isinstance(change, PixelOp)
            return {"coefficients": change.arguments[0]}
        return None


def coefficients(starts: Sequence[tuple[int, int]], ends: Sequence[tuple[int, int]]) -> list[float]:
    """Return the numbers of the perspective that moves four corners, solved by the function that torchvision uses."""
    equations: list[list[int]] = []
    for (x, y), (new_x, new_y) in zip(starts, ends, strict=True):
        equations.append([new_x, new_y, 1, 0, 0, 0, -x * new_x, -x * new_y])
        equations.append([0, 0, 0, new_x, new_y, 1, -y * new_x, -y * new_y])
    corners = torch.tensor(starts, dtype=torch.float64, device="cpu").view(8)
    found = torch.linalg.lstsq(torch.tensor(equations, dtype=torch.float64, device="cpu"), corners, driver="gels")
    numbers: list[float] = found.solution.to(torch.float32).tolist()
    return numbers


@of_pictures
def random_perspective(transform: Any) -> Step:
    """Read `RandomPerspective`."""
    return PerspectiveStep(
        float(transform.p), float(transform.distortion_scale), mode_of(transform), fill_of(transform)
    )


@dataclass(frozen=True)
class SomeOfStep(Step):
    """Some of several steps.

    Attributes:
        steps: The steps of each transform.
        choose: Random numbers -> the indices of the chosen transforms, in order.
        num_choosing: Random numbers needed by `choose`.
    """

    steps: Sequence[Sequence[Step]]
    choose: Callable[[Draws], Sequence[int]]
    num_choosing: int

    keeps_size = True
    moves = None

    @functools.cached_property
    def num_draws(self) -> int:  # type: ignore[override]  # computed once
        """The draws for choosing, then those of all steps."""
        return self.num_choosing + sum(step.num_draws for steps in self.steps for step in steps)

    @property
    def is_exact(self) -> bool:  # type: ignore[override]  # read-only
        """Whether all steps are exact."""
        return all(step.is_exact for steps in self.steps for step in steps)

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        decided: list[list[Action]] = []
        start = self.num_choosing
        for steps in self.steps:
            found: list[Action] = []
            for step in steps:
                found += step.actions(size, draws[start : start + step.num_draws])
                start += step.num_draws
            decided.append(found)
        return [action for number in self.choose(draws[: self.num_choosing]) for action in decided[number]]


Inner = Sequence[Sequence[Step]]
"""The steps of each transform in a container."""

ContainerReader = Callable[[Any, Inner], Step]


def random_apply(transform: Any, inner: Inner) -> Step:
    """Read `RandomApply`."""
    probability = float(transform.p)
    together = [step for steps in inner for step in steps]
    return SomeOfStep([together], lambda draws: [0] if draws[0] < probability else [], 1)


def random_choice(transform: Any, inner: Inner) -> Step:
    """Read `RandomChoice`."""
    shares = list(transform.p or [1] * len(inner))
    bounds = [bound / sum(shares) for bound in itertools.accumulate(shares)]
    return SomeOfStep(inner, lambda draws: [min(bisect(bounds, draws[0]), len(inner) - 1)], 1)


def random_order(transform: Any, inner: Inner) -> Step:
    """Read `RandomOrder`."""
    return SomeOfStep(inner, lambda draws: sorted(range(len(inner)), key=draws.__getitem__), len(inner))


Magnitudes = Callable[[Size], Mapping[str, tuple[Sequence[float], bool]]]
"""For a size, the operations of an automatic augmentation: magnitudes (maybe none), and whether they get a sign."""


Chosen = tuple[str, int | None, float]
"""The name of an operation, the index of its magnitude (None: it needs none), and the random number for its sign."""


@dataclass(frozen=True)
class AutomaticStep(Step):
    """An automatic augmentation: `TrivialAugmentWide`, `RandAugment` or `AutoAugment`.

    Attributes:
        magnitudes: The operations.
        choose: The operations for a size, and random numbers -> the chosen ones, in order.
        mode, fill: The interpolation of a moved image, and the color outside of it.
        num_draws: Random numbers needed by `choose`.
    """

    magnitudes: Magnitudes
    choose: Callable[[Mapping[str, tuple[Sequence[float], bool]], Draws], Iterable[Chosen]]
    mode: str
    fill: Any
    num_draws: int

    keeps_size = True
    moves = None

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        found: list[Action] = []
        space = self.magnitudes(size)
        for name, place, draw in self.choose(space, draws):
            found += named_changes(name, _signed(space[name], place, draw), self.mode, self.fill)
        return found


def _signed(row: tuple[Sequence[float], bool], place: int | None, draw: float) -> float:
    """Return a magnitude of an operation's row, with a random sign if it gets one; 0 if it has none."""
    values, is_signed = row
    magnitude = values[place] if place is not None and values else 0.0
    return -magnitude if is_signed and draw < 0.5 else magnitude


def named_changes(name: str, magnitude: float, mode: str, fill: Any) -> list[PixelOp]:
    """Return the changes made by an operation of torchvision's automatic augmentations.

    Args:
        magnitude: The signed magnitude; for "Solarize" a threshold of 0 to 255.
    """
    angle = math.degrees(math.atan(magnitude))
    match name:
        case "Identity":
            return []
        case "ShearX":
            return [PixelOp("affine", (0.0, [0, 0], 1.0, [angle, 0.0], mode, fill, [0, 0]))]
        case "ShearY":
            return [PixelOp("affine", (0.0, [0, 0], 1.0, [0.0, angle], mode, fill, [0, 0]))]
        case "TranslateX":
            return [PixelOp("affine", (0.0, [int(magnitude), 0], 1.0, [0.0, 0.0], mode, fill, None))]
        case "TranslateY":
            return [PixelOp("affine", (0.0, [0, int(magnitude)], 1.0, [0.0, 0.0], mode, fill, None))]
        case "Rotate":
            return [PixelOp("rotate", (magnitude, mode, fill, None))]
        case "Posterize":
            return [PixelOp("posterize", (int(magnitude),))]
        case "Solarize":
            return [PixelOp("solarize", (magnitude,))]
        case "AutoContrast" | "Equalize" | "Invert":
            return [PixelOp(name.lower())]
    return [PixelOp(_FACTORS[name], (1.0 + magnitude,))]


_FACTORS = {"Brightness": "brightness", "Color": "saturation", "Contrast": "contrast", "Sharpness": "sharpness"}


@of_pictures
def trivial_augment(transform: Any) -> Step:
    """Read `TrivialAugmentWide`."""
    return _some_of_all(transform, 1, None)


@of_pictures
def rand_augment(transform: Any) -> Step:
    """Read `RandAugment`."""
    return _some_of_all(transform, transform.num_ops, transform.magnitude)


def _some_of_all(transform: Any, count: int, magnitude: int | None) -> Step:
    """Draw operations from all of them, and the indices of their magnitudes unless one is given."""

    def choose(space: Mapping[str, tuple[Sequence[float], bool]], draws: Draws) -> Iterator[Chosen]:
        names = list(space)
        for start in range(0, 3 * count, 3):
            name = names[int(draws[start] * len(names))]
            place = magnitude if magnitude is not None else int(draws[start + 1] * len(space[name][0]))
            yield name, place, draws[start + 2]

    magnitudes = _magnitudes(transform, transform.num_magnitude_bins)
    return AutomaticStep(magnitudes, choose, mode_of(transform), fill_of(transform), 3 * count)


@of_pictures
def auto_augment(transform: Any) -> Step:
    """Read `AutoAugment`: one of many pairs of operations, each with a probability."""
    policies = getattr(transform, "policies", None) or getattr(transform, "_policies", None)
    if policies is None:
        raise UnknownTransformError("this torchvision keeps its policies elsewhere")

    def choose(space: Mapping[str, tuple[Sequence[float], bool]], draws: Draws) -> Iterator[Chosen]:
        for number, (name, probability, place) in enumerate(policies[int(draws[0] * len(policies))]):
            if draws[1 + number] <= probability:
                yield name, place, draws[3 + number]

    return AutomaticStep(_magnitudes(transform, 10), choose, mode_of(transform), fill_of(transform), 5)


def _magnitudes(transform: Any, num_bins: int) -> Magnitudes:
    """Return torchvision's own table of operations and magnitudes, for a size."""
    solarize = 255.0 if is_v2(transform) else 1.0  # v2 has thresholds from 0 to 1

    @functools.lru_cache(64)
    def found(size: Size) -> Mapping[str, tuple[Sequence[float], bool]]:
        table: dict[str, tuple[Sequence[float], bool]] = {}
        for name, (magnitudes, is_signed) in _space(transform, num_bins, size).items():
            numbers = [] if magnitudes is None or magnitudes.ndim == 0 else [float(value) for value in magnitudes]
            table[name] = ([solarize * value for value in numbers] if name == "Solarize" else numbers), bool(is_signed)
        return table

    try:
        for name, (magnitudes, _) in found((224, 224)).items():
            named_changes(name, magnitudes[0] if magnitudes else 0.0, "nearest", None)
    except (AttributeError, KeyError, TypeError, ValueError) as err:  # the table is private to torchvision
        raise UnknownTransformError("this torchvision has another table of its magnitudes") from err
    return found


def _space(transform: Any, num_bins: int, size: Size) -> dict[str, Any]:
    if is_v2(transform):
        space = transform._AUGMENTATION_SPACE
        return {name: (make(num_bins, *size), is_signed) for name, (make, is_signed) in space.items()}
    if isinstance(transform, v1.TrivialAugmentWide):
        trivial: dict[str, Any] = transform._augmentation_space(num_bins)
        return trivial
    sized: dict[str, Any] = transform._augmentation_space(num_bins, size)
    return sized
