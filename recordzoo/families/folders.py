"""Datasets with a `loader`: class folders, those with a split, and those with several kinds of target.

`PathLoader` is their ``dataset.loader``: it calls the user's loader with the torchvision paths of images that are in a
record set.
"""

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision import get_image_backend
from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader, pil_loader
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.base.text import WINDOWS, as_file_name
from recordzoo.errors import ArgumentError, RecordError
from recordzoo.families.base import Pair, Root, Transform, ZooDataset, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.selection import Selection, join_name, join_names, list_targets, raw_file, raw_image, with_form
from recordzoo.images.decode import RecordName, decode_rgb, decoded_rgb, naming, open_picture, orientation_of, turned
from recordzoo.preparing.changes import MadeFrom
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import dataset_recipe, find_name, raise_if_empty
from recordzoo.records.manifest import ORIGINAL, SetKind
from recordzoo.records.reader import RecordReader, extra_object
from recordzoo.records.writer import LIST_FILE

# Any, in all of this module: a loader takes and returns what its user wants, a path is whatever the user assigned.

Loader = Callable[..., Any]

_SEVERAL = -1


@dataclass(frozen=True)
class PillowLoader:
    """Opens an image with Pillow, as torchvision's classes do if their loader is None.

    Attributes:
        mode: The mode that it is converted to; "" for that of its file, and then it is not decoded yet.
    """

    mode: str = ""

    def __call__(self, path: str) -> Image.Image:
        """Load the image at a path."""
        return self.finish(Image.open(path))

    def finish(self, image: Image.Image) -> Image.Image:
        """Turn an opened image into what this loader returns."""
        if not self.mode:
            return image
        with image:
            return image.convert(self.mode)


class PathLoader:
    """Calls a loader for images that are in a record set, whether or not their files still exist.

    It equals the loader that it was made from. Subclasses of torchvision datasets often call ``self.loader(path)``
    themselves; here that works without the tree.

    Args:
        loader: What the user gave: any callable that takes a path. torchvision's own and `PillowLoader` decode from the
            stored bytes.
        keeps_names: Whether a table of all names is kept in memory, so that a path is found at once: a search by halves
            takes some tens of microseconds.
    """

    def __init__(
        self, loader: Callable[[str], Any], reader: RecordReader, folder: str, *, keeps_names: bool = False
    ) -> None:
        self.loader = loader
        self.reader = reader
        self.folder = folder
        # Names in a list's order cannot be searched by halves.
        self._keeps_names = keeps_names or reader.manifest.is_listed

    def __call__(self, path: Any) -> Any:
        """Load the image at a path: from the record set if the path is one of its own, else from the disk."""
        position = self.find(path)
        return self.loader(path) if position is None else self.load(position)

    def load(self, position: int) -> Any:
        """Load the image at a position of the record set.

        Raises:
            ImageError: It cannot be decoded; the message names the record set and the file.
        """
        is_raw = self.reader.manifest.blobs["image"].encoding == "raw"
        if self.is_stock:
            with naming(self.reader.path, RecordName(self.reader, position)):
                if is_raw:
                    return raw_image(self.reader, position)
                data, orientation = self.reader.read("image", position), orientation_of(self.reader, position)
                return decode_rgb(data) if orientation == 1 else turned(decoded_rgb(data), orientation)
        if isinstance(self.loader, PillowLoader):
            with naming(self.reader.path, RecordName(self.reader, position)):
                return self.loader.finish(open_picture(self.reader, position))
        name = self.reader.names[position]
        # An untrusted list's names may lead anywhere; and a variant shows what is stored, not the file.
        if not self.reader.manifest.is_listed and self.reader.manifest.variant == ORIGINAL:
            path = join_name(self.folder, name)
            if os.path.exists(path):
                return self.loader(path)
        with naming(self.reader.path, name):
            data, ending = raw_file(self.reader, position) if is_raw else (self.reader.read("image", position), "")
            last = name.rpartition("/")[2]
            with as_file(data, ("image" if last in ("", ".", "..") else last) + ending) as temporary:
                return self.loader(temporary)

    def find(self, path: Any) -> int | None:
        """Find the position of a path in the record set; None if it is not one of its paths.

        Raises:
            RecordError: Several records with different images are called so.
        """
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
        if not isinstance(text, str):
            return None
        start = os.path.join(self.folder, "")
        is_inside = text.startswith(start)
        name = (text[len(start) :] if is_inside else text).replace(os.sep, "/")
        if not is_inside and not self.reader.manifest.is_listed:  # of a list, an absolute path may be a name
            return None
        if self._keeps_names:
            position = self.positions.get(name, self.positions.get(text))  # a list may name its files absolutely
            if position == _SEVERAL:
                raise RecordError(
                    f"Several records of {self.reader.path} are called {name!r}: the name does not say which is meant. "
                    "Take them by their index, or write them with names of their own.",
                    path=str(self.reader.path),
                )
            return position
        return find_name(self.reader.names, name)

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """The first position of each name.

        A list may name one file several times; it is stored once. Other records with equal names are ambiguous.
        """
        index = self.reader.array("image.index")
        found: dict[str, int] = {}
        for position, name in enumerate(self.reader.names):
            first = found.setdefault(name, position)
            if first not in (position, _SEVERAL) and index[first] != index[position]:
                found[name] = _SEVERAL
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "positions"}

    @property
    def is_stock(self) -> bool:
        """Whether it is torchvision's own, which decodes with Pillow."""
        if self.loader is default_loader:
            return bool(get_image_backend() == "PIL")
        return self.loader is pil_loader

    @property
    def problem(self) -> str:
        """Why images may differ from those of torchvision's own loader; "" if they cannot."""
        return "" if self.is_stock else "the dataset has a loader of its own"

    def __eq__(self, other: object) -> bool:
        return bool(self.loader == (other.loader if isinstance(other, PathLoader) else other))

    def __hash__(self) -> int:
        return hash(self.loader)

    def __repr__(self) -> str:
        return repr(self.loader)


