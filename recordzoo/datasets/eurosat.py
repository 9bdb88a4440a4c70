"""`EuroSATRecord`: torchvision's EuroSAT from records."""

import os
from typing import Unpack

from torchvision.datasets import EuroSAT
from torchvision.datasets.folder import default_loader

from recordzoo.families.base import Root, Transform
from recordzoo.families.class_folder import ClassFolderDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class EuroSATRecord(ClassFolderDataset, EuroSAT):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `EuroSAT`, read from records: 27,000 satellite images of 10 kinds of land use.

    Args:
        root: Where ``eurosat/2750/`` or ``eurosat/EuroSAT.zip`` is or goes to; or the record set.
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = EuroSATRecord("data")
        >>> image, label = dataset[0]
    """

    entry = "eurosat"

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(os.path.expanduser(root), transform=transform, target_transform=target_transform)
        self._base_folder = os.path.join(self.root, "eurosat")
        self._data_folder = os.path.join(self._base_folder, "2750")
        reader = self._open_part(download=download, options=options)
        self._show_folder(Selection(reader), self._data_folder, loader)
