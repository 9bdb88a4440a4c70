"""`PathsDataset`: datasets that list the paths of several files for each sample, an image with a mask or annotation."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Unpack, cast

from PIL import Image
from typing_extensions import override

from recordzoo.families.base import Pair, Root, Transform, ZooDataset
from recordzoo.families.derived import derived
from recordzoo.families.folders import PathTargetDataset, SplitDataset, SplitName
from recordzoo.families.selection import join_name, list_paths, list_targets
from recordzoo.images.decode import decode, decode_rgb, naming, open_picture
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import ListedRecipe, dataset_recipe, find_name
from recordzoo.recipes.recipe import open_image

# Any, in all of this module: paths and targets are whatever the user assigned, or the transforms made.


class Files(NamedTuple):
    """The files of a blob field.

    Attributes:
        attribute: The derived attribute that lists their paths.
        folder: The directory that they are in, existing or not.
        ending: The suffix of their names, instead of that of the record's name.
        within: The directory that the listed paths are relative to, where they are; `folder` is relative to it, too.
    """

    attribute: str
    folder: str
    ending: str
    within: str = ""


class PathsDataset(ZooDataset):
    """`ZooDataset` with a derived list of paths for each of some blob fields, as `_paths` makes it.

    Attributes:
        _files: Where the files of each field are; "image" must be one of them.
        _IS_RGB: Whether images are converted to RGB; otherwise they keep the mode of their file.
    """

    _IS_RGB: ClassVar[bool] = True
    _PATH: ClassVar[Callable[[str], Any]] = str
    _PREFIX: ClassVar[str] = ""  # what all names of records begin with, and the names of files do not
    _ENDING: ClassVar[str] = ""  # what all names of records end with, if it is more than the ending of a file
    _files: Mapping[str, Files]

    def _recipe_files(self, **attributes: str) -> dict[str, Files]:
        """Return where the recipe finds the files of some fields.

        Args:
            attributes: For each field the derived attribute that lists their paths.
        """
        recipe = dataset_recipe(self._ENTRY, self._part, self.raw_files)
        assert isinstance(recipe, ListedRecipe)
        found = {}
        for field, (below, endings) in recipe.files.items():
            folder = os.path.join(self.root, *f"{recipe.entry.folder}/{below}".strip("/").split("/"))
            if field in attributes:
                found[field] = Files(attributes[field], os.fspath(type(self)._PATH(folder)), endings[0])
        return found

    def _paths(self, field: str) -> list[Any]:
        """Return the paths of a field's files, as torchvision lists them."""
        folder, ending = self._files[field].folder, self._files[field].ending
        paths = list_paths(self._selection, folder, ending, self._PREFIX, self._ENDING)
        return list(map(type(self)._PATH, paths))

    def _image(self, index: int) -> Image.Image:
        """Return the image, RGB or as its file has it."""
        if isinstance(cast(object, index), slice):
            Image.open(self._listed("image", index))  # raises torchvision's error
        reader = self._selection.reader
        if reader.manifest.blobs["image"].encoding == "raw" and (at := self._stored_at("image", index)) is not None:
            image = open_picture(reader, at)  # pixels of a variant
            return image.convert("RGB") if self._IS_RGB else image
        loaded: Image.Image = self._loaded("image", index, decode_rgb if self._IS_RGB else decode)
        return loaded

    def _loaded(self, field: str, index: int, load: Callable[[bytes], Any]) -> Any:
        """Load the file at an index of a field's path list."""
        data, name = self._file_of(field, self._stored_at(field, index), lambda: self._listed(field, index))
        with naming(self.records_path, name):
            return load(data)

    def _listed(self, field: str, index: int) -> Any:
        """Return the path of a field's file at an index, as it can be opened."""
        path, within = self._path_at(field, index), self._files[field].within
        return os.path.join(within, path) if within else path

    def _stored_at(self, field: str, index: int) -> int | None:
        """Return the position of the file at an index of a field's path list; None if it has no record."""
        number = self._as_opened(self._files[field].attribute, index)
        return self._find(self._path_at(field, index), field) if number is None else self._selection.position(number)

    def _path_at(self, field: str, index: int) -> Any:
        """Return the path at an index of a field's path list."""
        return getattr(self, self._files[field].attribute)[index]

    def _find(self, path: Any, field: str) -> int | None:
        """Find the position of an assigned path in the paths of a field."""
        folder, ending = self._files[field].folder, self._files[field].ending
        text = os.fspath(path) if isinstance(path, str | Path) else ""
        start = os.path.join(folder, "")
        if not (text.startswith(start) and text.endswith(ending)):
            return None
        names = self._selection.reader.names
        image_ending = self._ENDING or (os.path.splitext(names[0])[1] if len(names) else "")
        return find_name(names, self._PREFIX + text[len(start) : -len(ending)] + image_ending)

    def _position(self, index: int) -> int | None:
        return self._stored_at("image", index)

    @override
    def _read_fields(self) -> Sequence[str]:
        return list(self._files)


