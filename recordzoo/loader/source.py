"""The leaves of a dataset: those that it consists of, each with its store of images and the plan of its transforms.

They are found through any `Subset` and `ConcatDataset` around them. First the plan of joint transforms of v2, which act
on an image together with its boxes and masks: each crop, resize and flip is decided once, and v2's own functions apply
it to boxes and masks.
"""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch.utils import _pytree as pytree
from torch.utils.data import ConcatDataset, Subset
from torchvision import tv_tensors
from torchvision.datasets.vision import StandardTransform
from torchvision.transforms import v2
from typing_extensions import override

from recordzoo.base.text import counted
from recordzoo.errors import SampleIndexError
from recordzoo.families.base import BatchSource, ZooDataset
from recordzoo.families.selection import Selection
from recordzoo.images.decode import Deferred, Frame, deferring, frame_of_picture
from recordzoo.loader.epochs import Indices, indices_of
from recordzoo.loader.parts import Mix, by_part
from recordzoo.loader.plan import (
    ITEMS,
    Action,
    Draws,
    Plan,
    Step,
    UnknownTransformError,
    Views,
    decide,
    is_v2,
    replaced,
    size_after,
    watch,
)
from recordzoo.loader.stores import Leaf, Own, Records, has_image_bytes, makes_samples, read_kept_array, read_plain
from recordzoo.loader.table import customized, flattened, read_one, read_plan, why_unknown

try:
    from torchvision.tv_tensors._dataset_wrapper import VisionDatasetTVTensorWrapper as _Wrapper
except ImportError:  # moved in other versions of torchvision
    _Wrapper = None
else:
    watch(_Wrapper, ITEMS)

# Any, in all of this module: datasets, samples, targets and transforms have the user's types.

NOT_RGB = "its images are not RGB"

_OF_TARGETS = (v2.SanitizeBoundingBoxes, v2.ClampBoundingBoxes, v2.ConvertBoundingBoxFormat)
"""Transforms of boxes only."""

_IMAGES = (Image.Image, tv_tensors.Image, np.ndarray)
"""Types that v2's transforms treat as images."""

_MOVED = tuple(
    getattr(tv_tensors, name) for name in ("BoundingBoxes", "Mask", "KeyPoints") if hasattr(tv_tensors, name)
)


@dataclass(frozen=True)
class JointPlan:
    """The part of joint transforms of images and targets that a loader runs itself.

    Attributes:
        transforms: All transforms, as written: a `StandardTransform` if the plan is not joint.
        image: The plan for the image.
        parts: The transforms of it, in order: each with its step of `image`, or None if it acts on the target only.
        rest: The first unknown transform and those after it; each takes and returns image and target.
    """

    transforms: Any
    image: Plan
    parts: tuple[tuple[Step | None, Any], ...] = ()
    rest: tuple[Any, ...] = ()

    @property
    def target_transform(self) -> Callable[[Any], Any] | None:
        """The transform of the target alone, which runs as written."""
        return None if self.image.is_joint else self.transforms.target_transform

    def takes(self, target: Any, size: tuple[int, int]) -> bool:
        """Whether the loader can transform a target.

        v2 would transform an image in the target like the sample's image, and refuses a mask of another size.
        """
        leaves = pytree.tree_leaves(target) if self.image.is_joint else ()
        has_boxes = any(isinstance(leaf, tv_tensors.BoundingBoxes) for leaf in leaves)
        if not has_boxes and any(step.of_target is not None for step in self.image.steps):
            return False  # v2 raises an error
        return not any(
            isinstance(leaf, _IMAGES) or (isinstance(leaf, tv_tensors.Mask) and tuple(leaf.shape[-2:]) != size)
            for leaf in leaves
        )

    def decide(self, frame: Frame, target: Any, draws: Draws) -> tuple[list[Action], Any]:
        """Decide the actions on an image, and transform its target.

        `draws` are the random numbers for `image`.
        """
        size = frame.height, frame.width
        if not self.image.is_joint:
            return decide(self.image.steps, size, draws), target
        actions: list[Action] = []
        start = 0
        for step, transform in self.parts:
            if step is None:
                _, target = transform(None, target)
                continue
            found, params = step.decide_with(target, size, draws[start : start + step.num_draws])
            start += step.num_draws
            size = size_after(found, size)
            actions += found
            if step.moves and params is not None:
                move = functools.partial(_moved, transform, params)
                target = pytree.tree_map(move, target)
        return actions, target


