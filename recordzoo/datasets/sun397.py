"""`SUN397Record`: torchvision's SUN397 from records."""

from pathlib import Path
from typing import Unpack

from torchvision.datasets import SUN397
from torchvision.datasets.folder import default_loader

from recordzoo.families.base import Root, Transform
from recordzoo.families.derived import derived
from recordzoo.families.files import FilesDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class SUN397Record(FilesDataset, SUN397):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SUN397`, read from records: photographs of 397 kinds of scenes, sorted by folder and name.

    Args:
        root: Where ``SUN397/`` or ``SUN397.tar.gz`` is or goes to; or the record set.
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = SUN397Record("data")
        >>> image, label = dataset[0]
    """

    entry = "sun397"

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._data_dir = Path(self.root) / "SUN397"
        self._show_files(Selection(self._open_part(download=download, options=options)), self._data_dir, loader)

    @derived
    def classes(self) -> list[str]:
        """The names of the scenes in the order of their labels."""
        return self._class_names()
