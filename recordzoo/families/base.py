"""`ZooDataset`: torchvision's surface over a record set, here or at a URL; lists and arrays made when asked for.

A dataset is a family of this package before the torchvision class whose place it takes. The torchvision class's
``__init__`` is never called, because the record set knows what it would have scanned for; its other methods are there
and stay true::

    class EuroSATRecord(ClassFolderDataset, EuroSAT):
        _ENTRY = "eurosat"

Rules:

* The signature is torchvision's, name by name, with our options behind it, keyword-only. Where a family has it, the
  family's ``__init__`` is inherited. A class with an ``__init__`` of its own documents the arguments that only it has:
  those that many datasets have are documented once, at `ZooDataset.__init__`, which ``help(EuroSATRecord)`` shows.
* Attributes of torchvision's that hold a list, a dict or an array are `derived` (`recordzoo.families.derived`): made
  when they are first asked for, of torchvision's type, and pickled only if they were changed. ``__getitem__`` and
  ``__len__`` do not ask for one: `_as_opened` and `_length` say whether the record set still has the answer, or what
  the user made of the attribute counts.
* ``transform``, ``target_transform`` and ``transforms`` are read when a sample is taken (the v2 wrapper sets them to
  None afterwards).
* See `docs/add-a-dataset.md`.
"""

import html
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast

from torch.utils.data import Dataset
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg
from torchvision.datasets.vision import VisionDataset

from recordzoo.base.settings import command
from recordzoo.errors import ArgumentError, FolderError, ManifestError, NotPreparedError, OtherSourceError
from recordzoo.families.derived import Made, derived
from recordzoo.families.selection import Selection, list_index, warn_if_left_behind
from recordzoo.images.decode import RecordName, image_problem
from recordzoo.net.failures import NOT_FOUND
from recordzoo.net.url import RemoteFile, Url, is_url
from recordzoo.preparing.changes import find_changes, warn_of_changes
from recordzoo.preparing.options import Options, PrepareOptions
from recordzoo.preparing.preparation import ensure
from recordzoo.preview import write_summary
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.recipes.recipe import Recipe
from recordzoo.recipes.variant import StoredRecipe, Variant, variant_recipe
from recordzoo.records.manifest import ENDING, MANIFEST_NAME, ORIGINAL
from recordzoo.records.reader import RecordReader, is_record_set

# Any, in all of this module: items are of all kinds.

_RAW_NAMES = ("base_folder", "train_list", "test_list", "resources", "split_list", "file_list")
"""Attributes of torchvision's classes that say which raw files they read."""

_RAW_METHODS = (
    *("find_classes", "make_dataset", "load_categories", "load_file_list", "parse_archives", "_verify_split"),
    *("parse_train_val_annotations_file", "parse_test_annotations_file", "_init_2021", "_init_pre2021"),
    *("_get_classes", "_get_pairs", "_get_people", "_get_target_suffix", "_load_csv", "_load_data", "_load_json"),
    *("_load_legacy_data", "_load_meta"),
)
"""Their methods that read raw files, and that classes of records never call."""


Root = str | os.PathLike[str]
# Any: loaders and transforms take and return anything.
Transform = Callable[..., Any] | None
Pair = tuple[Any, Any]
"""An image and its target, as the transforms made them."""


@dataclass(frozen=True, slots=True)
class BatchSource:
    """Where a loader finds the images and targets of a dataset.

    Attributes:
        selection: Reader, positions and targets; None for a dataset of several record sets.
        problem: Why the loader has to take samples from the dataset; "" if it decodes and transforms images itself.
        is_of_pairs: Whether the dataset makes an image and a target, and then asks `transforms` for both.
        is_gray: Whether images are stored pixels of one channel, and stay so.
        is_apart: Whether it makes an image and a target, and then asks `transform` and `target_transform` for each.
    """

    selection: Selection | None
    problem: str
    is_of_pairs: bool
    is_gray: bool = False
    is_apart: bool = False


