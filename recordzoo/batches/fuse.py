"""torchvision's transforms → a plan: what is known of them, in their order, up to the first that is not known.

Only a transform's exact class counts: a subclass may do something else. What comes behind the first unknown one is
left as it is, whether known or not, so nothing is dropped and nothing changes places.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as v1_functional
from torchvision.transforms.v2 import functional as v2_functional

from recordzoo.batches.pointwise import Operation, Pointwise
from recordzoo.batches.steps import (
    CenterCropStep,
    RandomCropStep,
    RandomFlipStep,
    RandomResizedCropStep,
    Resampling,
    ResizeStep,
    Size,
    Step,
    num_draws,
)

# Any, here and below: transforms are whatever callables their user wrote.
Transform = Callable[[Any], Any]


@dataclass(frozen=True)
class Plan:
    """What a loader does itself, and what it leaves to the transforms.

    Attributes:
        steps: Geometry, on uint8.
        is_tensor: Whether a transform makes a tensor of the image; otherwise `rest` gets a PIL image.
        is_image: Whether that is a `tv_tensors.Image`.
        pointwise: What then happens to its values.
        size: Height and width of what comes out; None if they differ.
        rest: What comes behind, each as it was written.
        fused: What the steps were made from.
        reason: Why the first of `rest` is not known.
    """

    steps: tuple[Step, ...] = ()
    is_tensor: bool = False
    is_image: bool = False
    pointwise: Pointwise = field(default_factory=Pointwise)
    size: Size | None = None
    rest: tuple[Transform, ...] = ()
    fused: tuple[Transform, ...] = ()
    reason: str = ""

    @property
    def num_draws(self) -> int:
        """How many random numbers an image needs."""
        return num_draws(self.steps)

    @property
    def is_whole(self) -> bool:
        """Whether it makes tensors, with nothing left to do."""
        return self.is_tensor and not self.rest


class _UnknownError(Exception):
    """Why a transform is left to itself."""


def read_plan(transform: Transform | None) -> Plan:
    """Read a dataset's transform; None is one that does nothing."""
    transforms = list(_flat(transform))
    plan = Plan()
    for number, each in enumerate(transforms):
        try:
            plan = replace(_read(plan, each), fused=(*plan.fused, each))
        except _UnknownError as err:
            return replace(plan, rest=tuple(transforms[number:]), reason=str(err))
    return plan


def _flat(transform: Transform | None) -> list[Transform]:
    if transform is None:
        return []
    if type(transform) in (v1.Compose, v2.Compose):
        # Compose is untyped.
        return [each for part in transform.transforms for each in _flat(part)]  # type: ignore[attr-defined]
    return [transform]


def _read(plan: Plan, transform: Any) -> Plan:
    reader = _READERS.get(type(transform))
    if reader is None:
        raise _UnknownError(
            f"{type(transform).__module__}.{type(transform).__qualname__} is not one of those known here"
        )
    if plan.is_image and not _is_v2(transform):
        raise _UnknownError("of tv_tensors.Image, v1 transforms make plain tensors or not, depending on the image")
    return reader(plan, transform)


def _is_v2(transform: Any) -> bool:
    return type(transform).__module__.startswith(v2.__name__)


def _with_step(plan: Plan, step: Step) -> Plan:
    if plan.pointwise.operations is not None and not isinstance(step, RandomFlipStep):  # which changes places only
        raise _UnknownError("the image is float by then; before ToTensor or ToDtype it would be known")
    return replace(plan, steps=(*plan.steps, step), size=step.output(plan.size))


def _random_resized_crop(plan: Plan, transform: Any) -> Plan:
    scale, ratio = tuple(map(float, transform.scale)), tuple(map(float, transform.ratio))
    if len(scale) != 2 or len(ratio) != 2 or min(ratio) <= 0 or scale[0] > scale[1] or ratio[0] > ratio[1]:
        raise _UnknownError("of its scale and ratio")
    return _with_step(plan, RandomResizedCropStep(_pair(transform.size), scale, ratio, _resampling(plan, transform)))


def _resize(plan: Plan, transform: Any) -> Plan:
    size = transform.size
    size = (size,) if isinstance(size, int) else size
    if not isinstance(size, Sequence) or not all(isinstance(side, int) and side > 0 for side in size):
        raise _UnknownError("it has no size of whole numbers")
    if transform.max_size is not None and (len(size) == 2 or transform.max_size <= size[0]):
        raise _UnknownError("size and max_size contradict each other")  # torchvision says so when it is called
    return _with_step(plan, ResizeStep(tuple(size), transform.max_size, _resampling(plan, transform)))


def _center_crop(plan: Plan, transform: Any) -> Plan:
    return _with_step(plan, CenterCropStep(_pair(transform.size)))


def _random_crop(plan: Plan, transform: Any) -> Plan:
    if transform.pad_if_needed:
        raise _UnknownError("it pads as needed")
    padding = transform.padding
    if padding and (transform.padding_mode != "constant" or transform.fill != 0):
        raise _UnknownError("it pads with something else than black")
    return _with_step(plan, RandomCropStep(_pair(transform.size), _padding(padding, type(transform))))


