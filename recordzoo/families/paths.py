"""`PathsDataset`: datasets that list the paths of several files for each sample, an image with a mask or annotation."""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Unpack, cast

from PIL import Image

from recordzoo.families.base import Pair, Root, Transform, ZooDataset
from recordzoo.families.derived import derived
from recordzoo.families.selection import Selection, list_paths
from recordzoo.families.splits import SplitDataset, SplitName
from recordzoo.images.decode import decode, decode_rgb, naming, open_picture
from recordzoo.preparing import PrepareOptions
from recordzoo.recipes.class_folders import find_name
from recordzoo.recipes.images import open_image

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
        _IS_RGB: Whether images are converted to RGB; otherwise they keep the mode of their file.
    """

    _IS_RGB: ClassVar[bool] = True
    _PATH: ClassVar[Callable[[str], Any]] = str
    _PREFIX: ClassVar[str] = ""  # what all names of records begin with, and the names of files do not
    _ENDING: ClassVar[str] = ""  # what all names of records end with, if it is more than the ending of a file
    _files: Mapping[str, Files]

    def _show_paths(self, selection: Selection, files: Mapping[str, Files]) -> None:
        """Set which positions are shown, and where the files of each field are; "image" must be one of them."""
        self._show(selection)
        self._files = files

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

    def _bytes(self, field: str, index: int) -> tuple[bytes, object]:
        """Return the bytes of the file at an index of a field's path list, and its name for messages."""
        return self._file_of(field, self._stored_at(field, index), lambda: self._listed(field, index))

    def _loaded(self, field: str, index: int, load: Callable[[bytes], Any]) -> Any:
        """Load the file at an index of a field's path list."""
        data, name = self._bytes(field, index)
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

    def _hint_positions(self, positions: Sequence[int]) -> None:
        for field in self._read_fields():
            self._selection.reader.hint(field, positions)

    def _read_fields(self) -> Sequence[str]:
        """Return which blob fields a sample reads."""
        return list(self._files)

    def __len__(self) -> int:
        return self._length(self._files["image"].attribute)


class PairsDataset(PathsDataset):
    """`PathsDataset` of pairs: ``images``, and targets that are files; ``transforms`` gets both together."""

    transforms_pairs = True

    _ITEMS = "images"
    _TARGET: ClassVar[str]

    @derived
    def images(self) -> list[str]:
        """The paths of the images."""
        return self._paths("image")

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image, target)."""
        image: Any = self._image(index)
        target: Any = self._target(index)
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        return image, target

    def _target(self, index: int) -> Any:
        """Return the target before the transforms."""
        return self._loaded(self._TARGET, index, self._load_target)

    def _load_target(self, data: bytes) -> Any:
        """Read a target from its file: a mask."""
        return open_image(data)


class SplitPairsDataset(SplitDataset[SplitName], PairsDataset):
    """`PairsDataset` whose second argument is the split, and which has an argument `transforms`."""

    _SPLITS = ("train", "val")
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
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self._choose_split(split)
        reader = self._open_part(download=download, options=options)
        self._show_paths(Selection(reader, split), self._files_below(os.fspath(self.root)))

    @abstractmethod
    def _files_below(self, root: str) -> Mapping[str, Files]:
        """Return where the files of each field are."""
