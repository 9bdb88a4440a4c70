"""Where the images and targets of a dataset are: in record sets, in files, in a user's `HasImageBytes`.

A leaf is a dataset with its store of images and targets and the plan of its transforms. The leaves are found through
any `Subset` and `ConcatDataset` around them.
"""

import copy
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
from torch.utils.data import ConcatDataset, Dataset, Subset
from torchvision import datasets, get_image_backend
from torchvision.datasets.folder import default_loader
from torchvision.datasets.vision import StandardTransform
from typing_extensions import override

from recordzoo.errors import RecordError, SampleIndexError
from recordzoo.families.base import BatchSource, ZooDataset
from recordzoo.families.selection import Selection
from recordzoo.images.decode import ArrayFrame, Frame, RecordName, deferring, name_in, open_encoded, open_raw
from recordzoo.loader.epochs import Indices, indices_of
from recordzoo.loader.joint import JointPlan, as_plain, is_wrapped, read_joint
from recordzoo.loader.parts import Mix, NewNumbers, by_part
from recordzoo.loader.plan import Views, items_of, pictures
from recordzoo.loader.small import Pixels, Shape, only_moves, sized
from recordzoo.loader.table import read_views
from recordzoo.recipes.recipe import PLAIN, UNKNOWN, is_plain_jpeg, mark_of

# Any, in all of this module: datasets, samples, targets and transforms have the user's types.

NOT_RGB = "its images are not RGB"

_SMALL_BYTES = 2048
_BLOCK_BYTES = 1 << 16
_LARGE_BYTES = 256_000_000
_LOOKED_AT = 1000

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


