"""Targets in pixels of their image: as transforms of v2 know them, and a warning where they are left behind."""

import warnings
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

# Any, in all of this module: transforms, datasets and targets are of all kinds.

_GEOMETRY = {name for name, kind in vars(v2).items() if getattr(kind, "__module__", "").endswith("._geometry")}
"""The names of v2's transforms of geometry; those of torchvision's first transforms are called alike."""


def warn_if_left_behind(dataset: Any, targets: Sequence[str]) -> None:
    """Warn if the dataset's `transform` moves pixels under a target that nothing moves.

    Args:
        dataset: The dataset, whose transforms are set.
        targets: What is in pixels: "target_type 'bbox'".
    """
    if not targets or dataset.transform is None or dataset.target_transform is not None:
        return
    moving = next((name for name in map(_name, _parts(dataset.transform)) if name in _GEOMETRY), None)
    if moving is None:
        return
    has_argument = "transforms" in signature(type(dataset).__init__).parameters
    way = "pass transforms=" if has_argument else "use torchvision.datasets.wrap_dataset_for_transforms_v2"
    warnings.warn(
        f"{type(dataset).__name__}: {moving} in transform= moves the image, but not {targets[0]}, which is in "
        f"its pixels. To move both, {way}.",
        stacklevel=3,
    )


def _name(transform: Any) -> str:
    return type(transform).__name__ if type(transform).__module__.startswith("torchvision.transforms") else ""


def _parts(transform: Any) -> Iterator[Any]:
    """Iterate over a transform and those within it, as in Compose."""
    yield transform
    within = getattr(transform, "transforms", ())
    for each in within if isinstance(within, list | tuple) else ():
        yield from _parts(each)


def as_mask(mask: Any) -> tv_tensors.Mask:
    """Make a mask [H, W] of an image or array with one channel."""
    found = tv_tensors.Mask(mask if isinstance(mask, Image.Image) else torch.tensor(mask))
    return tv_tensors.Mask(found[0]) if found.ndim == 3 and found.shape[0] == 1 else found


def with_form(form: str, target: Any, image: Any) -> Any:
    """Return a target in pixels of its image as transforms of v2 know it."""
    if form == "mask":
        return as_mask(target)
    height, width = functional.get_size(image)
    if form == "points":
        return tv_tensors.KeyPoints(target, canvas_size=(height, width))
    if form == "seen points":
        return tv_tensors.KeyPoints(target[:, :2], canvas_size=(height, width)), target[:, 2]
    return tv_tensors.BoundingBoxes(target, format=form, canvas_size=(height, width))
