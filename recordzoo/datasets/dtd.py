"""`DTDRecord`: torchvision's DTD from records."""

from pathlib import Path
from typing import Unpack

from torchvision.datasets import DTD
from torchvision.datasets.folder import default_loader

from recordzoo.base.types import TrainValTest
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.files import FilesDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions
from recordzoo.recipes.class_folders import class_labels


class DTDRecord(FilesDataset, DTD):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `DTD`, read from records: textures of 47 kinds, in ten partitions.

    Args:
        root: Where ``dtd/`` is or goes to; or the record set.
        split: "train", "val" or "test".
        partition: 1 to 10: which images are in which split.
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` or `partition` has another value.
        NotPreparedError: There are no records and no raw data; or no list of this partition.

    Examples:
        >>> dataset = DTDRecord("data", split="val", partition=3)
        >>> image, label = dataset[0]
    """

    entry = "dtd"

    def __init__(
        self,
        root: Root,
        split: TrainValTest = "train",
        partition: int = 1,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = check_choice(split, "split", ("train", "val", "test"))
        if not isinstance(partition, int) or not 1 <= partition <= 10:
            raise ArgumentError(
                f"Parameter 'partition' should be an integer with `1 <= partition <= 10`, but got {partition} instead"
            )
        self._partition = partition
        self._start(root, transform=transform, target_transform=target_transform)
        self._base_folder = Path(self.root) / "dtd"
        self._data_folder = self._base_folder / "dtd"
        self._meta_folder, self._images_folder = self._data_folder / "labels", self._data_folder / "images"
        reader = self._open_part(download=download, options=options)
        # Labels count the classes that the split has images of: all 47, unless somebody shortened the lists.
        self.classes, labels = class_labels(Selection(reader, f"{split}{partition}").names())
        self._show_files(Selection(reader, f"{split}{partition}", targets=labels), self._images_folder, loader)
