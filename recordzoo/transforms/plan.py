"""What a loader does of a dataset's transforms."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torchvision.transforms import v2

from recordzoo.transforms.changes import Size
from recordzoo.transforms.pointwise import Pointwise
from recordzoo.transforms.steps import GEOMETRIC, Step, num_draws

# Any, here and below: transforms are whatever callables their user wrote.
Transform = Callable[[Any], Any]


@dataclass(frozen=True)
class Plan:
    """What a loader does itself, and what it leaves to the transforms.

    Attributes:
        steps: What happens to the pixels, as bytes; then which boxes are erased.
        is_tensor: Whether a transform makes a tensor of the image; otherwise `rest` gets a PIL image.
        is_image: Whether that is a `tv_tensors.Image`.
        pointwise: What then happens to its values.
        size: Height and width of the result; None if images differ in size.
        rest: What comes behind and is not known, each as it was written.
        ending: What is known again behind that.
        erases: Whether boxes of the finished values are erased.
        fused: What the steps were made from.
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
        """Whether pixels are only moved: no colours are changed, no boxes erased."""
        return all(isinstance(step, GEOMETRIC) for step in self.steps)

    @property
    def is_whole(self) -> bool:
        """Whether it makes tensors, with nothing left to do."""
        return self.is_tensor and not self.rest


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
        """Whether all are tensors, with nothing left to do."""
        return all(plan.is_whole for plan in self.plans)


class UnknownTransformError(Exception):
    """Why a transform is left to itself."""


def with_step(plan: Plan, step: Step) -> Plan:
    """Return a plan with another step behind the others.

    Raises:
        UnknownTransformError: The image is finished by then.
    """
    if plan.erases:
        raise UnknownTransformError("boxes of the image are erased by then")
    return replace(plan, steps=(*plan.steps, step), size=step.output(plan.size))


def is_v2(transform: Any) -> bool:
    """Whether a transform is one of `torchvision.transforms.v2`."""
    return type(transform).__module__.startswith(v2.__name__)
