"""Read torchvision's transforms that move pixels."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils import _pytree as pytree
from torchvision import tv_tensors
from torchvision.ops import box_iou
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as v1_functional
from torchvision.transforms.v2 import functional as v2_functional

from recordzoo.loader.plan import (
    ATTEMPTS,
    Action,
    Arithmetic,
    Crop,
    Decided,
    Draws,
    Flip,
    Int64s,
    Plan,
    Resampling,
    Resize,
    Size,
    Step,
    UnknownTransformError,
    between,
    is_v2,
    with_step,
)

Padding = tuple[int, int, int, int]
"""Left, top, right, bottom."""

Color = tuple[int, int, int]
"""Red, green, blue."""

BLACK = 0, 0, 0


def resized(wanted: tuple[int, ...], longest: int | None, size: Size) -> Size:
    """Return the size of the result of `Resize`: height and width are wanted, or the shorter side."""
    if len(wanted) == 2:
        return wanted[0], wanted[1]
    height, width = size
    short, long = sorted(size)
    new_short, new_long = wanted[0], int(wanted[0] * long / short)
    if longest is not None and new_long > longest:
        new_short, new_long = int(longest * new_short / new_long), longest
    return (new_long, new_short) if width <= height else (new_short, new_long)


def _box(crop: Crop, size: Size | None = None) -> dict[str, Any]:
    """Return a crop as v2 names its parts: a `Step.params`."""
    return {"top": crop.top, "left": crop.left, "height": crop.height, "width": crop.width}


def _varying(size: Size | None) -> None:
    """Return the size of results that differ in it: a `Step.result`."""


def padded(size: Size, padding: Padding) -> Size:
    """Return the size after padding."""
    left, top, right, bottom = padding
    return size[0] + top + bottom, size[1] + left + right


def _centered(have: int, want: int) -> tuple[int, int]:
    """Return start and length of a centered crop, rounded as in torchvision."""
    if want > have:
        return -((want - have) // 2), want
    return round((have - want) / 2.0), want


def random_resized_crop(plan: Plan, transform: Any) -> Plan:
    """Read `RandomResizedCrop`."""
    scale, ratio = tuple(map(float, transform.scale)), tuple(map(float, transform.ratio))
    if len(scale) != 2 or len(ratio) != 2 or min(ratio) <= 0 or scale[0] > scale[1] or ratio[0] > ratio[1]:
        raise UnknownTransformError("its scale or its ratio is no range")
    modes = transform.interpolation if isinstance(transform.interpolation, tuple) else (transform.interpolation,)
    wanted = _pair(transform.size)
    resizes = [Resize(*wanted, _resampling(plan, transform, mode)) for mode in modes]  # timm draws one for each image
    num_choosing = int(len(resizes) > 1)
    low, high = math.log(ratio[0]), math.log(ratio[1])

    def crop(size: Size, draws: Draws) -> Crop:
        height, width = size
        area = height * width
        for number in range(0, 2 * ATTEMPTS, 2):
            part = area * between(scale[0], scale[1], draws[number])
            aspect = math.exp(between(low, high, draws[number + 1]))
            w, h = round(math.sqrt(part * aspect)), round(math.sqrt(part / aspect))
            if 0 < w <= width and 0 < h <= height:
                return Crop(int(draws[-2] * (height - h + 1)), int(draws[-1] * (width - w + 1)), h, w)
        h, w = height, width
        if width / height < ratio[0]:
            h = round(width / ratio[0])
        elif width / height > ratio[1]:
            w = round(height * ratio[1])
        return Crop((height - h) // 2, (width - w) // 2, h, w)

    def actions(size: Size, draws: Draws) -> list[Action]:
        chosen = resizes[int(draws[0] * len(resizes)) if num_choosing else 0]
        return [crop(size, draws[num_choosing:]), chosen]

    # The resampling if there are several, area and aspect ratio of each attempt, top and left.
    num_draws = num_choosing + 2 * ATTEMPTS + 2
    return _before_float(plan, Step(actions, num_draws, lambda size: wanted, moves=True, params=_box))


def resize(plan: Plan, transform: Any) -> Plan:
    """Read `Resize`."""
    size = transform.size
    size = (size,) if isinstance(size, int) else size
    if not isinstance(size, Sequence) or not all(isinstance(side, int) and side > 0 for side in size):
        raise UnknownTransformError("it has no size of whole numbers")
    if transform.max_size is not None and (len(size) == 2 or transform.max_size <= size[0]):
        raise UnknownTransformError("size and max_size contradict each other")  # torchvision raises when called
    wanted, longest = tuple(size), transform.max_size
    fixed = (wanted[0], wanted[1]) if len(wanted) == 2 else None

    def choose(size: Size, draws: Draws) -> Size:
        return resized(wanted, longest, size)

    return _with_resize(plan, transform, choose, 0, lambda size: fixed or (size and choose(size, ())))


def center_crop(plan: Plan, transform: Any) -> Plan:
    """Read `CenterCrop`; timm's has a fill."""
    fill = _color_of_padding(plan, transform) if hasattr(transform, "fill") else BLACK
    wanted = _pair(transform.size)

    def actions(size: Size, draws: Draws) -> list[Action]:
        (top, height), (left, width) = map(_centered, size, wanted)
        return [Crop(top, left, height, width, fill)]

    return _before_float(plan, Step(actions, 0, lambda size: wanted, moves=True))


