"""`GTSRBRecord`: torchvision's GTSRB from records."""

from pathlib import Path
from typing import Unpack

from torchvision.datasets import GTSRB
from torchvision.datasets.folder import pil_loader

from recordzoo.base.types import TrainTest
from recordzoo.datasets.gtsrb_recipe import FOLDERS
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.class_folder import SamplesDataset
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class GTSRBRecord(SamplesDataset, GTSRB):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `GTSRB`, read from records; each split is a record set of its own.

    Args:
        root: Where ``gtsrb/`` is or goes to; or the record set.
        split: "train" or "test".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archives of the split if they are not there.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = GTSRBRecord("data", split="test")
        >>> image, label = dataset[0]
    """

    entry = "gtsrb"

    def __init__(
        self,
        root: Root,
        split: TrainTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._split = self._part = check_choice(split, "split", ("train", "test"))
        self._base_folder = Path(self.root) / "gtsrb"
        self._target_folder = self._base_folder / FOLDERS[split]
        reader = self._open_part(download=download, options=options)
        self._show_samples(Selection(reader, "test" if split == "test" else ""), self._target_folder, pil_loader)
