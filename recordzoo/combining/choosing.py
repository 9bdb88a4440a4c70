"""Convert indices and classes given by a user to numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import ArgumentError
from recordzoo.preview.labels import load_labels
from recordzoo.records.reader import RecordReader


def checked_indices(indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return indices as int64 [n].

    Raises:
        ArgumentError: The indices are not a sequence of integers.
    """
    found = np.asarray(indices)
    if not found.size:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ArgumentError("Argument indices must be a list of whole numbers, or an array with one dimension of them.")
    return found.astype(np.int64)


def class_numbers(reader: RecordReader, classes: Sequence[str | int]) -> tuple[int, ...]:
    """Return the numbers of classes given by name or number. An int is tried as a number first.

    Raises:
        ArgumentError: There is no such class, or several have the same name.
    """
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
