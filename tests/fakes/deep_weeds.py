"""DeepWeeds by code: a zip of images without folders, a list of labels, and lists of five folds."""

import csv
import os
from pathlib import Path
from typing import Any

from numpy.random import Generator
from torchvision.datasets import ImageFolder, VisionDataset
from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader
from torchvision.datasets.utils import extract_archive, verify_str_arg

from examples import birds  # its `picture`: as small as the real ones, whatever `scale.SIDE` says
from tests.fakes.fake import Case, by, fake, text, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import jpeg
from tests.fakes.scale import scaled

_SPECIES = ("Chinee apple", "Lantana", "Negative")
_SPLITS = ("train", "val", "test")


class PlainDeepWeeds(ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """What people write over the lists."""

    # Any: ImageFolder's own arguments.
    def __init__(
        self,
        root: Any,
        split: str = "train",
        fold: int = 0,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        loader: Any = default_loader,
    ) -> None:
        self.split = verify_str_arg(split, "split", (*_SPLITS, "all"))
        if fold not in range(5):
            raise ValueError(f"fold must be 0 to 4; it is {fold!r}.")
        self.fold = fold
        VisionDataset.__init__(self, root, transform=transform, target_transform=target_transform)
        self.loader, self.extensions = loader, IMG_EXTENSIONS
        folder = os.path.join(root, "deepweeds")
        labels = _read(os.path.join(folder, "labels.csv"))
        listed = labels if split == "all" else _read(os.path.join(folder, f"{split}_subset{fold}.csv"))
        label_of = {row["Filename"]: int(row["Label"]) for row in labels}
        names = [row["Filename"] for row in listed]
        self.samples = [(os.path.join(folder, "images", name), label_of[name]) for name in names]
        self.imgs, self.targets = self.samples, [label for _, label in self.samples]
        self.classes = [name for _, name in sorted({int(row["Label"]): row["Species"] for row in labels}.items())]
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}


def _read(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _unpack(folder: Path) -> None:
    extract_archive(folder / "images.zip", folder / "images")


@fake(
    "deep_weeds",
    Case(
        "DeepWeedsRecord",
        ({}, {"split": "test", "fold": 3}, {"split": "all"}, {"split": "val", "fold": 4}),
        (*by("split", "valid", None), *by("fold", 5, -1, "0")),
        SAMPLES,
        theirs=PlainDeepWeeds,
    ),
    unpack=_unpack,
)
def deep_weeds(rng: Generator) -> dict[str, bytes]:
    """Lists that are not sorted; an image that no list has."""
    labels = {
        f"2017{int(rng.integers(1, 9)):02d}{number % 28 + 1:02d}-{93423 + number}-{number % 4}.jpg": number % 3
        for number in range(scaled(20))
    }
    names = list(labels)
    images = {name: jpeg(birds.picture(rng, 32, 32)) for name in (*sorted(names), "20180101-000000-0.jpg")}
    files = {
        "images.zip": zipped(images),
        "labels.csv": text(
            ["Filename,Label,Species", *(f"{n},{label},{_SPECIES[label]}" for n, label in labels.items())]
        ),
    }
    for fold in range(5):
        shuffled = [names[place] for place in rng.permutation(len(names)).tolist()]
        fifth = len(names) // 5
        parts = (shuffled[2 * fifth :], shuffled[fifth : 2 * fifth], shuffled[:fifth])
        for split, part in zip(_SPLITS, parts, strict=True):
            files[f"{split}_subset{fold}.csv"] = text(["Filename,Label", *(f"{name},{labels[name]}" for name in part)])
    return files