class SampleStore(ABC):
    """The images and targets of a dataset, before all transforms.

    Attributes:
        is_raw: Whether images are stored as pixels.
        is_small: Whether images are so small that Python's work under the GIL takes most of the time.
        title: The dataset's name in a list of datasets.
        shape: The shape of all images, if their pixels are stored; then `stack` returns them.
    """

    is_raw = False
    is_small = False
    title = ""
    shape: Shape | None = None

    @abstractmethod
    def frame(self, index: int) -> Frame:
        """Open an image."""

    @abstractmethod
    def target(self, index: int) -> Any:
        """Return a target, as the dataset returns it."""

    def targets(self, indices: Indices) -> Any:
        """Return targets: an array [n, ...] for stored numbers, otherwise a list; a tuple for several targets."""
        return list(map(self.target, indices.tolist()))

    def stack(self, indices: Indices) -> Pixels:
        """Return the stored pixels of images."""
        raise NotImplementedError

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
        is_gray: As of `BatchSource`.
    """

    def __init__(self, selection: Selection, *, is_gray: bool = False) -> None:
        self.reader, self._selection = selection.reader, selection
        self._marks = self.reader.marks("image")
        spec = self.reader.manifest.blobs["image"]
        self.is_raw = spec.encoding == "raw"
        shape = shape_of(spec.shape) if self.is_raw and spec.shape is not None else None
        self.shape = None if shape is not None and (shape.channels == 1) != is_gray else shape
        self.title = f"at {self.reader.path}"

    @property
    @override
    def is_small(self) -> bool:  # type: ignore[override]  # read, never set
        lengths = self.reader.lengths("image")[:_LOOKED_AT]
        return bool(not len(lengths) or lengths.mean() < _SMALL_BYTES)

    @override
    def frame(self, index: int) -> Frame:
        position = self._selection.position(index)
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
    def stack(self, indices: Indices) -> Pixels:
        assert self.shape is not None
        channels, width, size = self.shape.channels, self.shape.width, math.prod(self.shape)
        data = bytearray()
        for position in self._selection.positions(indices).tolist():
            value = self.reader.read("image", position)
            data += value if len(value) == size else self.reader.decoded("image", position)  # which raises
        starts = np.arange(len(indices), dtype=np.int64) * size
        return Pixels(np.frombuffer(data, np.uint8), starts, (width * channels, channels, 1))

    @override
    def name(self, index: int) -> str:
        return f"{self._short(index)} in {self.reader.path}"

    @override
    def name_in(self, err: Exception, index: int) -> None:
        if not isinstance(err, RecordError):  # a RecordError names the record
            name_in(err, self.reader.path, self._short(index))

    def _short(self, index: int) -> str:
        return f"sample {index} ({RecordName(self.reader, self._selection.position(index))})"


class Arrays(SampleStore):
    """Images that a class of torchvision's holds in one array, as they were when the epoch began.

    Args:
        dataset: A dataset of a class in `_ARRAYS`.
        pixels: Its images, uint8 [n, h, w], [n, h, w, 3] or [n, 3, h, w], contiguous.
        labels: Its labels.
    """

    is_raw = True

    def __init__(
        self, dataset: Any, pixels: NDArray[np.uint8], labels: Any, *, is_first: bool, makes_ints: bool
    ) -> None:
        self._pixels, self._labels, self._makes_ints = pixels, labels, makes_ints
        self._is_first, self.title = is_first, f"in {dataset.root}"
        self._kind = type(dataset).__name__
        self.shape = shape_of((*pixels.shape[2:], pixels.shape[1]) if is_first else pixels.shape[1:])

    @override
    def frame(self, index: int) -> Frame:
        image = self._pixels[index]
        if image.ndim == 2:
            return ArrayFrame(image[..., None].repeat(3, 2))
        return ArrayFrame(np.ascontiguousarray(image.transpose(1, 2, 0)) if self._is_first else image)

    @override
    def target(self, index: int) -> Any:
        return int(self._labels[index]) if self._makes_ints else self._labels[index]

    @override
    def stack(self, indices: Indices) -> Pixels:
        strides = self._pixels.strides
        rows, columns, channels = (*strides[2:], strides[1]) if self._is_first else (*strides[1:], 1)[:3]
        return Pixels(self._pixels.reshape(-1), indices * strides[0], (rows, columns, channels))

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
    items_of(_kind)  # keeps the functions that are there now


def read_array(dataset: Any) -> Arrays | None:
    """Return the images of a dataset that holds them in one array; None for any other."""
    kind: Any = type(dataset)
    known: Any = next((base for base in kind.__mro__ if base in _ARRAYS), None)
    if known is None or kind.__getitem__ is not known.__getitem__ or hasattr(kind, "__getitems__"):
        return None
    name, dimensions, makes_ints = _ARRAYS[known]
    pixels, labels = vars(dataset).get("data"), vars(dataset).get(name)
    pixels = pixels.numpy() if type(pixels) is torch.Tensor else pixels
    if type(pixels) is not np.ndarray or pixels.dtype != np.uint8 or not pixels.flags.c_contiguous:
        return None
    if labels is None or len(pixels) != len(labels) or pixels.ndim not in dimensions:
        return None
    found = Arrays(dataset, pixels, labels, is_first=dimensions == (4,), makes_ints=makes_ints)
    return None if found.shape is None else found


def shape_of(shape: Sequence[int]) -> Shape | None:
    """Return the shape of stored pixels, [h, w] or [h, w, 3]; None for any other."""
    if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)) or 0 in shape:
        return None
    return Shape(3 if len(shape) == 3 else 1, shape[0], shape[1])


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
        with open(self._look(index)[0], "rb", buffering=0) as file:
            state = os.fstat(file.fileno())
            data = _content(file, state)
            if data is None:  # Pillow decides after its first bytes, as in torchvision's loader
                with io.BufferedReader(file) as buffered, Image.open(buffered) as image:
                    return ArrayFrame(np.asarray(image.convert("RGB")))
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


def _content(file: io.FileIO, state: os.stat_result) -> bytes | None:
    """Read a regular file of at most `_LARGE_BYTES`; None, and nothing read, for any other: it may have no end."""
    blocks: list[bytes] = []
    size = state.st_size if stat.S_ISREG(state.st_mode) else _LARGE_BYTES + 1
    while size <= _LARGE_BYTES:
        block = file.read(max(size + 1 - sum(map(len, blocks)), _BLOCK_BYTES))  # one more, for the end
        if not block:
            return b"".join(blocks)
        blocks.append(block)
        size = max(size, sum(map(len, blocks)))
    if blocks:
        file.seek(0)
    return None


def read_plain(dataset: Any) -> tuple[Files, Any, Any] | str:
    """Return a dataset's files, transform and target_transform; or the reason why a loader cannot read the files."""
    kind: Any = type(dataset)
    known: Any = next((base for base in kind.__mro__ if base in _WITH_LOADER or base in _OPENING), None)
    if known is None or kind.__getitem__ is not known.__getitem__ or hasattr(kind, "__getitems__"):
        return _makes_samples(dataset)
    transforms = dataset
    if known in _WITH_TRANSFORMS:
        transforms = StandardTransform() if dataset.transforms is None else dataset.transforms
        if type(transforms) is not StandardTransform:
            return "its transforms take image and target together"
    look = _look(dataset, known)
    return look if isinstance(look, str) else (Files(dataset, look), transforms.transform, transforms.target_transform)


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
    vars(paths).update(vars(dataset) | {loader: _same, "transform": None, "target_transform": None, "transforms": None})
    look: Callable[[int], tuple[Any, Any]] = paths.__getitem__
    return look


def _same(path: Any) -> Any:
    return path


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

    def __len__(self) -> int:
        """Return the number of samples."""

    def image_bytes(self, index: int) -> bytes:
        """Return an encoded image (JPEG, PNG, ...)."""

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


