"""`Country211Record`: torchvision's Country211 from records."""

import os
from pathlib import Path
from typing import Literal, Unpack

from torchvision.datasets import Country211
from torchvision.datasets.folder import default_loader

from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.class_folder import ClassFolderDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class Country211Record(ClassFolderDataset, Country211):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Country211`, read from records: photographs by the country in which they were taken.

    Args:
        root: Where ``country211/`` or ``country211.tgz`` is or goes to; or the record set.
        split: "train", "valid" or "test".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = Country211Record("data", "valid")
        >>> image, label = dataset[0]
    """

    entry = "country211"

    def __init__(
        self,
        root: Root,
        split: Literal["train", "valid", "test"] = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(os.path.expanduser(root), transform=transform, target_transform=target_transform)
        self._split = check_choice(split, "split", ("train", "valid", "test"))
        self._base_folder = Path(self.root) / "country211"
        reader = self._open_part(download=download, options=options)
        self._show_folder(Selection(reader, split), self._base_folder, loader)
