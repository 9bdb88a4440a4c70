"""Where images and targets are: in a record set, in files, in a user's dataset with `HasImageBytes`.

Files are those of torchvision's datasets that list paths and labels.
"""

import collections
import io
import operator
import os
import stat
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch.utils.data import Dataset
from torchvision import datasets, get_image_backend
from torchvision.datasets.folder import default_loader
from torchvision.datasets.vision import StandardTransform
from typing_extensions import override

from recordzoo.base.text import JSON
from recordzoo.errors import RecordError
from recordzoo.families.selection import Selection
from recordzoo.images.decode import ArrayFrame, Frame, RecordName, name_in, open_encoded, open_raw
from recordzoo.loader.originals import items_of
from recordzoo.loader.samplers import CHUNK, Epoch, RecordSampler
from recordzoo.recipes.recipe import PLAIN, UNKNOWN, is_plain_jpeg, mark_of

# Any, in all of this module: keys are of any kind.

NONE = np.empty(0, np.int64)

Indices = NDArray[np.int64]

Keys = Indices | list[Any]  # Any: a key for `dataset[key]`


@dataclass(frozen=True)
class Wanted:
    """A batch to make.

    Attributes:
        keys: The sampler's keys: int64 [n] if all are integers, otherwise a list.
        places: Their places in the epoch, counted over all ranks; int64 [n].
        mark: Function to call when the user has received the batch.
        upcoming: Indices of the samples to prefetch now, int64 [n].
        finished: Indices of the samples to drop from the page cache after this batch, int64 [n].
    """

    keys: Keys
    places: NDArray[np.int64]
    mark: Callable[[], None]
    upcoming: NDArray[np.int64]
    finished: NDArray[np.int64]


@dataclass(frozen=True)
class EpochBatches:
    """The batches of an epoch.

    Attributes:
        seed, epoch: Random numbers are a function of these and of a sample's place. The epoch is 0 if it drew its seed.
        batches: The batches to make, in order.
    """

    seed: int
    epoch: int
    batches: Iterator[Wanted]


