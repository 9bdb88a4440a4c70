"""`USPSRecord`: torchvision's USPS from records."""

from typing import Unpack

from torchvision.datasets import USPS

from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform
from recordzoo.preparing import PrepareOptions


class USPSRecord(ArrayDataset, USPS):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `USPS`, read from records; each split is a record set of its own.

    ``data``, uint8 [n, 16, 16], is read into memory when somebody asks for it, and counts from then on.

    Args:
        root: Where ``usps.bz2`` and ``usps.t.bz2`` are or go to; or the record set.
        train: The 7,291 training images or the 2,007 test images.
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the file of the split if it is not there.
        **options: See `PrepareOptions`.

    Raises:
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = USPSRecord("data", train=False)
        >>> image, label = dataset[0]
    """

    entry = "usps"
    _INT_LABELS = True

    def __init__(
        self,
        root: Root,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._part = "train" if train else "test"
        self._show_split(self._part, download=download, options=options)
