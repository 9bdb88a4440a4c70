"""The same classes in several domains, from records: DomainNet, PACS, Office-Home and Office-31.

torchvision has no classes for them. Each class here reads a domain's folder like ImageFolder.
"""

from collections.abc import Sequence
from typing import ClassVar, Generic, Literal, TypeVar, Unpack, get_args

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.base.text import TrainTest
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.preparing.options import PrepareOptions

DomainNetDomain = Literal["clipart", "infograph", "painting", "quickdraw", "real", "sketch"]
Domain = TypeVar("Domain", bound=str)
"""The names of the domains, for editors."""


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
        domain: DomainNetDomain = "real",
        split: TrainTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.domain = self._part = check_choice(domain, "domain", get_args(DomainNetDomain))
        self.split = check_choice(split, "split", ("train", "test"))
        self._show_split(split, download=download, options=options, loader=loader)


class _DomainFolders(ClassFolderDataset, ImageFolder, Generic[Domain]):  # type: ignore[misc]  # torchvision is untyped
    """Images of one domain, or of all; a record set has a split for each domain."""

    _DOMAINS: ClassVar[Sequence[str]]
    _PATH = str

    def __init__(
        self,
        root: Root,
        domain: Domain | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.domain = None if domain is None else check_choice(domain, "domain", self._DOMAINS)
        split = (self.domain or "").lower().replace("_", "-").replace(" ", "-")  # names of splits have no others
        self._show_split(split, download=download, options=options, loader=loader)


class PACSRecord(_DomainFolders[Literal["art_painting", "cartoon", "photo", "sketch"]]):
    """PACS, read from records: 7 classes as photographs, paintings, cartoons and sketches.

    Args:
        domain: "art_painting", "cartoon", "photo" or "sketch"; None for all of them, one after another.

    Examples:
        >>> dataset = PACSRecord("data", "sketch")
        >>> image, label = dataset[0]
    """

    entry = "pacs"
    _DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


class OfficeHomeRecord(_DomainFolders[Literal["Art", "Clipart", "Product", "Real World"]]):
    """Office-Home, read from records: 65 kinds of things of offices and homes in four domains.

    Args:
        domain: "Art", "Clipart", "Product" or "Real World"; None for all of them, one after another.
    """

    entry = "office_home"
    _DOMAINS = ("Art", "Clipart", "Product", "Real World")


class Office31Record(_DomainFolders[Literal["amazon", "dslr", "webcam"]]):
    """Office-31, read from records: 31 kinds of things of offices, from a shop's pages and by two cameras.

    Args:
        domain: "amazon", "dslr" or "webcam"; None for all of them, one after another.
    """

    entry = "office31"
    _DOMAINS = ("amazon", "dslr", "webcam")
