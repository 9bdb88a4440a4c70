"""`StanfordCarsRecord`: torchvision's StanfordCars from records."""

from pathlib import Path

from torchvision.datasets import StanfordCars
from typing_extensions import override

from recordzoo.base.text import TrainTest
from recordzoo.datasets.stanford_cars_recipe import ANNOTATIONS
from recordzoo.families.folders import SamplesDataset, SplitFilesDataset


class StanfordCarsRecord(SplitFilesDataset[TrainTest], SamplesDataset, StanfordCars):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `StanfordCars`, read from records; each split is a record set of its own.

    The host of the dataset is gone. ``download=True`` says how to get the files, or takes them from a mirror
    (`PrepareOptions`).
    """

    entry = "stanford_cars"
    _PATHS = {"_base_folder": "stanford_cars"}

    @override
    def _choose_split(self, split: str) -> None:
        super()._choose_split(split)
        folder = Path(self.root, "stanford_cars")
        self._annotations_mat_path, self._images_base_path = folder / ANNOTATIONS[split], folder / f"cars_{split}"
