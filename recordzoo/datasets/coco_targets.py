"""COCO's images with other targets, from records: `CocoStuffRecord`, `CocoPanopticRecord` and `LVISRecord`."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torchvision.datasets import CocoDetection, VisionDataset, VOCSegmentation
from torchvision.tv_tensors import Mask
from typing_extensions import override

from recordzoo.base.text import TrainVal
from recordzoo.datasets.coco_targets_recipe import CATEGORIES, CocoPanoptic, CocoStuff
from recordzoo.families.base import derived
from recordzoo.families.files import Files, SplitPairsDataset
from recordzoo.recipes.recipe import open_image


def _images(root: str, split: str) -> Files:
    return Files("images", os.path.join(root, f"{split}2017"), ".jpg")


class _CocoAnnotations(SplitPairsDataset[TrainVal]):
    """The annotations of each image, as JSON."""

    _TARGET = "annotation"

    def _in_pixels(self) -> Sequence[str]:
        return ["the target"]

    # Any: COCO's dicts.
    @derived
    def categories(self) -> list[dict[str, Any]]:
        """The categories in the annotation file."""
        return list(self._selection.reader.manifest.metadata[CATEGORIES])

    # Any: an annotation, or a list of them.
    def _load_target(self, data: bytes) -> Any:
        return json.loads(data)


class CocoStuffRecord(SplitPairsDataset[TrainVal], VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """COCO's masks of stuff, read from records. A mask is a PIL image of the categories' ids; 183 is any thing.

    Examples:
        >>> dataset = CocoStuffRecord("data", split="val")
        >>> image, mask = dataset[0]
    """

    entry = "coco_stuff"
    _TARGET = "mask"

    @override
    def _files_below(self, root: str) -> Mapping[str, Files]:
        folder = os.path.join(root, "annotations", CocoStuff.masks.format(split=self.split))
        return {"image": _images(root, self.split), "mask": Files("targets", folder, ".png")}

    @derived
    def targets(self) -> list[str]:
        """The paths of the masks."""
        return self._paths("mask")


class CocoPanopticRecord(_CocoAnnotations, VisionDataset):  # type: ignore[misc]  # torchvision is untyped
    """COCO's panoptic segments, read from records.

    A target is the annotation of an image, a dict with "segments_info", and "mask": a `tv_tensors.Mask`, int32 [H, W],
    of the segments' ids.

    Examples:
        >>> dataset = CocoPanopticRecord("data", split="val")
        >>> image, target = dataset[0]
    """

    entry = "coco_panoptic"

    @override
    def _files_below(self, root: str) -> Mapping[str, Files]:
        images = _images(root, self.split)
        folder = os.path.join(root, "annotations", CocoPanoptic.masks.format(split=self.split))
        return {"image": images, "annotation": images, "mask": Files("masks", folder, ".png")}

    @derived
    def masks(self) -> list[str]:
        """The paths of the masks."""
        return self._paths("mask")

    # Any: an annotation and its mask.
    @override
    def _target(self, index: int) -> dict[str, Any]:
        return {**super()._target(index), "mask": self._loaded("mask", index, _segments)}


def _segments(data: bytes) -> Mask:
    pixels = np.asarray(open_image(data).convert("RGBA")).view("<u4")[..., 0]
    ids = (pixels & 0xFFFFFF).astype(np.int32)  # red + 256 green + 65536 blue, as in COCO
    return Mask(torch.from_numpy(ids))


class LVISRecord(_CocoAnnotations, CocoDetection):  # type: ignore[misc]  # torchvision is untyped
    """LVIS v1, read from records: targets as torchvision's `CocoDetection` has them, of 1,203 categories.

    ``json.loads(dataset.read(index, "info"))`` is what LVIS says of an image: "neg_category_ids", ....

    Examples:
        >>> dataset = LVISRecord("data", split="val")
        >>> image, annotations = dataset[0]
    """

    entry = "lvis"

    @override
    def _files_below(self, root: str) -> Mapping[str, Files]:
        images = Files("images", root, ".jpg")
        return {"image": images, "annotation": images}

    @derived
    def ids(self) -> list[int]:
        """The ids of the images."""
        return [int(os.path.splitext(os.path.basename(name))[0]) for name in self._selection.names()]
