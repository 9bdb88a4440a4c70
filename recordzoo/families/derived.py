"""`derived`: attributes of a dataset that are made when they are first asked for; whether they were changed since."""

import operator
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

# Any, in all of this module: values are of all kinds.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Made(Generic[T]):
    """A derived value, and a snapshot that shows whether it was changed since it was made.

    Attributes:
        value: The list, dict, array or tensor. Every access returns this same object.
        original: Its `snapshot`.
        is_known: Whether the snapshot shows every change: not of a list whose items, as tensors, change in place.
    """

    value: T
    original: object
    is_known: bool

    def is_unchanged(self) -> bool:
        """Whether making the value again would give the same; a list of a million items takes tens of milliseconds."""
        return self.is_known and is_unchanged(self.value, self.original)

    def has_still(self, values: Any, number: int) -> bool:
        """Whether `values`, this list or another, has at a place the very item that this list was made with there."""
        if not isinstance(values, list) or not isinstance(self.original, tuple):
            return False
        return number < min(len(values), len(self.original)) and is_unchanged(values[number], self.original[number])


class derived(Generic[T]):
    """An attribute that is made when it is first asked for. Decorator.

    A value that is assigned takes its place, as that of any attribute. One descriptor may have several names: they are
    the same object, as torchvision's ``imgs`` and ``samples``.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, dataset: Any, owner: type) -> T:
        if dataset is None:
            return cast(T, self)  # access on the class, as with property
        if "_selection" not in dataset.__dict__:
            # torchvision's v2 wrapper is made a subclass of our class but holds nothing: an AttributeError sends it to
            # the dataset that it wraps.
            raise AttributeError(self.name)
        made: dict[str, Made[Any]] = dataset._made
        found = made.get(self.name)
        if found is None:
            value = self.make(dataset)
            is_known = isinstance(value, dict | np.ndarray | torch.Tensor)
            if isinstance(value, list):
                are_labels = dataset._selection.has_labels and not dataset._HAS_TENSORS
                is_known = are_labels or all(type(item) is str for item in value)
            # Two threads may both make it; all get what the first one kept.
            found = made.setdefault(self.name, Made(value, snapshot(value), is_known))
        return cast(T, found.value)


def snapshot(value: Any) -> object:
    """Return that by which a change is noticed: the items of a list, of lists in it, and of a dict; or a digest."""
    if isinstance(value, list):
        return tuple(map(snapshot, value)) if value and isinstance(value[0], list) else tuple(value)
    if isinstance(value, dict):
        return {key: snapshot(item) for key, item in value.items()}
    return _digest(np.asarray(value)) if isinstance(value, np.ndarray | torch.Tensor) else value


def is_unchanged(value: Any, original: Any) -> bool:
    """Whether a value has the very items of its snapshot: equality would take True for 1."""
    if isinstance(value, list):
        if not isinstance(original, tuple) or len(value) != len(original):
            return False
        return all(map(operator.is_, value, original)) or all(map(is_unchanged, value, original))
    if isinstance(value, dict):
        is_dict = isinstance(original, dict) and list(value) == list(original)
        return is_dict and all(map(is_unchanged, value.values(), original.values()))
    if isinstance(value, np.ndarray | torch.Tensor):
        return bool(_digest(np.asarray(value)) == original)
    return value is original


def _digest(array: NDArray[Any]) -> tuple[str, tuple[int, ...], int]:
    """Return a digest that changes with the array: the CRC-32 of its bytes, or the identity of an array of objects."""
    if array.dtype.hasobject:
        return array.dtype.str, array.shape, id(array)
    return array.dtype.str, array.shape, zlib.crc32(np.ascontiguousarray(array).data)
