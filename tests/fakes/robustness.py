"""Datasets that torchvision lacks by code, and plain readings of them: CIFAR's relatives, DomainNet."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from torchvision.datasets import CIFAR10, CIFAR100

from recordzoo import catalogue
from recordzoo.datasets.cifar_mnist_recipe import CORRUPTIONS
from tests.fakes import reading
from tests.fakes.fake import Case, by, fake, tar, text, zipped
from tests.fakes.mutations import ARRAYS, SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

Files = dict[str, bytes]


def _npy(values: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


class PlainArrays(reading.Reading, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """Images and labels as people load them themselves; samples as CIFAR10 has them."""

    train = False
    _entry = "cifar10_1"

    def load(self, images: Path, labels: Path) -> list[str]:
        """Load two arrays, and return the names of the classes."""
        self.data, self.targets = np.load(images), np.load(labels).tolist()
        return list(catalogue.entry(self._entry).classes or ())


class PlainC(PlainArrays, corruption=CORRUPTIONS):
    """CIFAR-10-C."""

    _folder = "CIFAR-10-C"

    def read(self, root: Path, corruption: str = "gaussian_noise", severity: int | None = None) -> list[str]:
        if severity not in (None, 1, 2, 3, 4, 5):
            raise ValueError(f"severity must be None or 1 to 5; it is {severity!r}.")
        classes = self.load(root / self._folder / f"{corruption}.npy", root / self._folder / "labels.npy")
        count = len(self.data) // 5
        shown = slice((severity - 1) * count, severity * count) if severity else slice(None)
        self.data, self.targets = self.data[shown], self.targets[shown]
        return classes


class Plain100C(PlainC, CIFAR100):  # type: ignore[misc]  # as above
    """CIFAR-100-C."""

    _entry, _folder = "cifar100_c", "CIFAR-100-C"


def _corrupted(kind: str, theirs: type) -> Case:
    return Case(
        kind,
        ({}, {"corruption": "speckle_noise"}, {"severity": 1}, {"corruption": "fog", "severity": 5}),
        (*by("corruption", "rain", None), *by("severity", 0, 6, "1")),
        ARRAYS,
        theirs=theirs,
    )


def _corrupted_files(rng: Generator, folder: str, classes: int) -> Files:
    labels = np.tile(rng.integers(0, classes, scaled(4)).astype(np.uint8), 5)
    files = {f"{folder}/labels.npy": _npy(labels)}
    for name in CORRUPTIONS:
        pixels = rng.integers(0, 256, (len(labels), 32, 4, 3), dtype=np.uint8)
        files[f"{folder}/{name}.npy"] = _npy(np.repeat(pixels, 8, axis=2))
    return files


@fake("cifar10_c", _corrupted("CIFAR10CRecord", PlainC))
def cifar10_c(rng: Generator) -> Files:
    """Five severities one after another in each file, and one file of labels of a byte each."""
    return {"CIFAR-10-C.tar": tar(_corrupted_files(rng, "CIFAR-10-C", 10), compress=False)}


@fake("cifar100_c", _corrupted("CIFAR100CRecord", Plain100C), seed=100)
def cifar100_c(rng: Generator) -> Files:
    """As CIFAR-10-C, and a file that is no array."""
    files = _corrupted_files(rng, "CIFAR-100-C", 100) | {"CIFAR-100-C/notes.txt": b"no array"}
    return {"CIFAR-100-C.tar": tar(files, compress=False)}


class Plain1(PlainArrays, version=("v6", "v4")):
    """CIFAR-10.1."""

    def read(self, root: Path, version: str = "v6") -> list[str]:
        start = f"cifar10_1/cifar10.1_{version}"
        return self.load(root / f"{start}_data.npy", root / f"{start}_labels.npy")


@fake(
    "cifar10_1",
    Case(
        "CIFAR10_1Record",
        ({}, {"version": "v4"}),
        by("version", "v5", None),
        ARRAYS,
        sources=("tree",),  # the raw files are no archives
        theirs=Plain1,
    ),
)
def cifar10_1(rng: Generator) -> Files:
    """Images and labels of two versions."""
    files = {}
    for version, count in (("v6", scaled(8)), ("v4", scaled(9))):
        files[f"cifar10.1_{version}_data.npy"] = _npy(rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8))
        files[f"cifar10.1_{version}_labels.npy"] = _npy(rng.integers(0, 10, count, dtype=np.int32))
    return files


_DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")


class PlainDomainNet(reading.Files, domain=_DOMAINS, split=("train", "test")):
    """What people write over the lists."""

    def read(self, root: Path, domain: str = "real", split: str = "train") -> list[str]:
        folder = root / "domainnet"
        lists = {name: (folder / f"{domain}_{name}.txt").read_text().splitlines() for name in ("train", "test")}
        rows = {name: [(path, int(label)) for path, label in map(str.split, lines)] for name, lines in lists.items()}
        self.samples = [(str(folder / name), label) for name, label in rows[split]]
        name_of = {label: name.split("/")[1] for listed in rows.values() for name, label in listed}
        return [name_of[label] for label in sorted(name_of)]


@fake(
    "domainnet",
    Case(
        "DomainNetRecord",
        ({}, {"domain": "painting", "split": "test"}, {"domain": "quickdraw"}),
        (*by("domain", "photo", None), {"split": "val"}),
        SAMPLES,
        theirs=PlainDomainNet,
    ),
)
def domainnet(rng: Generator) -> Files:
    """A zip and two lists for each domain: unsorted, and without some images; a class that one list lacks."""
    classes = ("aircraft_carrier", "cello", "cell_phone", "t-shirt")
    files: Files = {}
    for domain in _DOMAINS:
        images: Files = {}
        lines: dict[str, list[str]] = {"train": [], "test": []}
        for label, name in enumerate(classes):
            for number in rng.permutation(900)[: scaled(4)].tolist():
                photo = picture(rng, 24 + number % 7, 20)
                path = f"{domain}/{name}/" + (
                    f"{number}.png" if domain == "quickdraw" else f"{domain}_{number:06d}.jpg"
                )
                images[path] = encoded(photo.convert("L"), "PNG") if domain == "quickdraw" else jpeg(photo)
                is_test = number % 3 == 0 or (domain, label) == ("painting", 3)
                lines["test" if is_test else "train"].append(f"{path} {label}")
        images[f"{domain}/cello/in_no_list.jpg"] = jpeg(picture(rng, 9, 9))  # as an image that was found twice
        files[f"{domain}.zip"] = zipped(images)
        for split, listed in lines.items():
            files[f"{domain}_{split}.txt"] = text(listed[place] for place in rng.permutation(len(listed)).tolist())
    return files
