"""The labels of a dataset's samples, through any `Subset` and `ConcatDataset` of torch around it."""

from collections.abc import Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import ConcatDataset, Subset

from recordzoo.errors import ArgumentError
from recordzoo.families.base import ZooDataset
from recordzoo.families.derived import derived
from recordzoo.families.selection import Selection
from recordzoo.records.kinds import FieldKind
from recordzoo.sampling.storage import by_part

Int64s = NDArray[np.int64]

NO_CLASS = -1

_AT_ONCE = 1 << 18
_MAX_SPAN = 1 << 22
"""Largest span of integers that are counted with a table: 50 times as fast as a sort."""


class NewNumbers:
    """A `target_transform` that renumbers classes; -1 (no class) stays.

    Args:
        numbers: The new number of each class, int64 [c].
    """

    def __init__(self, numbers: Int64s) -> None:
        self._numbers = np.append(numbers, NO_CLASS)  # index -1 finds the last entry

    def __call__(self, label: int) -> int:
        """Return the new number of a class."""
        return int(self._numbers[label])

    def of(self, labels: ArrayLike) -> Int64s:
        """Return the new numbers of classes, of the same shape."""
        found: Int64s = self._numbers[np.asarray(labels)]
        return found


# Any, in all of this module: datasets and labels of any type.
def labels_of(dataset: Any, indices: Int64s, field: str | None) -> NDArray[Any]:
    """Return the labels of samples before the user's `target_transform`, or the values of a field, [n].

    Args:
        dataset: The dataset.
        indices: The samples' non-negative indices.
        field: An array field of the record set. Default: the dataset's targets.

    Raises:
        ArgumentError: The dataset has no labels or no such field, or several values a sample.
    """
    if isinstance(dataset, Subset):
        return labels_of(dataset.dataset, np.asarray(dataset.indices, np.int64)[indices], field)
    if isinstance(dataset, ConcatDataset):
        return _labels_of_parts(dataset, indices, field)
    selection = getattr(dataset, "_selection", None)  # also through torchvision's v2 wrapper
    if field is not None:
        return _field(dataset, selection, indices, field)
    if isinstance(selection, Selection) and _is_as_opened(dataset):
        found = selection.targets(indices)
    else:
        found = _targets(dataset, indices)
    if found.ndim != 1 or found.dtype.kind not in "iufSU":
        raise ArgumentError(f"{type(dataset).__name__} has no labels: its targets are not one number or text each.")
    new_numbers = getattr(dataset, "target_transform", None)
    if isinstance(new_numbers, NewNumbers):
        return new_numbers.of(found)
    return found.astype(np.int64, copy=False) if found.dtype.kind in "iu" else found


class Classes:
    """The classes of a dataset's samples: the labels that occur, in ascending order.

    Args:
        dataset, field: As in `labels_of`.

    Attributes:
        counts: Number of samples of each class, int64 [c].
        is_none: Whether a class is -1, the label of samples without a class; bool [c].
    """

    def __init__(self, dataset: Sized, field: str | None) -> None:
        self._dataset, self._field = dataset, field
        found: dict[Any, int] = {}  # by label
        for start in range(0, len(dataset), _AT_ONCE):
            labels = self._labels(start, min(start + _AT_ONCE, len(dataset)))
            for label, count in zip(*map(np.ndarray.tolist, _distinct(labels)), strict=True):
                found[label] = found.get(label, 0) + count
        if not found:
            raise ArgumentError(f"{type(dataset).__name__} has no samples, so there are no classes to draw from.")
        self._labels_in_order = np.array(sorted(found))
        self.counts = np.array([found[label] for label in sorted(found)], np.int64)
        self.is_none = self._labels_in_order == NO_CLASS if self._labels_in_order.dtype == np.int64 else self.counts < 0
        self._table: Int64s | None = None
        if _span(self._labels_in_order) < _MAX_SPAN:
            self._table = np.zeros(_span(self._labels_in_order) + 1, np.int64)
            self._table[self._labels_in_order - self._labels_in_order[0]] = np.arange(len(found))

    def numbers(self, start: int, end: int) -> Int64s:
        """Return the numbers of the classes of samples from a number up to another, int64 [n]."""
        labels = self._labels(start, end)
        if self._table is None:
            return np.searchsorted(self._labels_in_order, labels)
        numbers: Int64s = self._table[labels - self._labels_in_order[0]]
        return numbers

    def _labels(self, start: int, end: int) -> NDArray[Any]:
        return labels_of(self._dataset, np.arange(start, end), self._field)


def _distinct(labels: NDArray[Any]) -> tuple[NDArray[Any], Int64s]:
    if _span(labels) >= _MAX_SPAN:
        return np.unique(labels, return_counts=True)
    lowest = labels.min()
    counts = np.bincount(labels - lowest)
    return np.flatnonzero(counts) + lowest, counts[counts > 0]


def _span(labels: NDArray[Any]) -> int:
    return int(labels.max()) - int(labels.min()) if labels.dtype.kind in "iu" else _MAX_SPAN


def _labels_of_parts(dataset: ConcatDataset[Any], indices: Int64s, field: str | None) -> NDArray[Any]:
    found = [
        (here, labels_of(dataset.datasets[part], within, field)) for part, here, within in by_part(dataset, indices)
    ]
    labels = np.concatenate([values for _, values in found]) if found else np.empty(0, np.int64)
    for here, values in found:
        labels[here] = values
    return labels


def _field(dataset: Any, selection: Any, indices: Int64s, field: str) -> NDArray[Any]:
    if not isinstance(selection, Selection):
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
