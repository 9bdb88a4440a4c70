"""`CLEVRClassificationRecord`: torchvision's CLEVRClassification from records."""

from torchvision.datasets import CLEVRClassification
from typing_extensions import override

from recordzoo.base.text import TrainValTest
from recordzoo.families.files import FilesDataset
from recordzoo.families.folders import SplitFilesDataset
from recordzoo.families.selection import Selection, UnlabelledSelection
from recordzoo.records.reader import RecordReader


class CLEVRClassificationRecord(SplitFilesDataset[TrainValTest], FilesDataset, CLEVRClassification):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CLEVRClassification`, read from records: rendered scenes, labelled by their number of objects.

    The labels of the split "test" are None.
    """

    entry = "clevr"
    _SPLITS = ("train", "val", "test")
    _PATHS = {"_base_folder": "clevr", "_data_folder": "clevr/CLEVR_v1.0"}

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return (UnlabelledSelection if split == "test" else Selection)(reader, split)