def random_crop(plan: Plan, transform: Any) -> Plan:
    """Read `RandomCrop`; timm's `RandomCropOrPad` pads if needed, and not otherwise."""
    given, pads = getattr(transform, "padding", None), bool(getattr(transform, "pad_if_needed", True))
    fill = _color_of_padding(plan, transform) if given or pads else BLACK
    wanted, padding = _pair(transform.size), _padding(given, type(transform))

    def place(size: Size) -> tuple[Padding, Size]:
        """Return the padding of an image of a size, and how far the crop can then move down and right."""
        height, width = padded(size, padding)
        down, across = wanted[0] - height, wanted[1] - width
        if not pads and max(down, across) > 0:
            raise ValueError(f"Required crop size {wanted} is larger than input image size {height, width}")
        more = max(0, across), max(0, down)  # on either side
        left, top, right, bottom = (side + more[number % 2] for number, side in enumerate(padding))
        return (left, top, right, bottom), (abs(down), abs(across))

    def actions(size: Size, draws: Draws) -> list[Action]:
        (left, top, _, _), (down, across) = place(size)
        top, left = int(draws[0] * (down + 1)) - top, int(draws[1] * (across + 1)) - left
        return [Crop(top, left, *wanted, fill)]

    def decide_many(size: Size, draws: NDArray[np.float64]) -> tuple[Int64s, Int64s]:
        (left, top, _, _), free = place(size)
        firsts = (draws * (np.array(free) + 1)).astype(np.int64) - (top, left)
        return firsts, np.ones_like(firsts)

    def params(crop: Crop, size: Size) -> dict[str, Any]:
        left, top, right, bottom = place(size)[0]
        moved = {"top": crop.top + top, "left": crop.left + left, "padding": [left, top, right, bottom]}
        return {**_box(crop), **moved, "needs_pad": any((left, top, right, bottom)), "needs_crop": True}

    many = decide_many if fill == BLACK else None
    step = Step(actions, 2, lambda size: wanted, True, params, loses_info=any(padding), decide_many=many)
    return _before_float(plan, step)


def flip(plan: Plan, transform: Any, *, is_vertical: bool = False) -> Plan:
    """Read a random flip; it only moves values, so float images are supported too."""
    probability, side = float(transform.p), 0 if is_vertical else 1

    def actions(size: Size, draws: Draws) -> list[Action]:
        return [Flip(is_vertical)] if draws[0] < probability else []

    def decide_many(size: Size, draws: NDArray[np.float64]) -> tuple[Int64s, Int64s]:
        firsts, directions = np.zeros((len(draws), 2), np.int64), np.ones((len(draws), 2), np.int64)
        is_flipped = draws[:, 0] < probability
        firsts[is_flipped, side], directions[is_flipped, side] = size[side] - 1, -1
        return firsts, directions

    return with_step(plan, Step(actions, 1, moves=True, decide_many=decide_many))


def pad(plan: Plan, transform: Any) -> Plan:
    """Read `Pad`."""
    padding, fill = _padding(transform.padding, type(transform)), _color_of_padding(plan, transform)

    def actions(size: Size, draws: Draws) -> list[Action]:
        return [Crop(-padding[1], -padding[0], *padded(size, padding), fill)]

    return _before_float(plan, Step(actions, 0, lambda size: size and padded(size, padding), moves=True))


def zoom_out(plan: Plan, transform: Any) -> Plan:
    """Read `RandomZoomOut`: padding up to a multiple of the size."""
    probability, (low, high), fill = float(transform.p), map(float, transform.side_range), _color(plan, transform)

    def actions(size: Size, draws: Draws) -> list[Action]:
        if draws[0] >= probability:
            return []
        factor = between(low, high, draws[1])
        height, width = int(size[0] * factor), int(size[1] * factor)
        return [Crop(-int((height - size[0]) * draws[2]), -int((width - size[1]) * draws[3]), height, width, fill)]

    def params(crop: Crop, size: Size) -> dict[str, Any]:
        right, bottom = crop.width + crop.left - size[1], crop.height + crop.top - size[0]
        return {"padding": [-crop.left, -crop.top, right, bottom]}

    return _before_float(plan, Step(actions, 4, _varying, moves=True, params=params))


