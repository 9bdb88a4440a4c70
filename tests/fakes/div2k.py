"""DIV2K by code: zips of images of high resolution, and of low resolution for each track."""

import os
from pathlib import Path
from typing import Any

from numpy.random import Generator
from PIL import Image

from tests.fakes import reading
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


class PlainDIV2K(reading.Pairs, split=("train", "val"), track=tuple(_TRACKS)):
    """What people write over the folders."""

    def read(self, root: Path, split: str = "train", track: str = "bicubic_x2") -> None:
        start = f"DIV2K_{'train' if split == 'train' else 'valid'}_"
        folder = root / f"{start}LR_{_TRACKS[track][1]}"
        names = sorted(os.listdir(folder))
        self.images = [str(folder / name) for name in names]
        self.targets = [str(root / f"{start}HR" / f"{name[:4]}.png") for name in names]

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
