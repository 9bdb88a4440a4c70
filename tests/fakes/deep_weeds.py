"""DeepWeeds by code: a zip of images without folders, a list of labels, and lists of five folds."""

import csv
from pathlib import Path

from numpy.random import Generator
from torchvision.datasets.utils import extract_archive

from examples import birds  # its `picture`: as small as the real ones, whatever `scale.SIDE` says
from tests.fakes import reading
from tests.fakes.fake import Case, by, fake, text, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import jpeg
from tests.fakes.scale import scaled

_SPECIES = ("Chinee apple", "Lantana", "Negative")
_SPLITS = ("train", "val", "test")


class PlainDeepWeeds(reading.Files, split=(*_SPLITS, "all")):
    """What people write over the lists."""

    def read(self, root: Path, split: str = "train", fold: int = 0) -> list[str]:
        if fold not in range(5):
            raise ValueError(f"fold must be 0 to 4; it is {fold!r}.")
        folder = root / "deepweeds"
        labels = _read(folder / "labels.csv")
        listed = labels if split == "all" else _read(folder / f"{split}_subset{fold}.csv")
        label_of = {row["Filename"]: int(row["Label"]) for row in labels}
        names = [row["Filename"] for row in listed]
        self.samples = [(str(folder / "images" / name), label_of[name]) for name in names]
        return [name for _, name in sorted({int(row["Label"]): row["Species"] for row in labels}.items())]


def _read(path: Path) -> list[dict[str, str]]:
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
