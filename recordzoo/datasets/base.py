"""`RecordDataset`: torchvision's surface over a record set.

A dataset is a mixin before the torchvision class whose place it takes. The torchvision class's ``__init__`` is never
called, because the record set knows what it would have scanned for; its other methods are there and stay true::

    class Flowers102Record(RecordDataset, Flowers102):
        def __init__(self, root, split="train", transform=None, target_transform=None, download=False,
                     loader=default_loader, **options: Unpack[PrepareOptions]) -> None:
            self._start(root, transform=transform, target_transform=target_transform)  # VisionDataset's __init__
            self._split = check_choice(split, "split", ("train", "val", "test"))       # torchvision's words
            reader = self._open(recipe(raw_files=self.raw_files), download=download, options=options)
            self._show(Selection(reader, self._split))                                 # which positions, in which order

        def __getitem__(self, index): ...           # self.read(index) gives the bytes

Rules:

* The signature is torchvision's, name by name, with our options behind it, keyword-only.
* An attribute that torchvision's ``__getitem__`` or ``__len__`` reads is an ordinary attribute holding a sequence of
  `recordzoo.datasets.sequences`; so assigning it, or an item of it, does what it does in torchvision. One that is
  large or comes from the record set's manifest is a `derived` attribute: made when first asked for, then ordinary, and
  not pickled while it is what it would be made to again.
* ``transform``, ``target_transform`` and ``transforms`` are read when a sample is taken (the v2 wrapper sets them to
  None afterwards).
* Class-per-folder datasets (ImageFolder, ImageNet, CUB-200) start from `recordzoo.datasets.class_folder` instead, which
  has ``samples``, ``imgs``, ``targets``, ``loader`` and ``__getitem__``.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets.utils import verify_str_arg
from torchvision.datasets.vision import VisionDataset

from recordzoo.datasets.sequences import Selection
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.prepare import PrepareOptions, ensure, is_record_set
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.variants import StoredRecipe
from recordzoo.records.reader import RecordReader
from recordzoo.sources.download import RemoteFile

T = TypeVar("T")

_DIGESTS = "_digests"
"""Where a dataset keeps, for each derived array, what it was when it was made."""


class derived(Generic[T]):
    """An attribute that is made when first asked for and from then on is an ordinary one. Decorator."""

    # Any: the dataset class that declares it.
    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, dataset: Any, owner: type) -> T:
        if dataset is None:
            return cast(T, self)  # as property does; nobody means the value then
        if "_selection" not in dataset.__dict__:
            # torchvision's v2 wrapper is made a subclass of our class but holds nothing: an AttributeError sends it to
            # the dataset that it wraps.
            raise AttributeError(self.name)
        value: T = self.make(dataset)
        dataset.__dict__[self.name] = value
        if isinstance(value, np.ndarray):
            dataset.__dict__.setdefault(_DIGESTS, {})[self.name] = _digest(value)
        return value


class RecordDataset:
    """What all dataset classes share; put it before the torchvision class.

    Attributes:
        raw_files: Where the raw files come from; None for the catalogue's. A subclass may name others.
        root: As given, "~" expanded.
    """

    raw_files: ClassVar[tuple[RemoteFile, ...] | None] = None

    root: str | os.PathLike[str]
    _selection: Selection

    # Any: transforms take and return what their user wants.
    def _start(
        self,
        root: str | os.PathLike[str],
        *,
        transforms: Callable[..., Any] | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:
        """Do what `VisionDataset.__init__` does: root and transforms.

        Raises:
            ArgumentError: transforms together with one of the others.
        """
        try:
            VisionDataset.__init__(self, root, transforms, transform, target_transform)
        except ValueError as err:
            raise ArgumentError(str(err)) from None

    def _open(self, recipe: Recipe, *, download: bool = False, options: PrepareOptions | None = None) -> RecordReader:
        """Open the record set of a recipe: under the root, or the root itself; prepare it if it is not there.

        Raises:
            TypeError: An option that does not exist.
            OtherSourceError: The root is a record set of something else.
            NotPreparedError, SourceError, PrepareError, RecordError: See `recordzoo.prepare.ensure`.
        """
        options = self._checked(options or {})
        root = Path(self.root).expanduser().absolute()
        path = root if is_record_set(root) else ensure(recipe, root, download=download, **options)
        reader = RecordReader(path)
        found = (reader.manifest.dataset, reader.manifest.part)
        if found != (recipe.dataset, recipe.part):
            raise OtherSourceError(
                f"{type(self).__name__}: {path} is a record set of {'.'.join(filter(None, found))}, "
                f"not of {recipe.set_name}.",
                path=str(path),
            )
        return self._as_variant(reader, options)

    def _as_variant(self, reader: RecordReader, options: PrepareOptions) -> RecordReader:
        """Return the variant of a record set that is asked for, if any is; make it if it is not there.

        Raises:
            OtherSourceError: The record set is another variant.
        """
        if options.get("variant") in (None, reader.manifest.variant):
            return reader
        return RecordReader(ensure(StoredRecipe(reader), reader.path, **options))

    def _checked(self, options: PrepareOptions) -> PrepareOptions:
        for name in options:
            if name not in PrepareOptions.__annotations__:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}")
        return options

    def _show(self, selection: Selection) -> None:
        """Set which positions of which record set the dataset shows."""
        self._selection = selection

    @property
    def records_path(self) -> Path:
        """The record set's directory."""
        return self._selection.reader.path

    def _position(self, index: int) -> int | None:
        """Return the position behind an index; None if the sample was assigned and is not in the record set."""
        length = len(self._selection)
        if not -length <= index < length:
            raise IndexError("list index out of range")
        return self._selection.position(index % length)

    def read(self, index: int, field: str = "image") -> bytes:
        """Return what is stored for a sample: the original file's bytes, untouched, or what the variant has instead.

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
            raise LookupError(f"sample {index} is not in {self.records_path}")
        return self._selection.reader.read(field, position)

    # Any: samples are what the dataset returns.
    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return many samples, all of their values announced to the kernel first; torch's DataLoader calls this."""
        self._hint(indices)
        samples = []
        for i in indices:
            try:
                # torchvision's class, which comes after this one, has the __getitem__.
                samples.append(self[i])  # type: ignore[index]
            except Exception as err:
                err.add_note(f"while taking sample {i} of {self.records_path}")
                raise
        return samples

    def _hint(self, indices: Sequence[int]) -> None:
        if not self._hintable():
            return
        try:
            positions = self._selection.positions(indices)
        except TypeError:
            return  # a subclass's __getitem__ may take other indices than ints
        if len(positions) > 1:
            for field in self._hint_fields():
                self._selection.reader.hint(field, positions)

    def _hintable(self) -> bool:
        """Whether an index still means the sample that it meant at the start."""
        return True

    def _hint_fields(self) -> Iterable[str]:
        """Which blob fields a sample reads."""
        return ("image",)

    # Any: what pickle keeps.
    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the derived attributes that still are what they would be made to again."""
        state = dict(self.__dict__)
        digests = dict(state.pop(_DIGESTS, {}))
        for kind in type(self).__mro__:
            for name, attribute in vars(kind).items():
                if isinstance(attribute, derived) and name in state and _is_as_made(self, attribute, digests):
                    del state[name]
                    digests.pop(name, None)
        return {**state, _DIGESTS: digests} if digests else state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)


def _is_as_made(dataset: RecordDataset, attribute: "derived[Any]", digests: Mapping[str, object]) -> bool:
    """Whether what a dataset holds is what would be made again; an array is not, because that may read all records."""
    held = dataset.__dict__[attribute.name]
    if isinstance(held, list | dict) and attribute.name not in digests:
        made = attribute.make(dataset)
        return isinstance(made, list | dict) and bool(made == held)
    return attribute.name in digests and isinstance(held, np.ndarray) and digests[attribute.name] == _digest(held)


# Any: of whatever dtype.
def _digest(array: NDArray[Any]) -> tuple[str, tuple[int, ...], int]:
    """Return what tells a changed array: a CRC-32 of 150 MB takes 0.1 s, and so does not hold up a pickle."""
    if array.dtype.hasobject:
        return array.dtype.str, array.shape, id(array)
    return array.dtype.str, array.shape, zlib.crc32(np.ascontiguousarray(array).data)


def check_choice(value: str, argument: str, valid: Sequence[str]) -> str:
    """Return `value` if it is one of the valid ones.

    Raises:
        ArgumentError: It is not, in torchvision's words.
    """
    try:
        return cast(str, verify_str_arg(value, argument, valid))
    except ValueError as err:
        raise ArgumentError(str(err)) from None
