"""Class folders with splits of their own by code, with plain readings: DeepWeeds, PACS and its like, ObjectNet."""

import csv
import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageOps
from torchvision.datasets import ImageFolder
from torchvision.datasets.utils import extract_archive

from examples import birds  # its `picture`: as small as the real ones, whatever `scale.SIDE` says
from tests.fakes import reading
from tests.fakes.fake import Case, Fake, by, fake, tar, text, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

Files = dict[str, bytes]

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


# Any: names that are none.
def _case(kind: str, folders: Mapping[str, str], *bad: Any) -> Case:
    class PlainDomains(reading.Files, domain=tuple(folders)):
        """What people would write without recordzoo: ImageFolder of each domain, one after another."""

        def read(self, root: Path, domain: str | None = None) -> list[str]:
            chosen = folders if domain is None else [domain]
            parts = [ImageFolder(root / folders[name]) for name in chosen]
            self.samples = [sample for part in parts for sample in part.samples]
            return list(parts[0].classes)

    return Case(kind, ({}, *by("domain", *folders)), by("domain", *bad), SAMPLES, theirs=PlainDomains)


def _images(rng: Generator, folders: Sequence[str], classes: Sequence[str], name: str) -> Files:
    files = {}
    for folder in rng.permutation(folders).tolist():
        for kind in rng.permutation(classes).tolist():
            for number in rng.permutation(90)[: scaled(3)].tolist():
                photo = picture(rng, 24 + number % 5, 20)
                files[f"{folder}/{kind}/{name.format(number)}"] = jpeg(photo)
    return files


_PACS = {name: f"kfold/{name}" for name in ("art_painting", "cartoon", "photo", "sketch")}


@fake("pacs", _case("PACSRecord", _PACS, "art-painting", "art"))
def pacs(rng: Generator) -> Files:
    """Pictures of 7 classes; sketches are grey PNGs."""
    classes = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    files = _images(rng, list(_PACS.values())[:3], classes, "pic_{:03d}.jpg")
    for kind in classes:
        for number in (1, 10, 2, *range(11, 8 + scaled(3))):
            files[f"kfold/sketch/{kind}/{number}.png"] = encoded(picture(rng, 20, 20).convert("L"), "PNG")
    return {"PACS.zip": zipped(files)}


_HOME = {name: f"OfficeHomeDataset_10072016/{name}" for name in ("Art", "Clipart", "Product", "Real World")}


@fake("office_home", _case("OfficeHomeRecord", _HOME, "art", "Real_World"))
def office_home(rng: Generator) -> Files:
    """A domain with a space in its name; lists of addresses beside the domains."""
    classes = ("Alarm_Clock", "TV", "Table", "ToothBrush")
    files = _images(rng, list(_HOME.values()), classes, "{:05d}.jpg")
    files["OfficeHomeDataset_10072016/ImageInfo.csv"] = b"Number,Image\n"
    return {"OfficeHomeDataset_10072016.zip": zipped(files)}


_OFFICE = {name: f"office31/{name}/images" for name in ("amazon", "dslr", "webcam")}


@fake("office31", _case("Office31Record", _OFFICE, "Amazon", "caltech"))
def office31(rng: Generator) -> Files:
    """Class folders two levels down."""
    folders = [folder.removeprefix("office31/") for folder in _OFFICE.values()]
    files = _images(rng, folders, ("back_pack", "bike", "bike_helmet"), "frame_{:04d}.jpg")
    return {"domain_adaptation_images.tar.gz": tar(files)}


TOP = "objectnet-1.0"
NAMES = {"tie": "Tie", "air_freshener": "Air freshener", "alarm_clock": "Alarm clock", "t-shirt": "T-shirt"}
TO_IMAGENET = {"Alarm clock": "digital clock; analog clock", "Tie": "bow tie, bow-tie, bowtie"}
LINES = ("tench, Tinca tinca", "digital clock", "bow tie, bow-tie, bowtie", "analog clock", "goldfish")
LABEL_OF_LINE = {0: 0, 1: 530, 2: 457, 3: 409, 4: 1}
IMAGENET_LABELS = {"tie": [457], "alarm_clock": [530, 409]}


class ObjectNet(reading.Files, split=("test", "imagenet")):
    """What people write over the mappings, as the authors' template has it."""

    def read(self, root: Path, split: str = "test") -> list[str]:
        folders = ImageFolder(root / TOP / "images")
        mappings = root / TOP / "mappings"
        names = json.loads((mappings / "folder_to_objectnet_label.json").read_text())
        to_imagenet = json.loads((mappings / "objectnet_to_imagenet_1k.json").read_text())
        to_line = json.loads((mappings / "pytorch_to_imagenet_2012_id.json").read_text())
        to_label = {line: int(label) for label, line in to_line.items()}
        lines = (mappings / "imagenet_to_label_2012_v2").read_text().splitlines()
        self.class_names = [names[folder] for folder in folders.classes]
        self.imagenet_labels = [
            [to_label[lines.index(each)] for each in to_imagenet[name].split("; ")] if name in to_imagenet else []
            for name in self.class_names
        ]
        wanted = [split == "test" or bool(self.imagenet_labels[label]) for label in folders.targets]
        self.samples = list(itertools.compress(folders.samples, wanted))
        return list(folders.classes)


@functools.cache
def _image(rng: np.random.Generator, folder: str, number: int) -> bytes:
    made = ImageOps.expand(picture(rng, 30, 24), 1, (255, 0, 0))
    odd: Image.Image = made.convert("RGBA") if folder == "tie" else made
    return encoded(odd, "PNG")


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files: dict[str, bytes] = {}
    for folder in NAMES:
        for number in range(scaled(3)):
            files[f"{TOP}/images/{folder}/{rng.bytes(8).hex()}.png"] = _image(rng, folder, number % 20)
    mappings = {
        "folder_to_objectnet_label.json": json.dumps(NAMES),
        "objectnet_to_imagenet_1k.json": json.dumps(TO_IMAGENET),
        "pytorch_to_imagenet_2012_id.json": json.dumps({str(label): line for line, label in LABEL_OF_LINE.items()}),
        "imagenet_to_label_2012_v2": "".join(f"{line}\n" for line in LINES),
    }
    files.update({f"{TOP}/mappings/{name}": text.encode() for name, text in mappings.items()})
    files[f"{TOP}/README.md"] = b"not read"
    bad = ({"split": "train"}, {"split": None})
    no_folder = (r"No such file", r"^[\w.]+: no records and no raw data in .*looked for", "the folder of the images")
    case = Case(
        "ObjectNetRecord",
        ({}, {"split": "imagenet"}),
        bad,
        SAMPLES,
        sources=("archive",),
        differences=(no_folder,),
        theirs=ObjectNet,
    )
    return Fake("objectnet", {f"{TOP}.zip": b"PK\x03\x04 and 187 GB that are not read"}, [case], tree=files)


objectnet = _build()
