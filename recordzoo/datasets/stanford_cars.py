"""`StanfordCarsRecord`: torchvision's StanfordCars from records."""

from pathlib import Path
from typing import Unpack

from torchvision.datasets import StanfordCars
from torchvision.datasets.folder import default_loader

from recordzoo.base.types import TrainTest
from recordzoo.datasets.stanford_cars_recipe import ANNOTATIONS
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.class_folder import SamplesDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class StanfordCarsRecord(SamplesDataset, StanfordCars):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `StanfordCars`, read from records; each split is a record set of its own.

    The host of the dataset is gone. ``download=True`` says how to get the files, or takes them from a mirror
    (`PrepareOptions`).

    Args:
        root: Where ``stanford_cars/`` is or goes to; or the record set.
        split: "train" or "test".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the files from a mirror if they are not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data.
        DownloadError: `download` without a mirror.

    Examples:
        >>> dataset = StanfordCarsRecord("data", split="test")
        >>> image, label = dataset[0]
    """

    entry = "stanford_cars"

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
        self._split = self._part = check_choice(split, "split", ("train", "test"))
        self._base_folder = Path(self.root) / "stanford_cars"
        self._annotations_mat_path = self._base_folder / ANNOTATIONS[split]
        self._images_base_path = self._base_folder / f"cars_{split}"
        reader = self._open_part(download=download, options=options)
        self._show_samples(Selection(reader, split), self._images_base_path, loader)
