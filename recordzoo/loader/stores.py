"""The leaves of a dataset: images and targets in record sets, files, one array, a user's `HasImageBytes`."""

import io
import math
import os
import stat
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch.utils.data import Dataset
from torchvision import datasets, get_image_backend
from torchvision.datasets.folder import default_loader
from torchvision.datasets.vision import StandardTransform
from typing_extensions import override

from recordzoo.errors import RecordError
from recordzoo.families.selection import Selection
from recordzoo.images.decode import (
    ArrayFrame,
    Frame,
    RecordName,
    frame_of_picture,
    name_in,
    open_encoded,
    open_raw,
    orientation_of,
    turned,
)
from recordzoo.loader.epochs import Indices
from recordzoo.loader.parts import NewNumbers
from recordzoo.loader.plan import ITEMS, watch
from recordzoo.loader.render import Pixels, StoredShape, only_moves
from recordzoo.loader.table import read_views
from recordzoo.recipes.recipe import PLAIN, UNKNOWN, is_plain_jpeg, mark_of

# Any, in all of this module: datasets, samples, targets and transforms have the user's types.

_SMALL_BYTES, _SMALL_PIXELS = 3 << 10, 64 * 64  # with larger images, two threads are as fast as two processes
_LARGE_BYTES = 256_000_000
_LOOKED_AT, _FILES_LOOKED_AT = 1000, 16

_WITH_LOADER = (
    datasets.CLEVRClassification,
    datasets.DatasetFolder,  # includes ImageFolder, ImageNet, EuroSAT, Country211
    datasets.DTD,
    datasets.FGVCAircraft,
    datasets.Flickr30k,
    datasets.Flickr8k,
    datasets.Flowers102,
    datasets.Food101,
    datasets.INaturalist,
    datasets.Imagenette,
    datasets.LFWPeople,
    datasets.Omniglot,
    datasets.Places365,
    datasets.RenderedSST2,
    datasets.StanfordCars,
    datasets.SUN397,
)
"""Classes whose ``__getitem__`` calls ``self.loader`` with the path, then the transforms, and does nothing else."""

_OPENING: dict[type, Callable[[Any, int], tuple[Any, Any]]] = {
    datasets.GTSRB: lambda dataset, index: dataset._samples[index],
    datasets.OxfordIIITPet: lambda dataset, index: (dataset._images[index], _pet(dataset, index)),
}
"""Classes that do the same with ``PIL.Image.open(path).convert("RGB")``, with their functions for path and target."""


_WITH_TRANSFORMS = (datasets.Places365, datasets.OxfordIIITPet)
"""Those of both that call ``self.transforms``, and not ``self.transform`` and ``self.target_transform``."""


