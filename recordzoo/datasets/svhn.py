"""`SVHNRecord`: torchvision's SVHN from records."""

from typing import Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets import SVHN

from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.preparing import PrepareOptions


class SVHNRecord(ArrayDataset, SVHN):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SVHN`, read from records; each split is a record set of its own.

    ``data``, uint8 [n, 3, 32, 32], and ``labels``, int64 [n], are read into memory when somebody asks for them, and
    count from then on.

    Args:
        root: Where ``train_32x32.mat`` and so on are or go to; or the record set.
        split: "train", "test" or "extra".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the file of the split if it is not there.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = SVHNRecord("data", split="test")
        >>> image, label = dataset[0]
    """

    entry = "svhn"
    _INT_LABELS = True
    _CHANNELS_FIRST = True
    _LABELS = "labels"

    def __init__(
        self,
        root: Root,
        split: Literal["train", "test", "extra"] = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.split = self._part = check_choice(split, "split", tuple(self.split_list))
        self.url, self.filename, self.file_md5 = self.split_list[split]
        self._show_split(split, download=download, options=options)

    @derived
    def labels(self) -> NDArray[np.int64]:
        """The labels, int64 [n]."""
        return self._selection.targets()

    def _member_md5s(self) -> dict[str, str]:
        return {name: md5 for _, name, md5 in self.split_list.values()}
