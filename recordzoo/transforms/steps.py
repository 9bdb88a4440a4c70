"""Steps decide the actions on an image.

A step is read from a transform. From the size of an image and random numbers it returns actions: crop this box, resize
to that size, flip. Steps and actions touch no pixels: `pixels` executes actions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Size = tuple[int, int]
"""Height and width, in torchvision's order."""

Draws = Sequence[float]
"""Random numbers from 0 to 1, 1 excluded."""

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
    """The resampling method set in a torchvision transform.

    Attributes:
        resize: torchvision's function: (PIL image or tensor, [height, width]) -> the resized image.
        mode: "bilinear" or "bicubic" for the antialiased filter of that name; otherwise "".
        arithmetic: The library that defines the bytes; "Pillow" if the image is a PIL image at this point.
    """

    resize: Callable[[Any, list[int]], Any]  # Any: a PIL image or a tensor, as given
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


@dataclass(slots=True)  # as Crop
class PixelOp:
    """Change the pixels of an RGB image, and not its size.

    Attributes:
        name: The name of a pixel operation in `table.PIXEL_OPS`.
        arguments: The arguments of torchvision's function, after the image.
    """

    name: str
    arguments: tuple[Any, ...] = ()  # Any: numbers and lists of numbers


@dataclass(slots=True)  # as Crop
class Erase:
    """Set a box of the finished image to one value for each channel."""

    top: int
    left: int
    height: int
    width: int
    values: tuple[float, float, float]


Geometry = Crop | Resize | Flip
"""Actions that move pixels."""

Action = Geometry | PixelOp | Erase


class Step(ABC):
    """A transform of an image, read from torchvision's.

    Attributes:
        num_draws: Random numbers per image.
        keeps_size: Whether the size of every image stays the same.
        moves: Whether its actions are all `Geometry`: True, False, or None if that depends on the random numbers.
        is_exact: Whether compiled code gives the bytes of Pillow and torchvision.
    """

    num_draws: int = 0
    keeps_size: ClassVar[bool] = False
    moves: ClassVar[bool | None] = False
    is_exact: bool = True

    @abstractmethod
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        """Decide the actions on an image of a size.

        Raises:
            ValueError: The image is too small, in torchvision's words.
        """

    def output(self, size: Size | None) -> Size | None:
        """Return the size of the result; None if it differs between images."""
        return size


def decide(steps: Sequence[Step], size: Size, draws: Draws) -> list[Action]:
    """Return all actions on an image of a size."""
    actions: list[Action] = []
    for decided in decide_each(steps, size, draws):
        actions += decided
    return actions


def decide_each(steps: Sequence[Step], size: Size, draws: Draws) -> list[list[Action]]:
    """Return the actions on an image of a size, by step; the arguments are those of `decide`."""
    found: list[list[Action]] = []
    start = 0
    for step in steps:
        found.append(step.actions(size, draws[start : start + step.num_draws]))
        start += step.num_draws
        size = size_after(found[-1], size)
    return found


def size_after(actions: Sequence[Action], size: Size) -> Size:
    """Return the size of an image of `size` after these actions."""
    for action in actions:
        if isinstance(action, Crop | Resize):
            size = action.height, action.width
    return size


def num_draws(steps: Sequence[Step]) -> int:
    """Return the number of random numbers for all steps."""
    return sum(step.num_draws for step in steps)


def between(low: float, high: float, draw: float) -> float:
    """Interpolate linearly from `low` to `high`."""
    return low + (high - low) * draw
