"""How large the fakes are: small for the tests, of thousands of photographs for `benchmarks/zoo.py`."""

import os
from typing import Any

from numpy.typing import NDArray

COUNT = int(os.environ.get("RECORDZOO_FAKE_COUNT", "1"))
"""How many times as many samples the fakes have."""

SIDE = int(os.environ.get("RECORDZOO_FAKE_SIDE", "1"))
"""How many times as wide and high their pictures are."""

ONLY = os.environ.get("RECORDZOO_FAKE_ONLY", "")
"""The dataset whose fake is wanted: the contract leaves the others out, or small. None: all are."""


def scaled(count: int) -> int:
    """Return how many samples a fake has that has so many in the tests."""
    return count * COUNT


def enlarged(pixels: NDArray[Any]) -> NDArray[Any]:
    """Make an array `SIDE` times as wide and high."""
    return pixels.repeat(SIDE, 0).repeat(SIDE, 1)
