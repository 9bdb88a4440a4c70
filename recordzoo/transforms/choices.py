"""Transforms that choose other transforms: `RandomApply`, `RandomChoice` and `RandomOrder` from their own list.

`TrivialAugmentWide`, `RandAugment` and `AutoAugment` choose from torchvision's tables. None changes the size.
"""

import functools
import itertools
import math
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode
from typing_extensions import override

from recordzoo.transforms.plan import UnknownTransformError, is_v2
from recordzoo.transforms.steps import Action, Draws, PixelOp, Size, Step
from recordzoo.transforms.values import of_pictures


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


class Magnitudes(Protocol):
    """The operations of an automatic augmentation."""

    def __call__(self, size: Size) -> Mapping[str, tuple[Sequence[float], bool]]:
        """Return, by torchvision's name, the magnitudes of each operation (maybe none) and whether they get a sign."""


@dataclass(frozen=True)
class AutomaticStep(Step):
    """`TrivialAugmentWide` and `RandAugment`: operations drawn from all of them.

    Attributes:
        magnitudes: The operations.
        num_operations: Number of operations drawn.
        magnitude: The index of each operation's magnitude; None: drawn at random.
        fill: The color outside of a moved image.
    """

    magnitudes: Magnitudes
    num_operations: int
    magnitude: int | None
    fill: Any

    keeps_size = True
    moves = None

    @property
    def num_draws(self) -> int:  # type: ignore[override]  # it depends on the transform
        """Draws for operation, magnitude and sign of each."""
        return 3 * self.num_operations

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        found: list[Action] = []
        space = self.magnitudes(size)
        names = list(space)
        for start in range(0, self.num_draws, 3):
            name = names[int(draws[start] * len(names))]
            place = self.magnitude if self.magnitude is not None else int(draws[start + 1] * len(space[name][0]))
            found += named_changes(name, _signed(space[name], place, draws[start + 2]), self.fill)
        return found


@dataclass(frozen=True)
class PolicyStep(Step):
    """`AutoAugment`: one of many pairs of operations.

    Attributes:
        magnitudes: The operations.
        policies: Pairs of (name, probability, index of the magnitude or None).
        fill: The color outside of a moved image.
    """

    magnitudes: Magnitudes
    policies: Sequence[Sequence[tuple[str, float, int | None]]]
    fill: Any

    num_draws = 5
    keeps_size = True
    moves = None

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        found: list[Action] = []
        space = self.magnitudes(size)
        pair = self.policies[int(draws[0] * len(self.policies))]
        for number, (name, probability, place) in enumerate(pair):
            if draws[1 + number] > probability:
                continue
            found += named_changes(name, _signed(space[name], place, draws[3 + number]), self.fill)
        return found


def _signed(row: tuple[Sequence[float], bool], place: int | None, draw: float) -> float:
    """Return a magnitude of an operation's row, with a random sign if it gets one; 0 if it has none."""
    values, is_signed = row
    magnitude = values[place] if place is not None and values else 0.0
    return -magnitude if is_signed and draw < 0.5 else magnitude


def named_changes(name: str, magnitude: float, fill: Any) -> list[PixelOp]:
    """Return the changes made by an operation of torchvision's automatic augmentations.

    Args:
        magnitude: The signed magnitude; for "Solarize" a threshold of 0 to 255.
    """
    angle = math.degrees(math.atan(magnitude))
    match name:
        case "Identity":
            return []
        case "ShearX":
            return [PixelOp("affine", ([0, 0], [angle, 0.0], False, fill))]
        case "ShearY":
            return [PixelOp("affine", ([0, 0], [0.0, angle], False, fill))]
        case "TranslateX":
            return [PixelOp("affine", ([int(magnitude), 0], [0.0, 0.0], True, fill))]
        case "TranslateY":
            return [PixelOp("affine", ([0, int(magnitude)], [0.0, 0.0], True, fill))]
        case "Rotate":
            return [PixelOp("rotate", (magnitude, fill))]
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
    return AutomaticStep(_magnitudes(transform, transform.num_magnitude_bins), 1, None, _fill(transform))


@of_pictures
def rand_augment(transform: Any) -> Step:
    """Read `RandAugment`."""
    magnitudes = _magnitudes(transform, transform.num_magnitude_bins)
    return AutomaticStep(magnitudes, transform.num_ops, transform.magnitude, _fill(transform))


@of_pictures
def auto_augment(transform: Any) -> Step:
    """Read `AutoAugment`."""
    policies = getattr(transform, "policies", None) or getattr(transform, "_policies", None)
    if policies is None:
        raise UnknownTransformError("this torchvision keeps its policies elsewhere")
    return PolicyStep(_magnitudes(transform, 10), policies, _fill(transform))


_NEAREST = (InterpolationMode.NEAREST, InterpolationMode.NEAREST.value, Image.Resampling.NEAREST)


def _fill(transform: Any) -> Any:
    """Return the color outside of moved images; check that images are moved by whole pixels."""
    if transform.interpolation not in _NEAREST:
        raise UnknownTransformError(f"its interpolation is {transform.interpolation}; only the nearest pixel is known")
    fill = transform.fill
    if isinstance(fill, dict):
        raise UnknownTransformError("its fill depends on the type of the image")
    if isinstance(fill, Sequence) and len(fill) not in (1, 3):
        raise UnknownTransformError("its fill has not one number for each of three channels")
    return fill


def _magnitudes(transform: Any, num_bins: int) -> Magnitudes:
    """Return torchvision's own table of operations and magnitudes, for a size."""
    solarize = 255.0 if is_v2(transform) else 1.0  # v2 has thresholds from 0 to 1

    @functools.lru_cache(64)
    def found(size: Size) -> Mapping[str, tuple[Sequence[float], bool]]:
        table: dict[str, tuple[Sequence[float], bool]] = {}
        for name, (values, is_signed) in _space(transform, num_bins, size).items():
            numbers = [] if values is None or values.ndim == 0 else [float(value) for value in values]
            table[name] = ([solarize * value for value in numbers] if name == "Solarize" else numbers), bool(is_signed)
        return table

    try:
        for name, (magnitudes, _) in found((224, 224)).items():
            named_changes(name, magnitudes[0] if magnitudes else 0.0, None)
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
