"""Class folders: Beans, Cats vs Dogs, CINIC-10, PlantVillage, RESISC45, UC Merced.

torchvision has no classes for them. Each class here reads the extracted archive like ImageFolder.
"""

from torchvision.datasets import ImageFolder

from recordzoo.base.text import TrainValTest
from recordzoo.families.folders import ClassFolderDataset, SplitFilesDataset


class BeansRecord(SplitFilesDataset[TrainValTest], ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Beans, read from records: photographs of bean leaves, healthy or with one of two diseases.

    Each split is a record set of its own.
    """

    entry = "beans"
    _PATH = str
    _SPLITS = ("train", "val", "test")
    _SPLIT = "split"


class CatsVsDogsRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Cats vs Dogs, read from records: 25,000 photographs that a CAPTCHA asked people to tell apart.

    Some files are damaged. As with all datasets, `on_error` says what is done with a file whose header no decoder
    recognises: it is kept, and taking it raises `ImageError`; ``on_error="skip"`` leaves it out. With
    ``check_images=True`` each image is decoded, and `on_error` holds for every one that cannot be. TensorFlow Datasets
    leaves out more: all 1,738 files that do not begin as JFIF, most of which can be decoded.
    """

    entry = "cats_vs_dogs"
    _PATH = str


class CINIC10Record(SplitFilesDataset[TrainValTest], ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """CINIC-10, read from records: the images of CIFAR-10 and 210,000 of ImageNet, all of 32 by 32 pixels.

    The authors' name of the split "val" is "valid".
    """

    entry = "cinic10"
    _PATH = str
    _SPLITS = ("train", "val", "test")
    _SPLIT = "split"


class PlantVillageRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """PlantVillage, read from records: leaves of 14 plants, healthy or diseased, without augmentation.

    The archive has a 39th class beside the 38 of the first publication: "Background_without_leaves".
    """

    entry = "plant_village"
    _PATH = str


class RESISC45Record(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """NWPU-RESISC45, read from records: aerial images of 45 kinds of scenes, 700 of each."""

    entry = "resisc45"
    _PATH = str


class UCMercedRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """UC Merced Land Use, read from records: aerial images of 21 kinds of land use, 100 of each."""

    entry = "uc_merced"
    _PATH = str
