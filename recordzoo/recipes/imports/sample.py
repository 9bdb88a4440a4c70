"""What the databases of all tools come to: an image, encoded or as numbers, and its label."""

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import ArgumentError
from recordzoo.meant import did_you_mean
from recordzoo.recipes.base import BlobField
from recordzoo.recipes.imports import LAYOUTS

Read = Callable[[int], bytes]
"""Reads the value of the key at a place."""

Order = tuple[Sequence[int], Sequence[int]]
"""The places of the samples among a database's keys; those of their labels, if these have keys of their own."""

_CHANNELS = (1, 3, 4)
_SHOWN_BYTES = 32


class ForeignValueError(ValueError):
    """A value is not what the tool writes, or holds what is not imported; the message says why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A stored value, read.

    Attributes:
        image: An image's file, untouched, or numbers in C order.
        label: Its class, or a text. None if the tool stores none, or stores it under another key.
        shape: Of numbers: [H, W, C], pixels in RGB; other numbers as they were. None for an image's file.
        dtype: Of numbers: "|u1" for pixels.
    """

    image: bytes
    label: int | str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""

    @property
    def field(self) -> BlobField:
        """What a record set says of such images."""
        return BlobField("image") if self.shape is None else BlobField("raw", None, self.dtype)

    @property
    def kind(self) -> str:
        """The same in words, and what kind of label there is if it is no number."""
        label = "" if isinstance(self.label, int) else " without a label" if self.label is None else " with a text"
        if self.shape is None:
            return f"an encoded image{label}"
        return (
            f"pixels{label}" if self.dtype == "|u1" else f"{self.dtype} numbers of {len(self.shape)} dimensions{label}"
        )

    def singles(self) -> Iterator[tuple[str, "Sample"]]:
        """Yield the samples of a batch, numbers of 4 dimensions, each with the end of its name; any other as it is."""
        if self.shape is None or len(self.shape) < 4:
            yield "", self
            return
        count, *shape = self.shape
        size = len(self.image) // count
        for number in range(count):
            image = self.image[number * size : (number + 1) * size]
            yield f"/{number}", dataclasses.replace(self, image=image, shape=tuple(shape))


# Any: of any numeric dtype.
def array_sample(values: NDArray[Any], label: int | None = None) -> Sample:
    """Make a sample of an array [H, W], [H, W, C] or [C, H, W], or a batch of one with 4 dimensions.

    Of uint8, it becomes [H, W, C]; of other types it stays as it is.

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
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return Sample(values.tobytes(), label, values.shape, values.dtype.str)


class Layout(Protocol):
    """How one tool stores samples: a module of this package for each.

    Attributes:
        NAME: What `--format` calls it.
        EXPECTED: What a value of it is, for messages.
    """

    NAME: str
    EXPECTED: str

    def parse(self, value: bytes) -> Sample:
        """Read a value.

        Raises:
            ForeignValueError: It is none of this layout.
        """
        ...

    def order(self, keys: Sequence[bytes], read: Read, file: Path) -> Order:
        """Return where each sample is among the database's keys, in the order in which the tool counts them.

        Args:
            keys: In LMDB's order.
            read: Returns the value of a key by its place.
            file: The database, beside which some tools write a list.

        Raises:
            ForeignValueError: The keys are not those of this layout.
        """
        ...


def layout(name: str) -> Layout:
    """Return the module of a layout.

    Raises:
        ArgumentError: There is none of that name.
    """
    if name not in LAYOUTS:
        hint = did_you_mean(str(name), LAYOUTS)
        raise ArgumentError(f"Unknown value {name!r} for argument format. Valid values are {LAYOUTS}.{hint}")
    # A module, looked at as its names are.
    return cast(Layout, importlib.import_module(f"recordzoo.recipes.imports.{name}"))


def samples_of(name: str, value: bytes, label: bytes | None) -> Iterator[tuple[str, Sample]]:
    """Read the samples of a value, mostly one, each with the end of its name.

    Raises:
        ForeignValueError: It is none of the layout.
    """
    sample = layout(name).parse(value)
    if label is not None:
        try:
            sample = dataclasses.replace(sample, label=label.decode())
        except UnicodeDecodeError as err:
            raise ForeignValueError(f"its label is no text in UTF-8: {label[:_SHOWN_BYTES]!r}") from err
    yield from sample.singles()


def as_label(value: object) -> int:
    """Take a label that is a whole number of 64 bits.

    Raises:
        ForeignValueError: It is none.
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
    """Name the type of what was unpacked; arrays by NumPy's name."""
    return "numpy.ndarray" if hasattr(value, "values") and not isinstance(value, dict) else type(value).__name__


def numbered(keys: Sequence[bytes]) -> Sequence[int] | None:
    """Sort keys that are whole numbers by these ("2" before "10"); None if one is none."""
    if not all(key.isdigit() and len(key) <= 20 for key in keys):
        return None
    return sorted(range(len(keys)), key=lambda place: int(keys[place]))