def _flip(plan: Plan, transform: Any) -> Plan:
    return _with_step(plan, RandomFlipStep(float(transform.p)))


def _to_tensor(plan: Plan, transform: Any) -> Plan:
    if torch.get_default_dtype() is not torch.float32:
        raise _UnknownError("torch's default dtype is not float32")
    return replace(_pil_to_tensor(plan, transform), pointwise=plan.pointwise.then(("div", 255.0)))


def _pil_to_tensor(plan: Plan, transform: Any) -> Plan:
    if plan.is_tensor:
        raise _UnknownError("the image is a tensor already")
    return replace(plan, is_tensor=True)


def _to_image(plan: Plan, transform: Any) -> Plan:
    return replace(plan, is_tensor=True, is_image=True)


def _to_pure_tensor(plan: Plan, transform: Any) -> Plan:
    return replace(plan, is_image=False)


def _convert_dtype(plan: Plan, transform: Any) -> Plan:
    return _to_float(plan, transform.dtype, ("div", 255.0))


def _convert_dtype_v2(plan: Plan, transform: Any) -> Plan:
    return _to_float(plan, transform.dtype, ("mul", 1.0 / 255))


def _to_dtype(plan: Plan, transform: Any) -> Plan:
    scaled: tuple[Operation, ...] = (("mul", 1.0 / 255),) if transform.scale else ()
    return _to_float(plan, transform.dtype, *scaled)


def _to_float(plan: Plan, dtype: object, *operations: Operation) -> Plan:
    if not plan.is_tensor:
        raise _UnknownError("the image is no tensor by then")
    if dtype is plan.pointwise.dtype:
        return plan
    if dtype is not torch.float32:
        raise _UnknownError(f"its dtype is {dtype}; float32 and uint8 are known")
    return replace(plan, pointwise=plan.pointwise.then(*operations))


def _normalize(plan: Plan, transform: Any) -> Plan:
    if plan.pointwise.operations is None:
        raise _UnknownError("the image is not float by then")
    mean, std = _channels(transform.mean), _channels(transform.std)
    if not all(std):
        raise _UnknownError("its std has a zero")
    return replace(plan, pointwise=plan.pointwise.then(("sub", mean), ("div", std)))


_READERS: dict[type, Callable[[Plan, Any], Plan]] = {
    v1.RandomResizedCrop: _random_resized_crop,
    v2.RandomResizedCrop: _random_resized_crop,
    v1.Resize: _resize,
    v2.Resize: _resize,
    v1.CenterCrop: _center_crop,
    v2.CenterCrop: _center_crop,
    v1.RandomCrop: _random_crop,
    v2.RandomCrop: _random_crop,
    v1.RandomHorizontalFlip: _flip,
    v2.RandomHorizontalFlip: _flip,
    v1.ToTensor: _to_tensor,
    v1.PILToTensor: _pil_to_tensor,
    v2.PILToTensor: _pil_to_tensor,
    v2.ToImage: _to_image,
    v2.ToPureTensor: _to_pure_tensor,
    v1.ConvertImageDtype: _convert_dtype,
    v2.ConvertImageDtype: _convert_dtype_v2,
    v2.ToDtype: _to_dtype,
    v1.Normalize: _normalize,
    v2.Normalize: _normalize,
}


def as_given(plan: Plan, image: torch.Tensor) -> torch.Tensor:
    """Return a tensor as the first transform of the rest would get it."""
    return tv_tensors.Image(image) if plan.is_image else image


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


def _channels(values: Any) -> tuple[float, ...]:
    channels = tuple(float(value) for value in ([values] if isinstance(values, float | int) else values))
    if len(channels) not in (1, 3) or not all(map(math.isfinite, channels)):
        raise _UnknownError("it has not one number for each of three channels")
    return channels * 3 if len(channels) == 1 else channels


def _resampling(plan: Plan, transform: Any) -> Resampling:
    """Read how a transform resamples, and keep torchvision's own function for it: of either version, as it differs."""
    functional = v2_functional if _is_v2(transform) else v1_functional
    interpolation, antialias = transform.interpolation, transform.antialias

    def resize(image: Any, size: list[int]) -> Any:
        return functional.resize(image, size, interpolation=interpolation, antialias=antialias)

    # Of PIL images, it warns of no antialiasing and v1 raises at names: it is to be asked then.
    is_antialiased = antialias is True if plan.is_tensor else antialias is not False
    is_known = is_antialiased and (plan.is_tensor or _is_v2(transform) or type(interpolation) is not str)
    return Resampling(resize, _FILTERS.get(interpolation, "") if is_known else "", plan.is_tensor)


_FILTERS: dict[Any, str] = {
    name: mode.value
    for mode, number in (
        (InterpolationMode.BILINEAR, Image.Resampling.BILINEAR),
        (InterpolationMode.BICUBIC, Image.Resampling.BICUBIC),
    )
    for name in (mode, mode.value, number)  # v2 keeps whichever it was given
}
