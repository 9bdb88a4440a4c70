"""Validate users' integers and saved states."""

import operator
from typing import Any

from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError


# Any: a value from a user or a file.
def whole_number(name: str, value: Any, *, at_least: int | None = None) -> int:
    """Return a value that must be an integer; refuse another one, or one that is too small."""
    try:
        number = operator.index(value)
    except TypeError as err:
        raise ArgumentError(f"{name}={value!r} must be a whole number.") from err
    if at_least is not None and number < at_least:
        raise ArgumentError(f"{name}={number} must be {at_least} or more.")
    return number


def check_state(state: Any, kind: str, numbers: tuple[str, ...], own: dict[str, JSON]) -> None:
    """Refuse the state of another kind of object, or of another order.

    Args:
        state: The user's value.
        kind: The expected kind of object, for the message.
        numbers: Keys of integers. Only a seed may be negative.
        own: Keys whose values must be equal to these.
    """
    names = state if isinstance(state, dict) else {}
    for name in (*numbers, *own):
        if name not in names:
            raise ArgumentError(
                f"This is not the state of {kind}: it has no {name!r}, but {', '.join(sorted(names)) or repr(state)}."
            )
    for name in numbers:
        if name == "seed" and state[name] is None:  # the epoch draws it
            continue
        whole_number(f"state: {name}", state[name], at_least=None if name == "seed" else 0)
    for name, value in own.items():
        if state[name] != value:
            raise ArgumentError(
                f"The state is that of another order: {name} was {state[name]!r} and is {value!r} here. Give the "
                "sampler the dataset and the arguments that it had then."
            )