# Any: a transform, and a part of a target.
def _moved(transform: Any, params: dict[str, Any], leaf: Any) -> Any:
    """Move boxes or masks as v2 does; leave other parts of a target."""
    return transform.transform(leaf, params) if isinstance(leaf, _MOVED) else leaf


def read_joint(transforms: Any) -> JointPlan | None:
    """Read joint transforms of images and targets; None if the first is unknown."""
    if type(transforms) is StandardTransform:
        plan = read_plan(transforms.transform)
        return JointPlan(transforms, plan) if plan.fused else None
    plan, rest = Plan(is_joint=True), tuple[Any, ...]()
    parts: list[tuple[Step | None, Any]] = []
    every = flattened(transforms)
    for number, each in enumerate(every):
        try:
            new = plan if type(each) in _OF_TARGETS and not customized(each) else _read(plan, each)
        except Exception as err:  # noqa: BLE001 - objects of any kind; what cannot be read is not known
            plan, rest = replace(plan, reason=why_unknown(err)), tuple(every[number:])
            break
        parts += [(step, each) for step in new.steps[len(plan.steps) :]]
        if type(each) in (*_OF_TARGETS, v2.ToPureTensor):
            parts.append((None, each))
        plan = replace(new, fused=(*plan.fused, each))
    return JointPlan(transforms, plan, tuple(parts), rest) if plan.fused else None


def _read(plan: Plan, transform: Any) -> Plan:
    if not is_v2(transform):
        raise UnknownTransformError(f"{type(transform).__qualname__} is not one of v2, which know boxes and masks")
    new = read_one(plan, transform)
    if any(step.moves is None for step in new.steps[len(plan.steps) :]):
        raise UnknownTransformError("it is not known for boxes and masks")
    return new


def frame_of(image: Any) -> Frame | None:
    """Return the frame of a dataset's image, decoded or not; None for an image that is not RGB."""
    if isinstance(image, Deferred) and not image.is_loaded:
        return image.frame
    is_rgb = isinstance(image, Image.Image) and image.mode == "RGB"
    return frame_of_picture(image) if is_rgb else None


class JointLeaf(Records):
    """A dataset with joint transforms of image and target. The dataset makes its samples, but the loader decodes them.

    Args:
        dataset: The user's dataset, maybe in torchvision's wrapper for v2.
    """

    def __init__(self, dataset: Any, selection: Selection, plan: JointPlan) -> None:
        super().__init__(dataset, selection, None)
        self.plan, self.views, self.target_transform = plan, Views((plan.image,)), plan.target_transform
        self._plain = copy.copy(dataset)
        self._plain.transform = self._plain.target_transform = self._plain.transforms = None

    @override
    def check(self, index: int) -> None:
        self.as_plain(self.sample(index)[0], index)

    def sample(self, index: int) -> tuple[Any, Any]:
        """Return the image and the target before all transforms; the image is usually a `Deferred` one."""
        with self.naming(index), deferring():
            image, target = self._plain[index]
        return image, target

    def as_plain(self, image: Any, index: int) -> Any:
        """Return the image of a sample as the dataset would have returned it."""
        with self.naming(index):
            return image.copy() if isinstance(image, Deferred) else image