class Leaf(ABC):
    """A dataset whose images a loader decodes."""

    target_transform: Callable[[Any], Any] | None = None

    def __init__(self, dataset: Any, store: SampleStore, views: Views) -> None:
        self.dataset, self.store, self.views = dataset, store, views

    @property
    @abstractmethod
    def is_fused(self) -> bool:
        """Whether no transform runs as written."""

    @abstractmethod
    def check(self, index: int) -> None:
        """Read and decode the image of a sample; raise if that fails."""

    @property
    def is_small(self) -> bool:
        """Whether one thread is faster than several, because images are tiny and Python's lock decides."""
        return False

    @property
    def written(self) -> list[Any]:
        """The transforms as written; compared by identity to see whether one was replaced."""
        return [
            *(getattr(self.dataset, name, None) for name in ("transform", "target_transform", "transforms")),
            *(vars(self.dataset).get(name) for name in ("data", "targets", "labels")),
        ]

    @property
    def _has_rest(self) -> bool:
        return any(plan.rest for plan in self.views.plans)

    # Any: a target.
    def transformed(self, index: int, target: Any) -> Any:
        """Return a target after the `target_transform`, if there is one."""
        if self.target_transform is None:
            return target
        with self.noting(index):
            return self.target_transform(target)

    @contextmanager
    def noting(self, index: int) -> Iterator[None]:
        """Add the sample's name to errors of the user's own functions."""
        try:
            yield
        except Exception as err:
            err.add_note(f"while transforming {self.store.name(index)}")
            raise


class ImageLeaf(Leaf):
    """A dataset whose images and targets the loader reads from their store."""

    def __init__(self, dataset: Any, store: SampleStore, transform: Any, target_transform: Any) -> None:
        super().__init__(dataset, store, sized(read_views(transform), store.shape))
        self._new_numbers = target_transform if isinstance(target_transform, NewNumbers) else None
        self.target_transform = None if self._new_numbers else target_transform
        self.frame = store.frame

    @property
    @override
    def is_fused(self) -> bool:
        return self.target_transform is None and not self._has_rest

    @property
    @override
    def is_small(self) -> bool:
        return self.store.is_small and not self._has_rest

    @property
    def is_gray(self) -> bool:
        """Whether images have one channel."""
        return self.store.shape is not None and self.store.shape.channels == 1

    @property
    def only_moves(self) -> bool:
        """Whether the images are small, and are only cropped and flipped."""
        shape = self.store.shape
        return shape is not None and all(only_moves(plan, shape) for plan in self.views.plans)

    @override
    def check(self, index: int) -> None:
        try:
            self.frame(index).pixels()
        except Exception as err:
            self.store.name_in(err, index)
            raise

    def target(self, index: int) -> Any:
        """Return the target of a sample, before its transform."""
        found = self.store.target(index)
        return self._new_numbers(found) if self._new_numbers else found

    def targets(self, indices: Indices) -> Any:
        """Return the targets of samples, before their transform: like `SampleStore.targets`."""
        found = self.store.targets(indices)
        return self._new_numbers.of(found) if self._new_numbers else found


class JointLeaf(Leaf):
    """A dataset with joint transforms of image and target. The dataset makes its samples, but the loader decodes them.

    Args:
        dataset: The user's dataset, maybe in torchvision's wrapper for v2.
    """

    def __init__(self, dataset: Any, selection: Selection, plan: JointPlan) -> None:
        super().__init__(dataset, Records(selection), Views((plan.image,)))
        self.plan, self.target_transform = plan, plan.target_transform
        self._plain = copy.copy(dataset)
        self._plain.transform = self._plain.target_transform = self._plain.transforms = None

    @property
    @override
    def is_fused(self) -> bool:
        return self.plan.is_fused and not self._has_rest

    @override
    def check(self, index: int) -> None:
        self.as_plain(self.sample(index)[0], index)

    def sample(self, index: int) -> tuple[Any, Any]:
        """Return the image and the target before all transforms; the image is usually a `Deferred` one."""
        try:
            with deferring():
                image, target = self._plain[index]
        except Exception as err:
            self.store.name_in(err, index)
            raise
        return image, target

    def as_plain(self, image: Any, index: int) -> Any:
        """Return the image of a sample as the dataset would have returned it."""
        try:
            return as_plain(image)
        except Exception as err:
            self.store.name_in(err, index)
            raise


