"""Small images that are stored as pixels: one call of compiled code makes all images of a piece of a batch.

For an image of 32 x 32 pixels, Python's work takes longer than the pixels. So the crops and flips of all images are
decided by a few operations on arrays, and each pixel is looked up in a table of finished values.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from recordzoo.loader.compiled import BYTES, compiled_code, compiled_now
from recordzoo.loader.geometry import CenterCropStep, PadStep, RandomCropStep, RandomFlipStep
from recordzoo.loader.plan import Crop, Plan, Pointwise, Size, Step, Views

MAX_BYTES = 1 << 15
"""Size of the largest image that is made so: for larger ones, copying the stored pixels takes longer than it saves."""

_CROPS = (CenterCropStep, PadStep, RandomCropStep)


class Pixels(NamedTuple):
    """Stored images of one shape.

    Attributes:
        data: Their bytes, uint8 [m], read-only.
        starts: The first byte of each image, int64 [n].
        strides: Bytes from one row, column and channel to the next.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    strides: tuple[int, int, int]


class Shape(NamedTuple):
    """The shape of stored images."""

    channels: int
    height: int
    width: int


def sized(views: Views, shape: Shape | None) -> Views:
    """Return the plans with the size of their results, if all images have one shape."""
    if shape is None:
        return views
    plans = []
    for plan in views.plans:
        size: Size | None = (shape.height, shape.width)
        for step in plan.steps:
            size = step.output(size)
        plans.append(replace(plan, size=size))
    return Views(tuple(plans), views.is_list)


def only_moves(plan: Plan, shape: Shape) -> bool:
    """Whether a plan makes tensors and only crops and flips these images, so that `MovedWriter` can do it."""
    if not plan.is_whole or plan.size is None or shape.channels * shape.height * shape.width > MAX_BYTES:
        return False
    if not all(isinstance(step, (RandomFlipStep, *_CROPS)) for step in plan.steps):
        return False
    crops = [step for step in plan.steps if isinstance(step, _CROPS)]
    if not all(isinstance(step, PadStep) for step in crops[:-1]):
        return False  # what a crop cut off must not come back
    means = [transform.mean for transform in plan.fused if hasattr(transform, "mean")]
    return shape.channels == 3 or all(np.size(mean) == 1 for mean in means)  # torchvision refuses three for one channel


def moves_of(steps: Sequence[Step], size: Size, draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Decide where the pixels of images come from; the decisions are those of each `Step.actions`.

    Args:
        steps: Crops and flips.
        size: Height and width of the stored images.
        draws: A row of random numbers for each image.

    Returns:
        For each image y0, dy, x0 and dx: row y of the result is row y0 + dy * y of the stored image; int64 [n, 4].

    Raises:
        ValueError: The images are too small, in torchvision's words.
    """
    firsts, directions = np.zeros((len(draws), 2), np.int64), np.ones((len(draws), 2), np.int64)
    start = 0
    for step in steps:
        own = draws[:, start : start + step.num_draws]
        start += step.num_draws
        if isinstance(step, RandomFlipStep):
            is_flipped, side = own[:, 0] < step.probability, 0 if step.is_vertical else 1
            firsts[is_flipped, side] += directions[is_flipped, side] * (size[side] - 1)
            directions[is_flipped, side] *= -1
            continue
        if isinstance(step, RandomCropStep):
            across, down = step.padding[:2]
            chosen = (own * (np.array(step.free(size)) + 1)).astype(np.int64) - (down, across)
        else:
            (crop,) = step.actions(size, [])
            assert isinstance(crop, Crop)
            chosen = np.tile(np.array([crop.top, crop.left]), (len(own), 1))
        firsts += directions * chosen
        size = step.output(size) or size
    return np.stack([firsts[:, 0], directions[:, 0], firsts[:, 1], directions[:, 1]], 1)


class MovedWriter:
    """Writes moved images of one plan and shape.

    Args:
        plan: A plan that `only_moves` images of this shape.
        pointwise: Operations on the values; None: keep bytes.
    """

    def __init__(self, plan: Plan, shape: Shape, pointwise: Pointwise | None) -> None:
        self._plan, self._shape = plan, shape
        self._values: Any = BYTES  # of either dtype
        if pointwise is not None and pointwise.operations is not None:
            self._values = pointwise.apply_(torch.from_numpy(BYTES).to(torch.float32)[:, None])[:, 0].numpy()
        self._compiled = compiled_code(waits=False)

    def fill(self, images: torch.Tensor, places: NDArray[np.int64], pixels: Pixels, draws: NDArray[np.float64]) -> None:
        """Write images.

        Args:
            images: [m, channels, height, width], contiguous or channels-last.
            places: The number in `images` of each, int64 [n].
            pixels: The stored images.
            draws: A row of random numbers for each, float64 [n, `Plan.num_draws`].
        """
        size = self._shape.height, self._shape.width
        moves = moves_of(self._plan.steps, size, draws)
        values = self._values[: self._shape.channels]
        if self._compiled is None:
            self._compiled = compiled_now()
        if self._compiled is not None:
            self._compiled.move(pixels, size, moves, places, values, images)
            return
        stored = np.lib.stride_tricks.as_strided
        for place, start, move in zip(places.tolist(), pixels.starts.tolist(), moves, strict=True):
            image = stored(pixels.data[start:], (*size, self._shape.channels), pixels.strides, writeable=False)
            made = _moved(image, move, (images.shape[2], images.shape[3]))
            for channel, table in enumerate(values):
                images[place, channel].copy_(torch.from_numpy(table[made[..., channel]]))


def _moved(image: NDArray[np.uint8], move: NDArray[np.int64], size: Size) -> NDArray[np.uint8]:
    """Move one image, [h, w, channels], without compiled code; black outside."""
    rows, columns = move[0] + move[1] * np.arange(size[0]), move[2] + move[3] * np.arange(size[1])
    is_row, is_column = (rows >= 0) & (rows < image.shape[0]), (columns >= 0) & (columns < image.shape[1])
    made = np.zeros((*size, image.shape[2]), np.uint8)
    made[np.ix_(is_row, is_column)] = image[np.ix_(rows[is_row], columns[is_column])]
    return made
