"""`PCAMRecord`: torchvision's PCAM from records."""

import operator
from typing import Any, Unpack

from torchvision.datasets import PCAM

from recordzoo.base.types import TrainValTest
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.preparing import PrepareOptions


class PCAMRecord(ArrayDataset, PCAM):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `PCAM`, read from records; each split is a record set of its own.

    Converting needs ``h5py`` (``pip install h5py``) and room for an unpacked copy of the file; reading needs neither.

    Args:
        root: Where ``pcam/`` is or goes to; or the record set.
        split: "train", "val" or "test".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the files of the split if they are not there.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = PCAMRecord("data", split="test")
        >>> image, label = dataset[0]
    """

    entry = "pcam"
    _HAS_DATA = False
    _OUT_OF_RANGE = "Index ({from_start}) out of range for (0-{last})"  # h5py's words

    def __init__(
        self,
        root: Root,
        split: TrainValTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = self._part = check_choice(split, "split", ("train", "test", "val"))
        self._start(root, transform=transform, target_transform=target_transform)
        self._show_split(split, download=download, options=options)

    # Any: as declared by `ArrayDataset`.
    def _unusual_item(self, index: Any) -> Any:
        """Take integers only: torchvision hands the index to h5py, whose files may be gone."""
        return self[operator.index(index)]
