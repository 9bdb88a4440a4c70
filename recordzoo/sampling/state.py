"""Validate users' numbers and saved states; other types are converted if they mean the same."""

import contextlib
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError

# Any, in all of this module: values from a user or a file.


def plain(value: Any) -> Any:
    """Return arrays, tensors, their scalars and tuples as Python's lists and numbers; other values as they are."""
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        with contextlib.suppress(RuntimeError, NotImplementedError):  # a tensor of the device "meta" has no values
            return value.tolist()
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def whole_number(name: str, value: Any, *, at_least: int | None = None) -> int:
    """Return a value that must be an integer; refuse another one, or one that is too small."""
    number = plain(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    try:
        number = operator.index(number)
    except TypeError as err:
        raise ArgumentError(f"{name}={value!r} must be a whole number.") from err
    if at_least is not None and number < at_least:
        raise ArgumentError(f"{name}={number} must be {at_least} or more.")
    return number


def truth_value(name: str, value: Any) -> bool:
    """Return a value that must be True or False, or 1 or 0."""
    found = plain(value)
    if not isinstance(found, bool | int | float) or found not in (True, False):
        raise ArgumentError(f"{name}={value!r} must be True or False.")
    return bool(found)


def checked_state(state: Any, kind: str, numbers: tuple[str, ...], own: dict[str, JSON]) -> dict[str, Any]:
    """Return a state with Python's types; refuse that of another kind of object, or of another order.

    Args:
        state: The user's value. "drawn" may be left out.
        kind: The expected kind of object, for the message.
        numbers: Keys of integers, 0 or more.
        own: Keys whose values must be equal to these.
    """
    names = state if isinstance(state, Mapping) else {}
    for name in ("seed", *numbers, *own):
        if name not in names:
            given = ", ".join(sorted(map(str, names))) or repr(state)
            raise ArgumentError(f"This is not the state of {kind}: it has no {name!r}, but {given}.")
    found = {name: plain(value) for name, value in names.items()}
    for name in ("seed", *numbers):
        found[name] = whole_number(f"state: {name}", found[name], at_least=None if name == "seed" else 0)
    if "drawn" in found:
        found["drawn"] = truth_value("state: drawn", found["drawn"])
    for name, value in own.items():
        if found[name] != value:
            raise ArgumentError(
                f"The state is that of another order: {name} was {state[name]!r} and is {value!r} here. Give the "
                "sampler the dataset and the arguments that it had then."
            )
    return found
