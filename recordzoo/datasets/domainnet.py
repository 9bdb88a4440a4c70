"""`DomainNetRecord`: DomainNet, 345 classes in six domains, from records."""

import os
from typing import Literal, Unpack

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.base.types import TrainTest
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.class_folder import ClassFolderDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions

Domain = Literal["clipart", "infograph", "painting", "quickdraw", "real", "sketch"]


class DomainNetRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """DomainNet, read from records: images of a domain, in the order of the authors' lists (the cleaned version).

    Args:
        root: Where ``domainnet/`` is or goes to, the folder with the raw files; or the record set.
        domain: "clipart", "infograph", "painting", "quickdraw", "real" or "sketch"; each is a record set of its own.
        split: "train" or "test".
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the domain's archive and lists if they are not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Attributes:
        classes: The names of the folders in the order of the authors' numbers, which is not quite alphabetical.

    Raises:
        ArgumentError: `domain` or `split` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = DomainNetRecord("data", "sketch", split="test")
        >>> image, label = dataset[0]
    """

    entry = "domainnet"

    def __init__(
        self,
        root: Root,
        domain: Domain = "real",
        split: TrainTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        domains = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
        self.domain = self._part = check_choice(domain, "domain", domains)
        self.split = check_choice(split, "split", ("train", "test"))
        reader = self._open_part(download=download, options=options)
        folder = os.path.join(self.root, "domainnet", domain)
        self._show_folder(Selection(reader, split), folder, loader, allow_empty=True)
