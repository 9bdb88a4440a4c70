"""Datasets made of datasets: where their samples are stored, their labels, and `mix`.

All functions look through torch's `Subset` and `ConcatDataset`.
"""

import contextlib
import copy
import math
import warnings
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import ConcatDataset, Subset
from torchvision.datasets.vision import StandardTransform

from recordzoo.base.progress import format_bytes
from recordzoo.errors import ArgumentError
from recordzoo.families.base import ZooDataset
from recordzoo.families.derived import derived
from recordzoo.families.selection import Selection, selection_of
from recordzoo.recipes.recipe import NO_TARGET
from recordzoo.records.manifest import FieldKind
from recordzoo.records.reader import RecordReader

if TYPE_CHECKING:
    from recordzoo.records.remote import RemoteShards  # its imports are slow

# Any, in all of this module: datasets, samples and labels of any type, positions as any sequence.

Int64s = NDArray[np.int64]

FIELD = "image"
"""The blob field that defines a sample's place in the shards; other fields are small."""

_UNKNOWN_BYTES = 64 << 10
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Storage:
    """The storage order of a dataset's samples.

    Attributes:
        order: The indices in storage order, int32 [n] (int64 from 2**31 on); None if that is 0, 1, 2, ...
        mean_bytes: Mean size of a sample; 64 KiB if unknown.
    """

    order: NDArray[np.signedinteger] | None
    mean_bytes: float


@dataclass(frozen=True)
class Located:
    """Where samples are: the record set of each, int64 [n] numbers of `readers`, and its position there, int64 [n]."""

    readers: list[RecordReader]
    numbers: Int64s
    positions: Int64s


def storage_of(dataset: Sized) -> Storage:
    """Return the storage order of a dataset's samples; datasets of other packages count as stored in order.

    Samples stored in order, the usual case, take a few MB of memory in total. Others take 16 bytes each during the
    sort, then 4.
    """
    length = len(dataset)
    keys = _StorageKeys()
    total, last, in_order = 0, np.uint64(0), True
    for indices in _runs(length):
        found = keys.of(dataset, indices)
        if found is None:
            return Storage(None, _UNKNOWN_BYTES)
        places, lengths = found
        total += int(lengths.sum(dtype=np.int64))
        in_order = in_order and bool(places[0] >= last and (places[1:] >= places[:-1]).all())
        last = places[-1]
    if not length:
        return Storage(None, _UNKNOWN_BYTES)
    return Storage(None if in_order else _sorted(dataset, keys), max(1.0, total / length))


def _runs(length: int) -> Iterator[Int64s]:
    return (np.arange(start, min(start + _AT_ONCE, length)) for start in range(0, length, _AT_ONCE))


def _sorted(dataset: Sized, keys: "_StorageKeys") -> NDArray[np.signedinteger]:
    """Return the indices of a dataset in storage order."""
    places = np.empty(len(dataset), np.uint64)
    for indices in _runs(len(dataset)):
        found = keys.of(dataset, indices)
        assert found is not None
        places[indices[0] : indices[-1] + 1] = found[0]
    order = np.argsort(places, kind="stable")
    return order.astype(np.int32 if len(order) < 1 << 31 else np.int64)


class _StorageKeys:
    """One number for the place of a sample on the disk: shards are laid end to end, record set behind record set."""

    def __init__(self) -> None:
        self._readers: list[RecordReader] = []
        self._starts: list[NDArray[np.uint64]] = []  # for each reader: the start of each shard, and the end of the last
        self._rows: list[NDArray[Any]] = []  # Any: structured rows

    def of(self, dataset: Sized, indices: Int64s) -> tuple[NDArray[np.uint64], NDArray[np.uint32]] | None:
        """Return places, uint64 [n], and lengths in bytes; None if the samples are not in record sets."""
        located = locate(dataset, indices)
        if located is None:
            return None
        if len(located.readers) == 1:
            return self._found(located.readers[0], located.positions)
        places, lengths = np.empty(len(indices), np.uint64), np.empty(len(indices), np.uint32)
        for number, reader in enumerate(located.readers):
            here = located.numbers == number
            places[here], lengths[here] = self._found(reader, located.positions[here])
        return places, lengths

    def _found(self, reader: RecordReader, positions: Int64s) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        number = self._added(reader)
        starts, rows = self._starts[number], self._rows[number]
        if len(positions) and (positions[1:] - positions[:-1] == 1).all():  # a third of the time
            rows = rows[positions[0] : positions[-1] + 1]
        else:
            rows = rows[positions]
        # Samples without an image come last; so do those whose shard does not exist, in a damaged set.
        return starts[np.minimum(rows["shard"], len(starts) - 1)] + rows["offset"], rows["length"]

    def _added(self, reader: RecordReader) -> int:
        """Return a reader's number; a new one's shards are laid behind those of the others."""
        number = _number(self._readers, reader)
        if number == len(self._starts):
            first = int(self._starts[-1][-1]) + 1 if self._starts else 0
            sizes = [shard.size_bytes for shard in reader.manifest.shards]
            self._starts.append(np.cumsum([first, *sizes], dtype=np.uint64))
            self._rows.append(reader.array(f"{FIELD}.index"))
        return number


