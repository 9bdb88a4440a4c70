"""Split transforms into a compiled prefix, a compiled suffix, and the rest in between, called as usual.

Only a transform's exact class counts: a subclass may do something else. The transforms in between stay as they are,
known or not, so that none is dropped or reordered. timm's transforms are translated to torchvision's; timm itself is
never imported.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from recordzoo.transforms.originals import called_of, functions
from recordzoo.transforms.plan import Plan, Transform, UnknownTransformError, Views, is_v2, with_step
from recordzoo.transforms.steps import Step
from recordzoo.transforms.table import CONTAINERS, READERS
from recordzoo.transforms.views import views_of

_COMPOSES = (v1.Compose, v2.Compose)

for _kind in (*_COMPOSES, *READERS, *CONTAINERS):
    called_of(_kind)  # keeps the functions that are there now


def read_views(transform: Transform | None) -> Views:
    """Read a dataset's transform; None does nothing."""
    transforms = flattened(transform)
    try:
        parts = views_of(transforms[0]) if len(transforms) == 1 else None
    except Exception:  # noqa: BLE001 - an object of any kind; it runs as written
        parts = None
    if parts is None:
        return Views((read_plan(transform),))
    return Views(tuple(map(read_plan, parts)), is_list=True)


def read_plan(transform: Transform | None) -> Plan:
    """Read a transform that returns one view of an image."""
    transforms = flattened(transform)
    plan = _begun(Plan(), transforms)
    left = transforms[len(plan.fused) :]
    # A suffix starts with the image type that the prefix leaves; float tensors have no known suffix.
    begin = Plan(is_tensor=plan.is_tensor and plan.pointwise.operations is None, is_image=plan.is_image)
    for start in range(1, len(left)):
        ending = _begun(begin, left[start:])
        if len(ending.fused) == len(left) - start and ending.is_tensor and ending.pointwise != begin.pointwise:
            return replace(plan, rest=tuple(left[:start]), ending=ending)
    return replace(plan, rest=tuple(left))


def _begun(plan: Plan, transforms: Sequence[Transform]) -> Plan:
    """Read transforms up to the first unknown one; record why it is unknown."""
    if replaced := functions.replaced():
        return replace(plan, reason=replaced)
    for each in transforms:
        try:
            plan = replace(read_one(plan, each), fused=(*plan.fused, each))
        except Exception as err:  # noqa: BLE001 - objects of any kind; what cannot be read is not known
            return replace(plan, reason=why_unknown(err))
    return plan


def why_unknown(err: Exception) -> str:
    """Return the reason why a transform that could not be read runs as written."""
    return str(err) if isinstance(err, UnknownTransformError) else f"it cannot be read: {type(err).__name__}: {err}"


def flattened(transform: Transform | None) -> list[Transform]:
    """Flatten nested `Compose` transforms into a list; [] for None."""
    if transform is None:
        return []
    if type(transform) in _COMPOSES and not customized(transform):
        parts = transform.transforms  # type: ignore[attr-defined]  # Compose is untyped
        if isinstance(parts, Sequence | nn.ModuleList):
            return [each for part in parts for each in flattened(part)]
    return [transform]


def read_one(plan: Plan, transform: Any) -> Plan:
    """Return a plan extended by a transform."""
    for each in _as_torchvision(transform, is_tensor=plan.is_tensor):
        kind = type(each)
        if kind not in READERS and kind not in CONTAINERS and kind not in _COMPOSES:
            raise UnknownTransformError(f"{kind.__module__}.{kind.__qualname__} is not one of those known here")
        if change := customized(transform):
            raise UnknownTransformError(change)
        if plan.is_image and not is_v2(transform):
            raise UnknownTransformError(
                "of tv_tensors.Image, v1 transforms make plain tensors or not, depending on the image"
            )
        if kind in READERS:
            plan = READERS[kind](plan, each)
        else:
            plan = with_step(plan, CONTAINERS[kind](each, _inner_steps(plan, each)))
    return plan


def customized(transform: Any) -> str:
    """Say what a user changed on this object or its class: a replaced function or a hook; "" if nothing."""
    if replaced := [name for name in vars(transform) if callable(getattr(type(transform), name, None))]:
        return f"its {replaced[0]} was replaced"
    hooks = [getattr(transform, name, None) for name in ("_forward_hooks", "_forward_pre_hooks")]
    hooks += [getattr(module, name, None) for name in ("_global_forward_hooks", "_global_forward_pre_hooks")]
    return "it has a hook" if any(hooks) else called_of(type(transform)).replaced()


def _inner_steps(plan: Plan, transform: Any) -> list[tuple[Step, ...]]:
    """Read each transform in a container; the transforms may change pixels but not the size."""
    if plan.is_tensor:
        raise UnknownTransformError("the image is a tensor by then")
    found = []
    for part in transform.transforms:
        inner = read_plan(part)
        if inner.rest or inner.is_tensor or not all(step.keeps_size for step in inner.steps):
            raise UnknownTransformError(f"{type(part).__name__} in it is not known there")
        found.append(inner.steps)
    return found


def as_given(plan: Plan, image: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to the input type of the first transform in `rest`."""
    return tv_tensors.Image(image) if plan.is_image else image


def _as_torchvision(transform: Any, *, is_tensor: bool) -> list[Any]:
    """Translate a transform of timm to torchvision's; return any other one unchanged.

    The `interpolation` of a `RandomResizedCrop` may then be a tuple, to draw from for each image.
    """
    kind = type(transform)
    reader = _OF_TIMM.get(f"{kind.__module__}.{kind.__qualname__}")
    try:
        return [transform] if reader is None else reader(transform, is_tensor)
    except (TypeError, ValueError) as err:
        raise UnknownTransformError(f"torchvision has none like it: {err}") from err


def _timm_crop(transform: Any, is_tensor: bool) -> list[Any]:
    if len(transform.size) != 2:
        raise UnknownTransformError("its size is not height and width")
    found = v1.RandomResizedCrop(transform.size, tuple(transform.scale), tuple(transform.ratio))
    found.interpolation = transform.interpolation
    return [found]


def _timm_erasing(transform: Any, is_tensor: bool) -> list[Any]:
    if transform.mode not in ("", "const"):
        raise UnknownTransformError("it fills boxes with noise")
    if (transform.min_count, transform.max_count) != (1, 1):
        raise UnknownTransformError("it erases several boxes")
    if str(transform.device) != "cpu":
        raise UnknownTransformError(f"it makes the filling of boxes on {transform.device}")
    low, high = transform.log_aspect_ratio
    area = transform.min_area, transform.max_area
    return [v1.RandomErasing(transform.probability, area, (math.exp(low), math.exp(high)), 0.0)]


_OF_TIMM: dict[str, Callable[[Any, bool], list[Any]]] = {
    "timm.data.transforms.RandomResizedCropAndInterpolation": _timm_crop,
    "timm.data.transforms.MaybeToTensor": lambda _, is_tensor: [] if is_tensor else [v1.ToTensor()],
    "timm.data.transforms.MaybePILToTensor": lambda _, is_tensor: [] if is_tensor else [v1.PILToTensor()],
    # The values stay from 0 to 255.
    "timm.data.transforms.ToTensor": lambda transform, _: [v1.PILToTensor(), v2.ToDtype(transform.dtype)],
    "timm.data.random_erasing.RandomErasing": _timm_erasing,
}
"""The reader of each class, by module and name."""
