"""Plans: the transforms of a dataset that a loader runs itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torchvision.transforms import v2

from recordzoo.transforms.steps import Size, Step, num_draws

Transform = Callable[[Any], Any]

Operation = tuple[Literal["div", "mul", "sub"], float | tuple[float, ...]]
"""An operation, with one number or one per channel."""


@dataclass(frozen=True)
class Pointwise:
    """Operations on float32 values: divide, normalize. The results are torchvision's, to the last bit.

    Attributes:
        operations: None for images that stay uint8.
    """

    operations: tuple[Operation, ...] | None = None
    _rows: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dtype(self) -> torch.dtype:
        """uint8 or float32."""
        return torch.uint8 if self.operations is None else torch.float32

    def then(self, *operations: Operation) -> "Pointwise":
        """Return a copy with more operations; its results are float."""
        return Pointwise((*(self.operations or ()), *operations))

    def apply_(self, images: torch.Tensor) -> torch.Tensor:
        """Do the operations in place and return the images.

        Args:
            images: float32 [..., 3, H, W], contiguous or channels-last.
        """
        if not self.operations:
            return images
        # In channels-last memory the last dimension, 3 long, would be broadcast in the innermost loop: ten times slower
        # than a row of W times 3.
        is_last = images.stride(-3) == 1 and images.shape[-3] > 1
        values = images.movedim(-3, -1).flatten(-2) if is_last else images
        for number, (name, operand) in enumerate(self.operations):
            if isinstance(operand, float):
                getattr(values, f"{name}_")(operand)
            else:
                getattr(values, f"{name}_")(self._operand(number, operand, images, is_last))
        return images

    def _operand(self, number: int, values: Sequence[float], images: torch.Tensor, is_last: bool) -> torch.Tensor:
        if images.device.type != "cpu":
            operand = torch.tensor(values, dtype=torch.float32, device=images.device)
            return operand.repeat(images.shape[-1]) if is_last else operand[:, None, None]
        width = images.shape[-1] if is_last else 0
        found = self._rows.get((number, width))
        if found is None:
            operand = torch.tensor(values, dtype=torch.float32, device="cpu")
            found = operand.repeat(width) if is_last else operand[:, None, None]
            self._rows[number, width] = found
        return found


@dataclass(frozen=True)
class Plan:
    """The transforms that a loader runs itself, and those that run as written.

    Attributes:
        steps: Operations on the pixels, as bytes; then boxes to erase.
        is_tensor: Whether a transform converts the image to a tensor; otherwise `rest` gets a PIL image.
        is_image: Whether that tensor is a `tv_tensors.Image`.
        pointwise: Operations on the values after the steps.
        size: Height and width of the result; None if images differ in size.
        rest: The first unknown transform and those after it; they run as written.
        ending: A plan for the known transforms at the end of `rest`, if there are any.
        erases: Whether boxes of the finished values are erased.
        fused: The transforms that the steps were read from.
        reason: Why the first transform of `rest` is unknown.
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
        """Random numbers per image; those of the ending come last."""
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
        """Whether the plan produces tensors and leaves no transforms."""
        return self.is_tensor and not self.rest


StepReader = Callable[[Plan, Any], Plan]
"""Returns a plan extended by a transform.

Raises:
    UnknownTransformError: The transform, or one of its options, is not supported at this point.
"""


@dataclass(frozen=True)
class Views:
    """The views of an image, one per plan.

    Attributes:
        plans: One plan or more.
        is_list: Whether a sample has a list of views; otherwise it has the single view.
    """

    plans: tuple[Plan, ...]
    is_list: bool = False

    @property
    def num_draws(self) -> int:
        """Random numbers per image."""
        return sum(plan.num_draws for plan in self.plans)

    @property
    def is_whole(self) -> bool:
        """Whether all views are tensors and no transforms are left."""
        return all(plan.is_whole for plan in self.plans)


class UnknownTransformError(Exception):
    """Why a transform is not fused."""


def with_step(plan: Plan, step: Step, *, erases: bool = False) -> Plan:
    """Return a plan with one more step."""
    if plan.erases:
        raise UnknownTransformError("boxes of the image are erased by then")
    return replace(plan, steps=(*plan.steps, step), size=step.output(plan.size), erases=erases)


def is_v2(transform: Any) -> bool:
    """Whether a transform is one of `torchvision.transforms.v2`."""
    return type(transform).__module__.startswith(v2.__name__)
