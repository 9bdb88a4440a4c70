"""Translate timm's transforms to equivalent ones of torchvision; timm itself is never imported."""

import math
from collections.abc import Callable
from typing import Any

from torchvision import transforms as v1
from torchvision.transforms import v2

from recordzoo.transforms.plan import UnknownTransformError


def as_torchvision(transform: Any, *, is_tensor: bool) -> list[Any]:
    """Translate a transform of timm to torchvision's; return any other one unchanged.

    Args:
        transform: The transform, recognised by its exact class.
        is_tensor: Whether the image is a tensor at this point.

    Returns:
        torchvision's transforms. The `interpolation` of a `RandomResizedCrop` may be a tuple, to draw from for each
        image.

    Raises:
        UnknownTransformError: The transform is timm's and has options that torchvision lacks.
    """
    kind = type(transform)
    reader = _READERS.get(f"{kind.__module__}.{kind.__qualname__}")
    try:
        return [transform] if reader is None else reader(transform, is_tensor)
    except (TypeError, ValueError) as err:
        raise UnknownTransformError(f"torchvision has none like it: {err}") from err


def _crop(transform: Any, is_tensor: bool) -> list[Any]:
    if len(transform.size) != 2:
        raise UnknownTransformError("its size is not height and width")
    found = v1.RandomResizedCrop(transform.size, tuple(transform.scale), tuple(transform.ratio))
    found.interpolation = transform.interpolation
    return [found]


def _maybe_to_tensor(transform: Any, is_tensor: bool) -> list[Any]:
    return [] if is_tensor else [v1.ToTensor()]


def _maybe_pil_to_tensor(transform: Any, is_tensor: bool) -> list[Any]:
    return [] if is_tensor else [v1.PILToTensor()]


def _to_tensor(transform: Any, is_tensor: bool) -> list[Any]:
    return [v1.PILToTensor(), v2.ToDtype(transform.dtype)]  # from 0 to 255


def _erasing(transform: Any, is_tensor: bool) -> list[Any]:
    if transform.mode not in ("", "const"):
        raise UnknownTransformError("it fills boxes with noise")
    if (transform.min_count, transform.max_count) != (1, 1):
        raise UnknownTransformError("it erases several boxes")
    if str(transform.device) != "cpu":
        raise UnknownTransformError(f"it makes the filling of boxes on {transform.device}")
    low, high = transform.log_aspect_ratio
    area = transform.min_area, transform.max_area
    return [v1.RandomErasing(transform.probability, area, (math.exp(low), math.exp(high)), 0.0)]


_READERS: dict[str, Callable[[Any, bool], list[Any]]] = {
    "timm.data.transforms.RandomResizedCropAndInterpolation": _crop,
    "timm.data.transforms.MaybeToTensor": _maybe_to_tensor,
    "timm.data.transforms.MaybePILToTensor": _maybe_pil_to_tensor,
    "timm.data.transforms.ToTensor": _to_tensor,
    "timm.data.random_erasing.RandomErasing": _erasing,
}
"""The reader of each class, by module and name."""
