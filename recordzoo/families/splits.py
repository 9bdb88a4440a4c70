"""Families whose second argument is the split: `SplitDataset`; with a loader for the images, `SplitFilesDataset`."""

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar, Unpack

from torchvision.datasets.folder import default_loader

from recordzoo import catalogue
from recordzoo.families.base import Root, Transform, ZooDataset, check_choice
from recordzoo.families.path_loader import Loader, LoaderDataset
from recordzoo.preparing import PrepareOptions

SplitName = TypeVar("SplitName", bound=str)
"""The names of the splits, for editors: `Literal["train", "test"]`."""


class SplitDataset(ZooDataset, Generic[SplitName]):
    """`ZooDataset` of one split; it stands before the family. If the catalogue has a part of that name, it is opened.

    Attributes:
        _SPLITS: The splits, in the order in which torchvision's error names them.
        _SPLIT: The attribute that torchvision's class keeps the split in.
    """

    _SPLITS: ClassVar[Sequence[str]] = ("train", "test")
    _SPLIT: ClassVar[str] = "_split"

    def __init__(
        self,
        root: Root,
        split: SplitName = "train",  # type: ignore[assignment]  # all of them have a split of this name
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._choose_split(split)
        self._show_split(split, download=download, options=options)

    def _choose_split(self, split: str) -> None:
        """Set the split to show, and the catalogue's part that holds it."""
        setattr(self, self._SPLIT, check_choice(split, "split", self._SPLITS))
        if any(part.name == split for part in catalogue.entry(self.entry).parts):
            self._part = split


class SplitFilesDataset(SplitDataset[SplitName], LoaderDataset):
    """`SplitDataset` with an argument `loader`."""

    def __init__(
        self,
        root: Root,
        split: SplitName = "train",  # type: ignore[assignment]  # as above
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._choose_split(split)
        self._show_split(split, download=download, options=options, loader=loader)