class Source:
    """The record sets and files behind a dataset.

    Attributes:
        leaves: The datasets that it consists of; none if there is a problem.
        problem: Why the loader must ask the dataset itself for samples; "" if it need not.
        kind: The dataset's class, for messages.
    """

    def __init__(self, dataset: Any) -> None:
        self.leaves: list[Leaf] = []
        self.problem = ""
        self.kind = type(dataset).__name__
        self._route = self._read(dataset)
        if self.problem:
            self.leaves = []

    @property
    def is_small(self) -> bool:
        """Whether one thread is faster than several, because images are tiny and Python's lock decides."""
        return bool(self.leaves) and all(leaf.is_small for leaf in self.leaves)

    def take_samples(self, problem: str) -> None:
        """Give up the leaves: the loader asks the dataset for samples."""
        self.leaves, self.problem = [], problem

    def locate(self, indices: Indices) -> tuple[NDArray[np.int64], Indices]:
        """Map indices of the dataset to leaf numbers and indices within the leaves."""
        return self._route(indices)

    def _read(self, dataset: Any) -> Callable[[Indices], tuple[NDArray[np.int64], Indices]]:
        if type(dataset) is Subset:
            inner = self._read(dataset.dataset)
            if self.problem:  # its keys may not be numbers
                return inner
            size: int = len(dataset.dataset)  # type: ignore[arg-type]  # it has a length if it is read here
            kind = type(dataset.dataset).__name__
            chosen = indices_of(dataset.indices, kind)
            return lambda indices: inner(
                _checked(chosen[_checked(indices, len(chosen), "Subset")], size, kind, "Subset.indices: ")
            )
        if type(dataset) in (ConcatDataset, Mix):
            return self._read_parts(dataset)
        leaf = leaf_of(dataset)
        if isinstance(leaf, str):
            self.problem = self.problem or leaf
            return lambda indices: (np.zeros_like(indices), indices)
        number, size = len(self.leaves), len(dataset)
        self.leaves.append(leaf)
        kind = type(dataset).__name__
        return lambda indices: (np.full(len(indices), number), _checked(indices, size, kind))

    def _read_parts(self, dataset: ConcatDataset[Any]) -> Callable[[Indices], tuple[NDArray[np.int64], Indices]]:
        parts = [self._read(part) for part in dataset.datasets]
        size = dataset.cumulative_sizes[-1]

        def route(indices: Indices) -> tuple[NDArray[np.int64], Indices]:
            indices = _checked(indices, size, "ConcatDataset")
            numbers, found = np.empty_like(indices), np.empty_like(indices)
            for number, here, within in by_part(dataset, indices):
                numbers[here], found[here] = parts[number](within)
            return numbers, found

        return route


def leaf_of(dataset: Any) -> Leaf | str:
    """Return the leaf of a dataset, or the reason why a loader cannot read it itself."""
    if replaced := pictures.replaced() or items_of(type(dataset)).replaced():
        return replaced
    inner = dataset._dataset if is_wrapped(dataset) else dataset
    if isinstance(inner, ZooDataset):
        found = inner.batch_source()
        problem = found.problem if inner is dataset else _makes_samples(dataset)
        if problem or found.selection is None:
            return joint_leaf(dataset, inner, found) or problem
        return image_leaf(dataset, Records(found.selection, is_gray=found.is_gray))
    if (meant := has_image_bytes(dataset)) == "":
        return image_leaf(dataset, Own(dataset))
    if (array := read_array(dataset)) is not None:
        return image_leaf(dataset, array)
    plain = meant if meant is not None else read_plain(dataset)
    return plain if isinstance(plain, str) else ImageLeaf(dataset, *plain)


def image_leaf(dataset: Any, store: SampleStore) -> ImageLeaf | str:
    """Return the leaf of a dataset and its store; images of one channel must be those of a `MovedWriter`."""
    transforms = (getattr(dataset, name, None) for name in ("transform", "target_transform"))
    leaf = ImageLeaf(dataset, store, *transforms)
    return NOT_RGB if leaf.is_gray and not leaf.only_moves else leaf


def _makes_samples(dataset: object) -> str:
    return f"{type(dataset).__name__} makes its samples itself"


def joint_leaf(dataset: Any, inner: ZooDataset, found: BatchSource) -> JointLeaf | None:
    """Return a leaf for a dataset of this package whose transforms act on image and target; None for any other."""
    if found.selection is None or not found.is_of_pairs:
        return None
    # A user's own __getitem__ may do something after the transforms.
    owner = next(kind for kind in type(inner).__mro__ if "__getitem__" in vars(kind))
    if owner.__module__.partition(".")[0] not in ("recordzoo", "torchvision") or items_of(type(inner)).replaced():
        return None
    plan = None if dataset.transforms is None else read_joint(dataset.transforms)
    return None if plan is None else JointLeaf(dataset, found.selection, plan)


def _checked(indices: Indices, size: int, kind: str, given_by: str = "") -> Indices:
    """Return indices counted from 0; refuse those that a dataset of this kind and size does not have."""
    found = np.where(indices < 0, indices + size, indices)
    if len(wrong := indices[(found < 0) | (found >= size)]):
        raise SampleIndexError(f"{given_by}there is no sample {wrong[0]} in {kind}, which has {size} samples.")
    return found
