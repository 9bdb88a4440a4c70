"""`Food101Record`: torchvision's Food101 from records."""

from pathlib import Path
from typing import Unpack

from torchvision.datasets import Food101
from torchvision.datasets.folder import default_loader

from recordzoo.base.types import TrainTest
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.files import FilesDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class Food101Record(FilesDataset, Food101):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Food101`, read from records: photographs of 101 kinds of food.

    Args:
        root: Where ``food-101/`` or ``food-101.tar.gz`` is or goes to; or the record set.
        split: "train" or "test".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data; or no list of this split.

    Examples:
        >>> dataset = Food101Record("data", split="test")
        >>> image, label = dataset[0]
    """

    entry = "food101"

    def __init__(
        self,
        root: Root,
        split: TrainTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._split = check_choice(split, "split", ("train", "test"))
        self._base_folder = Path(self.root) / "food-101"
        self._meta_folder, self._images_folder = self._base_folder / "meta", self._base_folder / "images"
        reader = self._open_part(download=download, options=options)
        self._show_files(Selection(reader, split), self._images_folder, loader)

    @derived
    def classes(self) -> list[str]:
        """The names of the classes in the order of their labels."""
        return self._class_names()
