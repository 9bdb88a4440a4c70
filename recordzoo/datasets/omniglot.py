"""`OmniglotRecord`: torchvision's Omniglot from records."""

import os
from typing import Unpack

from torchvision.datasets import Omniglot

from recordzoo.families.base import Pair, Root, Transform, derived
from recordzoo.families.files import CategoryFilesDataset
from recordzoo.families.folders import Loader, PillowLoader
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions


class OmniglotRecord(CategoryFilesDataset, Omniglot):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Omniglot`, read from records; each of its two sets is a record set of its own.

    Alphabets, characters and images are sorted by name. In torchvision their order, and with it the labels, depend on
    the file system.

    Args:
        background: The background set (964 characters), or the evaluation set (659 others).
        loader: Makes an image of a path. Default: a grey PIL image of the stored bytes.

    Examples:
        >>> dataset = OmniglotRecord("data", background=False)
        >>> image, label = dataset[0]
    """

    entry = "omniglot"
    _ITEMS = "_flat_character_images"
    _FOLDERS = "_characters"
    _DEFAULT = PillowLoader("L")

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
        self._load_with(loader, self._selection.reader, self.target_folder)

    @derived
    def _alphabets(self) -> list[str]:
        return list(dict.fromkeys(character.partition("/")[0] for character in self._class_names()))

    @derived
    def _characters(self) -> list[str]:
        return self._folders()

    @derived
    def _flat_character_images(self) -> list[tuple[str, int]]:
        return list(zip(self._files(), self._selection.targets().tolist(), strict=True))

    @derived
    def _character_images(self) -> list[list[tuple[str, int]]]:
        images: list[list[tuple[str, int]]] = [[] for _ in self._class_names()]
        for file, label in self._flat_character_images:
            images[label].append((file, label))
        return images

    def _listed(self, index: int) -> tuple[str, int]:
        file, label = self._flat_character_images[index]
        return os.path.join(self.target_folder, self._characters[label], file), label

    def __getitem__(self, index: int) -> Pair:
        """Return (image, label)."""
        return self._transformed(*self._load(index))
