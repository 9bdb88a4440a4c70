"""Operations on the values of an image: to float, divide, normalize. The results are torchvision's, to the last bit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

Operation = tuple[Literal["div", "mul", "sub"], float | tuple[float, ...]]
"""An operation, with one number or one per channel."""


@dataclass(frozen=True)
class Pointwise:
    """Operations on float32 values, in torchvision's order.

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
            operand = torch.tensor(values, device=images.device)
            return operand.repeat(images.shape[-1]) if is_last else operand[:, None, None]
        width = images.shape[-1] if is_last else 0
        found = self._rows.get((number, width))
        if found is None:
            operand = torch.tensor(values)
            found = operand.repeat(width) if is_last else operand[:, None, None]
            self._rows[number, width] = found
        return found
