"""Class folders: torchvision's Country211, EuroSAT and RenderedSST2, and six sets that torchvision does not have.

Each class reads the extracted archive like ImageFolder.
"""

from pathlib import Path
from typing import Literal

from torchvision.datasets import Country211, EuroSAT, ImageFolder, RenderedSST2

from recordzoo.base.text import TrainValTest
from recordzoo.families.folders import ClassFolderDataset, SamplesDataset, SplitFilesDataset


class BeansRecord(SplitFilesDataset[TrainValTest], ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Beans, read from records: photographs of bean leaves, healthy or with one of two diseases.

    Each split is a record set of its own.
    """

    _ENTRY = "beans"
    _SPLIT = "split"


class CatsVsDogsRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Cats vs Dogs, read from records: 25,000 photographs that a CAPTCHA asked people to tell apart.

    Some files are damaged. As with all datasets, `on_error` says what is done with a file whose header no decoder
    recognises: it is kept, and taking it raises `ImageError`; ``on_error="skip"`` leaves it out. With
    ``check_images=True`` each image is decoded, and `on_error` holds for every one that cannot be. TensorFlow Datasets
    leaves out more: all 1,738 files that do not begin as JFIF, most of which can be decoded.
    """

    _ENTRY = "cats_vs_dogs"


class CINIC10Record(SplitFilesDataset[TrainValTest], ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """CINIC-10, read from records: the images of CIFAR-10 and 210,000 of ImageNet, all of 32 by 32 pixels.

    The authors' name of the split "val" is "valid".
    """

    _ENTRY = "cinic10"
    _SPLIT = "split"


class PlantVillageRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """PlantVillage, read from records: leaves of 14 plants, healthy or diseased, without augmentation.

    The archive has a 39th class beside the 38 of the first publication: "Background_without_leaves".
    """

    _ENTRY = "plant_village"


class RESISC45Record(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """NWPU-RESISC45, read from records: aerial images of 45 kinds of scenes, 700 of each."""

    _ENTRY = "resisc45"


class UCMercedRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """UC Merced Land Use, read from records: aerial images of 21 kinds of land use, 100 of each."""

    _ENTRY = "uc_merced"


class Country211Record(SplitFilesDataset[Literal["train", "valid", "test"]], ClassFolderDataset, Country211):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Country211`, read from records: photographs by the country in which they were taken."""

    _ENTRY = "country211"
    _HAS_TEXT_ROOT = True
    _PATH = Path


class EuroSATRecord(ClassFolderDataset, EuroSAT):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `EuroSAT`, read from records: 27,000 satellite images of 10 kinds of land use."""

    _ENTRY = "eurosat"
    _HAS_TEXT_ROOT = True


class RenderedSST2Record(SplitFilesDataset[TrainValTest], SamplesDataset, RenderedSST2):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `RenderedSST2`, read from records: sentences as pictures, negative (0) or positive (1)."""

    _ENTRY = "rendered_sst2"
    _split_to_folder = {"train": "train", "val": "valid", "test": "test"}
