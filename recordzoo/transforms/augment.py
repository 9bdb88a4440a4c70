"""What a random augmentation does to the colours of one image: steps that torchvision's transforms are read into.

Like the steps in `steps`, each is told some random numbers and answers with actions; here they are `Change`s.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from recordzoo.transforms.changes import Change, Size
from recordzoo.transforms.steps import Action, Draws, Erase, Step


@dataclass(frozen=True)
class ChangeStep:
    """A change with a probability: `RandomGrayscale`, `RandomInvert`, ..."""

    probability: float
    change: Change

    num_draws = 1

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Change the image or not."""
        return [self.change] if draws[0] < self.probability else []

    def output(self, size: Size | None) -> Size | None:
        """The same."""
        return size


@dataclass(frozen=True)
class ColorJitterStep:
    """`ColorJitter`.

    Attributes:
        ranges: From where to where each factor is drawn, by the name of the operation; None leaves it out.
    """

    ranges: Mapping[str, tuple[float, float] | None]

    @property
    def num_draws(self) -> int:
        """One for each operation and one for their order."""
        return len(self.ranges) + 1

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Change brightness, contrast, saturation and hue in a random order."""
        found: list[Action] = []
        names = list(self.ranges)
        place = int(draws[-1] * math.factorial(len(names)))
        for left in range(len(names), 0, -1):
            place, chosen = divmod(place, left)
            name = names.pop(chosen)
            if (between := self.ranges[name]) is not None:
                low, high = between
                found.append(Change(name, (low + (high - low) * draws[left - 1],)))
        return found

    def output(self, size: Size | None) -> Size | None:
        """The same."""
        return size


@dataclass(frozen=True)
class BlurStep:
    """`GaussianBlur`.

    Attributes:
        window: Width and height of the window, both odd.
        sigma: From where to where its sigma is drawn.
    """

    window: tuple[int, int]
    sigma: tuple[float, float]

    num_draws = 1

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Blur with a random sigma."""
        low, high = self.sigma
        sigma = low + (high - low) * draws[0]
        return [Change("blur", (*self.window, sigma, sigma))]

    def output(self, size: Size | None) -> Size | None:
        """The same."""
        return size


@dataclass(frozen=True)
class SomeOfStep:
    """`RandomApply`, `RandomChoice`, `RandomOrder`: some of several steps, none of which changes the size.

    Attributes:
        steps: The steps of each transform.
        choose: Of as many numbers as it needs: the numbers of the transforms that happen, in their order.
        num_choosing: How many numbers that are.
    """

    steps: Sequence[Sequence[Step]]
    choose: Callable[[Draws], Sequence[int]]
    num_choosing: int

    @functools.cached_property
    def num_draws(self) -> int:
        """Those of all steps, and for choosing."""
        return self.num_choosing + sum(step.num_draws for steps in self.steps for step in steps)

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Do what is chosen."""
        decided: list[list[Action]] = []
        start = self.num_choosing
        for steps in self.steps:
            found: list[Action] = []
            for step in steps:
                found += step.actions(size, draws[start : start + step.num_draws])
                start += step.num_draws
            decided.append(found)
        return [action for number in self.choose(draws[: self.num_choosing]) for action in decided[number]]

    def output(self, size: Size | None) -> Size | None:
        """The same."""
        return size


@dataclass(frozen=True)
class RandomErasingStep:
    """`RandomErasing` of values that are the same everywhere."""

    probability: float
    scale: tuple[float, float]
    ratio: tuple[float, float]
    values: tuple[float, float, float]

    _ATTEMPTS = 10  # torchvision's

    @property
    def num_draws(self) -> int:
        """Whether, where, then area and aspect ratio of each attempt."""
        return 3 + 2 * self._ATTEMPTS

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Erase a box or not."""
        if draws[0] >= self.probability:
            return []
        height, width = size
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for number in range(3, self.num_draws, 2):
            area = height * width * (self.scale[0] + (self.scale[1] - self.scale[0]) * draws[number])
            aspect = math.exp(low + (high - low) * draws[number + 1])
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if h < height and w < width:
                top, left = int(draws[1] * (height - h + 1)), int(draws[2] * (width - w + 1))
                return [Erase(top, left, h, w, self.values)]
        return []

    def output(self, size: Size | None) -> Size | None:
        """The same."""
        return size