def locate(dataset: Sized, indices: Int64s) -> Located | None:
    """Return the places of samples, as of the opening of the dataset; None if they are not in record sets."""
    readers: list[RecordReader] = []
    numbers, positions = np.empty_like(indices), np.empty_like(indices)
    for leaf, here, within in by_leaf(dataset, indices):
        selection = selection_of(leaf)
        if selection is None or len(selection) != len(leaf) or FIELD not in selection.reader.manifest.blobs:
            return None
        numbers[here], positions[here] = _number(readers, selection.reader), selection.positions(within)
    return Located(readers, numbers, positions)


def leaves_of(dataset: Any) -> Iterator[Any]:
    """Iterate over the datasets within any `Subset` and `ConcatDataset`."""
    if isinstance(dataset, Subset):
        yield from leaves_of(dataset.dataset)
    elif isinstance(dataset, ConcatDataset):
        for part in dataset.datasets:
            yield from leaves_of(part)
    else:
        yield dataset


def by_leaf(dataset: Any, indices: Int64s) -> Iterator[tuple[Any, Int64s | slice, Int64s]]:
    """Iterate over the datasets within any `Subset` and `ConcatDataset` that have some of the samples.

    Yields each dataset, which of `indices` are its samples, and their indices in it.
    """
    if isinstance(dataset, Subset):
        chosen: Any = dataset.indices  # Any: a list, an array, a tensor, a range
        if isinstance(chosen, np.ndarray):
            within = chosen[indices].astype(np.int64, copy=False)
        else:
            within = np.fromiter((int(chosen[index]) for index in indices.tolist()), np.int64, len(indices))
        yield from by_leaf(dataset.dataset, within)
    elif isinstance(dataset, ConcatDataset):
        for part, here, within in by_part(dataset, indices):
            for leaf, some, inner in by_leaf(dataset.datasets[part], within):
                yield leaf, np.flatnonzero(here)[some], inner
    else:
        yield dataset, slice(None), indices


def by_part(dataset: ConcatDataset[Any], indices: Int64s) -> Iterator[tuple[int, NDArray[np.bool_], Int64s]]:
    """Iterate over the parts with some of the samples: the part's number, which samples, and their indices in it."""
    parts = np.searchsorted(dataset.cumulative_sizes, indices, side="right")
    starts = np.array([0, *dataset.cumulative_sizes])
    for part in np.unique(parts).tolist():
        here = parts == part
        yield part, here, indices[here] - starts[part]


def _number(readers: list[RecordReader], reader: RecordReader) -> int:
    """Return a reader's number among the readers; two readers of one record set at one place count as one."""
    for number, known in enumerate(readers):
        if (known.digest, known.path) == (reader.digest, reader.path):
            return number
    readers.append(reader)
    return len(readers) - 1


def remotes(dataset: Sized) -> Iterator[tuple[RecordReader, "RemoteShards"]]:
    """Iterate over a dataset's record sets at URLs."""
    for leaf in leaves_of(dataset):
        selection = selection_of(leaf)
        if selection is not None and selection.reader.remote is not None:
            yield selection.reader, selection.reader.remote


def warn_of_requests(dataset: Sized) -> None:
    """Warn once of each record set at a URL that the cache cannot hold, unless the cache is switched off."""
    for reader, remote in remotes(dataset):
        if remote.limit_bytes and not remote.fits_cache and not remote.is_warned:
            remote.is_warned = True
            total = sum(spec.size_bytes for spec in reader.manifest.shards)
            warnings.warn(
                f"{reader.path} has {format_bytes(total)}, and the cache may take {format_bytes(remote.limit_bytes)}: "
                f"each image is a request of its own. Set RECORDZOO_CACHE_BYTES to at least {-(-total // 10**9)}e9, "
                "or pull the record set to a disk.",
                stacklevel=2,
            )


def hint_remote(dataset: Sized, keys: Any) -> None:
    """Tell of the keys of a batch in a worker process, if a record set is at a URL.

    For those on the disk of this machine, the process of the loop has told the kernel.
    """
    if isinstance(keys, np.ndarray) and any(True for _ in remotes(dataset)):
        with contextlib.suppress(IndexError):  # the batch with that key raises it
            tell(dataset, "hint", keys)


