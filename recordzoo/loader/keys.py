"""What samplers give: numbers of samples, or whatever keys a dataset of other people has."""

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

Keys = Indices | list[Any]  # Any: a key is what the dataset takes in its brackets


# Any, here and below: as above.
def read_keys(keys: Iterable[Any]) -> Keys:
    """Return keys as int64 [n] if all are integers, otherwise as they are: a float or a text is never made a number."""
    given = keys if isinstance(keys, np.ndarray | list) else _listed(keys)
    try:
        found = np.asarray(given)
    except ValueError:  # sequences of several lengths
        return list(given)
    if not found.size and found.ndim == 1:
        return np.empty(0, np.int64)
    if found.ndim == 1 and found.dtype.kind == "i":
        return found.astype(np.int64, copy=False)
    numbers = [_number(key) for key in given]
    return list(given) if None in numbers else np.array(numbers, np.int64)


def indices_of(keys: Iterable[Any], kind: str) -> Indices:
    """Return keys that must be integers.

    Raises:
        TypeError: One is none.
    """
    found = read_keys(keys)
    if isinstance(found, list):
        wrong = next(key for key in found if _number(key) is None)
        raise TypeError(f"{wrong!r} is no index of {kind}: its samples have the numbers 0, 1, 2, ...")
    return found


def _number(key: Any) -> int | None:
    try:
        number = operator.index(key)
    except TypeError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _listed(keys: Iterable[Any]) -> list[Any]:
    listed = getattr(keys, "tolist", None)  # a tensor's numbers, and no tensors
    return listed() if listed is not None else list(keys)
