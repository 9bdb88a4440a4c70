"""`ADE20KRecord`: the Scene Parsing Benchmark of ADE20K, SceneParse150, from records."""

import os
from typing import Unpack

from PIL import Image
from torchvision.datasets import VOCSegmentation

from recordzoo.base.types import TrainVal
from recordzoo.datasets.ade20k_recipe import FOLDERS, TOP
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.paths import Files, PairsDataset
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions
from recordzoo.recipes.images import open_image


class ADE20KRecord(PairsDataset, VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """ADE20K's Scene Parsing Benchmark, read from records. A mask is a PIL image.

    In a mask, 0 is no class, and n is the class `classes[n - 1]`.

    Examples:
        >>> dataset = ADE20KRecord("data", split="val")
        >>> image, mask = dataset[0]
    """

    entry = "ade20k"
    _TARGET = "mask"

    def __init__(
        self,
        root: Root,
        split: TrainVal = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self.split = check_choice(split, "split", tuple(FOLDERS))
        reader = self._open_part(download=download, options=options)
        base = os.path.join(self.root, TOP)
        files = {
            "image": Files("images", os.path.join(base, "images"), ".jpg"),
            "mask": Files("targets", os.path.join(base, "annotations"), ".png"),
        }
        self._show_paths(Selection(reader, split), files)
        self.classes = list(reader.manifest.metadata["classes"])

    @derived
    def images(self) -> list[str]:
        """The paths of the images."""
        return self._paths("image")

    @derived
    def targets(self) -> list[str]:
        """The paths of the masks."""
        return self._paths("mask")

    def _load_target(self, data: bytes) -> Image.Image:
        return open_image(data)