def scale_jitter(plan: Plan, transform: Any) -> Plan:
    """Read `ScaleJitter`, whose target size is width and height."""
    (wide, high), (low, most) = transform.target_size, transform.scale_range

    def choose(size: Size, draws: Draws) -> Size:
        ratio = min(high / size[0], wide / size[1]) * between(low, most, draws[0])
        return int(size[0] * ratio), int(size[1] * ratio)

    return _with_resize(plan, transform, choose)


def shortest_size(plan: Plan, transform: Any) -> Plan:
    """Read `RandomShortestSize`."""
    sizes, most = list(transform.min_size), transform.max_size

    def choose(size: Size, draws: Draws) -> Size:
        ratio = sizes[int(draws[0] * len(sizes))] / min(size)
        ratio = ratio if most is None else min(ratio, most / max(size))
        return int(size[0] * ratio), int(size[1] * ratio)

    return _with_resize(plan, transform, choose)


def random_resize(plan: Plan, transform: Any) -> Plan:
    """Read `RandomResize`."""
    low, high = transform.min_size, transform.max_size
    return _with_resize(plan, transform, lambda size, draws: resized((int(between(low, high, draws[0])),), None, size))


def keep_ratio(plan: Plan, transform: Any) -> Plan:
    """Read timm's `ResizeKeepRatio`, which is called as one of v1."""
    longest, (height, width) = transform.longest, transform.size
    smallest, largest = transform.random_scale_range
    narrow, wide = map(math.log, transform.random_aspect_range)
    if not isinstance(transform.interpolation, InterpolationMode):
        raise UnknownTransformError("it draws its interpolation")

    def choose(size: Size, draws: Draws) -> Size:
        ratios = size[0] / height, size[1] / width
        ratio = max(ratios) * longest + min(ratios) * (1.0 - longest)
        down = across = 1.0
        if draws[0] < transform.random_scale_prob:
            down = between(smallest, largest, draws[1])
            down = across = 1.0 / math.sqrt(down) if transform.random_scale_area else down
        if draws[2] < transform.random_aspect_prob:
            aspect = math.sqrt(math.exp(between(narrow, wide, draws[3])))
            down, across = down / aspect, across * aspect
        return round(size[0] * down / ratio), round(size[1] * across / ratio)

    return _with_resize(plan, transform, choose, num_draws=4)


def _with_resize(
    plan: Plan,
    transform: Any,
    choose: Callable[[Size, Draws], Size],
    num_draws: int = 1,
    result: Callable[[Size | None], Size | None] = _varying,
) -> Plan:
    resampling = _resampling(plan, transform, transform.interpolation)

    def actions(size: Size, draws: Draws) -> list[Action]:
        return [Resize(*choose(size, draws), resampling)]

    def params(done: Resize, size: Size) -> dict[str, Any]:
        return {"size": [done.height, done.width]}

    return _before_float(plan, Step(actions, num_draws, result, moves=True, params=params))


def iou_crop(plan: Plan, transform: Any) -> Plan:
    """Read `RandomIoUCrop`: a crop with enough of a box; boxes whose center is outside become empty."""
    if not plan.is_joint:
        raise UnknownTransformError("it needs boxes")

    def actions(size: Size, draws: Draws) -> list[Action]:
        raise AssertionError("the crop depends on the boxes")

    def decide(target: Any, size: Size, draws: Draws) -> Decided:
        height, width = size
        given = next(leaf for leaf in pytree.tree_leaves(target) if isinstance(leaf, tv_tensors.BoundingBoxes))
        boxes = v2_functional.convert_bounding_box_format(given.as_subclass(torch.Tensor), given.format, "XYXY")
        x, y = 0.5 * (boxes[..., 0] + boxes[..., 2]), 0.5 * (boxes[..., 1] + boxes[..., 3])
        random = np.random.default_rng(int(draws[0] * (1 << 53)))  # the number of attempts has no limit
        while True:
            least = transform.options[random.integers(len(transform.options))]
            if least >= 1.0:
                return [], None
            for _ in range(transform.trials):
                low, high = transform.min_scale, transform.max_scale
                shares = low + (high - low) * random.random(2)
                w, h = int(width * shares[0]), int(height * shares[1])
                if not transform.min_aspect_ratio <= w / h <= transform.max_aspect_ratio or w == 0:
                    continue
                left, top = int((width - w) * random.random()), int((height - h) * random.random())
                is_inside = (left < x) & (x < left + w) & (top < y) & (y < top + h)
                box = torch.tensor([[left, top, left + w, top + h]], dtype=boxes.dtype)
                if is_inside.any() and box_iou(boxes[is_inside], box).max() >= least:
                    found = Crop(top, left, h, w)
                    return [found], {**_box(found), "is_within_crop_area": is_inside}

    return _before_float(plan, Step(actions, 1, _varying, moves=True, of_target=decide))


