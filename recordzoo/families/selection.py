"""Which records a dataset shows, and torchvision's lists of them: labels, (path, label) tuples, paths."""

import operator
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import CorruptRecordError, NotPreparedError
from recordzoo.records.arrays import leads_out
from recordzoo.records.kinds import FieldKind
from recordzoo.records.reader import RecordReader

# Any, in all of this module: targets are labels, or anything that a user's dataset returns; arrays are of any dtype.


class Uneven(list[Any]):
    """Targets that stay a list in a batch: arrays of different shapes, or some of them None."""


class Selection:
    """Which positions of a record set a dataset shows, in which order, and with which labels.

    Args:
        reader: The record set.
        split: A split of it; "" for all positions in canonical order. Pickles as its name.
        positions: Any positions instead, int64 [n].
        targets: Labels of these positions, int64 [n]; an array of the record set by default.
        column: The name of that array.
        listed_in: The raw file that lists the split, for the error.

    Attributes:
        has_labels: Whether targets are labels (ints), which nobody can change in place.

    Raises:
        NotPreparedError: The record set has no such split: the raw data lacked its list.
    """

    has_labels: ClassVar[bool] = True

    def __init__(
        self,
        reader: RecordReader,
        split: str = "",
        positions: NDArray[np.int64] | None = None,
        targets: NDArray[np.int64] | None = None,
        column: str = "target",
        listed_in: str = "",
    ) -> None:
        if positions is None and split and split not in reader.manifest.splits:
            has = f"; it has {', '.join(reader.manifest.splits) or 'none'}"
            raise not_listed(reader, f"split {split!r}", listed_in or "its list or file", has)
        self.reader = reader
        self.split = split
        self.column = column
        self._given = positions
        self._given_targets = targets
        self._positions = positions if positions is not None else reader.split(split) if split else None
        self._length = len(reader) if self._positions is None else len(self._positions)

    def __len__(self) -> int:
        return self._length

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reader, self.split, self._given, self._given_targets, self.column)

    def position(self, index: int) -> int:
        """Return the position that a (non-negative) index stands for."""
        return index if self._positions is None else int(self._positions[index])

    def positions(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of some (non-negative) indices, int64 of the same shape."""
        return indices if self._positions is None else self._positions[indices]

    def all_positions(self) -> NDArray[np.int64]:
        """Return all positions, int64 [n]: an array of 8 bytes a sample, so not for each batch."""
        return np.arange(self._length, dtype=np.int64) if self._positions is None else self._positions

    def target(self, index: int) -> Any:
        """Return the label of a (non-negative) index."""
        if self._given_targets is not None:
            return int(self._given_targets[index])
        return int(self.reader.array(self.column)[self.position(index)])

    def targets(self, indices: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return all labels, or those of some (non-negative) indices: a new int64 [n]."""
        if self._given_targets is not None:
            found = self._given_targets
        else:
            found = self.reader.array(self.column)
            if self._positions is not None:
                indices = self._positions if indices is None else self._positions[indices]
        if indices is not None:
            found = found[indices]
        return found.astype(np.int64, copy=True)

    def batch_targets(self, indices: NDArray[np.int64]) -> Any:
        """Return the targets of some (non-negative) indices for a batch: as an array if they are numbers."""
        return self.targets(indices) if type(self) is Selection else [self.target(index) for index in indices.tolist()]

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names of the targets, in the order of their labels; none if they have none."""
        manifest = self.reader.manifest
        spec = manifest.fields.get(self.column)
        return (spec.names if spec is not None and spec.kind is FieldKind.CLASS else manifest.classes) or ()

    def array(self, name: str) -> NDArray[Any]:
        """Return an array field of all records shown, [n, ...]."""
        found = self.reader.array(name)
        return found if self._positions is None else found[self._positions]

    def names(self) -> list[str]:
        """Return the names of all records shown, in the order of `all_positions`."""
        names: Sequence[str] = self.reader.names
        if self._positions is None:
            return list(names)
        if 2 * len(self._positions) > len(names):  # iterating is about five times as fast as indexing
            names = list(names)
        return [names[position] for position in self._positions.tolist()]


class MutableSelection(Selection):
    """A selection whose items have tensors, which users may change in place."""

    has_labels = False


class UnlabelledSelection(Selection):
    """A selection of samples without labels: the target of each is None."""

    def target(self, index: int) -> None:
        """Return None."""

    def targets(self, indices: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return None for all, or for some (non-negative) indices: a new object array [n]."""
        return np.full(len(self) if indices is None else len(indices), None, object)


def not_listed(reader: RecordReader, what: str, listed_in: str, has: str = "") -> NotPreparedError:
    """Make the error for a split, or labels, whose list was missing in the raw data."""
    return NotPreparedError(
        f"{reader.path} has no {what}: {listed_in} was missing when it was prepared{has}. If it is there now, prepare "
        "again with refresh=True.",
        path=str(reader.path),
    )


def list_targets(selection: Selection) -> list[Any]:
    """Return all labels as torchvision's ``targets``: a list of ints."""
    targets: list[Any] = selection.targets().tolist()
    return targets


def list_samples(selection: Selection, folder: str) -> list[tuple[str, Any]]:
    """Return all (path, label) tuples as torchvision's ``samples``.

    Args:
        folder: The directory that the record set's names are relative to, existing or not.
    """
    paths = _join_names(folder, selection.names(), anywhere=selection.reader.manifest.is_listed)
    return list(zip(paths, list_targets(selection), strict=True))


def list_paths(selection: Selection, folder: str, ending: str, prefix: str = "", name_ending: str = "") -> list[str]:
    """Return the paths of files that belong to the records: their names in another folder and with another ending.

    Args:
        folder: The directory in which the files are, existing or not.
        ending: Their ending with its dot.
        prefix: A prefix of all records' names that the files' names lack.
        name_ending: The suffix of all names; by default, each name's part from its last dot.
    """
    names = (name.removeprefix(prefix) for name in selection.names())
    stems = (name.removesuffix(name_ending) if name_ending else name.rpartition(".")[0] for name in names)
    return _join_names(folder, [stem + ending for stem in stems])


def list_index(index: object, length: int) -> int | None:
    """Normalise a list index to 0 ... length - 1; None for a slice.

    Raises:
        IndexError, TypeError: As a list does, in the same words.
    """
    if isinstance(index, slice):
        return None
    try:
        number = operator.index(index)  # type: ignore[arg-type]  # refused here if it is no index
    except TypeError:
        kind = type(index).__name__
        raise TypeError(f"list indices must be integers or slices, not {kind}") from None
    if not -length <= number < length:
        raise IndexError("list index out of range")
    return number % length


def join_name(folder: str, name: str, *, anywhere: bool = False) -> str:
    """Return the path of a record's name ("class/file.jpg") under a directory, as torchvision writes it.

    Args:
        folder: The directory.
        name: The name.
        anywhere: Allow names that lead out of the directory, as in lists. Such a path is shown and never opened.

    Raises:
        CorruptRecordError: The record's name leads out of the directory.
    """
    if not anywhere and leads_out(name):
        raise CorruptRecordError(f"The record's name {name!r} leads out of {folder}: it is not made a path.", name=name)
    return os.path.join(folder, name if os.sep == "/" else name.replace("/", os.sep))


def _join_names(folder: str, names: Sequence[str], *, anywhere: bool = False) -> list[str]:
    """As `join_name`, for many names; faster if no name is absolute or has two dots."""
    start = os.path.join(folder, "")
    if os.sep != "/":
        return [join_name(folder, name, anywhere=anywhere) for name in names]
    return [
        join_name(folder, name, anywhere=anywhere) if name.startswith("/") or ".." in name else start + name
        for name in names
    ]
