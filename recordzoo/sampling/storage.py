"""Where the samples of a dataset are stored, through any `Subset` and `ConcatDataset` of torch around it."""

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset

from recordzoo.families.selection import Selection
from recordzoo.records.reader import RecordReader

FIELD = "image"
"""The blob field whose place in the shards counts; what else a sample has is small."""

_UNKNOWN_BYTES = 64 << 10


@dataclass(frozen=True)
class Storage:
    """How the samples of a dataset lie on the disk.

    Attributes:
        order: The indices in storage order, int32 [n] (int64 from 2**31 on); None if that is 0, 1, 2, ...
        mean_bytes: Of a sample; 64 KiB where nothing is known.
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
    """Return how a dataset's samples lie on the disk; those of other people's datasets are taken to lie in order."""
    located = locate(dataset, np.arange(len(dataset)))
    if located is None or not len(dataset):
        return Storage(None, _UNKNOWN_BYTES)
    rows = np.empty((len(dataset), 3), np.int64)
    for number, reader in enumerate(located.readers):
        here = located.numbers == number
        index = reader.array(f"{FIELD}.index")[located.positions[here]]
        rows[here] = np.stack([index[name].astype(np.int64) for name in ("shard", "offset", "length")], axis=1)
    shards, offsets, lengths = rows.T
    order = np.lexsort((offsets, shards, located.numbers))
    in_order = bool((order[1:] > order[:-1]).all())
    narrow = np.int32 if len(order) < 1 << 31 else np.int64
    return Storage(None if in_order else order.astype(narrow), max(1.0, float(lengths.mean())))


def locate(dataset: Sized, indices: NDArray[np.int64]) -> Located | None:
    """Return where samples are stored, as it was when the dataset was opened; None if they are not in record sets."""
    if isinstance(dataset, Subset):
        chosen = (int(dataset.indices[index]) for index in indices.tolist())  # a list, an array, a tensor, a range
        # torch's stubs do not say that datasets of positions have a length.
        return locate(dataset.dataset, np.fromiter(chosen, np.int64, len(indices)))  # type: ignore[arg-type]
    if isinstance(dataset, ConcatDataset):
        return _locate_parts(dataset, indices)
    selection = getattr(dataset, "_selection", None)  # also through torchvision's v2 wrapper
    if not isinstance(selection, Selection) or len(selection) != len(dataset):
        return None
    if FIELD not in selection.reader.manifest.blobs:
        return None
    return Located([selection.reader], np.zeros_like(indices), selection.all_positions()[indices])


# Any: of whatever samples.
def _locate_parts(dataset: ConcatDataset[Any], indices: NDArray[np.int64]) -> Located | None:
    readers: list[RecordReader] = []
    numbers, positions = np.empty_like(indices), np.empty_like(indices)
    parts = np.searchsorted(dataset.cumulative_sizes, indices, side="right")
    starts = np.array([0, *dataset.cumulative_sizes])
    for part in np.unique(parts).tolist():
        here = parts == part
        located = locate(dataset.datasets[part], indices[here] - starts[part])
        if located is None:
            return None
        numbers[here] = np.array([_number(readers, reader) for reader in located.readers])[located.numbers]
        positions[here] = located.positions
    return Located(readers, numbers, positions)


def _number(readers: list[RecordReader], reader: RecordReader) -> int:
    """Return a reader's number among the readers, where two of the same record set are one."""
    for number, known in enumerate(readers):
        if known.digest == reader.digest:
            return number
    readers.append(reader)
    return len(readers) - 1


def hint(dataset: Sized, indices: NDArray[np.int64]) -> None:
    """Tell the kernel which samples will be read soon, as `RecordReader.hint` does."""
    located = locate(dataset, indices)
    if located is not None:
        for number, reader in enumerate(located.readers):
            reader.hint(FIELD, located.positions[located.numbers == number])


def forget(dataset: Sized, indices: NDArray[np.int64]) -> None:
    """Tell the kernel which samples will not be read again soon, as `RecordReader.forget` does."""
    located = locate(dataset, indices)
    if located is not None:
        for number, reader in enumerate(located.readers):
            reader.forget(FIELD, located.positions[located.numbers == number])
