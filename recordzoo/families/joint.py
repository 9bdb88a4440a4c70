"""Samples with boxes or masks, in the form of torchvision's `wrap_dataset_for_transforms_v2`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional

from recordzoo.base.meant import did_you_mean
from recordzoo.errors import ArgumentError
from recordzoo.images.objects import Objects, find_objects
from recordzoo.records.reader import RecordReader

# Any, in this module: values are images, tensors, numbers, or anything else that a field stores.


@dataclass(frozen=True)
class JointTargets:
    """Makes the targets of a record set's images.

    Attributes:
        objects: The fields with boxes, labels and masks.
        keys: The keys of a target; empty if a target is the image's mask.
    """

    objects: Objects
    keys: tuple[str, ...]

    @property
    def field(self) -> str:
        """The field that `classes` and `targets` come from, because they need no image."""
        found = self.objects
        return found.labels or found.boxes or found.masks or found.mask

    def target(self, position: int, image: Any) -> Any:
        """Return the target of a record: a mask, or a dict.

        Args:
            image: Its image, whose size is the canvas of the boxes.
        """
        if not self.keys:
            return _mask(self.objects.mask_of(position))
        height, width = functional.get_size(image)
        return {key: self._value(key, position, (width, height)) for key in self.keys}

    def _value(self, key: str, position: int, size: tuple[int, int]) -> Any:
        found, reader = self.objects, self.objects.reader
        if key == "image_id":
            return int(reader.value(key, position)) if key in reader.manifest.fields else position
        if key == "boxes":
            boxes, canvas = found.boxes_of(position, size), (size[1], size[0])
            return tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=canvas)
        if key == "labels":
            return torch.from_numpy(found.labels_of(position))
        if key == "masks":
            return tv_tensors.Mask(torch.from_numpy(found.masks_of(position, size)))
        return _mask(found.mask_of(position)) if key == found.mask else reader.value(key, position)


def joint_targets(reader: RecordReader, target_type: str | Sequence[str] | None) -> JointTargets | None:
    """Find out which targets a record set has; None if it has neither boxes nor masks.

    Args:
        reader: The record set.
        target_type: The keys of a target. Default: all that the records have, but masks only if they are stored as
            such: drawing polygons takes time.

    Raises:
        ArgumentError: The records do not have such a key.
    """
    found = find_objects(reader)
    if not found:
        return None
    if not (found.boxes or found.masks):
        return JointTargets(found, ()) if target_type in (None, found.mask) else None
    has = {"image_id": True, "boxes": found.boxes, "masks": found.masks, "labels": found.labels}
    if found.mask:
        has[found.mask] = found.mask
    default = tuple(key for key, there in has.items() if there)
    if target_type is None:
        return JointTargets(found, default)
    keys = (target_type,) if isinstance(target_type, str) else tuple(target_type)
    others = [name for name in reader.manifest.fields if name not in (*has, "image")]
    valid = [*default, *(["masks"] if found.annotations and not found.masks else []), *others]
    for key in keys:
        if key not in valid:
            raise ArgumentError(
                f"Unknown value {key!r} for argument target_type. With transforms, valid values for {reader.path} are "
                f"{', '.join(valid)}.{did_you_mean(str(key), valid)}"
            )
    return JointTargets(found, keys or default)


def _mask(mask: Any) -> tv_tensors.Mask:
    """Make a mask [H, W] of an image or array with one channel."""
    found = tv_tensors.Mask(mask if isinstance(mask, Image.Image) else torch.tensor(mask))
    return tv_tensors.Mask(found[0]) if found.ndim == 3 and found.shape[0] == 1 else found
