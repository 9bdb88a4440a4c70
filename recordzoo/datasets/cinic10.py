"""`CINIC10Record`: CINIC-10 from records, as ImageFolder shows a split's folder."""

from torchvision.datasets import ImageFolder

from recordzoo.base.types import TrainValTest
from recordzoo.families.class_folder import ClassFolderDataset
from recordzoo.families.splits import SplitFilesDataset


class CINIC10Record(SplitFilesDataset[TrainValTest], ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """CINIC-10, read from records: the images of CIFAR-10 and 210,000 of ImageNet, all of 32 by 32 pixels.

    The authors' name of the split "val" is "valid".
    """

    entry = "cinic10"
    _SPLIT = "split"
    _SPLITS = ("train", "val", "test")
    _PATH = str
