"""Sources of encoded images and their targets: a record set, files, or a user's dataset with `HasImageBytes`."""

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from typing_extensions import override

from recordzoo.errors import RecordError
from recordzoo.families.selection import Selection
from recordzoo.images.decode import RecordName, name_in
from recordzoo.images.frames import Frame, open_encoded, open_raw
from recordzoo.loader.order import Indices
from recordzoo.recipes.jpeg import PLAIN, UNKNOWN, is_plain_jpeg, mark_of

_SMALL_BYTES = 2048
_LOOKED_AT = 1000

# Any, in all of this module: datasets and targets have the user's types.


class SampleStore(ABC):
    """The images and targets of a dataset, before all transforms.

    Attributes:
        is_raw: Whether images are stored as pixels.
        is_small: Whether images are so small that Python's work under the GIL takes most of the time.
        title: The dataset's name in a list of datasets.
    """

    is_raw = False
    is_small = False
    title = ""

    @abstractmethod
    def frame(self, index: int) -> Frame:
        """Open an image."""

    @abstractmethod
    def target(self, index: int) -> Any:
        """Return a target, as the dataset returns it."""

    def targets(self, indices: Indices) -> Any:
        """Return targets: an array [n, ...] for stored numbers, otherwise a list; a tuple for several targets."""
        return list(map(self.target, indices.tolist()))

    @abstractmethod
    def name(self, index: int) -> str:
        """Return a sample's name for messages."""

    def name_in(self, err: Exception, index: int) -> None:
        """Add the sample's name to an error of opening or decoding; the caller raises it again. The type stays.

        Raises:
            ImageError: Replaces the error, if a record's image cannot be decoded.
        """
        name = self.name(index)
        if isinstance(err, UnidentifiedImageError) and not isinstance(err, RecordError):
            err.args = (f"cannot identify image file {name}",)  # Pillow's message names an object in memory
        elif type(err) in (OSError, Image.DecompressionBombError) and len(err.args) == 1:
            err.args = (f"{err}: {name}",)
        elif name not in str(err):  # errors of `open` name the file
            err.add_note(f"while reading {name}")


class Records(SampleStore):
    """Images of a record set.

    Args:
        selection: The records and their labels.
        position: Returns a sample's position in the record set. Default: the selection's.
    """

    def __init__(self, selection: Selection, position: Callable[[int], int] | None = None) -> None:
        self.reader, self._selection = selection.reader, selection
        self._position = position or selection.position
        self._marks = self.reader.marks("image")
        self.is_raw = self.reader.manifest.blobs["image"].encoding == "raw"
        self.title = f"at {self.reader.path}"

    @property
    @override
    def is_small(self) -> bool:  # type: ignore[override]  # read, never set
        lengths = self.reader.lengths("image")[:_LOOKED_AT]
        return bool(not len(lengths) or lengths.mean() < _SMALL_BYTES)

    @override
    def frame(self, index: int) -> Frame:
        """Open an image.

        Raises:
            ImageError: It cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        position = self._position(index)
        if self.is_raw:
            return open_raw(self.reader.decoded("image", position))
        data = self.reader.read("image", position)
        if self._marks[position] == UNKNOWN:  # record sets of earlier versions
            self._marks[position] = mark_of(data)
        return open_encoded(data, is_plain=self._marks[position] == PLAIN)

    @override
    def target(self, index: int) -> Any:
        return self._selection.target(index)

    @override
    def targets(self, indices: Indices) -> Any:
        return self._selection.batch_targets(indices)

    @override
    def name(self, index: int) -> str:
        return f"{self._short(index)} in {self.reader.path}"

    @override
    def name_in(self, err: Exception, index: int) -> None:
        if not isinstance(err, RecordError):  # a RecordError names the record
            name_in(err, self.reader.path, self._short(index))

    def _short(self, index: int) -> str:
        return f"sample {index} ({RecordName(self.reader, self._position(index))})"


class Files(SampleStore):
    """Images in files of their own.

    Args:
        dataset: The dataset.
        look: Returns a sample's path and target.
    """

    def __init__(self, dataset: Any, look: Callable[[int], tuple[Any, Any]]) -> None:
        self._look, self._known = look, _known_of(dataset)
        self.title = f"in {dataset.root}"

    @override
    def frame(self, index: int) -> Frame:
        """Open an image.

        Raises:
            OSError: The file or its image cannot be read; same types as in the stock loader.
        """
        with open(self._look(index)[0], "rb", buffering=0) as file:
            state, data = os.fstat(file.fileno()), file.read()
        # A file may be replaced, and the dataset's list changed, while the loader lives.
        version = hash((state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)) & ~1
        known = int(self._known[index])
        if known & ~1 != version:
            self._known[index] = known = version | is_plain_jpeg(data)
        return open_encoded(data, is_plain=bool(known & 1))

    @override
    def target(self, index: int) -> Any:
        return self._look(index)[1]

    @override
    def name(self, index: int) -> str:
        return repr(os.fspath(self._look(index)[0]))


@runtime_checkable
class HasImageBytes(Protocol):
    """A dataset that returns encoded images: `RecordLoader` decodes and transforms them like those of record sets.

    Its attributes `transform` and `target_transform`, if it has them, are applied by the loader.
    """

    def __len__(self) -> int:
        """Return the number of samples."""

    def image_bytes(self, index: int) -> bytes:
        """Return an encoded image (JPEG, PNG, ...). Called in threads."""

    def target(self, index: int) -> Any:
        """Return a sample's target, before `target_transform`."""


class Own(SampleStore):
    """Images that a dataset returns as bytes."""

    def __init__(self, dataset: HasImageBytes) -> None:
        self._dataset = dataset

    @override
    def frame(self, index: int) -> Frame:
        return open_encoded(self._dataset.image_bytes(index))

    @override
    def target(self, index: int) -> Any:
        return self._dataset.target(index)

    @override
    def name(self, index: int) -> str:
        return f"sample {index} of {type(self._dataset).__name__}"


_known: "weakref.WeakKeyDictionary[Any, NDArray[np.int64]]" = weakref.WeakKeyDictionary()


def _known_of(dataset: Any) -> NDArray[np.int64]:
    """Return cached facts of a dataset's files, int64 [n]: a hash of the file's version; the last bit: a plain JPEG.

    The array is kept between epochs; 0: unknown.
    """
    found = _known.get(dataset) if isinstance(dataset, Hashable) else None
    if found is None or len(found) != len(dataset):
        found = np.zeros(len(dataset), np.int64)
        if isinstance(dataset, Hashable):
            _known[dataset] = found
    return found
