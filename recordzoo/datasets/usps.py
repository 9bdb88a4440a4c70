"""`USPSRecord`: torchvision's USPS from records."""

from torchvision.datasets import USPS
from typing_extensions import override

from recordzoo.families.arrays import ArrayDataset


class USPSRecord(ArrayDataset, USPS):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `USPS`, read from records; each split is a record set of its own.

    ``data``, uint8 [n, 16, 16], is read into memory on first access; from then on, changes show in the samples.
    """

    entry = "usps"
    _INT_LABELS = True

    @override
    def _chosen_split(self) -> str:
        self._part = super()._chosen_split()
        return self._part
