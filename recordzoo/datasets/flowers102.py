"""`Flowers102Record`: torchvision's Flowers102 from records."""

from torchvision.datasets import Flowers102

from recordzoo.base.text import TrainValTest
from recordzoo.families.files import FilesDataset
from recordzoo.families.folders import SplitFilesDataset


class Flowers102Record(SplitFilesDataset[TrainValTest], FilesDataset, Flowers102):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Flowers102`, read from records: photographs of 102 kinds of flowers."""

    entry = "flowers102"
    _SPLITS = ("train", "val", "test")
    _PATHS = {"_base_folder": "flowers-102", "_images_folder": "flowers-102/jpg"}