class Source:
    """The record sets and files behind a dataset.

    Attributes:
        leaves: The datasets that it consists of; none if there is a problem.
        problem: Why the loader must ask the dataset itself for samples; "" if it need not.
        kind: The dataset's class, for messages.
        locate: Maps indices of the dataset to leaf numbers and indices within the leaves.
    """

    def __init__(self, dataset: Any) -> None:
        self.leaves: list[Leaf] = []
        self.kind = type(dataset).__name__
        self.problem = replaced()
        self.locate = self._read(dataset)
        if self.problem:
            self.leaves = []

    @property
    def is_small(self) -> bool:
        """Whether all images are small: threads would wait for each other's turn with the GIL."""
        return bool(self.leaves) and all(not isinstance(leaf, JointLeaf) and leaf.is_small for leaf in self.leaves)

    def _read(self, dataset: Any) -> Callable[[Indices], tuple[NDArray[np.int64], Indices]]:
        if type(dataset) is Subset:
            inner = self._read(dataset.dataset)
            if self.problem:  # its keys may not be numbers
                return inner
            size: int = len(dataset.dataset)  # type: ignore[arg-type]  # it has a length if it is read here
            kind = type(dataset.dataset).__name__
            chosen = indices_of(dataset.indices, kind)
            return lambda indices: inner(
                _checked(chosen[_checked(indices, len(chosen), "Subset")], size, kind, "Subset.indices: ")
            )
        if type(dataset) in (ConcatDataset, Mix):
            return self._read_parts(dataset)
        leaf = leaf_of(dataset)
        if isinstance(leaf, str):
            self.problem = self.problem or leaf
            return lambda indices: (np.zeros_like(indices), indices)
        number, size = len(self.leaves), len(dataset)
        self.leaves.append(leaf)
        kind = type(dataset).__name__
        return lambda indices: (np.full(len(indices), number), _checked(indices, size, kind))

    def _read_parts(self, dataset: ConcatDataset[Any]) -> Callable[[Indices], tuple[NDArray[np.int64], Indices]]:
        parts = [self._read(part) for part in dataset.datasets]
        size = dataset.cumulative_sizes[-1]

        def route(indices: Indices) -> tuple[NDArray[np.int64], Indices]:
            indices = _checked(indices, size, "ConcatDataset")
            numbers, found = np.empty_like(indices), np.empty_like(indices)
            for number, here, within in by_part(dataset, indices):
                numbers[here], found[here] = parts[number](within)
            return numbers, found

        return route


def leaf_of(dataset: Any) -> Leaf | str:
    """Return the leaf of a dataset, or the reason why a loader cannot read it itself."""
    is_wrapped = _Wrapper is not None and isinstance(dataset, _Wrapper)  # by `wrap_dataset_for_transforms_v2`
    inner = dataset._dataset if is_wrapped else dataset
    if isinstance(inner, ZooDataset):
        found = inner.batch_source()
        is_plain = inner is dataset and not _has_items_of_users(type(inner))
        problem = found.problem if is_plain else makes_samples(dataset)
        if problem or found.selection is None:
            return joint_leaf(dataset, inner, found) or problem
        leaf: Leaf | str = Records(dataset, found.selection, dataset, is_gray=found.is_gray)
    elif (meant := has_image_bytes(dataset)) == "":
        leaf = Own(dataset)
    else:
        leaf = read_kept_array(dataset) or meant or read_plain(dataset)
    return NOT_RGB if isinstance(leaf, Leaf) and leaf.is_gray and not leaf.only_moves else leaf


def _has_items_of_users(kind: type) -> bool:
    """Whether a function of the user's makes the samples of a class of this package or a subclass."""
    found = [getattr(getattr(kind, name), "__globals__", {}).get("__name__", "") for name in ITEMS]
    return any(each.partition(".")[0] not in ("recordzoo", "torchvision") for each in found)


def joint_leaf(dataset: Any, inner: ZooDataset, found: BatchSource) -> JointLeaf | None:
    """Return a leaf for a dataset of this package whose target is more than a label; None for any other."""
    if found.selection is None or not (found.is_of_pairs or found.is_apart):
        return None
    if _has_items_of_users(type(inner)):  # which may do something after the transforms
        return None
    transforms = dataset.transforms
    if found.is_apart and dataset is inner:  # `transform` may have been assigned since the dataset was opened
        apart = dataset.transform, dataset.target_transform
        if apart != tuple(map(vars(dataset).get, ("transform", "target_transform"))):
            return None  # its class computes them
        transforms = StandardTransform(*apart)
    plan = None if transforms is None else read_joint(transforms)
    return None if plan is None else JointLeaf(dataset, found.selection, plan)


def _checked(indices: Indices, size: int, kind: str, given_by: str = "") -> Indices:
    """Return indices counted from 0; refuse those that a dataset of this kind and size does not have."""
    found = np.where(indices < 0, indices + size, indices)
    if len(wrong := indices[(found < 0) | (found >= size)]):
        raise SampleIndexError(
            f"{given_by}there is no sample {wrong[0]} in {kind}, which has {counted(size, 'sample')}."
        )
    return found
