"""`PCAMRecord`: torchvision's PCAM from records."""

import operator
from typing import Any

from torchvision.datasets import PCAM

from recordzoo.base.text import TrainValTest
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.folders import SplitDataset


class PCAMRecord(SplitDataset[TrainValTest], ArrayDataset, PCAM):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `PCAM`, read from records; each split is a record set of its own.

    Converting needs ``h5py`` (``pip install h5py``) and room for an unpacked copy of the file; reading needs neither.
    """

    entry = "pcam"
    _SPLITS = ("train", "test", "val")
    _HAS_DATA = False
    _OUT_OF_RANGE = "Index ({from_start}) out of range for (0-{last})"  # h5py's words

    # Any: as declared by `ArrayDataset`.
    def _unusual_item(self, index: Any) -> Any:
        """Take integers only: torchvision hands the index to h5py, whose files may be gone."""
        return self[operator.index(index)]