def files_folder(reader: RecordReader, folder: str) -> str:
    """Return the directory that names are relative to: the flat one, or that of the list, if it still exists.

    For all other sets it is `folder`.
    """
    if not reader.manifest.is_listed:
        return folder
    root = extra_object(reader, LIST_FILE).get("root")  # untrusted, and only a hint
    if root is None and reader.manifest.kind in (SetKind.FLAT, SetKind.ANNOTATED):
        root = MadeFrom(reader).base
    return root if isinstance(root, str) and os.path.isabs(root) and os.path.isdir(root) else folder


@contextmanager
def as_file(data: bytes, name: str) -> Iterator[str]:
    """Context manager: bytes as a temporary file whose path ends in `name`."""
    # Windows deletes no file that is open, as a lazy loader leaves it.
    with tempfile.TemporaryDirectory(prefix="recordzoo-", ignore_cleanup_errors=WINDOWS) as folder:
        path = Path(folder, as_file_name(name))
        path.write_bytes(data)
        yield os.fspath(path)


class LoaderDataset(ZooDataset):
    """`ZooDataset` whose images are made by a loader from their paths.

    Attributes:
        _DEFAULT: The loader to use for None; None if torchvision's class does not accept None.
    """

    _DEFAULT: ClassVar[PillowLoader | None] = None
    _loader: PathLoader

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._open_split(root, "", transform, target_transform, download, loader, **options)

    @override
    def _show_opened(self, selection: Selection, loader: Loader | None) -> None:
        recipe = dataset_recipe(self._ENTRY, self._part, self.raw_files)
        folder = type(self)._PATH(os.path.join(self.root, recipe.entry.folder, recipe.names_folder.rstrip("/")))
        self._show_files(selection, folder, loader)

    def _show_files(self, selection: Selection, folder: str | os.PathLike[str], loader: Loader | None) -> None:
        """Set which positions are shown.

        Args:
            folder: The directory that the record set's names are relative to, existing or not. With splits it contains
                the folders of the splits, not those of the classes.
        """
        self._show(selection)
        self._loader = PathLoader(default_loader, selection.reader, os.fspath(folder))
        self.loader = loader

    @property
    def loader(self) -> Any:
        """The loader; equal to the one given, but it also loads images whose files are gone. None for the default."""
        return None if isinstance(self._loader.loader, PillowLoader) else self._loader

    @loader.setter
    def loader(self, loader: Loader | None) -> None:
        given = loader.loader if isinstance(loader, PathLoader) else loader
        chosen: Any = self._DEFAULT if given is None else given  # Any: None fails when it is called, as torchvision's
        self._loader = PathLoader(chosen, self._loader.reader, self._loader.folder)


