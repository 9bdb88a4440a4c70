"""Render opened images to rows of a tensor, with compiled code if possible, otherwise with `render`."""

from collections.abc import Iterable, Sequence

import torch

from recordzoo.loader.work import Opened
from recordzoo.pixels.compiled import Compiled
from recordzoo.pixels.compiling import compiled_code, compiled_now
from recordzoo.pixels.render import Precision, erase_
from recordzoo.pixels.rows import RowRenderer
from recordzoo.transforms.plan import Plan
from recordzoo.transforms.pointwise import Pointwise
from recordzoo.transforms.steps import Size


class RowWriter:
    """Renders images of one plan and one size.

    Args:
        plan: The plan.
        size: Height and width of the results.
        precision: "exact" or "fast".
        pointwise: Operations on the values; None: keep bytes and erase nothing.
    """

    def __init__(self, plan: Plan, size: Size, precision: Precision, pointwise: Pointwise | None) -> None:
        self._size, self._precision, self._pointwise = size, precision, pointwise
        self._changes = not plan.is_geometric
        waits = precision == "fast" or not plan.is_exact  # otherwise Pillow gives the same pixels until then
        self._renderer = self._renderer_of(compiled_code(changes=self._changes, waits=waits))

    def _renderer_of(self, found: Compiled | None) -> RowRenderer | None:
        if found is None:
            return None
        exact_changes = found.exact_changes() if self._changes else None
        return RowRenderer(*self._size, self._pointwise, self._precision, found, exact_changes)

    def fill(self, rows: torch.Tensor, images: Sequence[Opened]) -> None:
        """Render images to rows.

        Args:
            rows: [n, 3, height, width], contiguous or channels-last.
            images: n images, at most `OPENED_AT_ONCE`: the last ones opened in this thread.

        Raises:
            ImageError: One cannot be decoded.
        """
        left: Iterable[int] = range(len(images))
        if self._renderer is None:
            self._renderer = self._renderer_of(compiled_now(changes=self._changes))
        if self._renderer is not None:
            left = self._renderer.make([(image.frame, image.actions) for image in images], rows)
        for number in left:
            rows[number].copy_(images[number].render(self._precision))
            if self._pointwise is not None:
                self._pointwise.apply_(rows[number])
                erase_(rows[number], images[number].actions)


def finished(image: Opened, precision: Precision) -> torch.Tensor:
    """Make one image of any size, contiguous [3, H, W].

    Raises:
        ImageError: It cannot be decoded.
    """
    made = with_values(image.plan, image.render(precision).contiguous())
    return erase_(made, image.actions)


def with_values(plan: Plan, images: torch.Tensor) -> torch.Tensor:
    """Convert and normalise uint8 images as the plan says; a copy, if it says anything."""
    if plan.pointwise.operations is None:
        return images
    return plan.pointwise.apply_(images.to(torch.float32))
