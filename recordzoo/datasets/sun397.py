"""`SUN397Record`: torchvision's SUN397 from records."""

from torchvision.datasets import SUN397

from recordzoo.families.base import derived
from recordzoo.families.files import FilesDataset


class SUN397Record(FilesDataset, SUN397):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SUN397`, read from records: photographs of 397 kinds of scenes, sorted by folder and name."""

    entry = "sun397"
    _PATHS = {"_data_dir": "SUN397"}

    @derived
    def classes(self) -> list[str]:
        """The names of the scenes in the order of their labels."""
        return self._class_names()
