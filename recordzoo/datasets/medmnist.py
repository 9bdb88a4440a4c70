"""`MedMNISTRecord`: the 12 sets of MedMNIST that have images, from records."""

from typing import Any, Literal, Unpack

from torchvision.datasets import CIFAR10

from recordzoo.base.text import TrainValTest
from recordzoo.datasets.medmnist_recipe import CLASSES, SIZES, SPLITS, part_name
from recordzoo.errors import ArgumentError
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.preparing.options import PrepareOptions


class MedMNISTRecord(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """A set of MedMNIST, read from records. Targets are ints; of ChestMNIST arrays of 14 zeros and ones.

    Args:
        name: "pathmnist", "chestmnist", "dermamnist", ...: one of the 12 sets with images.
        size: Width and height of the images: 28, 64, 128 or 224.

    Examples:
        >>> dataset = MedMNISTRecord("data", "pathmnist", split="val")
        >>> image, label = dataset[0]
    """

    entry = "medmnist"

    def __init__(
        self,
        root: Root,
        name: str = "pathmnist",
        split: TrainValTest = "train",
        size: Literal[28, 64, 128, 224] = 28,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.name = check_choice(name, "name", tuple(CLASSES))
        self.split = check_choice(split, "split", SPLITS)
        if size not in SIZES:
            raise ArgumentError(f"size must be 28, 64, 128 or 224; it is {size!r}.")
        self.size = size
        self._part = part_name(name, size)
        self._show_split(split, download=download, options=options)

    def extra_repr(self) -> str:
        """Name the set, its split and its size."""
        return f"Name: {self.name}\nSplit: {self.split}\nSize: {self.size}"

    # Any: a list of ints, or an array.
    @derived
    def targets(self) -> Any:
        """The labels: a list of ints; of ChestMNIST int64 [n, 14]."""
        found = self._selection.targets()
        return found if found.ndim > 1 else found.tolist()

    @derived
    def classes(self) -> list[str]:
        """The names of the classes; of ChestMNIST those of the findings."""
        return self._names_of("target")
