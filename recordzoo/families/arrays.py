"""`ArrayDataset`: datasets that torchvision holds in memory as one array, with labels beside it."""

import operator
from dataclasses import replace
from typing import Any, ClassVar, SupportsIndex, Unpack

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from typing_extensions import override

from recordzoo.families.base import BatchSource, Pair, Root, Transform, ZooDataset
from recordzoo.families.derived import derived
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
        self.train = train
        self._open_split(root, self._chosen_split(), transform, target_transform, download, **options)

    def _chosen_split(self) -> str:
        """Return the name of the split that `train` selects."""
        return "train" if self.train else "test"

    @derived
    def data(self) -> NDArray[np.uint8]:
        """All images, read into memory on first access; from then on, changes to them show in the samples."""
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
        """Return the stored label of a sample: an int, or an array of several numbers."""
        found = self._selection.reader.array(self._selection.column)[self._selection.position(number)]
        return found.copy() if found.ndim else int(found)

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
        data = self._selection.reader.read("image", self._selection.position(number))
        return np.frombuffer(data, np.uint8).reshape(self._image_shape())

    def _image_shape(self) -> tuple[int, ...]:
        return self._selection.reader.manifest.blobs["image"].shape or ()

    def _all_pixels(self) -> NDArray[np.uint8]:
        reader, shape = self._selection.reader, self._image_shape()
        pixels = np.empty((len(self._selection), *shape), np.uint8)
        for number, position in enumerate(self._selection.all_positions().tolist()):
            pixels[number] = np.frombuffer(reader.read("image", position), np.uint8).reshape(shape)
        return pixels

    @override
    def batch_source(self) -> BatchSource:
        return replace(super().batch_source(), is_gray=self._is_gray())

    def _is_gray(self) -> bool:
        """Whether samples are the stored images, of one channel, and the stored labels."""
        kind: Any = type(self)
        hooks = ("_label", "_picture", "_stored", "_stored_label")
        is_plain = all(getattr(kind, name) is getattr(ArrayDataset, name) for name in hooks)
        return is_plain and len(self._image_shape()) == 2

    @override
    def _batch_problem(self) -> str:
        if self._image_shape()[2:] != (3,) and not self._is_gray():
            return "its images are not RGB"
        return self._label_problem(ArrayDataset, self._ITEMS, self._LABELS)
