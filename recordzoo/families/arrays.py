"""`ArrayDataset`: datasets that torchvision holds in memory as one array, with labels beside it."""

import operator
from collections.abc import Sequence, Set
from typing import Any, ClassVar, Generic, SupportsIndex, TypeVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo.errors import ArgumentError
from recordzoo.families.base import Pair, Root, Transform, ZooDataset, check_choice, derived
from recordzoo.families.folders import ClassFolderDataset, Loader, SplitFilesDataset, SplitName
from recordzoo.families.selection import list_targets
from recordzoo.preparing.options import PrepareOptions

# Any, in this module: indices, labels and samples are what the user assigned or the transforms returned.


class ArrayDataset(ZooDataset):
    """`ZooDataset` with ``data`` and labels. The array is read on first access; from then on samples come from it.

    A record is the pixels of an image, uint8 [H, W] or [H, W, C]. A subclass defines ``data`` itself if its array has
    another layout, and the labels if they are not a list of ints. After ``data`` was read, torchvision's
    ``__getitem__`` is used.
    """

    _ITEMS = "data"
    _LABELS: ClassVar[str] = "targets"
    _HAS_DATA: ClassVar[bool] = True  # whether torchvision's class takes samples from it
    _INT_LABELS: ClassVar[bool] = False  # whether torchvision's class makes an int of each label
    _CHANNELS_FIRST: ClassVar[bool] = False  # whether ``data`` is [n, C, H, W]
    _OUT_OF_RANGE: ClassVar[str] = "index {index} is out of bounds for axis 0 with size {length}"

    train: bool

    def __init__(
        self,
        root: Root,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.train = train
        self._show_split(self._chosen_split(), download=download, options=options)

    def _chosen_split(self) -> str:
        """Return the name of the split that `train` selects."""
        return "train" if self.train else "test"

    @derived
    def data(self) -> NDArray[np.uint8]:
        """All images."""
        pixels = self._all_pixels()
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)) if self._CHANNELS_FIRST else pixels

    @derived
    def targets(self) -> list[int]:
        """The labels."""
        return list_targets(self._selection)

    @derived
    def classes(self) -> list[str]:
        """The class names in the order of their labels."""
        return self._class_names()

    def _label(self, label: Any) -> Any:
        """Turn an item of the labels into a target."""
        return int(label) if self._INT_LABELS else label

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image, label)."""
        if self._HAS_DATA and self._has(self._ITEMS):
            return super().__getitem__(index)  # torchvision's, behind this class
        number = self._number(index)
        if number is None:
            return self._unusual_item(index)  # type: ignore[no-any-return]  # Any: mostly an error
        image: Any = self._picture(self._stored(number))
        labels = getattr(self, self._LABELS) if self._has(self._LABELS) else None
        target = self._label(self._stored_label(number) if labels is None else labels[index])
        return self._transformed(image, target)

    def _picture(self, pixels: NDArray[np.uint8]) -> Any:
        """Turn an item of ``data`` into a sample's image."""
        return Image.fromarray(pixels)

    def _stored_label(self, number: int) -> Any:
        """Return the stored label of a sample."""
        return int(self._stored_labels()[self._selection.position(number)])

    def _stored_labels(self) -> NDArray[Any]:
        return self._selection.reader.array(self._selection.column)

    def _unusual_item(self, index: Any) -> Any:
        """Return what torchvision returns for a slice, a mask, ...; usually it raises."""
        return super().__getitem__(index)  # torchvision's class comes after this one

    def _number(self, index: SupportsIndex) -> int | None:
        """Return the number (from 0) of the sample at an index; None if the index is not an integer."""
        if isinstance(index, bool) or getattr(index, "ndim", 0) > 0:
            return None
        try:
            number = operator.index(index)
        except TypeError:
            return None
        length = len(self._selection)
        if not -length <= number < length:
            from_start = number + length if number < 0 else number
            raise IndexError(
                self._OUT_OF_RANGE.format(index=number, length=length, from_start=from_start, last=length - 1)
            )
        return number % length

    def _stored(self, number: int) -> NDArray[np.uint8]:
        reader = self._selection.reader
        shape = reader.manifest.blobs["image"].shape or ()
        return np.frombuffer(reader.read("image", self._selection.position(number)), np.uint8).reshape(shape)

    def _all_pixels(self) -> NDArray[np.uint8]:
        reader, shape = self._selection.reader, self._selection.reader.manifest.blobs["image"].shape or ()
        pixels = np.empty((len(self._selection), *shape), np.uint8)
        for number, position in enumerate(self._selection.all_positions().tolist()):
            pixels[number] = np.frombuffer(reader.read("image", position), np.uint8).reshape(shape)
        return pixels

    def __len__(self) -> int:
        return self._length(self._ITEMS)

    @override
    def _batch_problem(self) -> str:
        shape = self._selection.reader.manifest.blobs["image"].shape or ()
        if shape[2:] != (3,):
            return "its images are not RGB"
        return self._label_problem(ArrayDataset, self._ITEMS, self._LABELS)


