"""What class-per-folder datasets share: `samples`, `imgs`, `targets`, `loader`, `classes` over a record set.

::

    class CUB200Record(ClassFolderDataset, ImageFolder):
        def __init__(self, root, transform=None, target_transform=None, loader=default_loader, is_valid_file=None,
                     allow_empty=False, *, split="train", download=False, **options: Unpack[PrepareOptions]) -> None:
            self._start(root, transform=transform, target_transform=target_transform)
            reader = self._open(recipe(raw_files=self.raw_files), download=download, options=options)
            self._show_folder(Selection(reader, split), folder, loader, is_valid_file, allow_empty)

The record set needs a blob field "image", an array "target", classes, and names ``class/[folders/]file`` in
ImageFolder's order.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets.folder import IMG_EXTENSIONS

from recordzoo.datasets.base import RecordDataset, derived
from recordzoo.datasets.path_loader import PathLoader
from recordzoo.datasets.sequences import LazySamples, LazyTargets, Selection, is_listed, join_name
from recordzoo.recipes.folder import raise_if_empty

# Any, here and below: a loader returns what its user wants, a path is whatever the user assigned.
Loader = Callable[[str], Any]


class ClassFolderDataset(RecordDataset):
    """`RecordDataset` with the attributes of torchvision's ImageFolder.

    Attributes:
        samples: (path, label) tuples; the path is the one that torchvision would use, existing or not.
        imgs: The same object.
        targets: The labels.
        extensions: The endings of images, or None with ``is_valid_file``.
    """

    samples: Sequence[tuple[Any, Any]]
    imgs: Sequence[tuple[Any, Any]]
    targets: Sequence[int]
    extensions: tuple[str, ...] | None
    transform: Callable[[Any], Any] | None
    target_transform: Callable[[Any], Any] | None
    _loader: PathLoader

    def _show_folder(
        self,
        selection: Selection,
        folder: str | os.PathLike[str],
        loader: Loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        """Set the attributes of ImageFolder.

        Args:
            selection: Which positions are shown.
            folder: The directory of class folders that torchvision would scan; it need not exist.
            loader: The user's loader.
            is_valid_file: Leave out samples whose path it is false for.
            allow_empty: Whether a class may be without samples.

        Raises:
            FolderError: A class has no samples and must; in torchvision's words.
        """
        folder = os.path.expanduser(os.fspath(folder))
        self.extensions = IMG_EXTENSIONS if is_valid_file is None else None
        if is_valid_file is not None:
            selection = _filtered(selection, folder, is_valid_file)
        if not allow_empty:
            check_not_empty(selection, selection.reader.manifest.classes or (), self.extensions)
        self._show(selection)
        self._loader = PathLoader(loader, selection.reader, folder)
        self.samples = self.imgs = LazySamples(selection, folder)
        self.targets = LazyTargets(selection)

    @derived
    def classes(self) -> list[Any]:
        """The class names in the order of their labels."""
        return list(self._selection.reader.manifest.classes or ())

    @derived
    def class_to_idx(self) -> dict[Any, int]:
        """The label of each class name."""
        return {name: label for label, name in enumerate(self._selection.reader.manifest.classes or ())}

    @property
    def loader(self) -> Any:
        """The loader; equal to the one given, but it also loads images whose files are gone."""
        return self._loader

    @loader.setter
    def loader(self, loader: Loader) -> None:
        given = loader.loader if isinstance(loader, PathLoader) else loader
        self._loader = PathLoader(given, self._loader.reader, self._loader.folder)

    # Any: what the loader and the transforms make of it.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return (image, label) as torchvision's ImageFolder does.

        Raises:
            IndexError: There is no such sample.
            ImageError: The image cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        samples = self.samples
        target: Any
        # A slice goes to the list, and fails as it does in torchvision.
        if isinstance(samples, LazySamples) and not samples.changed and not isinstance(cast(object, index), slice):
            number = samples.index_of(index)
            target = samples.selection.target(number)
            sample = self._loader.load(samples.selection.position(number))
        else:
            path, target = samples[index]
            sample = self.loader(path)
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

    def __len__(self) -> int:
        return len(self.samples)

    def _position(self, index: int) -> int | None:
        samples = self.samples
        if isinstance(samples, LazySamples) and not samples.changed:
            return samples.selection.position(samples.index_of(index))
        return self._loader.find(samples[index][0])

    def _hintable(self) -> bool:
        return isinstance(self.samples, LazySamples) and not self.samples.changed


def check_not_empty(selection: Selection, classes: Sequence[str], extensions: Sequence[str] | None) -> None:
    """Refuse classes without samples.

    Raises:
        FolderError: In the words of `torchvision.datasets.folder.make_dataset`.
    """
    counts = np.bincount(selection.targets(), minlength=len(classes))
    raise_if_empty([name for name, count in zip(classes, counts.tolist(), strict=False) if not count], extensions)


def _filtered(selection: Selection, folder: str, is_valid_file: Callable[[str], bool]) -> Selection:
    names = selection.reader.names
    positions = selection.all_positions()
    anywhere = is_listed(selection.reader)
    paths = (join_name(folder, names[position], anywhere=anywhere) for position in positions.tolist())
    keep = [i for i, path in enumerate(paths) if is_valid_file(path)]
    kept: NDArray[np.int64] = positions[np.array(keep, dtype=np.int64)]
    return type(selection)(selection.reader, positions=kept)
