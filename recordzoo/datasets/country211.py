"""`Country211Record`: torchvision's Country211 from records."""

from typing import Literal

from torchvision.datasets import Country211

from recordzoo.families.folders import ClassFolderDataset, SplitFilesDataset


class Country211Record(SplitFilesDataset[Literal["train", "valid", "test"]], ClassFolderDataset, Country211):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Country211`, read from records: photographs by the country in which they were taken."""

    entry = "country211"
    _HAS_TEXT_ROOT = True
    _SPLITS = ("train", "valid", "test")
    _PATHS = {"_base_folder": "country211"}
