"""`DTDRecord`: torchvision's DTD from records."""

from typing import Unpack

from torchvision.datasets import DTD
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo.base.text import TrainValTest
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.files import FilesDataset
from recordzoo.families.folders import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import class_labels
from recordzoo.records.reader import RecordReader


class DTDRecord(FilesDataset, DTD):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `DTD`, read from records: textures of 47 kinds, in ten partitions.

    Args:
        partition: 1 to 10: which images are in which split.

    Examples:
        >>> dataset = DTDRecord("data", split="val", partition=3)
        >>> image, label = dataset[0]
    """

    entry = "dtd"
    _PATHS = {
        "_base_folder": "dtd",
        "_data_folder": "dtd/dtd",
        "_meta_folder": "dtd/dtd/labels",
        "_images_folder": "dtd/dtd/images",
    }

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
        self._show_split(f"{split}{partition}", download=download, options=options, loader=loader)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        # Labels count the classes that the split has images of: all 47, unless somebody shortened the lists.
        self.classes, labels = class_labels(Selection(reader, split).names())
        return Selection(reader, split, targets=labels)
