"""Transforms of torchvision's that move pixels: with `transform=`, targets in pixels stay where they were."""

import warnings
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

from torchvision.transforms import v2

_GEOMETRY = {name for name, kind in vars(v2).items() if getattr(kind, "__module__", "").endswith("._geometry")}
"""The names of v2's transforms of geometry; those of torchvision's first transforms are called alike."""


# Any: transforms and datasets are of all kinds.
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
