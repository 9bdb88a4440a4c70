"""Attributes that are made when they are first asked for: real lists and arrays, without their price until then.

torchvision holds 1.28 million tuples of a path and a label for ImageNet: 0.3 GB in every process. Here ``samples``,
``targets``, ``data`` and the like are `derived`: a plain list or array as torchvision's, made by the first access. A
dataset's own ``__getitem__`` asks `HasDerived._as_opened` instead, which makes nothing.
"""

import operator
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from recordzoo.families.selection import Selection, list_index

# Any, in all of this module: items are of all kinds.

T = TypeVar("T")

Digest = tuple[str, tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Made(Generic[T]):
    """A derived value, and what tells whether somebody has changed it since it was made.

    Attributes:
        value: The list, dict, array or tensor. Every access returns this same object.
        original: The items that a list or dict was made with; the digest of an array or tensor; None for anything else.
        is_frozen: Whether the items of a list cannot be changed in place, but for those that `inner` has.
        inner: The items of a list's items, where these are lists.
    """

    value: T
    original: "tuple[Any, ...] | dict[Any, Any] | Digest | None"
    is_frozen: bool
    inner: tuple[tuple[Any, ...], ...] | None = None

    def is_unchanged(self) -> bool:
        """Whether making the value again would give the same; a list of a million items takes tens of milliseconds."""
        if isinstance(self.value, list):
            is_same = self.is_frozen and _are_same(self.value, cast("tuple[Any, ...]", self.original))
            return is_same and (self.inner is None or all(map(_are_same, self.value, self.inner)))
        if isinstance(self.value, np.ndarray | torch.Tensor):
            return _digest(np.asarray(self.value)) == self.original
        return isinstance(self.value, dict) and self.value == self.original

    def has_still(self, values: Any, number: int) -> bool:
        """Whether `values`, this list or another, has at a place the very item that this list was made with there."""
        if not isinstance(values, list) or not isinstance(self.original, tuple):
            return False
        if number >= min(len(values), len(self.original)) or values[number] is not self.original[number]:
            return False
        return self.inner is None or _are_same(values[number], self.inner[number])


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
            # Two threads may both make it; all get what the first one kept.
            is_frozen = dataset._selection.has_labels
            found = made.setdefault(self.name, _made(self.make(dataset), is_frozen=is_frozen))
        return cast(T, found.value)


class HasDerived:
    """A dataset with derived attributes.

    Attributes:
        _selection: Which records it shows.
        _made: The derived values that are there, by name. Copies made by copy.copy share them, as torchvision's do.
    """

    _selection: Selection
    _made: dict[str, Made[Any]]  # Any: values of all kinds

    def _has(self, name: str) -> bool:
        """Whether an attribute is there: made, or assigned."""
        return name in self._made or name in self.__dict__

    def _as_opened(self, name: str, index: object) -> int | None:
        """Return the number of the sample at an index, if the derived list still has the original item there.

        Args:
            name: The attribute. While nobody has asked for the list, it is not made.
            index: As a list takes it.

        Returns:
            None if the item was changed or moved, or if the index is a slice: then the attribute itself answers.
        """
        attribute = getattr(type(self), name)
        if not isinstance(attribute, derived):
            return None  # a subclass's own property
        made = self._made.get(attribute.name)
        if made is None and name not in self.__dict__:
            return list_index(index, len(self._selection))
        values = getattr(self, name)
        if made is None or not isinstance(values, list):
            return None
        number = list_index(index, len(values))
        return number if number is not None and made.has_still(values, number) else None

    def _length(self, name: str) -> int:
        """Return the length of a derived attribute, without making it."""
        attribute = getattr(type(self), name)
        if name in self.__dict__ or not isinstance(attribute, derived) or attribute.name in self._made:
            return len(getattr(self, name))
        return len(self._selection)

    def _is_as_opened(self, *names: str) -> bool:
        """Whether all derived attributes still agree with the record set: none was assigned or changed."""
        for name in names:
            attribute = getattr(type(self), name)
            if name in self.__dict__ or not isinstance(attribute, derived):
                return False
            made = self._made.get(attribute.name)
            if made is not None and not made.is_unchanged():
                return False
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without derived values that can be made again unchanged."""
        changed = {name: made for name, made in self.__dict__.get("_made", {}).items() if not made.is_unchanged()}
        return {**self.__dict__, "_made": changed}


def _made(value: T, *, is_frozen: bool) -> Made[T]:
    original: tuple[Any, ...] | dict[Any, Any] | Digest | None = None
    inner: tuple[tuple[Any, ...], ...] | None = None
    if isinstance(value, list):
        original = tuple(value)
        is_frozen = is_frozen or all(type(item) is str for item in value)
        if value and isinstance(value[0], list):
            inner = tuple(map(tuple, value))
    elif isinstance(value, dict):
        original = dict(value)
    elif isinstance(value, np.ndarray | torch.Tensor):
        original = _digest(np.asarray(value))
    return Made(value, original, is_frozen, inner)


def _are_same(values: list[Any], original: tuple[Any, ...]) -> bool:
    """Whether a list has the very items that it was made with: equality would take True for 1."""
    return len(values) == len(original) and all(map(operator.is_, values, original))


def _digest(array: NDArray[Any]) -> Digest:
    """Return a digest that changes with the array: the CRC-32 of its bytes, or the identity of an array of objects."""
    if array.dtype.hasobject:
        return array.dtype.str, array.shape, id(array)
    return array.dtype.str, array.shape, zlib.crc32(np.ascontiguousarray(array).data)
