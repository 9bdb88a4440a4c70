"""What a loader takes samples from: record sets behind a dataset, a `Subset` or a `ConcatDataset` of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset

from recordzoo.batches.fuse import Plan, read_plan
from recordzoo.batches.keys import Indices, indices_of
from recordzoo.families.base import RecordDataset
from recordzoo.families.selection import Selection
from recordzoo.loading.decode import name_in
from recordzoo.loading.frames import Frame, open_encoded, open_raw
from recordzoo.loading.pictures import is_pixels
from recordzoo.recipes.jpeg import PLAIN, UNKNOWN, mark_of
from recordzoo.records.reader import RecordReader

_SMALL_BYTES = 2048
_LOOKED_AT = 1000


class Leaf:
    """A dataset of this package, of which a loader takes images and targets from the record set itself.

    Args:
        dataset: One that `problem_of` has no problem with.
    """

    # Any: its transforms take and return what their user wants.
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.selection: Selection = dataset._selection
        self.reader: RecordReader = self.selection.reader
        self.plan: Plan = read_plan(dataset.transform)
        self.is_raw = self.reader.manifest.blobs["image"].encoding == "raw"
        self._marks = self.reader.marks("image")
        self.target_transform: Callable[[Any], Any] | None = dataset.target_transform

    def frame(self, index: int) -> Frame:
        """Open the image of a sample.

        Raises:
            ImageError: It cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        position = self.selection.position(index)
        if self.is_raw:
            return open_raw(self.reader.value("image", position))
        data = self.reader.read("image", position)
        if self._marks[position] == UNKNOWN:  # in a record set of an earlier version
            self._marks[position] = mark_of(data)
        return open_encoded(data, is_plain=self._marks[position] == PLAIN)

    @property
    def is_small(self) -> bool:
        """Whether its images are so small that Python's own work on each, under the GIL, is most of it."""
        lengths = self.reader.lengths("image")[:_LOOKED_AT]
        return not self.plan.rest and float(lengths.mean() if len(lengths) else 0) < _SMALL_BYTES

    def name_in(self, err: Exception, index: int) -> None:
        """Name the sample in what opening or decoding it raised, which the caller raises again.

        Raises:
            ImageError: Instead of it, if it says that the image cannot be decoded.
        """
        name_in(err, self.reader.path, _Name(self, index))

    @contextmanager
    def noting(self, index: int) -> Iterator[None]:
        """Note the sample's name on what the person's own functions raise."""
        try:
            yield
        except Exception as err:
            err.add_note(f"while transforming {_Name(self, index)} in {self.reader.path}")
            raise

    # Any: targets are what the dataset has.
    def target(self, index: int) -> Any:
        """Return the target of a sample, as the dataset gives it."""
        found = self.selection.target(index)
        if self.target_transform is None:
            return found
        with self.noting(index):
            return self.target_transform(found)

    # Any: as above.
    def targets(self, indices: Indices) -> Any:
        """Return the targets of samples: int64 [n] if they are labels that nobody transforms, otherwise a list."""
        if self.target_transform is None and type(self.selection) is Selection:
            return self.selection.targets(indices)
        return list(map(self.target, indices.tolist()))


class _Name:
    """A sample's name, looked up only if a message needs it."""

    def __init__(self, leaf: Leaf, index: int) -> None:
        self._leaf, self._index = leaf, index

    def __str__(self) -> str:
        position = self._leaf.selection.position(self._index)
        return f"sample {self._index} ({self._leaf.reader.names[position]})"


class BatchSource:
    """All that a loader takes samples from.

    Args:
        dataset: Any map-style dataset.

    Attributes:
        leaves: The datasets of this package that it consists of; none if there is a problem.
        problem: Why samples can only be had from the dataset itself; "" if there is no reason.
        kind: The dataset's class, for messages.
    """

    # Any: of whatever samples.
    def __init__(self, dataset: Any) -> None:
        self.leaves: list[Leaf] = []
        self.problem = ""
        self.kind = type(dataset).__name__
        self._route = self._read(dataset)
        if self.problem:
            self.leaves = []

    @property
    def is_small(self) -> bool:
        """Whether one thread makes samples faster than several, which would wait for the GIL."""
        return bool(self.leaves) and all(leaf.is_small for leaf in self.leaves)

    def locate(self, indices: Indices) -> tuple[NDArray[np.int64], Indices]:
        """Return for each index the number of its leaf and its index there.

        Raises:
            IndexError: There is no such sample.
        """
        return self._route(indices)

    # Any: as above.
    def _read(self, dataset: Any) -> Callable[[Indices], tuple[NDArray[np.int64], Indices]]:
        if type(dataset) is Subset:
            inner = self._read(dataset.dataset)
            if self.problem:  # it may have keys that are no numbers
                return inner
            chosen = indices_of(dataset.indices, type(dataset.dataset).__name__)
            return lambda indices: inner(chosen[indices])
        if type(dataset) is ConcatDataset:
            return self._read_parts(dataset)
        problem = problem_of(dataset)
        self.problem = self.problem or problem
        if problem:
            return lambda indices: (np.zeros_like(indices), indices)
        number, size = len(self.leaves), len(dataset)
        self.leaves.append(Leaf(dataset))
        return lambda indices: (np.full(len(indices), number), _checked(indices, size))

    def _read_parts(self, dataset: ConcatDataset[Any]) -> Callable[[Indices], tuple[NDArray[np.int64], Indices]]:
        parts = [self._read(part) for part in dataset.datasets]
        ends = np.asarray(dataset.cumulative_sizes, np.int64)
        starts = np.concatenate([[0], ends[:-1]])

        def route(indices: Indices) -> tuple[NDArray[np.int64], Indices]:
            indices = _checked(indices, int(ends[-1]))
            part_of = np.searchsorted(ends, indices, side="right")
            numbers, found = np.empty_like(indices), np.empty_like(indices)
            for number in np.unique(part_of).tolist():
                here = part_of == number
                numbers[here], found[here] = parts[number](indices[here] - starts[number])
            return numbers, found

        return route


# Any: whatever a person calls a dataset.
def problem_of(dataset: Any) -> str:
    """Say why a loader cannot take images and targets from the record set itself; "" if it can."""
    if not isinstance(dataset, RecordDataset):
        return f"{type(dataset).__name__} makes its samples itself"
    if problem := dataset.fusion_problem():
        return problem
    blob = dataset._selection.reader.manifest.blobs["image"]
    if blob.encoding == "raw":
        return "" if _are_pixels(dataset._selection.reader) else "its images are stored as numbers that are no pixels"
    return "" if blob.encoding == "image" else f"its images are stored as {blob.encoding}"


def _are_pixels(reader: RecordReader) -> bool:
    blob = reader.manifest.blobs["image"]
    if blob.shape is not None:
        return is_pixels(blob.dtype, blob.shape)
    shapes = reader.array("image.shape")
    has_channels = shapes.shape[1] == 2 or (shapes.shape[1] == 3 and bool(np.isin(shapes[:, 2], (1, 3, 4)).all()))
    return is_pixels(blob.dtype, None) and has_channels


def _checked(indices: Indices, size: int) -> Indices:
    found = np.where(indices < 0, indices + size, indices)
    if len(found) and not 0 <= found.min() <= found.max() < size:
        raise IndexError("list index out of range")
    return found
