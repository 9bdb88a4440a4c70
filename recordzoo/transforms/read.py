"""Transforms → a plan: those known at the beginning, those known at the end, and what is between them.

Only a transform's exact class counts: a subclass may do something else. What is between is left as it is, whether known
or not, so nothing is dropped and nothing changes places.
"""

import itertools
import math
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as v1_functional
from torchvision.transforms.v2 import functional as v2_functional

from recordzoo.transforms.augment import SomeOfStep
from recordzoo.transforms.changes import Size
from recordzoo.transforms.plan import Plan, Transform, UnknownTransformError, Views, is_v2, with_step
from recordzoo.transforms.pointwise import Operation
from recordzoo.transforms.read_changes import CHANGE_READERS, SAME_SIZE, erasing_step
from recordzoo.transforms.steps import (
    Arithmetic,
    CenterCropStep,
    RandomCropStep,
    RandomFlipStep,
    RandomResizedCropStep,
    Resampling,
    ResizeStep,
    Step,
)
from recordzoo.transforms.timm import as_torchvision
from recordzoo.transforms.views import views_of


def read_views(transform: Transform | None) -> Views:
    """Read a dataset's transform; None is one that does nothing."""
    transforms = flattened(transform)
    parts = views_of(transforms[0]) if len(transforms) == 1 else None
    if parts is None:
        return Views((read_plan(transform),))
    return Views(tuple(map(read_plan, parts)), is_list=True)


def read_plan(transform: Transform | None) -> Plan:
    """Read a transform that makes one view of an image."""
    transforms = flattened(transform)
    plan = _begun(Plan(), transforms)
    left, behind = transforms[len(plan.fused) :], _behind(plan)
    for start in range(1, len(left)):
        ending = _begun(behind, left[start:])
        if len(ending.fused) == len(left) - start and ending.is_tensor and ending.pointwise != behind.pointwise:
            return replace(plan, rest=tuple(left[:start]), ending=ending)
    return replace(plan, rest=tuple(left))


def _begun(plan: Plan, transforms: Sequence[Transform]) -> Plan:
    """Read transforms up to the first that is not known, and say why it is not."""
    for each in transforms:
        try:
            plan = replace(read_one(plan, each), fused=(*plan.fused, each))
        except UnknownTransformError as err:
            return replace(plan, reason=str(err))
    return plan


def _behind(plan: Plan) -> Plan:
    """Return what an ending begins with: an image as a plan leaves it; what makes another of it is not known."""
    return Plan(is_tensor=plan.is_tensor and plan.pointwise.operations is None, is_image=plan.is_image)


def flattened(transform: Transform | None) -> list[Transform]:
    """Return the transforms in a `Compose`, and in those within it; of any other transform itself, and none of None."""
    if transform is None:
        return []
    if type(transform) in (v1.Compose, v2.Compose):
        # Compose is untyped.
        return [each for part in transform.transforms for each in flattened(part)]  # type: ignore[attr-defined]
    return [transform]


# Any: transforms are whatever callables their user wrote.
def read_one(plan: Plan, transform: Any) -> Plan:
    """Return a plan with what a transform does behind the rest.

    Raises:
        UnknownTransformError: It is not known there.
    """
    for each in as_torchvision(transform, is_tensor=plan.is_tensor):
        reader = _READERS.get(type(each))
        if reader is None:
            kind = type(each)
            raise UnknownTransformError(f"{kind.__module__}.{kind.__qualname__} is not one of those known here")
        if plan.is_image and not is_v2(transform):
            raise UnknownTransformError(
                "of tv_tensors.Image, v1 transforms make plain tensors or not, depending on the image"
            )
        plan = reader(plan, each)
    return plan


def _with_step(plan: Plan, step: Step) -> Plan:
    if plan.pointwise.operations is not None and not isinstance(step, RandomFlipStep):  # which changes places only
        raise UnknownTransformError("the image is float by then; before ToTensor or ToDtype it would be known")
    return with_step(plan, step)


def _random_resized_crop(plan: Plan, transform: Any) -> Plan:
    scale, ratio = tuple(map(float, transform.scale)), tuple(map(float, transform.ratio))
    if len(scale) != 2 or len(ratio) != 2 or min(ratio) <= 0 or scale[0] > scale[1] or ratio[0] > ratio[1]:
        raise UnknownTransformError("of its scale and ratio")
    kinds = transform.interpolation if isinstance(transform.interpolation, tuple) else (transform.interpolation,)
    resamplings = tuple(_resampling(plan, transform, kind) for kind in kinds)
    return _with_step(plan, RandomResizedCropStep(_pair(transform.size), scale, ratio, resamplings))


def _resize(plan: Plan, transform: Any) -> Plan:
    size = transform.size
    size = (size,) if isinstance(size, int) else size
    if not isinstance(size, Sequence) or not all(isinstance(side, int) and side > 0 for side in size):
        raise UnknownTransformError("it has no size of whole numbers")
    if transform.max_size is not None and (len(size) == 2 or transform.max_size <= size[0]):
        raise UnknownTransformError("size and max_size contradict each other")  # torchvision says so when it is called
    resampling = _resampling(plan, transform, transform.interpolation)
    return _with_step(plan, ResizeStep(tuple(size), transform.max_size, resampling))


def _center_crop(plan: Plan, transform: Any) -> Plan:
    return _with_step(plan, CenterCropStep(_pair(transform.size)))