class Magnitudes(Protocol):
    """The operations of an automatic augmentation."""

    def __call__(self, size: Size) -> Mapping[str, tuple[Sequence[float], bool]]:
        """Return, by torchvision's name, the magnitudes of each operation (maybe none) and whether they get a sign."""


@dataclass(frozen=True)
class AutomaticStep:
    """`TrivialAugmentWide` and `RandAugment`: operations drawn from all of them.

    Attributes:
        magnitudes: What there is to draw from.
        num_operations: How many are drawn.
        magnitude: The place of each one's magnitude; None: drawn too.
        fill: What is outside of a moved image.
    """

    magnitudes: Magnitudes
    num_operations: int
    magnitude: int | None
    fill: Any  # None, a number, or one for each channel

    @property
    def num_draws(self) -> int:
        """Operation, magnitude and sign of each."""
        return 3 * self.num_operations

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Do the drawn operations."""
        found: list[Action] = []
        space = self.magnitudes(size)
        names = list(space)
        for start in range(0, self.num_draws, 3):
            name = names[int(draws[start] * len(names))]
            values, is_signed = space[name]
            magnitude = 0.0
            if values:
                place = self.magnitude if self.magnitude is not None else int(draws[start + 1] * len(values))
                magnitude = values[place]
            if is_signed and draws[start + 2] < 0.5:
                magnitude = -magnitude
            found += named_changes(name, magnitude, self.fill)
        return found

    def output(self, size: Size | None) -> Size | None:
        """The same."""
        return size


@dataclass(frozen=True)
class PolicyStep:
    """`AutoAugment`: one of many pairs of operations.

    Attributes:
        magnitudes: The operations.
        policies: Pairs of (name, probability, place of the magnitude or None).
        fill: What is outside of a moved image.
    """

    magnitudes: Magnitudes
    policies: Sequence[Sequence[tuple[str, float, int | None]]]
    fill: Any

    num_draws = 5

    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Do those of the drawn pair that happen."""
        found: list[Action] = []
        space = self.magnitudes(size)
        pair = self.policies[int(draws[0] * len(self.policies))]
        for number, (name, probability, place) in enumerate(pair):
            if draws[1 + number] > probability:
                continue
            values, is_signed = space[name]
            magnitude = values[place] if place is not None and values else 0.0
            if is_signed and draws[3 + number] < 0.5:
                magnitude = -magnitude
            found += named_changes(name, magnitude, self.fill)
        return found

    def output(self, size: Size | None) -> Size | None:
        """The same."""
        return size


def named_changes(name: str, magnitude: float, fill: Any) -> list[Change]:
    """Return what an operation of torchvision's automatic augmentations does.

    Args:
        name: torchvision's name.
        magnitude: With its sign. Of "Solarize" a threshold of 0 to 255.
        fill: What is outside of a moved image.

    Raises:
        KeyError: There is no such operation.
    """
    angle = math.degrees(math.atan(magnitude))
    match name:
        case "Identity":
            return []
        case "ShearX":
            return [Change("affine", ([0, 0], [angle, 0.0], False, fill))]
        case "ShearY":
            return [Change("affine", ([0, 0], [0.0, angle], False, fill))]
        case "TranslateX":
            return [Change("affine", ([int(magnitude), 0], [0.0, 0.0], True, fill))]
        case "TranslateY":
            return [Change("affine", ([0, int(magnitude)], [0.0, 0.0], True, fill))]
        case "Rotate":
            return [Change("rotate", (magnitude, fill))]
        case "Posterize":
            return [Change("posterize", (int(magnitude),))]
        case "Solarize":
            return [Change("solarize", (magnitude,))]
        case "AutoContrast" | "Equalize" | "Invert":
            return [Change(name.lower())]
    return [Change(_FACTORS[name], (1.0 + magnitude,))]


_FACTORS = {"Brightness": "brightness", "Color": "saturation", "Contrast": "contrast", "Sharpness": "sharpness"}
