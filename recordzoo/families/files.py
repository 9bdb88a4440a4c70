"""Datasets that torchvision lists by the files of their images.

`FilesDataset`: as `_image_files`, with `_labels` beside them. `CategoryFilesDataset`: as pairs of a category's number
and the name of a file.
"""

import os
from typing import Any, ClassVar

from typing_extensions import override

from recordzoo.families.base import Pair
from recordzoo.families.derived import derived
from recordzoo.families.path_loader import LoaderDataset
from recordzoo.families.selection import join_name, list_targets

# Any, in this module: paths are `Path` or str, as in torchvision; samples are what the loader returns.


class FilesDataset(LoaderDataset):
    """`ZooDataset` with the attributes of torchvision's datasets of listed files.

    A class whose torchvision class calls them otherwise has the derived attributes under these names, too, and says so
    in `_ITEMS` and `_LABELS`.
    """

    _ITEMS = "_image_files"
    _LABELS: ClassVar[str] = "_labels"
    classes: list[str]

    @derived
    def _image_files(self) -> list[Any]:
        folder, path = self._loader.folder, type(self)._PATH
        return [path(join_name(folder, name)) for name in self._selection.names()]

    @derived
    def _labels(self) -> list[int]:
        return list_targets(self._selection)

    def __getitem__(self, idx: int) -> Pair:
        """Return (image, label)."""
        number = self._as_opened(self._ITEMS, idx)
        if number is None:
            image = self.loader(getattr(self, self._ITEMS)[idx])
        else:
            image = self._loader.load(self._selection.position(number))
        label = self._label_at(idx)
        return self._transformed(image, label)

    def _label_at(self, idx: int) -> Any:
        number = self._as_opened(self._LABELS, idx)
        return getattr(self, self._LABELS)[idx] if number is None else self._selection.target(number)

    def __len__(self) -> int:
        return self._length(self._ITEMS)

    def _position(self, index: int) -> int | None:
        number = self._as_opened(self._ITEMS, index)
        if number is None:
            return self._loader.find(getattr(self, self._ITEMS)[index])
        return self._selection.position(number)

    @override
    def fusion_problem(self) -> str:
        return self._label_problem(FilesDataset, self._ITEMS, self._LABELS) or self._loader.fusion_problem()


class CategoryFilesDataset(LoaderDataset):
    """`ZooDataset` with two derived lists, `_ITEMS` of the pairs and `_FOLDERS` of the categories' folders."""

    _FOLDERS: ClassVar[str]

    def _folders(self) -> list[str]:
        """Return the folders of the categories: their names, which have "/"."""
        return [os.path.join(*category.split("/")) for category in self._class_names()]

    def _files(self) -> list[str]:
        """Return the name of each image's file in its folder."""
        return [name.rpartition("/")[2] for name in self._selection.names()]

    def _listed(self, index: int) -> tuple[str, int]:
        """Return the path and the category at an index of the two lists."""
        raise NotImplementedError

    def _load(self, index: int) -> tuple[Any, int]:
        """Return a sample before the transforms: the image and its category."""
        number = self._as_opened(self._ITEMS, index)
        category = None if number is None else self._selection.target(number)
        if number is None or category is None or self._as_opened(self._FOLDERS, category) is None:
            path, category = self._listed(index)
            return self._loader(path), category
        return self._loader.load(self._selection.position(number)), category

    def _position(self, index: int) -> int | None:
        number = self._as_opened(self._ITEMS, index)
        return self._loader.find(self._listed(index)[0]) if number is None else self._selection.position(number)

    def __len__(self) -> int:
        return self._length(self._ITEMS)