class Orders(Protocol):
    """The orders of all epochs, and the user's position in the current one."""

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch."""

    def begin(self) -> EpochBatches:
        """Begin the next epoch, or continue one that was loaded."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the next epoch."""

    def state_dict(self) -> dict[str, JSON]:
        """Return the user's position."""

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Resume from a `state_dict`."""


class SampledOrders:
    """`Orders` of a `RecordSampler`: the state is a few numbers, and a resume skips without iterating."""

    def __init__(self, sampler: RecordSampler, batch_size: int, drop_last: bool, *, drop_cache: bool = False) -> None:
        self._sampler, self._batch_size, self._drop_last = sampler, batch_size, drop_last
        self._drop_cache = drop_cache
        self.set_epoch = sampler.set_epoch
        self.state_dict = sampler.state_dict
        self.load_state_dict = sampler.load_state_dict

    def __len__(self) -> int:
        return num_batches(len(self._sampler), self._batch_size, self._drop_last)

    def begin(self) -> EpochBatches:
        """Begin the sampler's next epoch."""
        epoch = self._sampler.begin()
        return EpochBatches(*epoch.seed.key(epoch.number), self._batches(epoch))

    def _batches(self, epoch: Epoch) -> Iterator[Wanted]:
        size = self._batch_size
        step = size * max(1, CHUNK // size)  # compute the order of many samples at once
        for start in range(epoch.first, epoch.end, step):
            end = min(start + step, epoch.end)
            indices, places = epoch.indices(start, end), epoch.places(start, end)
            blocks, read = self._blocks(epoch, start, end)
            for first in range(0, end - start, size):
                part = slice(first, first + size)
                last = start + first + len(indices[part])
                if len(indices[part]) == size or not self._drop_last:
                    upcoming = indices[part] if blocks is None else NONE if first else blocks
                    finished = read if last == end else NONE
                    yield Wanted(indices[part], places[part], self._mark(epoch, last), upcoming, finished)

    def _blocks(self, epoch: Epoch, start: int, end: int) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Return the samples of the blocks that are first and last read in this range; (None, empty) without blocks."""
        if self._sampler.shuffle != "block":
            return None, NONE
        return epoch.opened(start, end), epoch.closed(start, end) if self._drop_cache else NONE

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._sampler.is_within_epoch:  # a copy or pickle continues the epoch
            self.load_state_dict(self.state_dict())

    def _mark(self, epoch: Epoch, end: int) -> Callable[[], None]:
        if self._drop_last and epoch.end - end < self._batch_size:
            end = epoch.end  # skipped samples count as taken: the epoch is over
        return lambda: self._sampler.mark(epoch, end)


class Drawing:
    """Draws batches from an order, some ahead of those in progress, so that their samples can be prefetched.

    Args:
        ahead: Number of batches to draw ahead.
        announce: Called with each batch when it is drawn.

    Attributes:
        failure: The order's exception, raised for the user after the last batch.
    """

    def __init__(self, batches: Iterator[Wanted], ahead: int, announce: Callable[[Wanted], object]) -> None:
        self._batches, self._ahead, self._announce = batches, ahead, announce
        self._drawn: collections.deque[Wanted] = collections.deque()
        self.failure: Exception | None = None

    def next(self) -> Wanted | None:
        """Return the next batch, or None at the end."""
        while len(self._drawn) <= self._ahead and (wanted := self._draw()) is not None:
            self._announce(wanted)
            self._drawn.append(wanted)
        return self._drawn.popleft() if self._drawn else None

    def stop(self) -> None:
        """Draw no more batches."""
        self._drawn.clear()
        self._batches, self.failure = iter(()), None

    def _draw(self) -> Wanted | None:
        try:
            return next(self._batches, None)
        except Exception as err:  # noqa: BLE001 - whatever a sampler raises
            self._batches, self.failure = iter(()), err
            return None


def num_batches(num_samples: int, batch_size: int, drop_last: bool) -> int:
    """Return the number of batches for a number of samples."""
    return num_samples // batch_size if drop_last else -(-num_samples // batch_size)


def read_keys(keys: Iterable[Any]) -> Keys:
    """Return keys as int64 [n] if all are integers, otherwise as a list; floats and texts are not converted."""
    given = keys if isinstance(keys, np.ndarray | list) else _listed(keys)
    try:
        found = np.asarray(given)
    except ValueError:  # sequences of several lengths
        return list(given)
    if not found.size and found.ndim == 1:
        return np.empty(0, np.int64)
    if found.ndim == 1 and found.dtype.kind == "i":
        return found.astype(np.int64, copy=False)
    numbers = [number_of(key) for key in given]
    return list(given) if None in numbers else np.array(numbers, np.int64)


def indices_of(keys: Iterable[Any], kind: str) -> Indices:
    """Return keys that must be integers."""
    found = read_keys(keys)
    if isinstance(found, list):
        wrong = next(key for key in found if number_of(key) is None)
        raise TypeError(f"{wrong!r} is no index of {kind}: its samples have the numbers 0, 1, 2, ...")
    return found


def number_of(key: Any) -> int | None:
    """Return a key as a 64-bit integer, or None if it is not one."""
    try:
        number = operator.index(key)
    except TypeError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _listed(keys: Iterable[Any]) -> list[Any]:
    listed = getattr(keys, "tolist", None)  # numbers instead of 0-d tensors
    return listed() if listed is not None else list(keys)


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

for _kind in (*_WITH_LOADER, *_OPENING):
    items_of(_kind)  # keeps the functions that are there now

_WITH_TRANSFORMS = (datasets.Places365, datasets.OxfordIIITPet)
"""Those of both that call ``self.transforms``, and not ``self.transform`` and ``self.target_transform``."""

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
        return f"{kind.__name__} makes its samples itself"
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
