"""`RenderedSST2Record`: torchvision's RenderedSST2 from records."""

from pathlib import Path
from typing import Unpack

from torchvision.datasets import RenderedSST2
from torchvision.datasets.folder import default_loader

from recordzoo.base.types import TrainValTest
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.class_folder import SamplesDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class RenderedSST2Record(SamplesDataset, RenderedSST2):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `RenderedSST2`, read from records: sentences as pictures, negative (0) or positive (1).

    Args:
        root: Where ``rendered-sst2/`` or ``rendered-sst2.tgz`` is or goes to; or the record set.
        split: "train", "val" or "test".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = RenderedSST2Record("data", "val")
        >>> image, label = dataset[0]
    """

    entry = "rendered_sst2"

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
        self._split_to_folder = {"train": "train", "val": "valid", "test": "test"}
        self._base_folder = Path(self.root) / "rendered-sst2"
        reader = self._open_part(download=download, options=options)
        self._show_samples(Selection(reader, split), self._base_folder, loader)
