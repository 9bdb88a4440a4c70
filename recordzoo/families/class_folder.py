"""Class-per-folder datasets: `samples`, `imgs`, `targets`, `loader`, `classes` over a record set.

The record set needs a blob field "image", an array "target", classes, and names ``class/[folders/]file`` in
ImageFolder's order.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets.folder import IMG_EXTENSIONS
from typing_extensions import override

from recordzoo.families.base import Pair
from recordzoo.families.derived import derived
from recordzoo.families.path_loader import Loader, LoaderDataset
from recordzoo.families.selection import Selection, join_name, list_samples, list_targets
from recordzoo.recipes.folder import raise_if_empty

# Any, in all of this module: samples are what the loader and the transforms make.


class ClassFolderDataset(LoaderDataset):
    """`ZooDataset` with the attributes of torchvision's ImageFolder.

    Attributes:
        extensions: The endings of images, or None with ``is_valid_file``.
    """

    extensions: str | Sequence[str] | None

    _ALLOWS_EMPTY: ClassVar[bool] = False  # whether a class may be without samples, where that is no argument

    @override
    def _show_files(
        self,
        selection: Selection,
        folder: str | os.PathLike[str],
        loader: Loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool | None = None,
    ) -> None:
        """Set the attributes of ImageFolder.

        Args:
            folder: The directory that the records' names are relative to, existing or not.
            is_valid_file: Leave out samples whose path it is false for.
            allow_empty: Whether a class may be without samples. Default: as the class has it.
        """
        folder = os.path.expanduser(os.fspath(folder))
        self.extensions = IMG_EXTENSIONS if is_valid_file is None else None
        if is_valid_file is not None:
            selection = _filtered(selection, folder, is_valid_file)
        if not (self._ALLOWS_EMPTY if allow_empty is None else allow_empty):
            classes = selection.reader.manifest.classes or ()
            counts = np.bincount(selection.targets(), minlength=len(classes)).tolist()
            empty = [name for name, count in zip(classes, counts, strict=False) if not count]
            raise_if_empty(empty, self.extensions)
        super()._show_files(selection, folder, loader)

    @derived
    def samples(self) -> list[tuple[str, int]]:
        """The (path, label) tuples; a path is the one that torchvision would use, existing or not."""
        return list_samples(self._selection, self._loader.folder)

    imgs = samples

    @derived
    def targets(self) -> list[int]:
        """The labels."""
        return list_targets(self._selection)

    @derived
    def classes(self) -> list[str]:
        """The class names in the order of their labels."""
        return self._class_names()

    @derived
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class name."""
        return {name: label for label, name in enumerate(self._class_names())}

    def __getitem__(self, index: int) -> Pair:
        """Return (image, label) as torchvision's ImageFolder does."""
        sample, target = self._load(index)
        if self.transforms_pairs:
            return (sample, target) if self.transforms is None else self.transforms(sample, target)
        return self._transformed(sample, target)

    def _load(self, index: int) -> Pair:
        """Return a sample before the transforms: what the loader made of it, and its label."""
        number = self._as_opened(self._ITEMS, index)
        if number is None:
            path, target = getattr(self, self._ITEMS)[index]
            return self.loader(path), target
        return self._loader.load(self._selection.position(number)), self._label(number)

    def _label(self, number: int) -> Any:
        return getattr(self, self._ITEMS)[number][1] if self._ITEMS in self._made else self._selection.target(number)

    def __len__(self) -> int:
        return self._length(self._ITEMS)

    @override
    def fusion_problem(self) -> str:
        if self.transforms_pairs:
            return "its transforms take image and target together"
        return self._label_problem(ClassFolderDataset, self._ITEMS) or self._loader.fusion_problem()

    def _position(self, index: int) -> int | None:
        number = self._as_opened(self._ITEMS, index)
        if number is None:
            return self._loader.find(getattr(self, self._ITEMS)[index][0])
        return self._selection.position(number)


class SamplesDataset(ClassFolderDataset):
    """`ClassFolderDataset` whose torchvision class lists its samples as ``_samples`` and knows no ``targets``."""

    _ITEMS = "_samples"

    @override
    def _show_files(self, selection: Selection, folder: str | os.PathLike[str], loader: Loader) -> None:  # type: ignore[override]
        LoaderDataset._show_files(self, selection, folder, loader)

    @derived
    def _samples(self) -> list[tuple[str, int]]:
        return list_samples(self._selection, self._loader.folder)


def _filtered(selection: Selection, folder: str, is_valid_file: Callable[[str], bool]) -> Selection:
    names = selection.reader.names
    positions = selection.all_positions()
    anywhere = selection.reader.manifest.is_listed
    paths = (join_name(folder, names[position], anywhere=anywhere) for position in positions.tolist())
    keep = [i for i, path in enumerate(paths) if is_valid_file(path)]
    kept: NDArray[np.int64] = positions[np.array(keep, dtype=np.int64)]
    return type(selection)(selection.reader, positions=kept, column=selection.column)
