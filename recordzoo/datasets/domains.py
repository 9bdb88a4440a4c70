"""Class folders with splits of their own from records: DeepWeeds, DomainNet and its like, and ObjectNet."""

from collections.abc import Sequence
from typing import ClassVar, Generic, Literal, TypeVar, Unpack, get_args

from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.base.text import TrainTest
from recordzoo.datasets.domains_recipe import FOLDS, SPLITS
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.preparing.options import PrepareOptions


class DeepWeedsRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """DeepWeeds, read from records: photographs of eight kinds of weeds, or of none ("Negative").

    Args:
        split: "train", "val" or "test" of a fold; "all": every image.
        fold: 0 to 4: one of the authors' five divisions into train, val and test. "all" is the same for each.
    """

    _ENTRY = "deep_weeds"
    _ALLOWS_EMPTY = True

    def __init__(
        self,
        root: Root,
        split: Literal["train", "val", "test", "all"] = "train",
        fold: int = 0,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.split = check_choice(split, "split", (*SPLITS, "all"))
        if fold not in range(FOLDS):
            raise ArgumentError(f"fold must be 0 to {FOLDS - 1}; it is {fold!r}.")
        self.fold = fold
        name = split if split == "all" else f"{split}{fold}"
        self._show_split(name, download=download, options=options, loader=loader)


DomainNetDomain = Literal["clipart", "infograph", "painting", "quickdraw", "real", "sketch"]
Domain = TypeVar("Domain", bound=str)
"""The names of the domains, for editors."""


class DomainNetRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """DomainNet, read from records: images of one domain, in the order of the authors' lists (the cleaned version).

    Args:
        domain: "clipart", "infograph", "painting", "quickdraw", "real" or "sketch"; each is a record set of its own.

    Attributes:
        classes: The names of the folders in the order of the authors' numbers, which is not quite alphabetical.
    """

    _ENTRY = "domainnet"
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
    """

    _ENTRY = "pacs"
    _DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


class OfficeHomeRecord(_DomainFolders[Literal["Art", "Clipart", "Product", "Real World"]]):
    """Office-Home, read from records: 65 kinds of things of offices and homes in four domains.

    Args:
        domain: "Art", "Clipart", "Product" or "Real World"; None for all of them, one after another.
    """

    _ENTRY = "office_home"
    _DOMAINS = ("Art", "Clipart", "Product", "Real World")


class Office31Record(_DomainFolders[Literal["amazon", "dslr", "webcam"]]):
    """Office-31, read from records: 31 kinds of things of offices, from a shop's pages and by two cameras.

    Args:
        domain: "amazon", "dslr" or "webcam"; None for all of them, one after another.
    """

    _ENTRY = "office31"
    _DOMAINS = ("amazon", "dslr", "webcam")


class ObjectNetRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """ObjectNet, read from records, in ImageFolder's order over ``objectnet-1.0/images``. Its license: only to test on.

    A label is the place of the folder among the sorted ones. `imagenet_labels` says what a model of ImageNet may
    answer: ``prediction in dataset.imagenet_labels[label]``. Images have the red border of 1 pixel that the authors put
    on them; `without_border` is a transform that removes it.

    Args:
        root: Where ``objectnet-1.0/`` is, the extracted tree; or the record set. The zip itself is not read.
        split: "test" for all images, or "imagenet" for those of the classes that ImageNet has. Labels are the same.
        download: Has no use: the error says how to get the tree.

    Raises:
        SourceError: There is the zip, and not the tree.

    Examples:
        >>> dataset = ObjectNetRecord("data", transform=ObjectNetRecord.without_border)
        >>> image, label = dataset[0]
    """

    _ENTRY = "objectnet"
    _ALLOWS_EMPTY = True

    def __init__(
        self,
        root: Root,
        split: Literal["test", "imagenet"] = "test",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.split = check_choice(split, "split", ("test", "imagenet"))
        self._show_split(split, download=download, options=options, loader=loader)

    @staticmethod
    def without_border(image: Image.Image) -> Image.Image:
        """Crop the border of 1 pixel."""
        return image.crop((1, 1, image.width - 1, image.height - 1))

    @derived
    def class_names(self) -> list[str]:
        """The authors' names of the classes in the order of the labels: "Air freshener"."""
        return list(self._selection.reader.manifest.metadata["class_names"])

    @derived
    def imagenet_labels(self) -> list[list[int]]:
        """The equivalent labels of torchvision's ImageNet for each label; usually none."""
        return [list(labels) for labels in self._selection.reader.manifest.metadata["imagenet_labels"]]