class PairsDataset(PathsDataset):
    """`PathsDataset` of pairs: ``images``, and targets that are files; ``transforms`` gets both together."""

    _transforms_pairs = True

    _ITEMS = "images"
    _TARGET: ClassVar[str]

    @derived
    def images(self) -> list[str]:
        """The paths of the images."""
        return self._paths("image")

    def _in_pixels(self) -> Sequence[str]:
        return ["the target"]

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image, target)."""
        image: Any = self._image(index)
        target: Any = self._target(index)
        return self._transformed(image, target)

    def _target(self, index: int) -> Any:
        """Return the target before the transforms."""
        return self._loaded(self._TARGET, index, self._load_target)

    def _load_target(self, data: bytes) -> Any:
        """Read a target from its file: a mask."""
        return open_image(data)


class TargetPathsDataset(PairsDataset):
    """`PairsDataset` with the paths of the targets, too."""

    @derived
    def targets(self) -> list[str]:
        """The paths of the files with the targets."""
        return self._paths(self._TARGET)


class SplitPairsDataset(SplitDataset[SplitName], PairsDataset):
    """`PairsDataset` whose second argument is the split, and which has an argument `transforms`."""

    _SPLIT = "split"
    split: str

    def __init__(
        self,
        root: Root,
        split: SplitName = "train",  # type: ignore[assignment]  # all of them have a split of this name
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._choose_split(split)
        self._open_split(root, split, transform, target_transform, download, transforms=transforms, **options)
        self._files = self._files_below(os.fspath(self.root))

    def _files_below(self, root: str) -> Mapping[str, Files]:
        """Return where the files of each field are."""
        return self._recipe_files(image="images", **{self._TARGET: "targets"})


class FilesDataset(PathTargetDataset):
    """`ZooDataset` with the attributes of torchvision's datasets of listed files.

    A class whose torchvision class calls them otherwise has the derived attributes under these names, too, and says so
    in `_ITEMS` and `_LABELS`.
    """

    _ITEMS = "_image_files"
    _LABELS: ClassVar[str] = "_labels"
    classes: list[str]

    @derived
    def _image_files(self) -> list[Any]:
        """The paths of the images."""
        folder, path = self._loader.folder, type(self)._PATH
        return [path(join_name(folder, name)) for name in self._selection.names()]

    @derived
    def _labels(self) -> list[int]:
        """The labels."""
        return list_targets(self._selection)

    @override
    def _listed(self, index: int) -> Pair:
        return getattr(self, self._ITEMS)[index], self._label_at(index)

    @override
    def _label(self, index: int, number: int) -> Any:
        return self._label_at(index)

    def _label_at(self, index: int) -> Any:
        """Return the label of a sample, also if the user changed the list of labels."""
        number = self._as_opened(self._LABELS, index)
        return getattr(self, self._LABELS)[index] if number is None else self._selection.target(number)

    @override
    def _batch_problem(self) -> str:
        return self._label_problem(FilesDataset, self._LABELS) or super()._batch_problem()


class CategoryFilesDataset(PathTargetDataset):
    """`ZooDataset` with two derived lists, `_ITEMS` of the pairs and `_FOLDERS` of the categories' folders.

    A subclass says with `_listed` what a path is made of.
    """

    _FOLDERS: ClassVar[str]
    _PATH = str

    def _folders(self) -> list[str]:
        """Return the folders of the categories: their names, which have "/"."""
        return [os.path.join(*category.split("/")) for category in self._class_names()]

    def _files(self) -> list[str]:
        """Return the name of each image's file in its folder."""
        return [name.rpartition("/")[2] for name in self._selection.names()]

    @override
    def _as_opened(self, name: str, index: object) -> int | None:
        number = super()._as_opened(name, index)
        if name != self._ITEMS or number is None:
            return number
        return None if super()._as_opened(self._FOLDERS, self._selection.target(number)) is None else number
