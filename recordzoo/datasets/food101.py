"""`Food101Record`: torchvision's Food101 from records."""

from torchvision.datasets import Food101

from recordzoo.base.text import TrainTest
from recordzoo.families.base import derived
from recordzoo.families.files import FilesDataset
from recordzoo.families.folders import SplitFilesDataset


class Food101Record(SplitFilesDataset[TrainTest], FilesDataset, Food101):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Food101`, read from records: photographs of 101 kinds of food."""

    entry = "food101"
    _PATHS = {"_base_folder": "food-101", "_meta_folder": "food-101/meta", "_images_folder": "food-101/images"}

    @derived
    def classes(self) -> list[str]:
        """The names of the classes in the order of their labels."""
        return self._class_names()
