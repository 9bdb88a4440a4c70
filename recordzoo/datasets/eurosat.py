"""`EuroSATRecord`: torchvision's EuroSAT from records."""

from torchvision.datasets import EuroSAT

from recordzoo.families.folders import ClassFolderDataset


class EuroSATRecord(ClassFolderDataset, EuroSAT):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `EuroSAT`, read from records: 27,000 satellite images of 10 kinds of land use."""

    entry = "eurosat"
    _HAS_TEXT_ROOT, _PATH = True, str
    _PATHS = {"_base_folder": "eurosat", "_data_folder": "eurosat/2750"}
