"""`OmniglotRecord`: torchvision's Omniglot from records."""

import os
from typing import Any, Unpack

from PIL import Image
from torchvision.datasets import Omniglot

from recordzoo.families.base import Root, Transform
from recordzoo.families.derived import derived
from recordzoo.families.path_loader import Loader, LoaderDataset, PathLoader
from recordzoo.families.selection import Selection
from recordzoo.loading.decode import naming
from recordzoo.loading.pictures import open_picture
from recordzoo.preparing import PrepareOptions


class OmniglotRecord(LoaderDataset, Omniglot):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Omniglot`, read from records; each of its two sets is a record set of its own.

    Alphabets, characters and images are sorted by name. In torchvision their order, and with it the labels, depend on
    the file system.

    Args:
        root: Where ``omniglot-py/`` is or goes to; or the record set.
        background: The background set (964 characters), or the evaluation set (659 others).
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive of the set if it is not there.
        loader: Makes an image of a path. Default: a grey PIL image of the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = OmniglotRecord("data", background=False)
        >>> image, label = dataset[0]
    """

    entry = "omniglot"
    _ITEMS = "_flat_character_images"

    def __init__(
        self,
        root: Root,
        background: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader | None = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.background = background
        self._part = "background" if background else "evaluation"
        self._show(Selection(self._open_part(download=download, options=options)))
        self.root = os.path.join(self.root, self.folder)
        self.target_folder = os.path.join(self.root, self._get_target_folder())
        self._loader = _GreyLoader(loader or _open_grey, self._selection.reader, self.target_folder)

    # Any: a loader takes and returns what its user wants.
    @property
    def loader(self) -> Any:
        """The loader, which also loads images whose files are gone; None for the default."""
        return None if self._loader.loader is _open_grey else self._loader

    @loader.setter
    def loader(self, loader: Loader | None) -> None:
        given = loader.loader if isinstance(loader, PathLoader) else loader
        self._loader = _GreyLoader(given or _open_grey, self._loader.reader, self._loader.folder)

    @derived
    def _alphabets(self) -> list[str]:
        return list(dict.fromkeys(character.partition("/")[0] for character in self._names_of_classes()))

    @derived
    def _characters(self) -> list[str]:
        return [os.path.join(*character.split("/")) for character in self._names_of_classes()]

    @derived
    def _flat_character_images(self) -> list[tuple[str, int]]:
        files = (name.rpartition("/")[2] for name in self._selection.names())
        return list(zip(files, self._selection.targets().tolist(), strict=True))

    @derived
    def _character_images(self) -> list[list[tuple[str, int]]]:
        images: list[list[tuple[str, int]]] = [[] for _ in self._names_of_classes()]
        for file, label in self._flat_character_images:
            images[label].append((file, label))
        return images

    def _names_of_classes(self) -> tuple[str, ...]:
        return self._selection.reader.manifest.classes or ()

    # Any: what the loader and the transforms make of it.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return (image, label).

        Raises:
            IndexError: There is no such sample.
            ImageError: The image cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        number = self._as_opened("_flat_character_images", index)
        label = None if number is None else self._selection.target(number)
        if number is None or self._as_opened("_characters", label) is None:
            file, label = self._flat_character_images[index]
            image = self._loader(os.path.join(self.target_folder, self._characters[label], file))
        else:
            image = self._loader.load(self._selection.position(number))
        if self.transform:
            image = self.transform(image)
        return image, self.target_transform(label) if self.target_transform else label

    def _position(self, index: int) -> int | None:
        number = self._as_opened("_flat_character_images", index)
        if number is None:
            file, label = self._flat_character_images[index]
            return self._loader.find(os.path.join(self.target_folder, self._characters[label], file))
        return self._selection.position(number)

    def __len__(self) -> int:
        return self._length("_flat_character_images")


class _GreyLoader(PathLoader):
    """A `PathLoader` to which the default of Omniglot is no loader of the user's."""

    # Any: a loader returns what its user wants.
    def load(self, position: int) -> Any:
        if self.loader is not _open_grey:
            return super().load(position)
        with naming(self.reader.path, self.reader.names[position]):
            return open_picture(self.reader, position).convert("L")


def _open_grey(path: str) -> Image.Image:
    """Load an image as torchvision's Omniglot does without a loader."""
    with Image.open(path) as image:
        return image.convert("L")
