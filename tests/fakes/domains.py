"""Class folders in several domains by code, and plain readings of them: PACS, Office-Home, Office-31."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.random import Generator
from torchvision.datasets import ImageFolder, VisionDataset
from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader
from torchvision.datasets.utils import verify_str_arg

from tests.fakes.fake import Case, by, fake, tar, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

Files = dict[str, bytes]


class PlainDomains(ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """What people would write without recordzoo: ImageFolder of each domain, and their samples one after another."""

    _folders: Mapping[str, str]

    # Any: ImageFolder's own arguments.
    def __init__(
        self,
        root: Any,
        domain: str | None = None,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        loader: Any = default_loader,
    ) -> None:
        if domain is not None:
            verify_str_arg(domain, "domain", tuple(self._folders))
        VisionDataset.__init__(self, root, transform=transform, target_transform=target_transform)
        self.domain, self.loader, self.extensions = domain, loader, IMG_EXTENSIONS
        chosen = self._folders if domain is None else [domain]
        parts = [ImageFolder(os.path.join(root, self._folders[name])) for name in chosen]
        self.classes, self.class_to_idx = parts[0].classes, parts[0].class_to_idx
        self.samples = self.imgs = [sample for part in parts for sample in part.samples]
        self.targets = [label for _, label in self.samples]


def _case(kind: str, folders: Mapping[str, str], *bad: Any) -> Case:
    theirs = type("PlainDomains", (PlainDomains,), {"_folders": folders})
    return Case(kind, ({}, *by("domain", *folders)), by("domain", *bad), SAMPLES, theirs=theirs)


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