def _random_crop(plan: Plan, transform: Any) -> Plan:
    if transform.pad_if_needed:
        raise UnknownTransformError("it pads as needed")
    padding = transform.padding
    if padding and (transform.padding_mode != "constant" or transform.fill != 0):
        raise UnknownTransformError("it pads with something else than black")
    return _with_step(plan, RandomCropStep(_pair(transform.size), _padding(padding, type(transform))))


def _flip(plan: Plan, transform: Any) -> Plan:
    return _with_step(plan, RandomFlipStep(float(transform.p)))


def _to_tensor(plan: Plan, transform: Any) -> Plan:
    if torch.get_default_dtype() is not torch.float32:
        raise UnknownTransformError("torch's default dtype is not float32")
    return replace(_pil_to_tensor(plan, transform), pointwise=plan.pointwise.then(("div", 255.0)))


def _pil_to_tensor(plan: Plan, transform: Any) -> Plan:
    if plan.is_tensor:
        raise UnknownTransformError("the image is a tensor already")
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
        raise UnknownTransformError("the image is no tensor by then")
    if dtype is plan.pointwise.dtype:
        return plan
    _refuse_erased(plan)
    if dtype is not torch.float32:
        raise UnknownTransformError(f"its dtype is {dtype}; float32 and uint8 are known")
    return replace(plan, pointwise=plan.pointwise.then(*operations))


def _refuse_erased(plan: Plan) -> None:
    if plan.erases:
        raise UnknownTransformError("boxes of the image are erased by then, and would be changed, too")


def _erase(plan: Plan, transform: Any) -> Plan:
    if plan.pointwise.operations is None:
        raise UnknownTransformError("the image is not float by then")
    return replace(with_step(plan, erasing_step(transform)), erases=True)


def _random_apply(plan: Plan, transform: Any) -> Plan:
    probability = float(transform.p)
    inner = _inner_steps(plan, transform)
    together = [step for steps in inner for step in steps]
    return _with_step(plan, SomeOfStep([together], lambda draws: [0] if draws[0] < probability else [], 1))


def _random_choice(plan: Plan, transform: Any) -> Plan:
    inner = _inner_steps(plan, transform)
    shares = list(transform.p or [1] * len(inner))
    bounds = [bound / sum(shares) for bound in itertools.accumulate(shares)]
    return _with_step(plan, SomeOfStep(inner, lambda draws: [min(bisect(bounds, draws[0]), len(inner) - 1)], 1))


def _random_order(plan: Plan, transform: Any) -> Plan:
    inner = _inner_steps(plan, transform)
    return _with_step(
        plan, SomeOfStep(inner, lambda draws: sorted(range(len(inner)), key=draws.__getitem__), len(inner))
    )


def _inner_steps(plan: Plan, transform: Any) -> list[tuple[Step, ...]]:
    """Read each transform in a container; they must change pixels and not the size."""
    if plan.is_tensor:
        raise UnknownTransformError("the image is a tensor by then")
    found = []
    for part in transform.transforms:
        inner = read_plan(part)
        if inner.rest or inner.is_tensor or not all(isinstance(step, SAME_SIZE) for step in inner.steps):
            raise UnknownTransformError(f"{type(part).__name__} in it is not known there")
        found.append(inner.steps)
    return found


def _normalize(plan: Plan, transform: Any) -> Plan:
    if plan.pointwise.operations is None:
        raise UnknownTransformError("the image is not float by then")
    _refuse_erased(plan)
    mean, std = _channels(transform.mean), _channels(transform.std)
    if not all(std):
        raise UnknownTransformError("its std has a zero")
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
    v1.RandomErasing: _erase,
    v2.RandomErasing: _erase,
    v1.RandomApply: _random_apply,
    v2.RandomApply: _random_apply,
    v1.RandomChoice: _random_choice,
    v2.RandomChoice: _random_choice,
    v1.RandomOrder: _random_order,
    v2.RandomOrder: _random_order,
    **CHANGE_READERS,
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
        raise UnknownTransformError("it has not one number for each of three channels")
    return channels * 3 if len(channels) == 1 else channels


def _resampling(plan: Plan, transform: Any, interpolation: Any) -> Resampling:
    """Read how a transform resamples, and keep torchvision's own function for it: of either version, as it differs."""
    functional = v2_functional if is_v2(transform) else v1_functional
    antialias = transform.antialias

    def resize(image: Any, size: list[int]) -> Any:
        return functional.resize(image, size, interpolation=interpolation, antialias=antialias)

    # Of PIL images, it warns of no antialiasing and v1 raises at names: it is to be asked then.
    is_antialiased = antialias is True if plan.is_tensor else antialias is not False
    is_known = is_antialiased and (plan.is_tensor or is_v2(transform) or type(interpolation) is not str)
    arithmetic: Arithmetic = "Pillow" if not plan.is_tensor else "torch" if is_v2(transform) else "float"
    return Resampling(resize, _FILTERS.get(interpolation, "") if is_known else "", arithmetic)


_FILTERS: dict[Any, str] = {
    name: mode.value
    for mode, number in (
        (InterpolationMode.BILINEAR, Image.Resampling.BILINEAR),
        (InterpolationMode.BICUBIC, Image.Resampling.BICUBIC),
    )
    for name in (mode, mode.value, number)  # v2 keeps whichever it was given
}