def _before_float(plan: Plan, step: Step) -> Plan:
    if plan.pointwise.operations is not None:
        raise UnknownTransformError("the image is float by then; before ToTensor or ToDtype it would be known")
    return with_step(plan, step)


def _pair(size: Any) -> Size:
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return int(height), int(width)


def _padding(padding: Any, kind: type) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom; v2 keeps left, right, top, bottom."""
    if not padding:
        return 0, 0, 0, 0
    if kind is v2.RandomCrop:
        left, right, top, bottom = padding
        return left, top, right, bottom
    sides = (padding,) if isinstance(padding, int) else tuple(padding)
    left, top = sides[0], sides[1] if len(sides) > 1 else sides[0]
    return (left, top, sides[2], sides[3]) if len(sides) == 4 else (left, top, left, top)


def _resampling(plan: Plan, transform: Any, interpolation: Any) -> Resampling:
    """Read a transform's resampling; keep torchvision's function of the same version: v1 and v2 differ."""
    functional = v2_functional if is_v2(transform) else v1_functional
    antialias = getattr(transform, "antialias", True)  # timm's has none

    def resized(image: Any, size: list[int]) -> Any:
        return functional.resize(image, size, interpolation=interpolation, antialias=antialias)

    # For PIL images, v2 warns that it antialiases anyway, and v1 rejects names of modes: both must be called.
    is_antialiased = antialias is True if plan.is_tensor else antialias is not False
    is_known = is_antialiased and (plan.is_tensor or is_v2(transform) or type(interpolation) is not str)
    arithmetic: Arithmetic = "Pillow" if not plan.is_tensor else "torch" if is_v2(transform) else "float"
    return Resampling(resized, _FILTERS.get(interpolation, "") if is_known else "", arithmetic)


_MODES: dict[Any, InterpolationMode] = {
    name: mode
    for mode, number in (
        (InterpolationMode.NEAREST, Image.Resampling.NEAREST),
        (InterpolationMode.BILINEAR, Image.Resampling.BILINEAR),
        (InterpolationMode.BICUBIC, Image.Resampling.BICUBIC),
    )
    for name in (mode, mode.value, number)  # v2 keeps the form that was given
}

_FILTERS = {name: mode.value for name, mode in _MODES.items() if mode is not InterpolationMode.NEAREST}


def mode_of(transform: Any) -> InterpolationMode:
    """Return the interpolation of a transform that moves pixels by fractions: nearest, bilinear or bicubic."""
    mode = _MODES.get(transform.interpolation)
    if mode is None:
        raise UnknownTransformError(f"its interpolation is {transform.interpolation}")
    return mode


def fill_of(transform: Any, kind: type = Image.Image) -> Any:
    """Return the fill of a type of images, as given, after a check that it is a color."""
    fill = transform.fill
    if isinstance(fill, dict):  # v2 takes one for each type
        fill = fill.get(kind, fill.get("others"))
    color_of(fill)
    return fill


def color_of(fill: Any) -> Color:
    """Return the color of a fill: None, one number, or one per channel."""
    if fill is None:
        return BLACK
    channels = [fill] * 3 if isinstance(fill, int | float) else list(fill) * (3 if len(fill) == 1 else 1)
    if len(channels) != 3:
        raise UnknownTransformError("its fill has not one number for each of three channels")
    red, green, blue = (int(value) for value in channels)
    if not 0 <= min(red, green, blue) <= max(red, green, blue) <= 255:
        raise UnknownTransformError("its fill is no color")
    return red, green, blue


def _color(plan: Plan, transform: Any) -> Color:
    kind = tv_tensors.Image if plan.is_image else torch.Tensor if plan.is_tensor else Image.Image
    fill = fill_of(transform, kind)
    color = color_of(fill)
    if plan.is_tensor and not (is_v2(transform) or fill == color[0]):
        raise UnknownTransformError("v1 fills tensors with one number")
    if plan.is_tensor and not np.all(np.equal(color, 0 if fill is None else fill)):
        raise UnknownTransformError("its fill has fractions")
    return color


def _color_of_padding(plan: Plan, transform: Any) -> Color:
    if transform.padding_mode != "constant":
        raise UnknownTransformError(f"its padding_mode is {transform.padding_mode}")
    return _color(plan, transform)
