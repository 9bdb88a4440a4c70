"""Datasets that number the folders of categories, from records: torchvision's INaturalist and Omniglot."""

import os
from typing import Any, Literal, Unpack

from torchvision.datasets import INaturalist, Omniglot

from recordzoo.datasets.categories_recipe import LEVELS, Taxonomy, taxonomy
from recordzoo.families.base import Pair, Root, Transform, check_choice, derived
from recordzoo.families.files import CategoryFilesDataset
from recordzoo.families.folders import Loader, PillowLoader
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions

_YEARS = ("2017", "2018", "2019", "2021_train", "2021_train_mini", "2021_valid")

INaturalistTarget = Literal["full", "kingdom", "phylum", "class", "order", "family", "genus", "super"]


class INaturalistRecord(CategoryFilesDataset, INaturalist):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `INaturalist`, read from records; each version is a record set of its own.

    The images of a category are sorted by name; torchvision has them in the order of the file system.

    Args:
        version: "2017", "2018", "2019", "2021_train", "2021_train_mini" or "2021_valid".
        target_type: "full" (the category); in 2021 also "kingdom", "phylum", "class", "order", "family" or "genus",
            before "super"; or a list of them.
        loader: Makes an image of a path. Default: a PIL image in the mode that its file has.
    """

    _ENTRY = "inaturalist"
    _ITEMS = "index"
    _FOLDERS = "all_categories"
    _DEFAULT = PillowLoader()

    def __init__(
        self,
        root: Root,
        version: Literal["2017", "2018", "2019", "2021_train", "2021_train_mini", "2021_valid"] = "2021_train",
        target_type: list[INaturalistTarget] | INaturalistTarget = "full",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader | None = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.version = self._part = check_choice(version, "version", _YEARS)
        self._start(os.path.expanduser(root), transform=transform, target_transform=target_transform)
        levels = LEVELS if version.startswith("2021") else ("super",)
        types = target_type if isinstance(target_type, list) else [target_type]
        self.target_type = [check_choice(kind, "target_type", ("full", *levels)) for kind in types]
        reader = self._open_part(download=download, options=options)
        self.root = os.path.join(self.root, version)
        self._show(Selection(reader, next(iter(reader.manifest.splits))))
        self._load_with(loader, reader, self.root)

    @derived
    def index(self) -> list[tuple[int, str]]:
        """The category and the file's name of each image."""
        return list(zip(self._selection.targets().tolist(), self._files(), strict=True))

    @derived
    def all_categories(self) -> list[str]:
        """The folders of the categories."""
        return self._folders()

    @derived
    def categories_index(self) -> dict[str, dict[str, int]]:
        """The number of each name, by level."""
        return self._taxonomy()[0]

    @derived
    def categories_map(self) -> list[dict[str, int]]:
        """The number of each category on each level."""
        return self._taxonomy()[1]

    def _taxonomy(self) -> Taxonomy:
        return taxonomy(self.version, self._class_names())

    def _listed(self, index: int) -> tuple[str, int]:
        category, file = self.index[index]
        return os.path.join(self.root, self.all_categories[category], file), category

    def __getitem__(self, index: int) -> Pair:
        """Return (image, target): one target, or a tuple of several."""
        image, category = self._load(index)
        targets = [category if kind == "full" else self._level(kind, index, category) for kind in self.target_type]
        target: Any = tuple(targets) if len(targets) > 1 else targets[0]
        return self._transformed(image, target)

    def _level(self, kind: str, index: int, category: int) -> int:
        number = self._as_opened("index", index)
        if number is None or self._has("categories_map"):
            return self.categories_map[category][kind]
        return int(self._selection.reader.array(kind)[self._selection.position(number)])


class OmniglotRecord(CategoryFilesDataset, Omniglot):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Omniglot`, read from records; each of its two sets is a record set of its own.

    Alphabets, characters and images are sorted by name. In torchvision their order, and with it the labels, depend on
    the file system.

    Args:
        background: The background set (964 characters), or the evaluation set (659 others).
        loader: Makes an image of a path. Default: a grey PIL image of the stored bytes.
    """

    _ENTRY = "omniglot"
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
    def _characters(self) -> list[str]:
        return self._folders()

    @derived
    def _flat_character_images(self) -> list[tuple[str, int]]:
        return list(zip(self._files(), self._selection.targets().tolist(), strict=True))

    def _listed(self, index: int) -> tuple[str, int]:
        file, label = self._flat_character_images[index]
        return os.path.join(self.target_folder, self._characters[label], file), label

    def __getitem__(self, index: int) -> Pair:
        """Return (image, label)."""
        return self._transformed(*self._load(index))
