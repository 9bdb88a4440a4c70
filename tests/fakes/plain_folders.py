"""Class folders that torchvision has no class for, by code: as their archives have them, oddities included."""

from collections.abc import Mapping
from pathlib import Path

from numpy.random import Generator
from torchvision.datasets import ImageFolder

from examples import birds  # its `picture`: as small as the real ones, whatever `scale.SIDE` says
from tests.fakes import reading
from tests.fakes.fake import Case, by, fake, tar, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

Files = dict[str, bytes]


def plain_folders(top: str) -> type:
    """Make the class that people would use: ImageFolder of the folder `top` below the root."""

    class PlainFolders(reading.Files):
        def read(self, root: Path) -> list[str]:
            folder = ImageFolder(root / top)
            self.samples = folder.samples
            return list(folder.classes)

    return PlainFolders


def split_folders(folders: Mapping[str, str]) -> type:
    """Make ImageFolder of a split's folder below the root, with the split as second argument."""

    class SplitFolders(reading.Files, split=tuple(folders)):
        def read(self, root: Path, split: str = "train") -> list[str]:
            folder = ImageFolder(root / folders[split])
            self.samples = folder.samples
            return list(folder.classes)

    return SplitFolders


_BEANS = {"train": "beans/train", "val": "beans/validation", "test": "beans/test"}


@fake(
    "beans",
    Case(
        "BeansRecord",
        ({}, *by("split", "val", "test")),
        by("split", "validation", None),
        SAMPLES,
        theirs=split_folders(_BEANS),
    ),
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


_CINIC10 = {"train": "CINIC-10/train", "val": "CINIC-10/valid", "test": "CINIC-10/test"}


@fake(
    "cinic10",
    Case(
        "CINIC10Record",
        ({}, *by("split", "val", "test")),
        by("split", "valid", None),
        SAMPLES,
        theirs=split_folders(_CINIC10),
    ),
)
def cinic10(rng: Generator) -> Files:
    """A folder for each split, in it one for each class; names say which images are CIFAR's."""
    files: Files = {"README.md": b"CINIC-10"}
    for split, count in (("train", scaled(3)), ("valid", 2), ("test", 2)):
        for name in ("truck", "airplane", "frog"):
            for number in rng.permutation(9000)[:count].tolist():
                stem = f"cifar10-train-{number}" if number % 2 else f"n02691156_{number}"
                files[f"{split}/{name}/{stem}.png"] = encoded(birds.picture(rng, 32, 32), "PNG")
    return {"CINIC-10.tar.gz": tar(files)}
