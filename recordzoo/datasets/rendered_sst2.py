"""`RenderedSST2Record`: torchvision's RenderedSST2 from records."""

from torchvision.datasets import RenderedSST2

from recordzoo.base.text import TrainValTest
from recordzoo.families.folders import SamplesDataset, SplitFilesDataset


class RenderedSST2Record(SplitFilesDataset[TrainValTest], SamplesDataset, RenderedSST2):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `RenderedSST2`, read from records: sentences as pictures, negative (0) or positive (1)."""

    entry = "rendered_sst2"
    _SPLITS = ("train", "val", "test")
    _PATHS = {"_base_folder": "rendered-sst2"}
    _split_to_folder = {"train": "train", "val": "valid", "test": "test"}
