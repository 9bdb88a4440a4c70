"""`LFWPeopleRecord` and `LFWPairsRecord`: torchvision's LFW classes from the records of an image set."""

import os
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal, Unpack

from torchvision.datasets import LFWPairs, LFWPeople
from torchvision.datasets.folder import default_loader

from recordzoo.datasets.lfw_recipe import FOLDERS, SECOND, list_name
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.files import FilesDataset
from recordzoo.families.folders import Loader
from recordzoo.families.selection import Selection, list_paths, list_targets
from recordzoo.preparing.options import PrepareOptions


class _LFWRecord(FilesDataset):
    """Base of both classes: the arguments, and the choice of the split and record set."""

    entry = "lfw"
    base_folder: ClassVar[str]
    file_dict: ClassVar[dict[str, tuple[str, str, str]]]
    _VIEW: ClassVar[str]
    _ITEMS = "data"
    _LABELS = "targets"

    def __init__(
        self,
        root: Root,
        split: Literal["10fold", "train", "test"] = "10fold",
        image_set: Literal["original", "funneled", "deepfunneled"] = "funneled",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(os.path.expanduser(root), transform=transform, target_transform=target_transform)
        self.image_set = self._part = check_choice(image_set.lower(), "image_set", tuple(FOLDERS))
        _, self.filename, self.md5 = self.file_dict[self.image_set]
        self.view = self._VIEW
        self.split = check_choice(split.lower(), "split", ["10fold", "train", "test"])
        self.labels_file = list_name(self.view, self.split)
        reader = self._open_part(download=download, options=options)
        self.root = os.path.join(self.root, self.base_folder)
        self.images_dir = os.path.join(self.root, FOLDERS[self.image_set])
        self._show_files(Selection(reader, f"{self.view}-{self.split}"), self.images_dir, loader)

    def _required_files(self) -> Collection[str]:
        return (self.labels_file,)


class LFWPeopleRecord(_LFWRecord, LFWPeople):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `LFWPeople`, read from records; each image set is a record set of its own.

    The host of the dataset is gone. ``download=True`` downloads the images from a mirror. No mirror has the lists of
    people, which this class needs: the error says how to get them.

    Args:
        image_set: "original", "funneled" or "deepfunneled": how the faces are aligned.

    Raises:
        DownloadError: No address has one of the files; the text says how to get it.
    """

    _VIEW = "people"

    @derived
    def data(self) -> list[str]:
        """The paths of the images."""
        return list_paths(self._selection, self.images_dir, ".jpg")

    @derived
    def targets(self) -> list[int]:
        """The number of the person on each image."""
        return list_targets(self._selection)

    @derived
    def class_to_idx(self) -> dict[str, int]:
        """The number of each person."""
        return {name: label for label, name in enumerate(self._class_names())}


class LFWPairsRecord(_LFWRecord, LFWPairs):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `LFWPairs`, read from records; each image set is a record set of its own.

    The host of the dataset is gone. ``download=True`` takes the files from mirrors of the same bytes; of
    "deepfunneled" there is none, and it says how to get it.

    Args:
        image_set: "original", "funneled" or "deepfunneled": how the faces are aligned.
        transform: Applied to both images.
        target_transform: Applied to the target: 1 for one person, 0 for two.

    Raises:
        DownloadError: No address has one of the files; the text says how to get it.
    """

    _VIEW = "pairs"

    def _show(self, selection: Selection) -> None:
        super()._show(selection)
        self._second = Selection(selection.reader, selection.split + SECOND)

    @derived
    def data(self) -> list[tuple[str, str]]:
        """The paths of both images of each pair."""
        first, second = (list_paths(each, self.images_dir, ".jpg") for each in (self._selection, self._second))
        return list(zip(first, second, strict=True))

    @derived
    def pair_names(self) -> list[tuple[str, str]]:
        """The people of each pair."""
        both = (self._selection.names(), self._second.names())
        return [(first.partition("/")[0], second.partition("/")[0]) for first, second in zip(*both, strict=True)]

    @derived
    def targets(self) -> list[int]:
        """1 for a pair of one person, 0 for one of two."""
        same: list[int] = (self._selection.targets() == self._second.targets()).astype(int).tolist()
        return same

    # Any: what the loader and the transforms make of them.
    def __getitem__(self, index: int) -> tuple[Any, Any, Any]:  # type: ignore[override]  # the families' are of two
        """Return (first image, second image, 1 for one person or 0 for two)."""
        number = self._as_opened("data", index)
        if number is None:
            first, second = self.data[index]
            images: list[Any] = [self.loader(first), self.loader(second)]
        else:
            images = [self._loader.load(position) for position in self._positions_of(number)]
        target = self._label_at(index)
        if self.transform is not None:
            images = [self.transform(image) for image in images]
        if self.target_transform is not None:
            target = self.target_transform(target)
        return images[0], images[1], target

    # Any: whatever the user assigned.
    def _label_at(self, idx: int) -> Any:
        number = self._as_opened("targets", idx)
        if number is None:
            return self.targets[idx]
        return int(self._selection.target(number) == self._second.target(number))

    def _positions_of(self, number: int) -> Sequence[int]:
        return self._selection.position(number), self._second.position(number)