class Leaf(ABC):
    """A dataset whose images a loader decodes: its images and targets, before all transforms, and the transforms.

    Args:
        dataset: The dataset.
        transforms: What has its `transform` and `target_transform`, if it has them.

    Attributes:
        views: The plans of its transform.
        target_transform: As the dataset's; None if the loader renumbers its classes.
        is_raw: Whether images are stored as pixels.
        shape: The shape of all images, if their pixels are stored; then `stack` returns them.
    """

    is_raw = False
    shape: StoredShape | None = None
    target_transform: Callable[[Any], Any] | None

    def __init__(self, dataset: Any, transforms: Any) -> None:
        size = None if self.shape is None else (self.shape.height, self.shape.width)
        self.dataset, self.views = dataset, read_views(getattr(transforms, "transform", None), size)
        found = getattr(transforms, "target_transform", None)
        self._new_numbers = found if isinstance(found, NewNumbers) else None
        self.target_transform = None if self._new_numbers else found

    @abstractmethod
    def frame(self, index: int) -> Frame:
        """Open an image."""

    @abstractmethod
    def stored_target(self, index: int) -> Any:
        """Return a target, as the dataset returns it."""

    def stored_targets(self, indices: Indices) -> Any:
        """Return targets: an array [n, ...] for stored numbers, otherwise a list; a tuple for several targets."""
        return list(map(self.stored_target, indices.tolist()))

    def stack(self, indices: Indices) -> Pixels:
        """Return the stored pixels of images."""
        raise NotImplementedError

    @abstractmethod
    def name(self, index: int) -> str:
        """Return a sample's name for messages."""

    @property
    def is_gray(self) -> bool:
        """Whether images have one channel."""
        return self.shape is not None and self.shape.channels == 1

    @property
    def is_small(self) -> bool:
        """Whether Python's work for each image, under the GIL, takes longer than decoding and changing it."""
        if self.shape is not None:
            return self.shape.height * self.shape.width <= _SMALL_PIXELS and not self.only_moves
        sizes = self._sizes()
        return bool(len(sizes)) and sum(sizes) < _SMALL_BYTES * len(sizes)

    def _sizes(self) -> Sequence[int]:
        """Return the size in bytes of some images; none if that is not known."""
        return ()

    @property
    def only_moves(self) -> bool:
        """Whether the images are small, and are only cropped and flipped."""
        shape = self.shape
        return shape is not None and all(only_moves(plan, shape) for plan in self.views.plans)

    @property
    def written(self) -> list[Any]:
        """The transforms as written; compared by identity to see whether one was replaced."""
        return [
            *(getattr(self.dataset, name, None) for name in ("transform", "target_transform", "transforms")),
            *(vars(self.dataset).get(name) for name in ("data", "targets", "labels")),
        ]

    def check(self, index: int) -> None:
        """Read and decode the image of a sample; raise if that fails."""
        with self.naming(index):
            self.frame(index).pixels()

    def target(self, index: int) -> Any:
        """Return the target of a sample, before its transform."""
        found = self.stored_target(index)
        return self._new_numbers(found) if self._new_numbers else found

    def targets(self, indices: Indices) -> Any:
        """Return the targets of samples, before their transform: like `stored_targets`."""
        found = self.stored_targets(indices)
        return self._new_numbers.of(found) if self._new_numbers else found

    def transformed(self, index: int, target: Any) -> Any:
        """Return a target after the `target_transform`, if there is one."""
        if self.target_transform is None:
            return target
        with self.noting(index):
            return self.target_transform(target)

    @contextmanager
    def naming(self, index: int) -> Iterator[None]:
        """Name the sample in errors of reading and decoding it; their types stay.

        Raises:
            ImageError: Replaces the error, if a record's image cannot be decoded.
        """
        try:
            yield
        except Exception as err:
            self._name_in(err, index)
            raise

    @contextmanager
    def noting(self, index: int) -> Iterator[None]:
        """Add the sample's name to errors of the user's own functions."""
        try:
            yield
        except Exception as err:
            err.add_note(f"while transforming {self.name(index)}")
            raise

    def _name_in(self, err: Exception, index: int) -> None:
        name = self.name(index)
        if isinstance(err, UnidentifiedImageError) and not isinstance(err, RecordError):
            err.args = (f"cannot identify image file {name}",)  # Pillow's message names an object in memory
        elif type(err) in (OSError, Image.DecompressionBombError) and len(err.args) == 1:
            err.args = (f"{err}: {name}",)
        elif name not in str(err):  # errors of `open` name the file
            err.add_note(f"while reading {name}")


class Records(Leaf):
    """Images of a record set.

    Args:
        selection: The records and their labels.
        is_gray: As of `BatchSource`.
    """

    def __init__(self, dataset: Any, selection: Selection, transforms: Any, *, is_gray: bool = False) -> None:
        self.reader, self._selection = selection.reader, selection
        self._marks = self.reader.marks("image")
        spec = self.reader.manifest.blobs["image"]
        self.is_raw = spec.encoding == "raw"
        shape = shape_of(spec.shape) if self.is_raw and spec.shape is not None else None
        self.shape = None if shape is not None and (shape.channels == 1) != is_gray else shape
        super().__init__(dataset, transforms)

    @override
    def _sizes(self) -> Sequence[int]:
        sizes: list[int] = self.reader.lengths("image")[:_LOOKED_AT].tolist()
        return sizes

    @override
    def frame(self, index: int) -> Frame:
        position = self._selection.position(index)
        if self.is_raw:
            return open_raw(self.reader.decoded("image", position))
        data = self.reader.read("image", position)
        if self._marks[position] == UNKNOWN:  # record sets of earlier versions
            self._marks[position] = mark_of(data)
        frame = open_encoded(data, is_plain=self._marks[position] == PLAIN)
        if (orientation := orientation_of(self.reader, position)) == 1:
            return frame
        return ArrayFrame(np.asarray(turned(Image.fromarray(frame.pixels()), orientation)), frame.info)

    @override
    def stored_target(self, index: int) -> Any:
        return self._selection.target(index)

    @override
    def stored_targets(self, indices: Indices) -> Any:
        return self._selection.batch_targets(indices)

    @override
    def stack(self, indices: Indices) -> Pixels:
        assert self.shape is not None
        channels, width = self.shape.channels, self.shape.width
        images, rows = self.reader.stacked("image", self._selection.positions(indices))
        data = images.reshape(-1)
        data.flags.writeable = False
        return Pixels(data, rows * math.prod(self.shape), (width * channels, channels, 1))

    @override
    def name(self, index: int) -> str:
        return f"{self._short(index)} in {self.reader.path}"

    @override
    def _name_in(self, err: Exception, index: int) -> None:
        if not isinstance(err, RecordError):  # a RecordError names the record
            name_in(err, self.reader.path, self._short(index))

    def _short(self, index: int) -> str:
        return f"sample {index} ({RecordName(self.reader, self._selection.position(index))})"


