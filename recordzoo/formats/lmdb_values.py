"""The parsed values of LMDB databases of all tools: an image, encoded or as numbers, and its label."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.recipes.pickled import PickledArray

Read = Callable[[int], bytes]
"""Reads the value of the key at a place."""

Order = tuple[Sequence[int], Sequence[int]]
"""The places of the samples among a database's keys; those of their labels, if these have keys of their own."""

_CHANNELS = (1, 3, 4)


class ForeignValueError(ValueError):
    """A value is not in the tool's format, or holds something that cannot be imported; the message says why."""


@dataclass(frozen=True, slots=True)
class Value:
    """A stored value, read.

    Attributes:
        image: An image's file, untouched; or numbers: uint8 pixels [H, W, C] in RGB, other numbers as they were.
        label: Its class, or a text. None if the tool stores none, or stores it under another key.
    """

    image: bytes | NDArray[Any]  # Any: of any numeric dtype
    label: int | str | None = None

    @property
    def kind(self) -> str:
        """A description of the image, and of the label if it is not a number."""
        label = "" if isinstance(self.label, int) else " without a label" if self.label is None else " with a text"
        if isinstance(self.image, bytes):
            return f"an encoded image{label}"
        if self.image.dtype == np.uint8:
            return f"pixels{label}"
        return f"{self.image.dtype.str} numbers of {self.image.ndim} dimensions{label}"

    def singles(self) -> Iterator[tuple[str, "Value"]]:
        """Yield the images of a batch, numbers of 4 dimensions, each with the end of its name; any other as it is."""
        if isinstance(self.image, bytes) or self.image.ndim < 4:
            yield "", self
            return
        for number, image in enumerate(self.image):
            yield f"/{number}", Value(image, self.label)


# Any: of any numeric dtype.
def array_value(values: NDArray[Any], label: int | None = None) -> Value:
    """Turn an array [H, W], [H, W, C] or [C, H, W], or a batch of one image with 4 dimensions, into a value.

    A uint8 array becomes [H, W, C]; other types stay as they are.

    Raises:
        ForeignValueError: It has another number of dimensions, or no values.
    """
    if not 2 <= values.ndim <= 4 or not values.size:
        raise ForeignValueError(
            f"its image is a numpy.ndarray of shape {list(values.shape)[:8]}, which is none of an image"
        )
    if values.dtype == np.uint8:
        if values.ndim == 2:
            values = values[..., None]
        elif values.shape[-1] not in _CHANNELS and values.shape[-3] in _CHANNELS:
            values = np.moveaxis(values, -3, -1)
    return Value(values, label)


@dataclass(frozen=True)
class Layout:
    """How one tool stores samples.

    Attributes:
        name: Its name for `--format`.
        expected: A description of its values, for messages.
        parse: Reads a value; raises `ForeignValueError` for another layout.
        order: Finds where each sample is among a database's keys, which are in LMDB's order, in the order in which the
            tool counts them; raises `ForeignValueError` if the keys are not those of this layout. It gets a function
            that reads the value of a key by its place, and the database's file, beside which some tools write a list.
    """

    name: str
    expected: str
    parse: Callable[[bytes], Value]
    order: Callable[[Sequence[bytes], Read, Path], Order]


def as_label(value: object) -> int:
    """Return a label that is an integer of 64 bits.

    Raises:
        ForeignValueError: The value is not an integer of 64 bits.
    """
    if type(value) is not int:
        raise ForeignValueError(
            f"its label is a {type_name(value)}, not a whole number. recordzoo.convert stores labels of all "
            "kinds, given a dataset that reads them"
        )
    if not -(1 << 63) <= value < 1 << 63:
        raise ForeignValueError("its label is larger than 64 bits")
    return value


def type_name(value: object) -> str:
    """Name the type of an unpacked value; for arrays, NumPy's name."""
    is_array = isinstance(value, np.ndarray | PickledArray)
    return "numpy.ndarray" if is_array else type(value).__name__


def numbered(keys: Sequence[bytes]) -> Sequence[int] | None:
    """Sort keys as integers ("2" before "10"); None if a key is not an integer."""
    if not all(key.isdigit() and len(key) <= 20 for key in keys):
        return None
    return sorted(range(len(keys)), key=lambda place: int(keys[place]))
