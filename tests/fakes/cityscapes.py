"""Cityscapes by code: street scenes of two cities a split, label images of all kinds, polygons."""

import json
import os
from typing import Any
from unittest import mock

import numpy as np
import torchvision.datasets as tv
from PIL import Image

from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.mutations import PATHS
from tests.fakes.pictures import encoded, picture
from tests.fakes.scale import SIDE, enlarged, scaled

_CITIES = {
    "train": ("ulm", "aachen"),
    "val": ("munster", "frankfurt"),
    "test": ("berlin", "bonn"),
    "train_extra": ("troisdorf", "augsburg"),
}
_WIDTH, _HEIGHT = 24, 12
_list = os.listdir


class Cityscapes(tv.Cityscapes):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's, with cities and files in the order of their names."""

    # Any: torchvision's own arguments.
    def __init__(
        self,
        root: Any,
        split: Any = "train",
        mode: Any = "fine",
        target_type: Any = "instance",
        transform: Any = None,
        target_transform: Any = None,
        transforms: Any = None,
    ) -> None:
        with mock.patch("os.listdir", lambda path: sorted(_list(path))):
            super().__init__(root, split, mode, target_type, transform, target_transform, transforms)


def _stems(*splits: str) -> list[str]:
    more = [(f"{number:06d}", "000019") for number in range(2, scaled(3) - 1)]
    frames = (("000001", "000019"), ("000000", "000019"), ("000000", "000004"), *more)
    return [
        f"{split}/{city}/{city}_{sequence}_{frame}"
        for split in splits
        for city in _CITIES[split]
        for sequence, frame in frames[: (scaled if split == "train" else int)(3 if city == _CITIES[split][0] else 1)]
    ]


def _images(rng: np.random.Generator, *splits: str) -> bytes:
    files = {
        f"leftImg8bit/{stem}_leftImg8bit.png": encoded(picture(rng, _WIDTH, _HEIGHT), "PNG") for stem in _stems(*splits)
    }
    return zipped({"README": b"Read me.", "license.txt": b"The license.", **files})


def _targets(rng: np.random.Generator, folder: str, *splits: str) -> bytes:
    files: dict[str, bytes] = {"README": b"Read me.", "license.txt": b"The license."}
    for stem in _stems(*splits):
        labels = enlarged(rng.choice(np.array([0, 7, 26], np.uint8), (_HEIGHT, _WIDTH)))
        instances = np.where(labels == 26, 26_001, labels.astype(np.uint16))
        color = enlarged(rng.integers(0, 256, (_HEIGHT, _WIDTH, 4), np.uint8))
        objects = [{"label": "car", "polygon": [[1, 2], [int(rng.integers(3, 9)), 4], [5, 6]]}]
        document = {"imgHeight": _HEIGHT * SIDE, "imgWidth": _WIDTH * SIDE, "objects": objects}
        start = f"{folder}/{stem}_{folder}_"
        files[start + "labelIds.png"] = encoded(Image.fromarray(labels), "PNG")
        files[start + "instanceIds.png"] = encoded(Image.fromarray(instances), "PNG")
        files[start + "labelTrainIds.png"] = b"what people make with the authors' scripts"
        files[start + "color.png"] = encoded(Image.fromarray(color), "PNG")
        files[start + "polygons.json"] = json.dumps(document).encode()
    return zipped(files)


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {
        "leftImg8bit_trainvaltest.zip": _images(rng, "train", "val", "test"),
        "gtFine_trainvaltest.zip": _targets(rng, "gtFine", "train", "val", "test"),
        "leftImg8bit_trainextra.zip": _images(rng, "train_extra"),
        "gtCoarse.zip": _targets(rng, "gtCoarse", "train", "train_extra", "val"),
    }
    arguments = (
        {"target_type": "semantic"},  # the v2 wrapper fails on instances: torch cannot compare their 16 bits
        {"target_type": "instance"},
        {"split": "val", "target_type": "semantic"},
        {"split": "test", "target_type": "polygon"},
        {"target_type": "color"},
        {"target_type": ["instance", "color", "polygon", "semantic"]},
        {"mode": "coarse", "target_type": ["semantic"]},
        {"mode": "coarse", "split": "val", "target_type": ["polygon", "instance"]},
        {"mode": "coarse", "split": "train_extra", "target_type": "instance"},
        {"mode": "coarse", "split": "train_extra", "target_type": ["semantic", "color"]},
    )
    bad = (
        {"split": "train_extra"},
        {"split": "test", "mode": "coarse"},
        {"split": 3},
        {"mode": "gtFine"},
        {"mode": None},
        {"target_type": "mask"},
        {"target_type": ["color", 3]},
        {"transforms": print, "transform": print},
    )
    mutations = {**PATHS, "one path of a target replaced": lambda ds: ds.targets[0].__setitem__(0, ds.targets[1][0])}
    return Fake("cityscapes", files, [Case("CityscapesRecord", arguments, bad, mutations, theirs=Cityscapes)])


FAKES = (_build(),)
