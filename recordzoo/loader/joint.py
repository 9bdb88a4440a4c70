"""Build a plan for v2 transforms that act on an image together with its boxes and masks.

`read` reads the image's part. Each crop, resize and flip is decided once; v2's own functions apply it to boxes and
masks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image
from torch.utils import _pytree as pytree
from torchvision import tv_tensors
from torchvision.datasets.vision import StandardTransform
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

from recordzoo.images.decode import ArrayFrame, Deferred, Frame
from recordzoo.loader.geometry import CenterCropStep, RandomCropStep
from recordzoo.loader.plan import (
    Action,
    Crop,
    Draws,
    Flip,
    Plan,
    Resize,
    Step,
    UnknownTransformError,
    decide_each,
    functions,
    is_v2,
)
from recordzoo.loader.table import customized, flattened, read_one, read_plan, why_unknown

try:
    from torchvision.tv_tensors._dataset_wrapper import VisionDatasetTVTensorWrapper as _Wrapper
except ImportError:  # moved in other versions of torchvision
    _Wrapper = None


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
        transforms: All transforms, as written.
        image: The plan for the image.
        of_target: The operations on the target, in order: the index of a step of `image`, or a transform.
        rest: The first unknown transform and those after it; each takes and returns image and target.
        is_joint: Whether a transform takes image and target together. Otherwise `transforms` is a `StandardTransform`.
    """

    transforms: Any
    image: Plan
    of_target: tuple[Any, ...] = ()
    rest: tuple[Any, ...] = ()
    is_joint: bool = True

    @property
    def is_fused(self) -> bool:
        """Whether no joint transform and no `target_transform` runs as written."""
        return not self.rest and self.target_transform is None

    @property
    def target_transform(self) -> Callable[[Any], Any] | None:
        """The transform of the target alone, which runs as written."""
        return None if self.is_joint else self.transforms.target_transform

    def takes(self, target: Any, size: tuple[int, int]) -> bool:
        """Whether the loader can transform a target.

        v2 would transform an image in the target like the sample's image, and refuses a mask of another size.
        """
        leaves = pytree.tree_leaves(target) if self.is_joint else ()
        return not any(
            isinstance(leaf, _IMAGES) or (isinstance(leaf, tv_tensors.Mask) and tuple(leaf.shape[-2:]) != size)
            for leaf in leaves
        )

    def decide(self, frame: Frame, target: Any, draws: Draws) -> tuple[list[Action], Any]:
        """Decide the actions on an image, and transform its target.

        `draws` are the random numbers for `image`.
        """
        decided = decide_each(self.image.steps, (frame.height, frame.width), draws)
        for each in self.of_target:
            if isinstance(each, int):
                target = _moved(target, self.image.steps[each], decided[each])
            else:
                _, target = each(None, target)
        return [action for actions in decided for action in actions], target


def read_joint(transforms: Any) -> JointPlan | None:
    """Read joint transforms of images and targets; None if the first is unknown."""
    if type(transforms) is StandardTransform:
        plan = read_plan(transforms.transform)
        return JointPlan(transforms, plan, is_joint=False) if plan.fused else None
    found = _read_all(flattened(transforms))
    return replace(found, transforms=transforms) if found.image.fused else None


def _read_all(parts: list[Any]) -> JointPlan:
    plan, of_target, rest = Plan(), [], ()
    for number, each in enumerate(parts):
        try:
            if replaced := functions.replaced():
                raise UnknownTransformError(replaced)
            if type(each) in _OF_TARGETS and not customized(each):
                plan = replace(plan, fused=(*plan.fused, each))
                of_target.append(each)
                continue
            new = _read(plan, each)
        except Exception as err:  # noqa: BLE001 - objects of any kind; what cannot be read is not known
            plan, rest = replace(plan, reason=why_unknown(err)), tuple(parts[number:])
            break
        added = range(len(plan.steps), len(new.steps))
        of_target += [place for place in added if new.steps[place].moves]
        if type(each) is v2.ToPureTensor:
            of_target.append(each)
        plan = replace(new, fused=(*plan.fused, each))
    return JointPlan(v2.Compose(parts), plan, tuple(of_target), rest)


def _read(plan: Plan, transform: Any) -> Plan:
    if not is_v2(transform):
        raise UnknownTransformError(f"{type(transform).__qualname__} is not one of v2, which know boxes and masks")
    new = read_one(plan, transform)
    for step in new.steps[len(plan.steps) :]:
        if step.moves is None:
            raise UnknownTransformError("it is not known for boxes and masks")
    return new


def _moved(target: Any, step: Step, actions: list[Action]) -> Any:
    """Move the boxes and masks of a target like its image."""

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, _MOVED):
            return leaf
        if isinstance(step, CenterCropStep):  # rounds differently for boxes
            return functional.center_crop(leaf, list(step.size))
        left = top = 0
        if isinstance(step, RandomCropStep) and any(step.padding):  # float boxes are rounded after either step
            left, top = step.padding[:2]
            leaf = functional.pad(leaf, list(step.padding))
        for action in actions:
            if isinstance(action, Crop):
                leaf = functional.crop(leaf, action.top + top, action.left + left, action.height, action.width)
            elif isinstance(action, Resize):
                leaf = functional.resize(leaf, [action.height, action.width])
            elif isinstance(action, Flip):
                leaf = functional.horizontal_flip(leaf)
        return leaf

    return pytree.tree_map(move, target)


def is_wrapped(dataset: Any) -> bool:
    """Whether a dataset was returned by torchvision's `wrap_dataset_for_transforms_v2`."""
    return _Wrapper is not None and isinstance(dataset, _Wrapper)


def frame_of(image: Any) -> Frame | None:
    """Return the frame of a dataset's image, decoded or not; None for an image that is not RGB."""
    if isinstance(image, Deferred) and not image.is_loaded:
        return image.frame
    is_rgb = isinstance(image, Image.Image) and image.mode == "RGB"
    return ArrayFrame(np.asarray(image)) if is_rgb else None


def as_plain(image: Any) -> Any:
    """Return a dataset's image as the dataset would have returned it."""
    return image.copy() if isinstance(image, Deferred) else image
