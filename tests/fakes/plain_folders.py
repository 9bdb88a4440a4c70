"""Class folders that torchvision has no class for, by code: as their archives have them, oddities included."""

import os
from typing import Any

from numpy.random import Generator
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg

from examples import birds  # its `picture`: as small as the real ones, whatever `scale.SIDE` says
from tests.fakes.fake import Case, by, fake, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

Files = dict[str, bytes]


def plain_folders(top: str) -> type:
    """Make the class that people would use: ImageFolder of the folder `top` below the root."""

    class PlainFolders(ImageFolder):  # type: ignore[misc]  # torchvision is untyped
        # Any: ImageFolder's own arguments.
        def __init__(
            self,
            root: Any,
            transform: Any = None,
            target_transform: Any = None,
            download: bool = False,
            loader: Any = default_loader,
        ) -> None:
            super().__init__(os.path.join(root, top), transform, target_transform, loader)
            self.root = root

    return PlainFolders


class PlainBeans(ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """ImageFolder of a split's folder."""

    # Any: as above.
    def __init__(
        self,
        root: Any,
        split: str = "train",
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        loader: Any = default_loader,
    ) -> None:
        folder = {"train": "train", "val": "validation", "test": "test"}[
            verify_str_arg(split, "split", ("train", "val", "test"))
        ]
        super().__init__(os.path.join(root, "beans", folder), transform, target_transform, loader)
        self.root, self.split = root, split


@fake(
    "beans",
    Case("BeansRecord", ({}, *by("split", "val", "test")), by("split", "validation", None), SAMPLES, theirs=PlainBeans),
)
def beans(rng: Generator) -> Files:
    """A zip for each split; one has a file that Finder leaves."""
    archives = {}
    for split, count in (("train", 3), ("validation", 1), ("test", 2)):
        files: Files = {f"{split}/.DS_Store": b"no image"} if split == "train" else {}
        for name in ("healthy", "bean_rust", "angular_leaf_spot"):
            for number in rng.permutation(900)[: scaled(count)].tolist():
                files[f"{split}/{name}/{name}_{split}.{number}.jpg"] = jpeg(picture(rng, 24, 24))
        archives[f"{split}.zip"] = zipped(files)
    return archives


@fake("cats_vs_dogs", Case("CatsVsDogsRecord", mutations=SAMPLES, theirs=plain_folders("PetImages")))
def cats_vs_dogs(rng: Generator) -> Files:
    """Numbered photographs, some of them gray or GIF, and a Thumbs.db in each folder."""
    files = {"readme[1].txt": b"cats and dogs", "MSR-LA - 3467.docx": b"terms"}
    for name in ("Dog", "Cat"):
        files[f"PetImages/{name}/Thumbs.db"] = b"no image"
        for number in rng.permutation(scaled(900))[: scaled(4)].tolist():
            photo = picture(rng, 24 + number % 7, 20 + number % 5)
            kind = "GIF" if number % 11 == 0 else "JPEG"
            files[f"PetImages/{name}/{number}.jpg"] = encoded(photo.convert("L") if number % 5 == 0 else photo, kind)
    return {"kagglecatsanddogs_5340.zip": zipped(files)}


_LEAVES = "Plant_leave_diseases_dataset_without_augmentation"


@fake("plant_village", Case("PlantVillageRecord", mutations=SAMPLES, theirs=plain_folders(_LEAVES)))
def plant_village(rng: Generator) -> Files:
    """Folders with spaces, commas and parentheses in their names, files with either case of ending."""
    files = {}
    names = ("Pepper,_bell___healthy", "Corn___Cercospora_leaf_spot Gray_leaf_spot", "Grape___Esca_(Black_Measles)")
    for name in (*names, "Background_without_leaves"):
        for number in range(1, 1 + scaled(2)):
            ending = "jpg" if name.startswith("B") else "JPG"
            files[f"{_LEAVES}/{name}/image ({number}).{ending}"] = jpeg(picture(rng, 25, 25))
    return {"Plant_leaf_diseases_dataset_without_augmentation.zip": zipped(files)}


def _land(rng: Generator, top: str, name: str, kind: str) -> Files:
    """Make images of three kinds of land: `name` is their files' names, of which not all have one size."""
    return {
        f"{top}/{land}/{name.format(land, number)}": encoded(birds.picture(rng, 32, 32 - number % 3), kind)
        for land in ("harbor", "airplane", "runway")
        for number in range(1, 1 + scaled(2))
    }


@fake("uc_merced", Case("UCMercedRecord", mutations=SAMPLES, theirs=plain_folders("UCMerced_LandUse/Images")))
def uc_merced(rng: Generator) -> Files:
    """TIFF files, and a text beside the folder of images."""
    files = _land(rng, "UCMerced_LandUse/Images", "{}{:02d}.tif", "TIFF")
    return {"UCMerced_LandUse.zip": zipped({"UCMerced_LandUse/readme.txt": b"land use", **files})}


@fake("resisc45", Case("RESISC45Record", mutations=SAMPLES, theirs=plain_folders("NWPU-RESISC45")))
def resisc45(rng: Generator) -> Files:
    """Numbered images."""
    return {"NWPU-RESISC45.zip": zipped(_land(rng, "NWPU-RESISC45", "{}_{:03d}.jpg", "JPEG"))}
