"""`SEMEIONRecord`: torchvision's SEMEION from records."""

from typing import Unpack

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets import SEMEION

from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, derived
from recordzoo.preparing.options import PrepareOptions


class SEMEIONRecord(ArrayDataset, SEMEION):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SEMEION`, read from records: 1,593 handwritten digits.

    ``data``, uint8 [n, 16, 16], and ``labels``, int64 [n], are read into memory on first access; from then on,
    changes to them show in the samples.

    Args:
        download: Download the file if it is not there; as in torchvision, the default.
    """

    entry = "semeion"
    _INT_LABELS = True
    _LABELS = "labels"

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = True,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._show_split("all", download=download, options=options)

    @derived
    def labels(self) -> NDArray[np.int64]:
        """The labels, int64 [n]."""
        return self._selection.targets()

    def _member_md5s(self) -> dict[str, str]:
        return {self.filename: self.md5_checksum}
