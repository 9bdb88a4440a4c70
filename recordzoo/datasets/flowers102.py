"""`Flowers102Record`: torchvision's Flowers102 from records."""

from pathlib import Path
from typing import Unpack

from torchvision.datasets import Flowers102
from torchvision.datasets.folder import default_loader

from recordzoo.base.types import TrainValTest
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.files import FilesDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class Flowers102Record(FilesDataset, Flowers102):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Flowers102`, read from records.

    Args:
        root: Where ``flowers-102/`` is or goes to; or the record set.
        split: "train", "val" or "test".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the files if they are not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = Flowers102Record("data", split="val")
        >>> image, label = dataset[0]
    """

    entry = "flowers102"

    def __init__(
        self,
        root: Root,
        split: TrainValTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._split = check_choice(split, "split", ("train", "val", "test"))
        self._base_folder = Path(self.root) / "flowers-102"
        self._images_folder = self._base_folder / "jpg"
        reader = self._open_part(download=download, options=options)
        self._show_files(Selection(reader, split), self._images_folder, loader)