class Arrays(Leaf):
    """Images that a class of torchvision's holds in one array, as they were when the epoch began.

    Args:
        dataset: A dataset of a class in `_ARRAYS`.
        pixels: Its images, uint8 [n, h, w], [n, h, w, 3] or [n, 3, h, w].
        labels: Its labels.
    """

    is_raw = True

    def __init__(
        self, dataset: Any, pixels: NDArray[np.uint8], labels: Any, *, is_first: bool, makes_ints: bool
    ) -> None:
        self._pixels, self._labels, self._makes_ints = pixels, labels, makes_ints
        self._is_first, self._kind = is_first, type(dataset).__name__
        self.shape = shape_of((*pixels.shape[2:], pixels.shape[1]) if is_first else pixels.shape[1:])
        super().__init__(dataset, dataset)

    @override
    def frame(self, index: int) -> Frame:
        image = self._pixels[index]
        if image.ndim == 2:
            return ArrayFrame(image[..., None].repeat(3, 2))
        return ArrayFrame(np.ascontiguousarray(image.transpose(1, 2, 0)) if self._is_first else image)

    @override
    def stored_target(self, index: int) -> Any:
        return int(self._labels[index]) if self._makes_ints else self._labels[index]

    @override
    def stack(self, indices: Indices) -> Pixels:
        array = self._pixels
        span = sum((length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)) + 1
        data = np.lib.stride_tricks.as_strided(array, (span,), (1,), writeable=False)
        first, *strides = array.strides
        rows, columns, channels = (*strides[1:], strides[0]) if self._is_first else (*strides, 1)[:3]
        return Pixels(data, indices * first, (rows, columns, channels))

    @override
    def name(self, index: int) -> str:
        return f"sample {index} of {self._kind}"


_ARRAYS: dict[type, tuple[str, tuple[int, ...], bool]] = {
    datasets.CIFAR10: ("targets", (3, 4), False),
    datasets.MNIST: ("targets", (3,), True),
    datasets.SEMEION: ("labels", (3,), True),
    datasets.STL10: ("labels", (4,), True),
    datasets.SVHN: ("labels", (4,), True),
    datasets.USPS: ("targets", (3,), True),
}
"""Classes whose ``__getitem__`` takes an item of ``data`` and a label, and then calls the transforms: the attribute of
the labels, the dimensions that ``data`` may have, and whether each label is made an int."""


for _kind in (*_WITH_LOADER, *_OPENING, *_ARRAYS):
    watch(_kind, ITEMS)


def read_kept_array(dataset: Any) -> Arrays | None:
    """Return the images of a dataset that holds them in one array; None for any other."""
    kind: Any = type(dataset)
    known: Any = next((base for base in kind.__mro__ if base in _ARRAYS), None)
    if known is None or kind.__getitem__ is not known.__getitem__ or hasattr(kind, "__getitems__"):
        return None
    name, dimensions, makes_ints = _ARRAYS[known]
    pixels, labels = (vars(dataset).get(each) for each in ("data", name))
    if getattr(dataset, "data", None) is not pixels or getattr(dataset, name, None) is not labels:
        return None  # its class computes them
    pixels = pixels.numpy() if type(pixels) is torch.Tensor else pixels
    if type(pixels) is not np.ndarray or pixels.dtype != np.uint8 or min(pixels.strides) < 0:
        return None
    if labels is None or len(pixels) != len(labels) or pixels.ndim not in dimensions:
        return None
    found = Arrays(dataset, pixels, labels, is_first=dimensions == (4,), makes_ints=makes_ints)
    return None if found.shape is None else found


def shape_of(shape: Sequence[int]) -> StoredShape | None:
    """Return the shape of stored pixels, [h, w] or [h, w, 3]; None for any other."""
    if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)) or 0 in shape:
        return None
    return StoredShape(3 if len(shape) == 3 else 1, shape[0], shape[1])


