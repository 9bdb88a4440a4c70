"""`ADE20KRecord`: the Scene Parsing Benchmark of ADE20K, SceneParse150, from records."""

import os
from collections.abc import Mapping

from torchvision.datasets import VOCSegmentation
from typing_extensions import override

from recordzoo.base.text import TrainVal
from recordzoo.datasets.ade20k_recipe import TOP
from recordzoo.families.base import derived
from recordzoo.families.files import Files, SplitPairsDataset


class ADE20KRecord(SplitPairsDataset[TrainVal], VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """ADE20K's Scene Parsing Benchmark, read from records. A mask is a PIL image.

    In a mask, 0 is no class, and n is the class `classes[n - 1]`.

    Examples:
        >>> dataset = ADE20KRecord("data", split="val")
        >>> image, mask = dataset[0]
    """

    entry = "ade20k"
    _TARGET = "mask"

    @override
    def _files_below(self, root: str) -> Mapping[str, Files]:
        return {
            "image": Files("images", os.path.join(root, TOP, "images"), ".jpg"),
            "mask": Files("targets", os.path.join(root, TOP, "annotations"), ".png"),
        }

    @derived
    def classes(self) -> list[str]:
        """The names of the classes."""
        return list(self._selection.reader.manifest.metadata["classes"])

    @derived
    def targets(self) -> list[str]:
        """The paths of the masks."""
        return self._paths("mask")
