"""`STL10Record`: torchvision's STL10 from records."""

from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets import STL10

from recordzoo.errors import ArgumentError
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions


class STL10Record(ArrayDataset, STL10):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `STL10`, read from records.

    ``data``, uint8 [n, 3, 96, 96], and ``labels`` are read into memory on first access; from then on,
    changes to them show in the samples.

    Args:
        split: "train", "test", "unlabeled" or "train+unlabeled"; the label of unlabelled images is -1.
        folds: One of the 10 folds of the training images, from 0; None for all of them.
    """

    entry = "stl10"
    _INT_LABELS = True
    _CHANNELS_FIRST = True
    _LABELS = "labels"

    def __init__(
        self,
        root: Root,
        split: Literal["train", "train+unlabeled", "unlabeled", "test"] = "train",
        folds: int | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.split = check_choice(split, "split", self.splits)
        try:
            self.folds = self._verify_folds(folds)
        except ValueError as err:
            raise ArgumentError(str(err)) from None
        reader = self._open_part(download=download, options=options)
        names = [name if name != "train" or folds is None else f"fold{folds}" for name in split.split("+")]
        positions = np.concatenate([reader.split(name) for name in names])
        self._show(Selection(reader, positions=positions))
        if reader.manifest.classes is not None:
            self.classes = list(reader.manifest.classes)

    @derived
    def labels(self) -> NDArray[Any]:
        """The labels [n]; int64 if there are unlabelled images among them, otherwise uint8, as in torchvision."""
        dtype = np.int64 if "unlabeled" in self.split else np.uint8
        return self._selection.targets().astype(dtype)

    def _member_md5s(self) -> dict[str, str]:
        return dict(self.train_list + self.test_list)