class PathTargetDataset(LoaderDataset):
    """A `LoaderDataset` whose derived list `_ITEMS` has the path and the target of each sample.

    An item that the user changed is loaded from its path, any other from its record.
    """

    def __getitem__(self, index: int) -> Pair:
        """Return (image, target)."""
        return self._transformed(*self._load(index))

    def _load(self, index: int) -> Pair:
        """Return a sample before the transforms: what the loader made of it, and its target."""
        number = self._as_opened(self._ITEMS, index)
        if number is None:
            path, target = self._listed(index)
            return self._loader(path), target
        return self._loader.load(self._selection.position(number)), self._label(index, number)

    def _listed(self, index: int) -> Any:
        """Return the path and the target of a sample, as the attributes have them."""
        return getattr(self, self._ITEMS)[index]

    def _label(self, index: int, number: int) -> Any:
        """Return the target of a sample, numbered from 0, whose item is as it was opened."""
        return self._listed(index)[1] if self._ITEMS in self._made else self._selection.target(number)

    @override
    def _position(self, index: int) -> int | None:
        number = self._as_opened(self._ITEMS, index)
        return self._loader.find(self._listed(index)[0]) if number is None else self._selection.position(number)

    @override
    def _batch_problem(self) -> str:
        if self._transforms_pairs:
            return "its transforms take image and target together"
        return self._label_problem(PathTargetDataset, self._ITEMS) or self._loader.problem


