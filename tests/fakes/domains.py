"""Class folders in several domains by code, and plain readings of them: PACS, Office-Home, Office-31."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.random import Generator
from torchvision.datasets import ImageFolder

from tests.fakes import reading
from tests.fakes.fake import Case, by, fake, tar, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

Files = dict[str, bytes]


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
