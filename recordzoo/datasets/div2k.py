"""`DIV2KRecord`: DIV2K, photographs in low and in high resolution, from records."""

import os
from collections.abc import Sequence
from typing import Literal, Unpack

from PIL import Image
from torchvision.datasets import VisionDataset

from recordzoo.base.text import TrainVal
from recordzoo.datasets.div2k_recipe import TRACKS, folders_of, part_of
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.files import Files, PairsDataset
from recordzoo.families.selection import Selection
from recordzoo.images.decode import decode_rgb
from recordzoo.preparing.options import PrepareOptions

Track = Literal[
    "bicubic_x2",
    "bicubic_x3",
    "bicubic_x4",
    "bicubic_x8",
    "unknown_x2",
    "unknown_x3",
    "unknown_x4",
    "mild_x4",
    "difficult_x4",
]


class DIV2KRecord(PairsDataset, VisionDataset):  # type: ignore[misc]  # torchvision is untyped
    """DIV2K, read from records: pairs of a photograph in low resolution and the same one in high resolution.

    Each split of a track is a record set of its own, with the images of high resolution in it. The track "wild", with
    four images of low resolution for each of high resolution, is left out.

    Args:
        track: How the images of low resolution were made, and how many times smaller they are: "bicubic_x2", ...

    Attributes:
        images: The paths of the images of low resolution.
        targets: The paths of the images of high resolution.

    Examples:
        >>> dataset = DIV2KRecord("data", "val", track="unknown_x4")
        >>> low, high = dataset[0]
    """

    entry = "div2k"
    _TARGET = "high"

    def __init__(
        self,
        root: Root,
        split: TrainVal = "train",
        track: Track = "bicubic_x2",
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self.split = check_choice(split, "split", ("train", "val"))
        self.track = check_choice(track, "track", tuple(TRACKS))
        self._part = part_of(split, track)
        self._ENDING = TRACKS[track].ending  # type: ignore[misc]  # of each name, not of all tracks' names
        reader = self._open_part(download=download, options=options)
        low, high = (os.path.join(self.root, *folder.split("/")) for folder in folders_of(split, track))
        files = {"image": Files("images", low, TRACKS[track].ending), "high": Files("targets", high, ".png")}
        self._show_paths(Selection(reader, split), files)

    def _in_pixels(self) -> Sequence[str]:
        return ["the target"]

    @derived
    def targets(self) -> list[str]:
        """The paths of the images of high resolution."""
        return self._paths("high")

    def _load_target(self, data: bytes) -> Image.Image:
        return decode_rgb(data)