class ClassFolderDataset(PathTargetDataset):
    """`ZooDataset` with the attributes of torchvision's ImageFolder.

    Attributes:
        extensions: The endings of images, or None with ``is_valid_file``.
    """

    extensions: str | Sequence[str] | None

    _PATH: ClassVar[Callable[[str], Any]] = str
    _ALLOWS_EMPTY: ClassVar[bool] = False  # whether a class may be without samples, where that is no argument

    @override
    def _show_files(
        self,
        selection: Selection,
        folder: str | os.PathLike[str],
        loader: Loader | None,
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
        shown = self._selection
        paths = join_names(self._loader.folder, shown.names(), anywhere=shown.reader.manifest.is_listed)
        return list(zip(paths, list_targets(shown), strict=True))

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


class SamplesDataset(ClassFolderDataset):
    """`ClassFolderDataset` whose torchvision class lists its samples as ``_samples`` and knows no ``targets``."""

    _ITEMS = "_samples"
    _PATH = Path
    _ALLOWS_EMPTY = True
    _samples = ClassFolderDataset.samples


def _filtered(selection: Selection, folder: str, is_valid_file: Callable[[str], bool]) -> Selection:
    names = selection.reader.names
    positions = selection.all_positions()
    anywhere = selection.reader.manifest.is_listed
    paths = (join_name(folder, names[position], anywhere=anywhere) for position in positions.tolist())
    keep = [i for i, path in enumerate(paths) if is_valid_file(path)]
    kept: NDArray[np.int64] = positions[np.array(keep, dtype=np.int64)]
    return type(selection)(selection.reader, positions=kept, column=selection.column)


SplitName = TypeVar("SplitName", bound=str)
"""The names of the splits, for editors: `Literal["train", "test"]`."""


class SplitDataset(ZooDataset, Generic[SplitName]):
    """`ZooDataset` of one split; it stands before the family. If the catalogue has a part of that name, it is opened.

    Attributes:
        _SPLITS: The splits, if torchvision's error names them in another order than the catalogue.
        _SPLIT: The attribute that torchvision's class keeps the split in.
    """

    _SPLITS: ClassVar[Sequence[str]] = ()
    _SPLIT: ClassVar[str] = "_split"

    def __init__(
        self,
        root: Root,
        split: SplitName = "train",  # type: ignore[assignment]  # all of them have a split of this name
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._choose_split(split)
        self._open_split(root, split, transform, target_transform, download, **options)

    def _choose_split(self, split: str) -> None:
        """Set the split to show, and the catalogue's part that holds it."""
        entry = catalogue.entry(self._ENTRY)
        parts = [part.name for part in entry.parts]
        valid = self._SPLITS or [each.name for each in entry.splits] or parts
        setattr(self, self._SPLIT, check_choice(split, "split", valid))
        if split in parts:
            self._part = split


class SplitFilesDataset(SplitDataset[SplitName], LoaderDataset):
    """`SplitDataset` with an argument `loader`."""

    def __init__(
        self,
        root: Root,
        split: SplitName = "train",  # type: ignore[assignment]  # as above
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._choose_split(split)
        self._open_split(root, split, transform, target_transform, download, loader, **options)


TargetType = TypeVar("TargetType", bound=str)
"""The target types, for editors: `Literal["category", "bbox"]`."""


def check_types(target_type: str | Sequence[str], valid: Sequence[str]) -> tuple[str | list[str], list[str]]:
    """Return the argument `target_type`, and the target types that it names: at least one, of those that are valid."""
    types = [target_type] if isinstance(target_type, str) else list(target_type)
    if not types:
        raise ArgumentError(f"target_type is {target_type!r}; it must name at least one of {', '.join(valid)}.")
    types = [check_choice(kind, "target_type", valid) for kind in types]
    return target_type if isinstance(target_type, str) else types.copy(), types


class TargetTypesDataset(SplitFilesDataset[SplitName], ClassFolderDataset, Generic[SplitName, TargetType]):
    """`ClassFolderDataset` with targets besides the label; `samples` has the label, whatever the target is.

    Attributes:
        split: As given.
        target_type: As given; a list if several were given. With `transforms`, boxes are `BoundingBoxes` [n, 4], masks
            are `Mask` [H, W], and parts are two tensors: `KeyPoints` [n, 2], and whether each is visible, [n].
        _TARGET_TYPES: All target types. The first is the label.
        _IN_PIXELS: Those in pixels of the original images, with their form: that of boxes as `BoundingBoxes` calls it,
            "points", "seen points" or "mask". They do not fit a smaller variant.
        _FIELDS: For each target type that is made of a blob field, that field.
    """

    _SPLIT = "split"
    _ALLOWS_EMPTY = True
    _TARGET_TYPES: ClassVar[Sequence[str]]
    _IN_PIXELS: ClassVar[Mapping[str, str]] = {}
    _FIELDS: ClassVar[dict[str, str]] = {}

    split: str
    target_type: str | list[str]
    _target_types: list[str]

    def __init__(
        self,
        root: Root,
        split: SplitName = "train",  # type: ignore[assignment]  # all of them have a split of this name
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        target_type: TargetType | Sequence[TargetType] = "category",  # type: ignore[assignment]  # as above
        *,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._choose_split(split)
        self._choose_targets(target_type)
        self._open_split(root, split, transform, target_transform, download, loader, transforms=transforms, **options)

    def _choose_targets(self, target_type: str | Sequence[str]) -> None:
        """Set the kinds of target."""
        self.target_type, self._target_types = check_types(target_type, self._TARGET_TYPES)
        self._transforms_apart = self.target_type != self._TARGET_TYPES[0]

    def _in_pixels(self) -> Sequence[str]:
        return [f"target_type {kind!r}" for kind in self._target_types if kind in self._IN_PIXELS]

    @override
    def _batch_problem(self) -> str:
        if self._transforms_apart:
            return f"{type(self).__name__} has other targets than labels"
        return super()._batch_problem()

    @override
    def _load(self, index: int) -> Pair:
        """Return a sample before the transforms; the target is a tuple if `target_type` is a list.

        Raises:
            LookupError: The sample was assigned and is not in the record set; nothing but its label is known.
        """
        image, label = super()._load(index)
        label_type = self._TARGET_TYPES[0]
        kinds = self._target_types
        targets = tuple(label if kind == label_type else self._target_at(kind, index, image) for kind in kinds)
        return image, targets[0] if isinstance(self.target_type, str) else targets

    def _target_at(self, kind: str, index: int, image: Any) -> Any:
        position = self._position(index)
        if position is None:
            label_type = self._TARGET_TYPES[0]
            raise LookupError(
                f"sample {index} was assigned, and is not in {self.records_path}: only its {label_type} is known."
            )
        target = self._target(kind, position)
        form = self._IN_PIXELS.get(kind) if self._transforms_pairs else None
        return target if form is None else with_form(form, target, image)

    def _target(self, kind: str, position: int) -> Any:
        """Return a target other than the label; here an int or a tensor, of the array field of that name."""
        value = self._selection.reader.array(kind)[position]
        return torch.from_numpy(np.array(value)) if value.ndim else int(value)  # a copy: the array is read-only

    @override
    def _read_fields(self) -> Sequence[str]:
        return ["image", *{self._FIELDS[kind]: None for kind in self._target_types if kind in self._FIELDS}]
