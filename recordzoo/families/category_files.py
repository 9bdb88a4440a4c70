"""`CategoryFilesDataset`: datasets that torchvision lists as pairs of a category's number and the name of a file."""

import os
from typing import Any, ClassVar

from recordzoo.families.path_loader import LoaderDataset


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
        """Return the path and the category that the two lists have at an index."""
        raise NotImplementedError

    # Any: what the loader makes of it.
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
