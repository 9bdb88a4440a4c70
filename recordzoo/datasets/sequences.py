"""`samples`, `imgs`, `targets` and the like: lists that cost nothing until somebody changes them.

torchvision holds 1.28 million tuples of a path and a label for ImageNet, 250 MB in every process. Here a sequence
looks its items up in the record set's arrays. It behaves as the list it stands for, and *becomes* one, inside, at the
first change: `ds.targets[3] = 7` and `random.shuffle(ds.samples)` do what they do in torchvision. It is not a subclass
of `list`, because C code would then read the empty list behind its back.
"""

import operator
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from typing import Any, Generic, SupportsIndex, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import CorruptRecordError
from recordzoo.recipes.base import OWN_DATASETS
from recordzoo.recipes.class_folders import name_key
from recordzoo.records.arrays import leads_out
from recordzoo.records.reader import RecordReader

T = TypeVar("T")

_CHUNK = 4096


class Selection:
    """Which positions of a record set a dataset shows, in which order, and with which labels.

    Args:
        reader: The record set.
        split: A split of it; "" for all positions in canonical order. Pickles as its name.
        positions: Any positions instead, int64 [n].
        targets: Labels of these positions, int64 [n]; the record set's ``target`` array by default.
    """

    def __init__(
        self,
        reader: RecordReader,
        split: str = "",
        positions: NDArray[np.int64] | None = None,
        targets: NDArray[np.int64] | None = None,
    ) -> None:
        self.reader = reader
        self.split = split
        self._given = positions
        self._given_targets = targets
        self._positions = positions if positions is not None else reader.split(split) if split else None
        self._length = len(reader) if self._positions is None else len(self._positions)

    def __len__(self) -> int:
        return self._length

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reader, self.split, self._given, self._given_targets)

    def position(self, index: int) -> int:
        """Return the position that a (non-negative) index stands for."""
        return index if self._positions is None else int(self._positions[index])

    def positions(self, indices: Sequence[int]) -> list[int]:
        """Return the positions of many indices, without those that do not exist; negative ones count from the end."""
        wanted = [i + len(self) if i < 0 else i for i in map(operator.index, indices)]
        return [self.position(i) for i in wanted if 0 <= i < len(self)]

    def all_positions(self) -> NDArray[np.int64]:
        """Return all positions, int64 [n]."""
        return np.arange(self._length, dtype=np.int64) if self._positions is None else self._positions

    # Any: a dataset of one's own may have other targets than labels (`recordzoo.datasets.own`).
    def target(self, index: int) -> Any:
        """Return the label of a (non-negative) index."""
        if self._given_targets is not None:
            return int(self._given_targets[index])
        return int(self.reader.array("target")[self.position(index)])

    # Any: as above.
    def targets(self, indices: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return all labels, or those of some (non-negative) indices: a new int64 [n]."""
        if self._given_targets is not None:
            found = self._given_targets
        else:
            found = self.reader.array("target")
            if self._positions is not None:
                indices = self._positions if indices is None else self._positions[indices]
        if indices is not None:
            found = found[indices]
        return found.astype(np.int64, copy=True)


class LazyList(MutableSequence[T], Generic[T]):
    """A list whose items are made when they are asked for, until it is first changed."""

    __hash__ = None  # type: ignore[assignment]  # as list

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self._list: list[T] | None = None

    @abstractmethod
    def _item(self, index: int) -> T:
        """Make the item at a valid, non-negative index."""

    def _items(self) -> Iterator[T]:
        return map(self._item, range(len(self.selection)))

    @property
    def changed(self) -> bool:
        """Whether it holds a list of its own, which may no longer agree with the record set."""
        return self._list is not None

    def _own(self) -> list[T]:
        if self._list is None:
            self._list = list(self._items())
        return self._list

    def _read(self) -> list[T]:
        return self._list if self._list is not None else list(self._items())

    def index_of(self, index: SupportsIndex) -> int:
        """Return `index` as an int from 0 to length - 1.

        Raises:
            IndexError, TypeError: As a list does, in the same words.
        """
        try:
            number = operator.index(index)
        except TypeError:
            kind = type(index).__name__
            raise TypeError(f"list indices must be integers or slices, not {kind}") from None
        length = len(self)
        if number < 0:
            number += length
        if not 0 <= number < length:
            raise IndexError("list index out of range")
        return number

    def __len__(self) -> int:
        return len(self.selection) if self._list is None else len(self._list)

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | list[T]:
        if self._list is not None:
            return self._list[index]
        if isinstance(index, slice):
            return [self._item(i) for i in range(*index.indices(len(self)))]
        return self._item(self.index_of(index))

    def __iter__(self) -> Iterator[T]:
        return iter(self._list) if self._list is not None else self._items()

    @overload
    def __setitem__(self, index: SupportsIndex, value: T) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, index: SupportsIndex | slice, value: T | Iterable[T]) -> None:
        # Any: the overloads above say which value goes with which index.
        cast(Any, self._own())[index] = value

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        del self._own()[index]

    def insert(self, index: SupportsIndex, value: T) -> None:
        """As `list.insert`."""
        self._own().insert(index, value)

    # Any: `key` and `reverse` as list.sort declares them.
    def sort(self, **options: Any) -> None:
        """As `list.sort`."""
        self._own().sort(**options)

    def clear(self) -> None:
        """As `list.clear`."""
        self._list = []

    # Any: start and stop, as list.index declares them.
    def index(self, value: Any, *bounds: Any) -> int:
        """As `list.index`."""
        return self._read().index(value, *bounds)

    def copy(self) -> list[T]:
        """As `list.copy`: a real list."""
        return list(self)

    def __contains__(self, value: object) -> bool:
        return any(item is value or item == value for item in self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, list | LazyList):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    # Any: what list's own comparison accepts.
    def __lt__(self, other: Any) -> bool:
        return self._read() < list(other) if isinstance(other, list | LazyList) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return self._read() <= list(other) if isinstance(other, list | LazyList) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self._read() > list(other) if isinstance(other, list | LazyList) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return self._read() >= list(other) if isinstance(other, list | LazyList) else NotImplemented

    # Any: lists of different things may be added.
    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other] if isinstance(other, list | LazyList) else NotImplemented

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self] if isinstance(other, list | LazyList) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> list[T]:
        return self._read() * times

    __rmul__ = __mul__

    def __imul__(self, times: SupportsIndex) -> "LazyList[T]":
        self._list = self._own() * times
        return self

    def __repr__(self) -> str:
        return repr(self._read())

    def __copy__(self) -> "LazyList[T]":
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        if self._list is not None:
            twin._list = list(self._list)
        return twin

    # Any: dtype as NumPy takes it.
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a lazy sequence has no array to share; use np.asarray")
        return np.array(self._read(), dtype=dtype)

    def numpy(self) -> NDArray[Any]:
        """Return the items as a new array; for labels int64 [n]."""
        return np.asarray(self)


class LazyTargets(LazyList[int]):
    """The labels of a selection."""

    # Any: labels, or what `Selection` has instead.
    def _item(self, index: int) -> Any:
        return self.selection.target(index)

    def _items(self) -> Iterator[int]:
        labels = self.selection.targets()
        for start in range(0, len(labels), _CHUNK):
            yield from labels[start : start + _CHUNK].tolist()

    # Any: as in LazyList.
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self._list is not None or copy is False:
            return super().__array__(dtype, copy)
        targets = self.selection.targets()
        return targets.astype(dtype or targets.dtype, copy=False)


class LazySamples(LazyList[tuple[str, int]]):
    """The (path, label) tuples of a selection.

    Args:
        selection: Positions and labels.
        folder: The directory that the record set's names are relative to, existing or not.
    """

    def __init__(self, selection: Selection, folder: str) -> None:
        super().__init__(selection)
        self.folder = folder
        self._anywhere = is_listed(selection.reader)

    def _item(self, index: int) -> tuple[str, int]:
        name = self.selection.reader.names[self.selection.position(index)]
        return join_name(self.folder, name, anywhere=self._anywhere), self.selection.target(index)

    def _items(self) -> Iterator[tuple[str, int]]:
        names = self.selection.reader.names
        positions = self.selection.all_positions()
        labels = self.selection.targets()
        for start in range(0, len(positions), _CHUNK):
            stop = start + _CHUNK
            for position, label in zip(positions[start:stop].tolist(), labels[start:stop].tolist(), strict=True):
                yield join_name(self.folder, names[position], anywhere=self._anywhere), label


class LazyPaths(LazyList[str]):
    """The paths of a selection's files, one a record: its name with another folder and another ending.

    Args:
        selection: The positions.
        folder: The directory in which the files are, existing or not.
        ending: Their ending with its dot, instead of that of the record's name.
    """

    def __init__(self, selection: Selection, folder: str, ending: str) -> None:
        super().__init__(selection)
        self.folder = folder
        self.ending = ending

    def _item(self, index: int) -> str:
        name = self.selection.reader.names[self.selection.position(index)]
        stem = name.rpartition("/")[2].rpartition(".")[0]
        return join_name(self.folder, stem + self.ending)


def is_listed(reader: RecordReader) -> bool:
    """Whether the names are in an order of their own, and may be absolute, and not in ImageFolder's order."""
    return reader.manifest.dataset in OWN_DATASETS


def join_name(folder: str, name: str, *, anywhere: bool = False) -> str:
    """Return the path of a record's name ("class/file.jpg") under a directory, as torchvision writes it.

    Args:
        folder: The directory.
        name: The name.
        anywhere: It may lead out of the directory, as those of lists may. Such a path is shown and never opened.

    Raises:
        CorruptRecordError: A stranger gave the record a name that leads out of the directory.
    """
    if not anywhere and leads_out(name):
        raise CorruptRecordError(f"The record's name {name!r} leads out of {folder}: it is not made a path.", name=name)
    return os.path.join(folder, name if os.sep == "/" else name.replace("/", os.sep))


def find_name(names: Sequence[str], name: str) -> int | None:
    """Find the position of a name among names in ImageFolder's order; None if it is not there."""
    wanted, low, high = name_key(name), 0, len(names)
    while low < high:
        middle = (low + high) // 2
        if name_key(names[middle]) < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < len(names) and names[low] == name else None
