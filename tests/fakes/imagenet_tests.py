"""Test sets for models of ImageNet by code, and plain readings of them: ImageNetV2, -A, -C, -O, -R, -ReaL, -Sketch.

As in the real ones: the archives of ImageNetV2 are plain tars called .tar.gz; READMEs lie beside the class folders;
names of files have spaces; some images are grey, or CMYK with a colour profile that is larger than the picture.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.random import Generator
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import IMG_EXTENSIONS
from torchvision.datasets.utils import extract_archive

from recordzoo import catalogue
from recordzoo.datasets.imagenet_recipe import all_wnids
from tests.fakes import reading
from tests.fakes.fake import Case, by, fake, tar, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

VERSIONS = {
    "matched-frequency": "imagenetv2-matched-frequency",
    "threshold-0.7": "imagenetv2-threshold0.7",
    "top-images": "imagenetv2-top-images",
}


class PlainImageNetV2(reading.Files, version=tuple(VERSIONS)):
    """What people would write without recordzoo: the folders' names are the labels."""

    def read(self, root: Path, version: str = "matched-frequency") -> list[str]:
        classes = [str(number) for number in range(1000)]
        folder = root / f"{VERSIONS[version]}-format-val"
        os.scandir(folder).close()  # fails if it is not there, as ImageFolder
        numbers = {name: int(name) for name in classes}
        self.samples = self.make_dataset(str(folder), numbers, IMG_EXTENSIONS, None, allow_empty=True)
        self.wnids = list(all_wnids())
        return classes


def _plain(folder: str) -> type:
    class PlainFolders(reading.Files):
        """The same for class folders that are WNIDs."""

        def read(self, root: Path) -> list[str]:
            found = ImageFolder(root / folder)
            self.samples, self.wnids = found.samples, found.classes
            self.imagenet_labels = [all_wnids().index(wnid) for wnid in self.wnids]
            return list(self.wnids)

    return PlainFolders


def _unpack_plain_tars(folder: Path) -> None:
    """Extract archives whose names say that they are compressed, as ``tar -xf`` does."""
    for archive in sorted(folder.glob("*.tar.gz")):
        extract_archive(archive.rename(archive.with_suffix("")), folder, remove_finished=True)


@fake(
    "imagenet_v2",
    Case(
        "ImageNetV2Record",
        by("version", *VERSIONS),
        by("version", "matched_frequency", None),
        SAMPLES,
        theirs=PlainImageNetV2,
    ),
    unpack=_unpack_plain_tars,
)
def imagenet_v2(_: Generator) -> dict[str, bytes]:
    """Folders from 0 to 999."""
    archives = {}
    for seed, name in enumerate(VERSIONS.values()):
        rng = np.random.default_rng(seed)
        files = {f"{name}-format-val/README.txt": b"Ten images for each class."}
        for label in rng.permutation([0, 1, 2, 10, 11, 100, 999]).tolist():
            for _ in range(2 if seed else scaled(2)):
                files[f"{name}-format-val/{label}/{rng.bytes(20).hex()}.jpeg"] = jpeg(picture(rng, 24, 20))
        archives[f"{name}.tar.gz"] = tar(files, compress=False)
    return archives


def _odd(rng: Generator, number: int) -> bytes:
    """Make an image: every third one is grey, every fourth CMYK with a profile."""
    photo = picture(rng, 24, 20)
    if number % 3 == 1:
        return jpeg(photo.convert("L"))
    return encoded(photo.convert("CMYK"), "JPEG", icc_profile=bytes(70_000)) if number % 4 == 2 else jpeg(photo)


def _folders(letter: str, *labels: int) -> Callable[[Generator], dict[str, bytes]]:
    def raw_files(rng: Generator) -> dict[str, bytes]:
        folder = f"imagenet-{letter}"
        files = {f"{folder}/README.txt": b"n01443537 goldfish"}
        for label in rng.permutation(labels).tolist():
            for number in rng.permutation(scaled(3)).tolist():
                stem = f"sketch_{number}" if letter == "r" else f"0.00{number}_digital clock _ digital clock_0.86"
                files[f"{folder}/{all_wnids()[label]}/{stem}.jpg"] = _odd(rng, number)
        return {f"{folder}.tar": tar(files, compress=False)}

    return raw_files


def _case(letter: str, folder: str) -> Case:
    return Case(f"ImageNet{letter}Record", mutations=SAMPLES, theirs=_plain(folder))


