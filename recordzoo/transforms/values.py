"""Transforms that convert an image to a tensor, and operations on its values."""

import math
from dataclasses import replace
from typing import Any

import torch

from recordzoo.transforms.plan import Operation, Plan, UnknownTransformError, is_v2


def to_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `ToTensor`."""
    if torch.get_default_dtype() is not torch.float32:
        raise UnknownTransformError("torch's default dtype is not float32")
    return replace(pil_to_tensor(plan, transform), pointwise=plan.pointwise.then(("div", 255.0)))


def pil_to_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `PILToTensor`."""
    if plan.is_tensor:
        raise UnknownTransformError("the image is a tensor already")
    return replace(plan, is_tensor=True)


def to_image(plan: Plan, transform: Any) -> Plan:
    """Read `ToImage`."""
    return replace(plan, is_tensor=True, is_image=True)


def to_pure_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `ToPureTensor`."""
    return replace(plan, is_image=False)


def convert_dtype(plan: Plan, transform: Any) -> Plan:
    """Read `ConvertImageDtype`: v1 divides by 255, v2 multiplies by 1 / 255."""
    return _to_float(plan, transform.dtype, ("mul", 1.0 / 255) if is_v2(transform) else ("div", 255.0))


def to_dtype(plan: Plan, transform: Any) -> Plan:
    """Read `ToDtype`."""
    scaled: tuple[Operation, ...] = (("mul", 1.0 / 255),) if transform.scale else ()
    return _to_float(plan, transform.dtype, *scaled)


def normalize(plan: Plan, transform: Any) -> Plan:
    """Read `Normalize`."""
    if plan.pointwise.operations is None:
        raise UnknownTransformError("the image is not float by then")
    _refuse_erased(plan)
    mean, std = _channels(transform.mean), _channels(transform.std)
    if not all(std):
        raise UnknownTransformError("its std has a zero")
    return replace(plan, pointwise=plan.pointwise.then(("sub", mean), ("div", std)))


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


def _channels(values: Any) -> tuple[float, ...]:
    channels = tuple(float(value) for value in ([values] if isinstance(values, float | int) else values))
    if len(channels) not in (1, 3) or not all(map(math.isfinite, channels)):
        raise UnknownTransformError("it has not one number for each of three channels")
    return channels * 3 if len(channels) == 1 else channels
