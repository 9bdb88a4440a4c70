"""What a loader does of a dataset's transforms."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torchvision.transforms import v2

from recordzoo.transforms.pointwise import Pointwise
from recordzoo.transforms.steps import Size, Step, num_draws

Transform = Callable[[Any], Any]


@dataclass(frozen=True)
class Plan:
    """What a loader does itself, and what it leaves to the transforms.

    Attributes:
        steps: What happens to the pixels, as bytes; then which boxes are erased.
        is_tensor: Whether a transform makes a tensor of the image; otherwise `rest` gets a PIL image.
        is_image: Whether that tensor is a `tv_tensors.Image`.
        pointwise: What happens to its values after the steps.
        size: Height and width of the result; None if images differ in size.
        rest: The first unknown transform and those after it: they run as they were written.
        ending: A plan for the last transforms, if these are known again.
        erases: Whether boxes of the finished values are erased.
        fused: The transforms that the steps were read from.
        reason: Why the first of `rest` is not known.
    """

    steps: tuple[Step, ...] = ()
    is_tensor: bool = False
    is_image: bool = False
    pointwise: Pointwise = field(default_factory=Pointwise)
    size: Size | None = None
    rest: tuple[Transform, ...] = ()
    ending: "Plan | None" = None
    erases: bool = False
    fused: tuple[Transform, ...] = ()
    reason: str = ""

    @property
    def num_draws(self) -> int:
        """How many random numbers an image needs, those of the ending last."""
        return num_draws(self.steps) + (self.ending.num_draws if self.ending else 0)

    @property
    def is_geometric(self) -> bool:
        """Whether pixels are only moved: no colors are changed, no boxes erased."""
        return all(step.moves for step in self.steps)

    @property
    def is_exact(self) -> bool:
        """Whether compiled code gives the bytes of Pillow and torchvision."""
        return all(step.is_exact for step in self.steps)

    @property
    def is_whole(self) -> bool:
        """Whether it makes tensors, with nothing left to do."""
        return self.is_tensor and not self.rest


StepReader = Callable[[Plan, Any], Plan]
"""Returns a plan with what a transform does after it.

Raises:
    UnknownTransformError: The transform, or one of its options, is not known there.
"""


@dataclass(frozen=True)
class Views:
    """What a loader makes of an image: a view by each plan.

    Attributes:
        plans: One, or several.
        is_list: Whether a sample has a list of views; otherwise it has the only one.
    """

    plans: tuple[Plan, ...]
    is_list: bool = False

    @property
    def num_draws(self) -> int:
        """How many random numbers an image needs."""
        return sum(plan.num_draws for plan in self.plans)

    @property
    def is_whole(self) -> bool:
        """Whether all views are tensors, with nothing left to do."""
        return all(plan.is_whole for plan in self.plans)


class UnknownTransformError(Exception):
    """Why a transform is not fused."""


def with_step(plan: Plan, step: Step, *, erases: bool = False) -> Plan:
    """Return a plan with one more step.

    Raises:
        UnknownTransformError: Boxes of the image are erased before it.
    """
    if plan.erases:
        raise UnknownTransformError("boxes of the image are erased by then")
    return replace(plan, steps=(*plan.steps, step), size=step.output(plan.size), erases=erases)


def is_v2(transform: Any) -> bool:
    """Whether a transform is one of `torchvision.transforms.v2`."""
    return type(transform).__module__.startswith(v2.__name__)
