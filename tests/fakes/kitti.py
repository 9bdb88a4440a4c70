"""KITTI by code: two zips, members unsorted; images of several sizes, a grey one."""

import functools
from typing import Any

import numpy as np
from torchvision.datasets import Kitti

from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.mutations import PATHS
from tests.fakes.pictures import encoded, picture
from tests.fakes.scale import scaled

KINDS = ("Car", "Van", "Pedestrian", "Person_sitting", "Misc", "DontCare")


class SortedKitti(Kitti):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's, with its files in the order that every file system can agree on."""

    # Any: torchvision's own arguments.
    @functools.wraps(Kitti.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.images.sort()
        self.targets.sort()


def _label(rng: np.random.Generator, count: int) -> bytes:
    lines = []
    for _ in range(count):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        seen = "-1 -1 -10" if kind == "DontCare" else f"0.{rng.integers(99):02d} {rng.integers(4)} -1.57"
        lines.append(" ".join([kind, seen, *(f"{number:.2f}" for number in rng.normal(0, 300, 11))]))
    return "".join(f"{line}\n" for line in lines).encode()


def _build() -> Fake:
    rng = np.random.default_rng(0)
    images: dict[str, bytes] = {}
    labels: dict[str, bytes] = {"training/label_2/": b""}
    for folder, count in (("testing", 4), ("training", scaled(7))):
        images[f"{folder}/image_2/"] = b""
        for number in rng.permutation(count).tolist():
            image = picture(rng, 50 + number % 20, 20)
            data = encoded(image.convert("L") if number == 2 else image, "PNG")
            images[f"{folder}/image_2/{number:06d}.png"] = data
            if folder == "training":
                labels[f"training/label_2/{number:06d}.txt"] = _label(rng, 1 + number % 3)
    files = {"data_object_image_2.zip": zipped(images), "data_object_label_2.zip": zipped(labels)}
    case = Case(
        "KittiRecord",
        ({}, {"train": False}),
        ({"transforms": print, "transform": print},),
        mutations=PATHS,
        theirs=SortedKitti,
    )
    return Fake("kitti", files, [case])


FAKES = (_build(),)
