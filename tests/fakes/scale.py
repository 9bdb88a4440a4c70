"""How large the fakes are: small for the tests, of thousands of photographs for `benchmarks/zoo.py`."""

import os

COUNT = int(os.environ.get("RECORDZOO_FAKE_COUNT", "1"))
"""How many times as many samples the fakes have."""

SIDE = int(os.environ.get("RECORDZOO_FAKE_SIDE", "1"))
"""How many times as wide and high their pictures are."""


def scaled(count: int) -> int:
    """Return how many samples a fake has that has so many in the tests."""
    return count * COUNT