class ZooDataset(Dataset[Pair]):
    """Base of all dataset classes; in a class's bases it stands before the torchvision class.

    ``dataset[i]`` raises IndexError if there is no such sample, `ImageError` if its image or target cannot be decoded,
    and `CorruptRecordError` if the stored bytes are damaged.

    Attributes:
        raw_files: Where the raw files come from; None for the catalogue's. A subclass may name others.
        root: As given, "~" expanded.
        _selection: Which records it shows.
        _made: The derived values that are there, by name. Copies made by copy.copy share them, as torchvision's do.
    """

    _ENTRY: ClassVar[str] = ""  # the dataset's name in the catalogue; "" for one that is not in it
    raw_files: ClassVar[tuple[RemoteFile, ...] | None] = None
    _part: str = ""
    _listed_in: str = ""  # the raw file that lists the split, for an error
    _PATH: ClassVar[Callable[[str], Any]] = Path  # the type of torchvision's path attributes: `Path` or `str`
    _HAS_TEXT_ROOT: ClassVar[bool] = False  # whether torchvision's class makes a str of a root that is a `Path`
    _transforms_pairs: bool = False
    """Whether ``__getitem__`` makes an image and a target, and then asks `self.transforms` for both."""
    _transforms_apart: bool = False
    """Otherwise: whether it makes them, and then asks `transform` and `target_transform` for each."""
    _ITEMS: ClassVar[str] = "samples"  # the derived attribute that says which samples there are
    _HAS_TENSORS: ClassVar[bool] = False  # whether items of its lists have tensors, which users may change in place

    _selection: Selection
    _made: dict[str, Made[Any]]  # Any: values of all kinds
    root: Root
    # Any: class names, and labels in a list or tensor, of the datasets that have them.
    classes: list[Any]
    targets: Any
    transform: Transform
    target_transform: Transform
    transforms: Transform

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        """Open the record set; prepare it if it is not there.

        These arguments mean the same in all datasets that have them.

        Args:
            root: The folder with the raw files as torchvision keeps them, or where they go: ``recordzoo info`` names
                them. Or the record set itself, or its URL.
            split: Which samples, by the name of their split.
            train: The training samples; otherwise the test samples.
            transform: Applied to the image.
            target_transform: Applied to the target.
            transforms: Applied to both, instead of the other two. Where torchvision's class has no such argument, boxes
                are `BoundingBoxes` then, masks `Mask`, and points `KeyPoints`.
            download: Download raw files that are not there.
            loader: Makes an image of a path. torchvision's own decodes the stored bytes.
            **options: See `PrepareOptions`.

        Raises:
            ArgumentError: An argument has a value that it cannot have; `transforms` comes with one of the others; or a
                target in pixels of the original images is asked for together with a smaller variant.
            NotPreparedError: There are no records and no raw data; or the raw data lacked the list of this split.
        """
        self._open_split(root, "", transform, target_transform, download, **options)

    def _open_split(
        self,
        root: Root,
        split: str,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool | None = False,
        loader: Any = default_loader,
        *,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        """Open the record set, with the arguments of `__init__`, and show a split of it; "" for all of it."""
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self._show_opened(self._selection_of(self._open_part(download=download, options=options), split), loader)

    def _show_opened(self, selection: Selection, loader: Any) -> None:
        """Show samples of the record set; only classes of images that are made of paths have a loader."""
        self._show(selection)

    def _start(
        self,
        root: Root,
        *,
        transforms: Transform = None,
        transform: Transform = None,
        target_transform: Transform = None,
    ) -> None:
        """Do what `VisionDataset.__init__` does: root and transforms."""
        self._made = {}
        if is_url(root):
            root = str(Url.parse(root))  # without login: `print(dataset)` shows the root
        if self._HAS_TEXT_ROOT:
            root = os.path.expanduser(os.fspath(root))
        checked(VisionDataset.__init__, self, root, transforms, transform, target_transform)
        self._transforms_pairs = self._transforms_pairs or transforms is not None

    def _open(
        self, recipe: Recipe, *, download: bool | None = False, options: Options, raw_root: Path | None = None
    ) -> RecordReader:
        """Open the record set of a recipe: under the root, or the root itself; prepare it if it is not there.

        At a URL nothing is prepared.

        Args:
            download: Download raw data that is not there. None: the class has no such argument.
            raw_root: Where the recipe finds raw data. Default: the root.
        """
        self._refuse_in_pixels(options.variant)
        warn_if_left_behind(self, self._in_pixels())
        raw = None
        if is_url(self.root):
            url = Url.parse(self.root)
            is_above = raw_root is not None and raw_root.name != url.name
            place = url.parent if is_above else url
            reader = open_at_url(type(self).__name__, recipe, place, options, download=bool(download))
        else:
            root = Path(self.root).expanduser().absolute()
            raw = None if is_record_set(root) else raw_root or root
            reader = RecordReader(root if raw is None else ensure(recipe, raw, options, download=download))
        self._check_source(reader, recipe)
        self._refuse_in_pixels(reader.manifest.variant)
        if raw is not None and (changes := find_changes(reader, raw)):
            warn_of_changes(reader, changes, variant_recipe(recipe, raw, options.variant).command(raw), stacklevel=3)
        return self._as_variant(reader, options)

    if not TYPE_CHECKING:  # otherwise a class would have every attribute

        def __getattr__(self, name: str) -> Any:
            if "_selection" in vars(self):
                return object.__getattribute__(self, name)  # raises again what led here, maybe in a property
            kind = type(self).__name__
            raise AttributeError(
                f"{kind!r} object has no attribute {name!r}. No record set is open: {kind}.__init__ must call that of "
                "its base class. Where it lists files itself, let it inherit from torchvision's class; RecordLoader "
                "reads that, too.",
                name=name,
                obj=self,
            )

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "transform" and "_selection" in self.__dict__ and not self._transforms_pairs:  # after opening
            warn_if_left_behind(self, self._in_pixels())

    def _in_pixels(self) -> Sequence[str]:
        """Name the requested targets that are in pixels of the original images: "the target"."""
        return ()

    def _refuse_in_pixels(self, variant: str | None) -> None:
        """Raise for targets that do not fit the smaller images of a variant."""
        found = self._in_pixels()
        if found and variant not in (None, ORIGINAL) and Variant.parse(variant).side is not None:
            raise ArgumentError(
                f"{found[0]} is in pixels of the original images, and would not fit the variant {variant!r}. Open the "
                "dataset without variant."
            )

    def _check_source(self, reader: RecordReader, recipe: Recipe) -> None:
        """Raise if a record set does not hold what this class shows."""
        found = (reader.manifest.dataset, reader.manifest.part)
        if found != (recipe.dataset, recipe.part):
            raise OtherSourceError(
                f"{type(self).__name__}: {reader.path} is a record set of {'.'.join(filter(None, found))}, "
                f"not of {recipe.set_name}.",
                path=str(reader.path),
            )

    def _open_part(self, *, download: bool | None, options: PrepareOptions) -> RecordReader:
        """Open the record set of the catalogue's part that `_part` names; prepare it if it is not there."""
        self._check_subclass()
        chosen = self._chosen(options)
        member_md5s = self._member_md5s() if chosen.check_hash else {}
        recipe = dataset_recipe(self._ENTRY, self._part, self.raw_files, member_md5s)
        recipe.require(self._required_files())
        return self._open(recipe, download=download, options=chosen)

    def _check_subclass(self) -> None:
        """Refuse a subclass that names raw files as torchvision does, not by `raw_files`, or reads them itself."""
        kind = type(self)
        ours: Any = next(base for base in kind.__mro__ if base.__module__.startswith("recordzoo."))
        theirs = [vars(base) for base in kind.__mro__[: kind.__mro__.index(ours)]]
        for name in _RAW_METHODS:
            if hasattr(ours, name) and any(name in each for each in theirs):
                raise ArgumentError(
                    f"{kind.__name__}.{name} would never be called: {ours.__name__} reads records. Choose samples with "
                    "torch.utils.data.Subset, or inherit from torchvision's class, whose files RecordLoader reads, too."
                )
        for name in _RAW_NAMES:
            found, right = getattr(kind, name, None), getattr(ours, name, None)
            if name in ("train_list", "test_list") and found and right:  # hashes of one's own are accepted
                found, right = [row[0] for row in found], [row[0] for row in right]
            if found != right and kind.raw_files is ours.raw_files:
                raise ArgumentError(
                    f"{kind.__name__}.{name} names other raw files than those of {ours.__name__}, which it would show. "
                    "Inherit from the class that shows them, as from CIFAR100Record for CIFAR-100; if there is none, "
                    "from torchvision's."
                )

    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        """Return which samples are shown."""
        return Selection(reader, split, listed_in=self._listed_in)

    @derived
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class name, for datasets with `classes`."""
        return {name: label for label, name in enumerate(self._first_classes())}

    def _first_classes(self) -> Any:
        """Return `classes` as opened: who renames them changes no other attribute, as in torchvision."""
        attribute = getattr(type(self), "classes", None)
        if not isinstance(attribute, derived):
            return self.classes
        attribute.__get__(self, type(self))  # made now, even if others were assigned
        return self._made[attribute.name].original

    def _class_names(self) -> list[str]:
        """Return the targets' class names in the order of their labels, a new list; empty if they have none."""
        return list(self._selection.classes)

    def _names_of(self, field: str) -> list[str]:
        """Return the names of the classes or attributes that a field's numbers stand for."""
        return list(self._selection.reader.manifest.fields[field].names or ())

    def _member_md5s(self) -> Mapping[str, str]:
        """Return the MD5 of each file within the raw data that torchvision compares."""
        return {}

    def _required_files(self) -> Collection[str]:
        """Return the names of raw files that this class needs, although the record set does not."""
        return ()

    def batch_source(self) -> BatchSource:
        """Return where a loader finds the images and targets, or why it has to take samples from the dataset."""
        selection = self.__dict__.get("_selection")
        problem = self._batch_problem() or image_problem(self._selection.reader)
        is_apart = self._transforms_apart and not self._transforms_pairs
        return BatchSource(selection, problem, self._transforms_pairs, is_apart=is_apart)

    def _batch_problem(self) -> str:
        """Say why samples differ from the record set's images and labels; "" if they do not."""
        return f"{type(self).__name__} makes its samples itself"

    def _label_problem(self, owner: type, *attributes: str) -> str:
        """Say why samples may differ from what the class's own ``__getitem__`` returns; "" if they cannot."""
        kind, made_for = cast(Any, type(self)), cast(Any, owner)  # Any: torchvision's class has the __getitem__
        if kind.__getitem__ is not made_for.__getitem__ or kind.__getitems__ is not ZooDataset.__getitems__:
            return ZooDataset._batch_problem(self)
        return "" if self._is_as_opened(*attributes) else f"the samples of {kind.__name__} were changed"

    def _as_variant(self, reader: RecordReader, options: Options) -> RecordReader:
        """Return the requested variant of a record set, if any; make it if it does not exist, unless it is at a URL."""
        if options.variant in (None, reader.manifest.variant):
            return reader
        if not isinstance(reader.path, Url):
            return RecordReader(ensure(StoredRecipe(reader), reader.path, options))
        stem = reader.path.name.removesuffix(ENDING)
        if reader.manifest.variant != ORIGINAL:
            stem = stem.removesuffix(f"-{reader.manifest.variant}")
        name = stem if options.variant == ORIGINAL else f"{stem}-{options.variant}"
        return open_one(type(self).__name__, [reader.path.parent / f"{name}{ENDING}"], options)

    def _chosen(self, options: PrepareOptions) -> Options:
        """Return the constructor's options, checked."""
        return Options.of(options, f"{type(self).__name__}.__init__()")

    def _has(self, name: str) -> bool:
        """Whether an attribute is there: made, or assigned."""
        return name in self._made or name in self.__dict__

    def _as_opened(self, name: str, index: object) -> int | None:
        """Return the number of the sample at an index, if the derived list still has the original item there.

        Args:
            name: The attribute. While nobody has asked for the list, it is not made.
            index: As a list takes it.

        Returns:
            None if the item was changed or moved, or if the index is a slice: then the attribute itself answers.
        """
        attribute = getattr(type(self), name)
        if not isinstance(attribute, derived):
            return None  # a subclass's own property
        made = self._made.get(attribute.name)
        if made is None and name not in self.__dict__:
            return list_index(index, len(self._selection))
        values = getattr(self, name)
        if made is None or not isinstance(values, list):
            return None
        number = list_index(index, len(values))
        return number if number is not None and made.has_still(values, number) else None

    def _length(self, name: str) -> int:
        """Return the length of a derived attribute, without making it."""
        attribute = getattr(type(self), name, None)
        if name in self.__dict__ or not isinstance(attribute, derived) or attribute.name in self._made:
            return len(getattr(self, name))
        return len(self._selection)

    def _is_as_opened(self, *names: str) -> bool:
        """Whether all derived attributes still agree with the record set: none was assigned or changed."""
        for name in names:
            attribute = getattr(type(self), name)
            if name in self.__dict__ or not isinstance(attribute, derived):
                return False
            made = self._made.get(attribute.name)
            if made is not None and not made.is_unchanged():
                return False
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without derived values that can be made again unchanged."""
        changed = {name: made for name, made in self.__dict__.get("_made", {}).items() if not made.is_unchanged()}
        return {**self.__dict__, "_made": changed}

    def _show(self, selection: Selection) -> None:
        """Set which positions of which record set the dataset shows."""
        self._selection = selection

    @property
    def records_path(self) -> Path | Url:
        """The record set's directory, or its URL."""
        return self._selection.reader.path

    def _position(self, index: int) -> int | None:
        """Return the position behind an index; None if the sample was assigned and is not in the record set."""
        number = list_index(index, len(self._selection))
        return None if number is None else self._selection.position(number)

    def download(self) -> None:
        """Do nothing: an open record set needs no download."""

    def _file_of(self, field: str, position: int | None, path: Callable[[], str]) -> tuple[bytes, object]:
        """Return the bytes of a sample's file, from its record or from disk, and its name for messages."""
        reader = self._selection.reader
        if position is not None and reader.has(field, position):
            return reader.read(field, position), RecordName(reader, position, f"{field} of ")
        file_path = path()
        if position is not None:
            raise FolderError(
                f"{file_path} was missing when {reader.path} was prepared. If it is there now, prepare again with "
                "refresh=True.",
                path=str(file_path),
            )
        with open(file_path, "rb") as file:
            return file.read(), str(file_path)

    def read(self, index: int, field: str = "image") -> bytes:
        """Return the stored bytes of a sample: those of the original file, or of the variant's image.

        Args:
            index: As in ``dataset[index]``.
            field: The blob field: "image", and where there are more, "mask" or "annotation".

        Raises:
            IndexError: There is no such sample.
            KeyError: There is no such field.
            LookupError: This sample has nothing in this field, or was assigned and is not in the record set.
            CorruptRecordError: The stored bytes are damaged.
        """
        position = self._position(index)
        if position is None:
            raise LookupError(f"sample {index} was assigned, and is not in {self.records_path}.")
        return self._selection.reader.read(field, position)

    # Any: images and targets are what loaders and transforms take.
    def _transformed(self, image: Any, target: Any) -> Pair:
        """Apply `transforms`, or `transform` and `target_transform`."""
        if self._transforms_pairs:
            return (image, target) if self.transforms is None else self.transforms(image, target)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    # Any: samples are what the dataset returns.
    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return several samples, after telling the kernel which values will be read; torch's DataLoader calls this."""
        self._hint(indices)
        samples = []
        for i in indices:
            try:
                samples.append(self[i])
            except Exception as err:
                err.add_note(f"while taking sample {i} of {self.records_path}")
                raise
        return samples

    def _hint(self, indices: Sequence[int]) -> None:
        try:
            found = [self._as_opened(self._ITEMS, index) for index in indices]
        except (IndexError, TypeError):
            return  # __getitem__ will say so; a subclass's may take other indices than ints
        positions = [each for number in found if number is not None for each in self._positions_of(number)]
        if len(positions) > 1:
            self._hint_positions(positions)

    def _positions_of(self, number: int) -> Sequence[int]:
        """Return the positions of the records that a sample (numbered from 0) reads."""
        return (self._selection.position(number),)

    def _hint_positions(self, positions: Sequence[int]) -> None:
        """Tell the kernel which positions will be read soon."""
        for field in self._read_fields():
            self._selection.reader.hint(field, positions)

    def _read_fields(self) -> Sequence[str]:
        """Return the blob fields that a sample reads."""
        return ("image",)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the number of samples, splits, classes, fields, and at most 12 small images.

        Less than 100 kB of HTML without scripts. Nothing is raised: what cannot be read is said in its place.
        """
        try:
            return self._summary(type(self).__name__, len(self))
        except Exception:  # noqa: BLE001 - a notebook would show a traceback instead of the dataset
            return f"<pre>{html.escape(object.__repr__(self))}</pre>"

    def _summary(self, kind: str, num_samples: int, note: str = "") -> str:
        """Return the HTML that a notebook shows."""
        shown = self._selection
        if hasattr(type(self), self._ITEMS) and not self._is_as_opened(self._ITEMS):
            note = "samples were changed; images and classes are as opened"
        return write_summary(kind, num_samples, shown.reader, shown.all_positions(), shown.split, note)

    def __len__(self) -> int:
        return self._length(self._ITEMS)

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


def check_choice(value: str, argument: str, valid: Sequence[str], message: str | None = None) -> str:
    """Return `value` if it is valid; otherwise raise an ArgumentError with `message`, or in torchvision's words."""
    return cast(str, checked(verify_str_arg, value, argument, valid, message))


# Any: torchvision is untyped.
def checked(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of torchvision's that checks arguments; its ValueError becomes an ArgumentError."""
    try:
        return function(*arguments)
    except ValueError as err:
        raise ArgumentError(str(err)) from None


def open_at_url(kind: str, recipe: Recipe, root: Url, options: Options, *, download: bool = False) -> RecordReader:
    """Open the record set of a recipe at a URL: the URL itself, or the set's usual place below it.

    Args:
        root: The URL.

    Raises:
        ArgumentError: An option would prepare something.
        NotPreparedError: There is no record set.
        RecordError: It cannot be read.
    """
    _refuse_preparing(kind, root, options, download=download)
    if (place := options.records_dir) is not None:
        if not is_url(place):
            raise ArgumentError(f"Argument records_dir is {str(place)!r}; it must be a URL, because root is a URL.")
        return open_one(kind, [Url.parse(place)], options)
    local = Path(os.sep) / "root" / (root.name or "root")
    target = variant_recipe(recipe, local, options.variant).target(local)
    below = (root if target.parent == local else root.parent) / target.name
    return open_one(kind, [root, below] if root.name.endswith(ENDING) else [below, root], options)


def open_given(kind: str, root: Url, options: Options) -> RecordReader:
    """Open the record set at a URL, or the set ``<name>.records`` beside it."""
    _refuse_preparing(kind, root, options)
    beside = root.parent / f"{root.name}{ENDING}"
    return open_one(kind, [root] if root.name.endswith(ENDING) else [root, beside], options)


def open_one(kind: str, places: Sequence[Url], options: Options) -> RecordReader:
    """Open the first record set that is there."""
    for place in places:
        try:
            return RecordReader(place, cache_bytes=options.cache_bytes)
        except ManifestError as err:
            if getattr(err, "status", None) != NOT_FOUND:
                raise
    looked = " or ".join(str(place / MANIFEST_NAME) for place in places)
    name = next((place.name for place in places if place.name.endswith(ENDING)), f"NAME{ENDING}")
    target = next((place for place in places if place.name == name), places[0])
    raise NotPreparedError(
        f"{kind}: no record set (looked for {looked}). Prepare it on a disk, then run: {command('push', name, target)}",
        root=str(places[-1]),
    )


def _refuse_preparing(kind: str, root: Url, options: Options, *, download: bool = False) -> None:
    wanted = {"download": download, **{name: getattr(options, name) for name in ("prepare", "refresh", "discard_raw")}}
    for name, value in wanted.items():
        if value:
            raise ArgumentError(
                f"{kind}: {name}={value!r} has no meaning at {root}: nothing is prepared at a URL. Prepare on a disk, "
                f"then run: {command('push', f'NAME{ENDING}', root)}"
            )
