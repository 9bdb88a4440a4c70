"""`ImagenetteRecord`: torchvision's Imagenette from records."""

from pathlib import Path
from typing import Literal, Unpack

from torchvision.datasets import Imagenette
from torchvision.datasets.folder import default_loader

from recordzoo.base.text import TrainVal
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.folders import Loader, SamplesDataset
from recordzoo.preparing.options import PrepareOptions


class ImagenetteRecord(SamplesDataset, Imagenette):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Imagenette`, read from records; each size is a record set of its own.

    Args:
        size: "full", "320px" or "160px": the shorter side of the images.

    Examples:
        >>> dataset = ImagenetteRecord("data", "val", size="160px")
        >>> image, label = dataset[0]
    """

    entry = "imagenette"

    def __init__(
        self,
        root: Root,
        split: TrainVal = "train",
        size: Literal["full", "320px", "160px"] = "full",
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._split = check_choice(split, "split", ["train", "val"])
        self._size = self._part = check_choice(size, "size", ["full", "320px", "160px"])
        self._url, self._md5 = self._ARCHIVES[size]
        self._size_root = Path(self.root) / Path(self._url).stem
        self._image_root = str(self._size_root / split)
        self._show_split(split, download=download, options=options, loader=loader)
        self.wnids = self._class_names()
        self.wnid_to_idx = {wnid: label for label, wnid in enumerate(self.wnids)}

    @derived
    def classes(self) -> list[tuple[str, ...]]:  # type: ignore[override]  # torchvision's are tuples here
        """The names of each label, as a tuple."""
        return [self._WNID_TO_CLASS[wnid] for wnid in self.wnids]

    @derived
    def class_to_idx(self) -> dict[str, int]:
        """The label of each name."""
        return {name: label for label, names in enumerate(self.classes) for name in names}
