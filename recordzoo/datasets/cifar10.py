"""`CIFAR10Record`: torchvision's CIFAR10 from records."""

import operator
import os
from collections.abc import Callable
from typing import Any, SupportsIndex, Unpack

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets import CIFAR10

from recordzoo.datasets.base import RecordDataset
from recordzoo.datasets.derived import derived
from recordzoo.datasets.selection import Selection, list_targets
from recordzoo.preparing import PrepareOptions
from recordzoo.recipes.cifar10 import md5s_of, recipe

_SHAPE = (32, 32, 3)


class CIFAR10Record(RecordDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR10`, read from records; the batches are pickles, these are not.

    Args:
        root: Where ``cifar-10-batches-py/`` or ``cifar-10-python.tar.gz`` is or goes to; or the record set.
        train: The 50,000 training images or the 10,000 test images.
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        **options: See `PrepareOptions`.

    ``data``, uint8 [n, 32, 32, 3], is read into memory when it is first asked for, and used from then on.

    Raises:
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = CIFAR10Record("data", train=False)
        >>> image, label = dataset[0]
    """

    _ITEMS = "data"
    # Any: transforms take and return what their user wants.
    transform: Callable[[Any], Any] | None
    target_transform: Callable[[Any], Any] | None

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.train = train
        batches = recipe(raw_files=self.raw_files, md5s=md5s_of(self.train_list + self.test_list, self.meta))
        reader = self._open(batches, download=download, options=options)
        self._show(Selection(reader, "train" if train else "test"))

    @derived
    def targets(self) -> list[int]:
        """The labels."""
        return list_targets(self._selection)

    @derived
    def data(self) -> NDArray[np.uint8]:
        """All pixels, uint8 [n, 32, 32, 3], writable."""
        read = self._selection.reader.read
        pixels = b"".join(read("image", position) for position in self._selection.all_positions().tolist())
        return np.frombuffer(bytearray(pixels), np.uint8).reshape(-1, *_SHAPE)

    @derived
    def classes(self) -> list[str]:
        """The class names in the order of their labels."""
        return list(self._selection.reader.manifest.classes or ())

    @derived
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class name."""
        return {name: label for label, name in enumerate(self._selection.reader.manifest.classes or ())}

    # Any: what the transforms make of it.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return (PIL image of 32 by 32, label).

        Raises:
            IndexError: There is no such sample.
            CorruptRecordError: The stored bytes are damaged.
        """
        pixels = self.data[index] if self._has_data() else self._pixels(index)
        number = self._as_opened("targets", index)
        target: Any = self.targets[index] if number is None else self._selection.target(number)
        image: Any = Image.fromarray(pixels)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def _pixels(self, index: SupportsIndex) -> NDArray[np.uint8]:
        try:
            number: int | None = operator.index(index)
        except TypeError:
            number = None
        if number is None or isinstance(index, bool):
            picked: NDArray[np.uint8] = self.data[index]  # a slice, a mask: as NumPy takes it
            return picked
        length = len(self._selection)
        if not -length <= number < length:
            raise IndexError(f"index {number} is out of bounds for axis 0 with size {length}")
        position = self._selection.position(number % length)
        return np.frombuffer(self._selection.reader.read("image", position), np.uint8).reshape(_SHAPE)

    def _has_data(self) -> bool:
        """Whether somebody asked for ``data``, or assigned it: from then on it counts."""
        return "data" in self._made or "data" in self.__dict__

    def __len__(self) -> int:
        return self._length("data")

    def download(self) -> None:
        """Do nothing: what is open is there."""
