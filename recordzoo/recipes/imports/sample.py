"""What the databases of all tools come to: an image, encoded or as numbers, and its label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from recordzoo.recipes.base import BlobField

Read = Callable[[int], bytes]
"""Reads the value of the key at a place."""


class ForeignValueError(ValueError):
    """A value is not what the tool writes, or holds what is not imported; the message says why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A stored value, read.

    Attributes:
        image: An image's file, untouched, or numbers in C order.
        label: Its class.
        shape: Of numbers: [H, W, C], pixels in RGB; other numbers as they were. None for an image's file.
        dtype: Of numbers: "|u1" for pixels.
    """

    image: bytes
    label: int
    shape: tuple[int, ...] | None = None
    dtype: str = ""

    @property
    def field(self) -> BlobField:
        """What a record set says of such images."""
        return BlobField("image") if self.shape is None else BlobField("raw", None, self.dtype)

    @property
    def kind(self) -> str:
        """The same in words."""
        if self.shape is None:
            return "an encoded image"
        return "pixels" if self.dtype == "|u1" else f"{self.dtype} numbers of {len(self.shape)} dimensions"


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

    def order(self, keys: Sequence[bytes], read: Read) -> Sequence[int]:
        """Return where each sample is among the database's keys, in the order in which the tool counts them.

        Args:
            keys: In LMDB's order.
            read: Returns the value of a key by its place.

        Raises:
            ForeignValueError: The keys are not those of this layout.
        """
        ...


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
