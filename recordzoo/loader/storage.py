"""Locate the stored samples of a dataset, through any `Subset` and `ConcatDataset` of torch around it."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset

from recordzoo.base.progress import format_bytes
from recordzoo.families.selection import selection_of
from recordzoo.records.reader import RecordReader

if TYPE_CHECKING:
    from recordzoo.records.remote import RemoteShards  # its imports are slow

# Any, in all of this module: datasets have samples of any type, readers take any sequence as positions.

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
    numbers: NDArray[np.int64]
    positions: NDArray[np.int64]


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


def _runs(length: int) -> Iterator[NDArray[np.int64]]:
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

    def of(self, dataset: Sized, indices: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]] | None:
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

    def _found(
        self, reader: RecordReader, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        number = self._number(reader)
        starts, rows = self._starts[number], self._rows[number]
        if len(positions) and (positions[1:] - positions[:-1] == 1).all():  # a third of the time
            rows = rows[positions[0] : positions[-1] + 1]
        else:
            rows = rows[positions]
        # Samples without an image come last; so do those whose shard does not exist, in a damaged set.
        return starts[np.minimum(rows["shard"], len(starts) - 1)] + rows["offset"], rows["length"]

    def _number(self, reader: RecordReader) -> int:
        number = _number(self._readers, reader)
        if number == len(self._starts):
            first = int(self._starts[-1][-1]) + 1 if self._starts else 0
            sizes = [shard.size_bytes for shard in reader.manifest.shards]
            self._starts.append(np.cumsum(np.array([first, *sizes], np.uint64)))
            self._rows.append(reader.array(f"{FIELD}.index"))
        return number


def locate(dataset: Sized, indices: NDArray[np.int64]) -> Located | None:
    """Return the places of samples, as of the opening of the dataset; None if they are not in record sets."""
    if isinstance(dataset, Subset):
        chosen: Any = dataset.indices  # Any: a list, an array, a tensor, a range
        if isinstance(chosen, np.ndarray):
            within = chosen[indices].astype(np.int64, copy=False)
        else:
            within = np.fromiter((int(chosen[index]) for index in indices.tolist()), np.int64, len(indices))
        # torch's stubs do not say that datasets of positions have a length.
        return locate(dataset.dataset, within)  # type: ignore[arg-type]
    if isinstance(dataset, ConcatDataset):
        return _locate_parts(dataset, indices)
    selection = selection_of(dataset)
    if selection is None or len(selection) != len(dataset):
        return None
    if FIELD not in selection.reader.manifest.blobs:
        return None
    return Located([selection.reader], np.zeros_like(indices), selection.positions(indices))


def leaves_of(dataset: Any) -> Iterator[Any]:
    """Iterate over the datasets within any `Subset` and `ConcatDataset`."""
    if isinstance(dataset, Subset):
        yield from leaves_of(dataset.dataset)
    elif isinstance(dataset, ConcatDataset):
        for part in dataset.datasets:
            yield from leaves_of(part)
    else:
        yield dataset


def by_part(
    dataset: ConcatDataset[Any], indices: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.bool_], NDArray[np.int64]]]:
    """Iterate over the parts with some of the samples: the part's number, which samples, and their indices in it."""
    parts = np.searchsorted(dataset.cumulative_sizes, indices, side="right")
    starts = np.array([0, *dataset.cumulative_sizes])
    for part in np.unique(parts).tolist():
        here = parts == part
        yield part, here, indices[here] - starts[part]


def _locate_parts(dataset: ConcatDataset[Any], indices: NDArray[np.int64]) -> Located | None:
    readers: list[RecordReader] = []
    numbers, positions = np.empty_like(indices), np.empty_like(indices)
    for part, here, within in by_part(dataset, indices):
        located = locate(dataset.datasets[part], within)  # type: ignore[arg-type]  # as in `locate`
        if located is None:
            return None
        numbers[here] = np.array([_number(readers, reader) for reader in located.readers])[located.numbers]
        positions[here] = located.positions
    return Located(readers, numbers, positions)


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


def hint(dataset: Sized, indices: NDArray[np.int64]) -> None:
    """Tell the kernel which samples will be read soon, as `RecordReader.hint` does."""
    _tell(RecordReader.hint, dataset, indices)


def hint_remote(dataset: Sized, keys: Any) -> None:
    """Do as `hint` for the keys of a batch in a worker process, if a record set is at a URL.

    For those on the disk of this machine, the process of the loop has called `will_need`.
    """
    if isinstance(keys, np.ndarray) and any(True for _ in remotes(dataset)):
        with contextlib.suppress(IndexError):  # the batch with that key raises it
            hint(dataset, keys)


def will_need(dataset: Sized, indices: NDArray[np.int64]) -> None:
    """Tell the kernel which samples other processes will read soon, as `RecordReader.will_need` does."""
    _tell(RecordReader.will_need, dataset, indices)


def forget(dataset: Sized, indices: NDArray[np.int64]) -> None:
    """Tell the kernel which samples will not be read again soon, as `RecordReader.forget` does."""
    _tell(RecordReader.forget, dataset, indices)


def _tell(tell: Callable[[RecordReader, str, Any], None], dataset: Sized, indices: NDArray[np.int64]) -> None:
    located = locate(dataset, indices)
    if located is not None:
        for number, reader in enumerate(located.readers):
            tell(reader, FIELD, located.positions[located.numbers == number])