class Files(Leaf):
    """Images in files of their own.

    Args:
        look: Returns a sample's path and target.
    """

    def __init__(self, dataset: Any, look: Callable[[int], tuple[Any, Any]], transforms: Any) -> None:
        super().__init__(dataset, transforms)
        self._look, self._known = look, _known_of(dataset)

    @override
    def _sizes(self) -> Sequence[int]:
        count = len(self.dataset)
        try:
            return [os.stat(self._look(index)[0]).st_size for index in range(0, count, count // _FILES_LOOKED_AT + 1)]
        except Exception:  # noqa: BLE001 - reading that sample raises it, and may be allowed to
            return ()

    @override
    def frame(self, index: int) -> Frame:
        with open(self._look(index)[0], "rb", buffering=0) as file:
            state = os.fstat(file.fileno())
            is_usual = stat.S_ISREG(state.st_mode) and state.st_size <= _LARGE_BYTES
            if not is_usual:  # it may have no end: Pillow decides after its first bytes, as in torchvision's loader
                with io.BufferedReader(file) as buffered, Image.open(buffered) as image:
                    return frame_of_picture(image.convert("RGB"))
            data = file.readall()
        # A file may be replaced, and the dataset's list changed, while the loader lives.
        version = hash((state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)) & ~1
        known = int(self._known[index])
        if known & ~1 != version:
            self._known[index] = known = version | is_plain_jpeg(data)
        return open_encoded(data, is_plain=bool(known & 1))

    @override
    def stored_target(self, index: int) -> Any:
        return self._look(index)[1]

    @override
    def name(self, index: int) -> str:
        return repr(os.fspath(self._look(index)[0]))


def makes_samples(dataset: object) -> str:
    """Say that a loader must ask a dataset for its samples."""
    return f"{type(dataset).__name__} makes its samples itself"


def read_plain(dataset: Any) -> Files | str:
    """Return a dataset of files; or the reason why a loader cannot read them."""
    kind: Any = type(dataset)
    known: Any = next((base for base in kind.__mro__ if base in _WITH_LOADER or base in _OPENING), None)
    if known is None or kind.__getitem__ is not known.__getitem__ or hasattr(kind, "__getitems__"):
        return makes_samples(dataset)
    transforms = dataset
    if known in _WITH_TRANSFORMS:
        transforms = StandardTransform() if dataset.transforms is None else dataset.transforms
        if type(transforms) is not StandardTransform:
            return "its transforms take image and target together"
    look = _look(dataset, known)
    return look if isinstance(look, str) else Files(dataset, look, transforms)


def _look(dataset: Any, known: type) -> Callable[[int], tuple[Any, Any]] | str:
    if known in _OPENING:
        if known is datasets.OxfordIIITPet and "segmentation" in dataset._target_types:
            return "its targets are images"
        return lambda index: _OPENING[known](dataset, index)
    if get_image_backend() != "PIL":
        return "torchvision's image backend is not PIL"
    loader = "_loader" if known is datasets.LFWPeople else "loader"
    if vars(dataset).get(loader) is not default_loader:
        return "its loader is not torchvision's default_loader"
    # The class's own code gives path and target of an index: with a loader that returns its path.
    paths = object.__new__(type(dataset))
    given = {loader: lambda path: path, "transform": None, "target_transform": None, "transforms": None}
    vars(paths).update(vars(dataset) | given)
    if computed := [name for name, value in given.items() if getattr(paths, name) is not value]:
        return f"its class computes {computed[0]}"
    look: Callable[[int], tuple[Any, Any]] = paths.__getitem__
    return look


def _pet(dataset: Any, index: int) -> Any:
    labels = {"category": dataset._labels, "binary-category": dataset._bin_labels}
    targets = [labels[kind][index] for kind in dataset._target_types]
    return targets[0] if len(targets) == 1 else tuple(targets) or None


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


@runtime_checkable
class HasImageBytes(Protocol):
    """A dataset that returns encoded images: `RecordLoader` decodes and transforms them like those of record sets.

    A class with these methods need not be a subclass, unless it also has a ``__getitem__``: the loader would ask that
    one for samples.

    Its attributes `transform` and `target_transform`, if it has them, are applied by the loader.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @abstractmethod
    def image_bytes(self, index: int) -> bytes:
        """Return an encoded image (JPEG, PNG, ...)."""

    @abstractmethod
    def target(self, index: int) -> Any:
        """Return a sample's target, before `target_transform`."""


def has_image_bytes(dataset: Any) -> str | None:
    """Whether a dataset is surely meant as `HasImageBytes`: "" if it is, None if not, or the reason for doubt."""
    kind = type(dataset)
    if HasImageBytes in kind.__mro__:
        return ""
    if not all(callable(getattr(each, name, None)) for name in ("image_bytes", "target") for each in (kind, dataset)):
        return None
    if getattr(kind, "__getitem__", Dataset.__getitem__) is Dataset.__getitem__ and not hasattr(kind, "__getitems__"):
        return ""
    return f"{kind.__name__} has a __getitem__ of its own, and is no subclass of HasImageBytes"


class Own(Leaf):
    """Images that a dataset returns as bytes."""

    def __init__(self, dataset: HasImageBytes) -> None:
        super().__init__(dataset, dataset)

    @override
    def frame(self, index: int) -> Frame:
        data = self.dataset.image_bytes(index)
        if not isinstance(data, bytes):
            raise TypeError(f"image_bytes({index}) returned no bytes, but {type(data).__name__}")
        return open_encoded(data)

    @override
    def stored_target(self, index: int) -> Any:
        return self.dataset.target(index)

    @override
    def name(self, index: int) -> str:
        return f"sample {index} of {type(self.dataset).__name__}"
