"""`SVHNRecord`: torchvision's SVHN from records."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets import SVHN
from typing_extensions import override

from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import derived
from recordzoo.families.folders import SplitDataset


class SVHNRecord(SplitDataset[Literal["train", "test", "extra"]], ArrayDataset, SVHN):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SVHN`, read from records; each split is a record set of its own.

    ``data``, uint8 [n, 3, 32, 32], and ``labels``, int64 [n], are read into memory on first access; from then on,
    changes to them show in the samples.
    """

    entry = "svhn"
    _SPLIT = "split"
    _SPLITS = ("train", "test", "extra")
    _INT_LABELS = True
    _CHANNELS_FIRST = True
    _LABELS = "labels"

    @override
    def _choose_split(self, split: str) -> None:
        super()._choose_split(split)
        self.url, self.filename, self.file_md5 = self.split_list[split]

    @derived
    def labels(self) -> NDArray[np.int64]:
        """The labels, int64 [n]."""
        return self._selection.targets()

    def _member_md5s(self) -> dict[str, str]:
        return {name: md5 for _, name, md5 in self.split_list.values()}
