"""DIV2K by code: zips of images of high resolution, and of low resolution for each track."""

import os
from typing import Any

from numpy.random import Generator
from PIL import Image
from torchvision.datasets import VisionDataset
from torchvision.datasets.utils import verify_str_arg

from tests.fakes.fake import Case, by, fake, zipped
from tests.fakes.mutations import PATHS
from tests.fakes.pictures import encoded, picture
from tests.fakes.scale import scaled

_TRACKS = {
    **{f"{kind}_x{n}": (f"{kind}_X{n}", f"{kind}/X{n}", f"x{n}") for kind in ("bicubic", "unknown") for n in (2, 3, 4)},
    "bicubic_x8": ("x8", "x8", "x8"),
    "mild_x4": ("mild", "mild", "x4m"),
    "difficult_x4": ("difficult", "difficult", "x4d"),
}
"""The end of the zip's name, the end of the folder, and what the names of the images end with."""


class PlainDIV2K(VisionDataset):  # type: ignore[misc]  # torchvision is untyped
    """What people write over the folders."""

    # Any: torchvision's own arguments.
    def __init__(
        self,
        root: Any,
        split: str = "train",
        track: str = "bicubic_x2",
        transform: Any = None,
        target_transform: Any = None,
        transforms: Any = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.split = verify_str_arg(split, "split", ("train", "val"))
        self.track = verify_str_arg(track, "track", tuple(_TRACKS))
        start = os.path.join(self.root, f"DIV2K_{'train' if split == 'train' else 'valid'}_")
        kind, *scale = _TRACKS[track][1].split("/")
        folder = start + os.path.join("LR_" + kind, *scale)
        names = sorted(os.listdir(folder))
        self.images = [os.path.join(folder, name) for name in names]
        self.targets = [os.path.join(f"{start}HR", f"{name[:4]}.png") for name in names]

    def __len__(self) -> int:
        return len(self.images)

    # Any: what the transforms make of them.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        low: Any = Image.open(self.images[index]).convert("RGB")
        high: Any = Image.open(self.targets[index]).convert("RGB")
        return (low, high) if self.transforms is None else self.transforms(low, high)


@fake(
    "div2k",
    Case(
        "DIV2KRecord",
        ({}, {"split": "val", "track": "unknown_x4"}, {"track": "bicubic_x8"}, {"split": "val", "track": "mild_x4"}),
        (*by("split", "test", None), *by("track", "wild_x4", None)),
        PATHS,
        theirs=PlainDIV2K,
    ),
)
def div2k(rng: Generator) -> dict[str, bytes]:
    """Numbers go on from one split to the next."""
    files = {}
    for split, first, count in (("train", 1, 4), ("valid", 801, 2)):
        photos = {first + number: picture(rng, 48, 32 + 8 * (number % 2)) for number in range(scaled(count))}
        high = {f"DIV2K_{split}_HR/{number:04d}.png": encoded(photo, "PNG") for number, photo in photos.items()}
        files[f"DIV2K_{split}_HR.zip"] = zipped(high)
        for track, (archive, folder, ending) in _TRACKS.items():
            numbers = list(photos)[: None if track == "bicubic_x2" else count]
            low = {number: encoded(photos[number].reduce(int(track[-1])), "PNG") for number in numbers}
            names = {number: f"DIV2K_{split}_LR_{folder}/{number:04d}{ending}.png" for number in numbers}
            files[f"DIV2K_{split}_LR_{archive}.zip"] = zipped({names[number]: low[number] for number in numbers})
    return files
