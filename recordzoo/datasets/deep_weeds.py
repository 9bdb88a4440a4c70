"""`DeepWeedsRecord`: DeepWeeds, weeds of Australia, from records."""

from typing import Literal, Unpack

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.datasets.deep_weeds_recipe import FOLDS, SPLITS
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.preparing.options import PrepareOptions


class DeepWeedsRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """DeepWeeds, read from records: photographs of eight kinds of weeds, or of none ("Negative").

    Args:
        split: "train", "val" or "test" of a fold; "all": every image.
        fold: 0 to 4: one of the authors' five divisions into train, val and test. "all" is the same for each.

    Examples:
        >>> dataset = DeepWeedsRecord("data", "test", fold=3)
        >>> image, label = dataset[0]
    """

    entry = "deep_weeds"
    _PATH = str
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