imagenet_a = fake("imagenet_a", _case("A", "imagenet-a"), seed=ord("a"))(_folders("a", 6, 11, 988))
imagenet_o = fake("imagenet_o", _case("O", "imagenet-o"), seed=ord("o"))(_folders("o", 1, 51, 70))
imagenet_r = fake("imagenet_r", _case("R", "imagenet-r"), seed=ord("r"))(_folders("r", 1, 2, 4))


@fake("imagenet_sketch", _case("Sketch", "sketch"))
def imagenet_sketch(rng: Generator) -> dict[str, bytes]:
    """Grey drawings."""
    files = {
        f"sketch/{all_wnids()[label]}/sketch_{number}.JPEG": jpeg(picture(rng, 24, 20).convert("L"))
        for label in (134, 0, 517)
        for number in (0, 10, 2, *range(11, 8 + scaled(3)))
    }
    return {"ImageNet-Sketch.zip": zipped(files)}


ARCHIVES = {part.name: list(part.layout.folders.values()) for part in catalogue.entry("imagenet_c").parts}


class PlainC(reading.Files, corruption=[name for names in ARCHIVES.values() for name in names]):
    """The same for ImageNet-C: ImageFolder of a severity, or of all five, one after another."""

    def read(self, root: Path, corruption: str = "gaussian_noise", severity: int | None = None) -> list[str]:
        if severity not in (None, 1, 2, 3, 4, 5):
            raise ValueError(f"severity must be None or 1 to 5; it is {severity!r}.")
        chosen = range(1, 6) if severity is None else [severity]
        parts = [ImageFolder(root / "ImageNet-C" / corruption / str(each)) for each in chosen]
        self.samples = [sample for part in parts for sample in part.samples]
        self.wnids = parts[0].classes
        self.imagenet_labels = [all_wnids().index(wnid) for wnid in self.wnids]
        return list(self.wnids)


@fake(
    "imagenet_c",
    Case(
        "ImageNetCRecord",
        ({}, {"corruption": "fog", "severity": 5}, {"corruption": "speckle_noise"}, {"severity": 2}),
        (*by("corruption", "rain", None), *by("severity", 0, 6, "1")),
        SAMPLES,
        theirs=PlainC,
    ),
)
def imagenet_c(rng: Generator) -> dict[str, bytes]:
    """Archives that are compressed in spite of their names; in each a folder for each corruption and severity."""
    archives = {}
    for archive, names in ARCHIVES.items():
        files = {f"{names[0]}/README.txt": b"no image"}
        for name in names:
            taken = scaled(2) if name == "gaussian_noise" else 2 if name in ("fog", "speckle_noise") else 1
            for severity in (3, 1, 5, 2, 4):
                for label in rng.permutation([0, 217, 999]).tolist():
                    for number in rng.permutation(900)[:taken].tolist():
                        path = f"{name}/{severity}/{all_wnids()[label]}/ILSVRC2012_val_{number:08d}.JPEG"
                        files[path] = jpeg(picture(rng, 22, 22))
        archives[f"{archive}.tar"] = tar(files)
    return archives


class PlainReaL(reading.Files):
    """The same for ImageNet-ReaL: the images in val/ by their names, and the lists beside it."""

    def read(self, root: Path) -> list[str]:
        lists = json.loads((root / "real.json").read_text())
        names = sorted(os.listdir(root / "val"))
        self.samples = [(str(root / "val" / name), lists[int(name[15:23]) - 1]) for name in names]
        self.wnids = list(all_wnids())
        self.imagenet_labels = list(range(1000))
        return list(self.wnids)


def _unpack_into_val(folder: Path) -> None:
    extract_archive(folder / "ILSVRC2012_img_val.tar", folder / "val", remove_finished=True)


@fake("imagenet_real", Case("ImageNetReaLRecord", mutations=SAMPLES, theirs=PlainReaL), unpack=_unpack_into_val)
def imagenet_real(rng: Generator) -> dict[str, bytes]:
    """Images in no order; lists of no label, of one, and of several that are not sorted; more lists than images."""
    count = scaled(7)
    images = {
        f"ILSVRC2012_val_{number:08d}.JPEG": jpeg(picture(rng, 24, 20))
        for number in (1 + rng.permutation(count)).tolist()
    }
    lists = [rng.permutation(1000)[: number % 4].tolist() for number in range(count + 2)]
    return {"ILSVRC2012_img_val.tar": tar(images, compress=False), "real.json": json.dumps(lists).encode()}