Hint = Literal["hint", "will_need", "forget"]
"""A method of `RecordReader`."""


def tell(dataset: Sized, what: Hint, indices: Int64s) -> None:
    """Tell the kernel which samples are read soon, here or by other processes, or not soon again."""
    located = locate(dataset, indices)
    if located is not None:
        for number, reader in enumerate(located.readers):
            getattr(reader, what)(FIELD, located.positions[located.numbers == number])


class NewNumbers:
    """A `target_transform` that renumbers classes; -1 (no class) stays.

    Args:
        numbers: The new number of each class, int64 [c].
    """

    def __init__(self, numbers: Int64s) -> None:
        self._numbers = np.append(numbers, NO_TARGET)  # index -1 finds the last entry

    def __call__(self, label: int) -> int:
        """Return the new number of a class."""
        return int(self._numbers[label])

    def of(self, labels: ArrayLike) -> Int64s:
        """Return the new numbers of classes, of the same shape."""
        found: Int64s = self._numbers[np.asarray(labels)]
        return found


def labels_of(dataset: Any, indices: Int64s, field: str | None) -> NDArray[Any]:
    """Return the labels of samples before the user's `target_transform`, or the values of a field, [n].

    Args:
        dataset: The dataset.
        indices: The samples' non-negative indices.
        field: An array field of the record set. Default: the dataset's targets.

    Raises:
        ArgumentError: The dataset has no labels or no such field, or several values a sample.
    """
    found = [(here, _labels_of_leaf(leaf, within, field)) for leaf, here, within in by_leaf(dataset, indices)]
    labels = np.concatenate([values for _, values in found]) if found else np.empty(0, np.int64)
    for here, values in found:
        labels[here] = values
    return labels


def _labels_of_leaf(dataset: Any, indices: Int64s, field: str | None) -> NDArray[Any]:
    selection = selection_of(dataset)
    if field is not None:
        return _field(dataset, selection, indices, field)
    found = selection.targets(indices) if selection is not None and _is_as_opened(dataset) else None
    if found is None or found.dtype.kind == "O":
        found = _targets(dataset, indices)
    if found.ndim != 1 or found.dtype.kind not in "iufSU":
        raise ArgumentError(f"{type(dataset).__name__} has no labels: its targets are not one number or text each.")
    new_numbers = getattr(dataset, "target_transform", None)
    if isinstance(new_numbers, NewNumbers):
        return new_numbers.of(found)
    return found.astype(np.int64, copy=False) if found.dtype.kind in "iu" else found


def _field(dataset: Any, selection: Selection | None, indices: Int64s, field: str) -> NDArray[Any]:
    if selection is None:
        raise ArgumentError(f"weights_by={field!r}: {type(dataset).__name__} is not of a record set: it has no fields.")
    reader, positions = selection.reader, selection.positions(indices)
    texts = [name for name, spec in reader.manifest.fields.items() if spec.kind is FieldKind.TEXT]
    numbers = [name for name in reader.columns if name not in texts and reader.array(name).ndim == 1]
    if field in texts:
        return np.array([reader.value(field, each) if reader.has(field, each) else "" for each in positions.tolist()])
    if field not in numbers:
        raise ArgumentError(
            f"weights_by={field!r} is no field of {reader.path} with one value a sample: {', '.join(numbers + texts)}."
        )
    return reader.array(field)[positions]


def _is_as_opened(dataset: Any) -> bool:
    if not isinstance(dataset, ZooDataset):
        return True
    names = (dataset._ITEMS, "targets", "labels")
    return dataset._is_as_opened(*(name for name in names if isinstance(getattr(type(dataset), name, None), derived)))


def _targets(dataset: Any, indices: Int64s) -> NDArray[Any]:
    """Return labels listed by torchvision's datasets, also from lists of (path, label) tuples."""
    samples = getattr(dataset, "samples", None)
    found = [getattr(dataset, name) for name in ("targets", "labels") if hasattr(dataset, name)]
    labels = samples if samples is not None else found[0] if found else ()
    if not hasattr(labels, "__len__") or len(labels) != len(dataset):
        raise ArgumentError(f"{type(dataset).__name__} has no labels: no targets, one for each sample.")
    if isinstance(labels, list | tuple):  # convert no more of a list than is asked for
        labels, indices = [labels[index] for index in indices.tolist()], np.arange(len(indices))
    try:
        return np.asarray(labels if samples is None else [label for _, label in labels])[indices]
    except (TypeError, ValueError):  # sequences of several lengths
        return np.empty((0, 0))


