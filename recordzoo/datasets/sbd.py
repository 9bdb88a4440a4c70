"""`SBDatasetRecord`: torchvision's SBDataset from records."""

import io
import os
from collections.abc import Sequence
from typing import Any, Literal, Unpack

from scipy.io import loadmat
from torchvision.datasets import SBDataset

from recordzoo.datasets.sbd_recipe import split_name
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.files import Files, PairsDataset
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions


class SBDatasetRecord(PairsDataset, SBDataset):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SBDataset`, read from records.

    "train_noval" is a record set of its own, with the same images: its list comes from another address, which often
    fails.

    Args:
        image_set: "train", "val", or "train_noval": the images that are not in VOC 2012's validation set.
        mode: "boundaries", an array [20, H, W], or "segmentation", a PIL image.

    Examples:
        >>> dataset = SBDatasetRecord("data", "val", mode="segmentation")
        >>> image, mask = dataset[0]
    """

    entry = "sbd"
    _TARGET = "mask"
    _loadmat = staticmethod(loadmat)

    def __init__(
        self,
        root: Root,
        image_set: Literal["train", "val", "train_noval"] = "train",
        mode: Literal["boundaries", "segmentation"] = "boundaries",
        download: bool = False,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms)
        self.image_set = check_choice(image_set, "image_set", ("train", "val", "train_noval"))
        self.mode = check_choice(mode, "mode", ("segmentation", "boundaries"))
        self.num_classes = 20
        split = split_name(image_set)
        self._part = split if image_set == "train_noval" else "all"
        reader = self._open_part(download=download, options=options)
        files = {
            "image": Files("images", os.path.join(self.root, "img"), ".jpg"),
            "mask": Files("masks", os.path.join(self.root, "cls"), ".mat"),
        }
        self._show_paths(Selection(reader, split, listed_in=f"{image_set}.txt"), files)

    def _in_pixels(self) -> Sequence[str]:
        return ["the target"]

    @derived
    def masks(self) -> list[str]:
        """The paths of the .mat files."""
        return self._paths("mask")

    # Any: an image or an array; SciPy reads the file from memory.
    def _load_target(self, data: bytes) -> Any:
        return self._get_target(io.BytesIO(data))

    # Any: as above; torchvision's methods are untyped.
    @property
    def _get_target(self) -> Any:
        return self._get_segmentation_target if self.mode == "segmentation" else self._get_boundaries_target
