"""The class of each image, and the names of classes."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.text import clean
from recordzoo.errors import ArgumentError
from recordzoo.records.reader import RecordReader

_NO_LABEL = -1


@dataclass(frozen=True)
class Labels:
    """The classes of a record set.

    Attributes:
        column: The array field that holds them.
        numbers: int64 [N], the class number of each position.
        names: Class names in label order; may be empty.
        synonyms: Further names in label order; may be empty.
    """

    column: str
    numbers: NDArray[np.int64]
    names: Sequence[str] = ()
    synonyms: Sequence[str] = ()

    def name(self, number: int) -> str:
        """Return a class's name: ``n01440764 tench``; its number if it has no name."""
        if not 0 <= number < len(self.names):
            return str(number)
        synonym = self.synonyms[number] if self.synonyms else ""
        return f"{self.names[number]} {synonym}" if synonym else self.names[number]

    def short(self, name: str, number: int) -> str:
        """Return an image's name without the folder that is its class."""
        folder, _, rest = name.partition("/")
        return rest if 0 <= number < len(self.names) and self.names[number] == folder else name

    def find(self, text: str) -> list[int]:
        """Return the numbers of the classes with a name or number.

        Raises:
            ArgumentError: There is no such class.
        """
        for known in (self.names, self.synonyms):
            found = [number for number, name in enumerate(known) if name == text]
            if found:
                return found
        if text.removeprefix("-").isdecimal():
            number = int(text)
            if 0 <= number < len(self.names) or (not self.names and number in self.numbers):
                return [number]
        every = [*self.names, *self.synonyms]
        holding = [name for name in every if text.lower() in name.lower()]
        close = holding[:3] or difflib.get_close_matches(text, every, 3)
        hint = f" Did you mean {' or '.join(map(clean, close))}?" if close else ""
        valid = f"a class name or a number from 0 to {len(self.names) - 1:,}" if self.names else "one of the targets"
        raise ArgumentError(f"There is no class {text!r}; valid is {valid}.{hint}")


def load_labels(reader: RecordReader) -> Labels | None:
    """Find a record set's classes: integers, one for each position, in the default target.

    There are none if no image has a label: all numbers are -1, and classes have no names.

    Raises:
        CorruptRecordError: Their array is damaged.
    """
    column = reader.manifest.label_field
    if column is None:
        return None
    classes = reader.manifest.classes or ()
    numbers = reader.array(column).astype(np.int64)
    if not classes and bool((numbers == _NO_LABEL).all()):
        return None
    return Labels(column, numbers, classes, _synonyms(reader, len(classes)))


def _synonyms(reader: RecordReader, num_classes: int) -> list[str]:
    """Read the first word for each class from the metadata, if all classes have words."""
    found: Any = reader.manifest.metadata.get("synonyms")
    if not isinstance(found, list) or len(found) != num_classes:
        return []
    if not all(isinstance(words, list) and words and isinstance(words[0], str) for words in found):
        return []
    return [words[0] for words in found]


def class_numbers(reader: RecordReader, classes: Sequence[str | int]) -> tuple[int, ...]:
    """Return the numbers of classes given by name or number. An int is tried as a number first."""
    labels = load_labels(reader)
    if labels is None:
        raise ArgumentError(f"{reader.path} has no classes: no field target or label holds a whole number each.")
    found = []
    for given in classes:
        is_number = isinstance(given, int) and (
            0 <= given < len(labels.names) or (not labels.names and given in labels.numbers)
        )
        numbers = [int(given)] if is_number else labels.find(str(given))
        if len(numbers) > 1:
            raise ArgumentError(f"Several classes are called {given!r}: {numbers}. Give their numbers.")
        found.append(numbers[0])
    return tuple(found)