class Mix(ConcatDataset[Any]):
    """Several datasets, and the proportions of their samples in a `RecordSampler` or `RecordLoader`; see `mix`.

    Attributes:
        datasets: The datasets, with the class numbers of the mix. Index i of the mix is sample i of them end to end.
        weights: The share of each, with the sum 1.
        classes, class_to_idx: The class names of all; empty if they have none.
    """

    def __init__(self, datasets: Sequence[Any], weights: Sequence[float]) -> None:
        if not datasets or len(datasets) != len(weights):
            raise ArgumentError(f"mix: {len(datasets)} datasets and {len(weights)} weights; each dataset needs one.")
        given, weights = weights, [_finite(weight) for weight in weights]
        for number, weight in enumerate(weights):
            if weight <= 0:
                raise ArgumentError(f"mix: weights[{number}] is {given[number]}: a weight is a finite number above 0.")
        _lengths(datasets)
        names = [list(getattr(leaf, "classes", ())) for dataset in datasets for leaf in leaves_of(dataset)]
        if any(names) and not all(names):
            raise ArgumentError("mix joins classes by name, and some of the datasets have no class names.")
        are_equal = all(each == names[0] for each in names)
        self.classes: list[Any] = names[0] if are_equal else list(dict.fromkeys(chain.from_iterable(names)))
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        super().__init__(datasets if are_equal else [_renumbered(dataset, self.class_to_idx) for dataset in datasets])
        largest = max(weights)
        shares = [weight / largest for weight in weights]
        self.weights = [share / math.fsum(shares) for share in shares]

    def renew(self) -> None:
        """Ask the datasets for their lengths again."""
        self.cumulative_sizes = np.cumsum(_lengths(self.datasets)).tolist()


def mix(datasets: Sequence[Any], *, weights: Sequence[float]) -> Mix:
    """Combine datasets into one, whose samples `RecordLoader` and `RecordSampler` take in given proportions.

    In any 1,000 consecutive samples of an epoch, each dataset's number of samples is within 2 of its share. Each
    dataset runs through shuffled epochs of its own, as often as its share needs; an epoch of the mix ends when each
    sample of each dataset was taken once. Classes are joined by their names: targets are numbers of `Mix.classes`.

    Args:
        datasets: Datasets, or `Subset` and `ConcatDataset` of them.
        weights: The share of each dataset; any positive sum.

    Returns:
        The mix. Any other sampler takes the datasets one after another, as a `ConcatDataset`.

    Raises:
        ArgumentError: A weight is not above 0, a dataset has no samples, or the classes cannot be joined by name.

    Examples:
        >>> mixed = mix([range(10), range(100, 200)], weights=[1, 3])
        >>> from recordzoo import RecordSampler
        >>> sorted(mixed[index] < 100 for index in list(RecordSampler(mixed))[:8])
        [False, False, False, False, False, False, True, True]
    """
    return Mix(datasets, weights)


def _finite(value: Any) -> float:
    """Return a number, 0 for anything else."""
    try:
        found = float(value)
    except (TypeError, ValueError, RuntimeError):
        return 0.0
    return found if math.isfinite(found) else 0.0


def _lengths(datasets: Sequence[Any]) -> list[int]:
    lengths = [len(dataset) for dataset in datasets]
    if 0 in lengths:
        number = lengths.index(0)
        raise ArgumentError(f"mix: dataset {number} ({type(datasets[number]).__name__}) has no samples.")
    return lengths


def _renumbered(dataset: Any, numbers: dict[Any, int]) -> Any:
    """Return a dataset whose targets are the class numbers of the mix; a copy if the numbers differ."""
    if isinstance(dataset, Subset):
        return Subset(_renumbered(dataset.dataset, numbers), dataset.indices)
    if isinstance(dataset, ConcatDataset):
        return ConcatDataset([_renumbered(part, numbers) for part in dataset.datasets])
    own = np.array([numbers[name] for name in getattr(dataset, "classes", ())], np.int64)
    if len(set(own.tolist())) < len(own):  # as two of ImageNet's, both called "crane"
        raise ArgumentError(f"mix joins classes by name, and two classes of {type(dataset).__name__} have one name.")
    if np.array_equal(own, np.arange(len(own))):
        return dataset
    labels = labels_of(dataset, np.zeros(1, np.int64), None)
    transforms = getattr(dataset, "transforms", None)
    is_standard = transforms is None or isinstance(transforms, StandardTransform)
    if labels.dtype.kind != "i" or not is_standard or getattr(dataset, "target_transform", dataset) is not None:
        raise ArgumentError(
            f"mix: the class numbers of {type(dataset).__name__} change, and it has targets or transforms that would "
            "not know. Mix datasets with the same classes, or without target_transform and transforms."
        )
    dataset = copy.copy(dataset)
    dataset.target_transform = NewNumbers(own)
    if transforms is not None:
        dataset.transforms = StandardTransform(dataset.transform, dataset.target_transform)
    return dataset
