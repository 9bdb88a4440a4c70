"""`ArrayDataset`: datasets that torchvision holds in memory as one array, with labels beside it."""

import operator
from collections.abc import Callable
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.families.base import RecordDataset
from recordzoo.families.derived import derived


class ArrayDataset(RecordDataset):
    """`RecordDataset` with ``data`` and labels. The array is read when somebody asks for it, and counts from then on.

    A record is the pixels of an image, uint8 [H, W] or [H, W, C]. A dataset whose array has another layout says so in
    `_stacked` and `_pixels`; one whose labels are no list of ints, in its own derived attribute.
    """

    _ITEMS = "data"
    _LABELS: ClassVar[str] = "targets"
    # Any: transforms take and return what their user wants.
    transform: Callable[[Any], Any] | None
    target_transform: Callable[[Any], Any] | None

    # Any: an array or a tensor.
    @derived
    def data(self) -> Any:
        """All images."""
        return self._stacked(self._all_pixels())

    @derived
    def targets(self) -> Any:
        """The labels."""
        return self._selection.targets().tolist()

    @derived
    def classes(self) -> list[str]:
        """The class names in the order of their labels."""
        return list(self._selection.reader.manifest.classes or ())

    # Any: as above.
    def _stacked(self, pixels: NDArray[np.uint8]) -> Any:
        """Make ``data`` of the pixels of all images, uint8 [n, H, W] or [n, H, W, C]."""
        return pixels

    # Any: as above.
    def _pixels(self, item: Any) -> NDArray[np.uint8]:
        """Return the pixels of an item of ``data``, uint8 [H, W] or [H, W, C]."""
        return item  # type: ignore[no-any-return]  # what `_stacked` makes, or the user assigned

    # Any: as above.
    def _label(self, label: Any) -> Any:
        """Make the target of an item of the labels."""
        return label

    # Any: what the transforms make of it.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return (PIL image, label).

        Raises:
            IndexError: There is no such sample.
            CorruptRecordError: The stored bytes are damaged.
        """
        pixels = self._pixels(self.data[index]) if self._has("data") else self._read_pixels(index)
        target = self._target(index)
        image: Any = Image.fromarray(pixels)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    # Any: as above.
    def _target(self, index: int) -> Any:
        if self._has(self._LABELS):
            return self._label(getattr(self, self._LABELS)[index])
        number = operator.index(index) % len(self._selection)
        return self._label(self._stored_label(self._selection.position(number)))

    # Any: as above.
    def _stored_label(self, position: int) -> Any:
        """Return the label of a position of the record set."""
        return int(self._selection.reader.array(self._selection.column)[position])

    def _read_pixels(self, index: SupportsIndex) -> NDArray[np.uint8]:
        try:
            number: int | None = operator.index(index)
        except TypeError:
            number = None
        if number is None or isinstance(index, bool):
            return self._pixels(self.data[index])  # a slice, a mask: as NumPy or torch takes it
        length = len(self._selection)
        if not -length <= number < length:
            raise IndexError(f"index {number} is out of bounds for axis 0 with size {length}")
        return self._stored(self._selection.position(number % length))

    def _stored(self, position: int) -> NDArray[np.uint8]:
        reader = self._selection.reader
        shape = reader.manifest.blobs["image"].shape or ()
        return np.frombuffer(reader.read("image", position), np.uint8).reshape(shape)

    def _all_pixels(self) -> NDArray[np.uint8]:
        reader, shape = self._selection.reader, self._selection.reader.manifest.blobs["image"].shape or ()
        pixels = np.empty((len(self._selection), *shape), np.uint8)
        for number, position in enumerate(self._selection.all_positions().tolist()):
            pixels[number] = np.frombuffer(reader.read("image", position), np.uint8).reshape(shape)
        return pixels

    def _has(self, name: str) -> bool:
        """Whether somebody asked for an attribute, or assigned it: from then on it counts."""
        return name in self._made or name in self.__dict__

    def __len__(self) -> int:
        return self._length("data")

    def download(self) -> None:
        """Do nothing: what is open is there."""

    def fusion_problem(self) -> str:
        """See `RecordDataset`."""
        shape = self._selection.reader.manifest.blobs["image"].shape or ()
        if shape[2:] != (3,):
            return "its images are not RGB"
        return self._label_problem(ArrayDataset, "data", self._LABELS)
