"""The seed of an order: given, or drawn at random. With several ranks, a drawn seed becomes 0."""

import operator
from typing import Any

import torch

from recordzoo.errors import ArgumentError


# Any: whatever a user gave, or a file had.
def whole_number(name: str, value: Any, *, at_least: int | None = None) -> int:
    """Return a value that must be an integer.

    Raises:
        ArgumentError: It is none, or too small.
    """
    try:
        number = operator.index(value)
    except TypeError as err:
        raise ArgumentError(f"{name}={value!r} must be a whole number.") from err
    if at_least is not None and number < at_least:
        raise ArgumentError(f"{name}={number} must be {at_least} or more.")
    return number


class Seed:
    """A seed that may change once: if it was drawn, it becomes 0 as soon as an epoch has several ranks.

    Otherwise each rank would have its own seed and order: some samples would come twice, others never.

    Args:
        value: The seed.
        is_drawn: Whether it was drawn, so that other ranks do not know it.

    Raises:
        ArgumentError: The seed is no integer.
    """

    def __init__(self, value: int, *, is_drawn: bool = False) -> None:
        self._value, self._is_drawn = whole_number("seed", value), is_drawn

    @classmethod
    def drawn(cls, generator: torch.Generator | None) -> "Seed":
        """Draw a seed from a generator, by default torch's own."""
        return cls(int(torch.empty((), dtype=torch.int64).random_(generator=generator)), is_drawn=True)

    def among(self, num_replicas: int) -> int:
        """Return the seed that an epoch of this many ranks would have."""
        return 0 if self._is_drawn and num_replicas > 1 else self._value

    def settle(self, num_replicas: int) -> int:
        """Return the seed of an epoch of this many ranks that begins now; if it is 0 for their sake, it stays 0."""
        if num_replicas > 1:
            self.set(self.among(num_replicas))
        return self._value

    def set(self, value: int) -> None:
        """Make this the seed, as if it had been given."""
        self._value, self._is_drawn = value, False