# Any, in all of this module: targets are of any kind, samples what the loader and the transforms make.

TargetType = TypeVar("TargetType", bound=str)
"""The target types, for editors: `Literal["category", "bbox"]`."""


def check_types(target_type: str | Sequence[str], valid: Sequence[str]) -> list[str]:
    """Return the target types that the argument `target_type` names: at least one, of those that are valid."""
    types = [target_type] if isinstance(target_type, str) else list(target_type)
    if not types:
        raise ArgumentError(f"target_type is {target_type!r}; it must name at least one of {', '.join(valid)}.")
    return [check_choice(kind, "target_type", valid) for kind in types]


class TargetTypesDataset(SplitFilesDataset[SplitName], ClassFolderDataset, Generic[SplitName, TargetType]):
    """`ClassFolderDataset` with targets besides the label; `samples` has the label, whatever the target is.

    Attributes:
        split: As given.
        target_type: As given; a list if several were given.
        _TARGET_TYPES: All target types. The first is the label.
        _IN_PIXELS: Those in pixels of the original images, which do not fit a smaller variant.
        _FIELDS: For each target type that is made of a blob field, that field.
    """

    _SPLIT = "split"
    _PATH = str
    _ALLOWS_EMPTY = True
    _TARGET_TYPES: ClassVar[Sequence[str]]
    _IN_PIXELS: ClassVar[Set[str]] = frozenset()
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
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._choose_split(split)
        self._choose_targets(target_type)
        self._show_split(split, download=download, options=options, loader=loader)

    def _choose_targets(self, target_type: str | Sequence[str]) -> None:
        """Set the kinds of target."""
        self._target_types = check_types(target_type, self._TARGET_TYPES)
        self.target_type = target_type if isinstance(target_type, str) else self._target_types.copy()

    def _in_pixels(self) -> Sequence[str]:
        return [f"target_type {kind!r}" for kind in self._target_types if kind in self._IN_PIXELS]

    @override
    def _batch_problem(self) -> str:
        if self.target_type != self._TARGET_TYPES[0]:
            return f"{type(self).__name__} has other targets than labels"
        return self._label_problem(TargetTypesDataset, "samples") or self._loader.problem

    def __getitem__(self, index: int) -> Pair:
        """Return (image, target); the target is a tuple if `target_type` is a list.

        Raises:
            LookupError: The sample was assigned and is not in the record set; nothing but its label is known.
        """
        label_type = self._TARGET_TYPES[0]
        if self.target_type == label_type:
            return super().__getitem__(index)
        sample, label = self._load(index)
        targets = tuple(label if kind == label_type else self._target_at(kind, index) for kind in self._target_types)
        target = targets[0] if isinstance(self.target_type, str) else targets
        return self._transformed(sample, target)

    def _target_at(self, kind: str, index: int) -> Any:
        position = self._position(index)
        if position is None:
            label_type = self._TARGET_TYPES[0]
            raise LookupError(
                f"sample {index} was assigned, and is not in {self.records_path}: only its {label_type} is known."
            )
        return self._target(kind, position)

    def _target(self, kind: str, position: int) -> Any:
        """Return a target other than the label; here a tensor of the array field of that name."""
        # A copy: the array is a read-only view of the file.
        return torch.from_numpy(np.array(self._selection.reader.array(kind)[position]))

    @override
    def _read_fields(self) -> Sequence[str]:
        return ["image", *{self._FIELDS[kind]: None for kind in self._target_types if kind in self._FIELDS}]
