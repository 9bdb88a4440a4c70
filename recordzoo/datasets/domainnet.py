"""`DomainNetRecord`: DomainNet, 345 classes in six domains, from records."""

from typing import Literal, Unpack, get_args

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.base.text import TrainTest
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.preparing.options import PrepareOptions

Domain = Literal["clipart", "infograph", "painting", "quickdraw", "real", "sketch"]


class DomainNetRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """DomainNet, read from records: images of one domain, in the order of the authors' lists (the cleaned version).

    Args:
        domain: "clipart", "infograph", "painting", "quickdraw", "real" or "sketch"; each is a record set of its own.

    Attributes:
        classes: The names of the folders in the order of the authors' numbers, which is not quite alphabetical.

    Examples:
        >>> dataset = DomainNetRecord("data", "sketch", split="test")
        >>> image, label = dataset[0]
    """

    entry = "domainnet"
    _PATH = str
    _ALLOWS_EMPTY = True  # each list of paintings lacks a class

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
        self.domain = self._part = check_choice(domain, "domain", get_args(Domain))
        self.split = check_choice(split, "split", ("train", "test"))
        self._show_split(split, download=download, options=options, loader=loader)
