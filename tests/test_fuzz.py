"""Fuzzing for a few seconds each time, other inputs each time; `FUZZ_SEED` gives the same ones again.

`FUZZ_SECONDS` makes it longer; see `tests.fuzz`.
"""

import os
import random

import pytest

from tests import fuzz


@pytest.mark.slow
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_fuzz(target: str) -> None:
    seed = int(os.environ.get("FUZZ_SEED", random.SystemRandom().randrange(1 << 32)))
    assert fuzz.fuzz(target, float(os.environ.get("FUZZ_SECONDS", "10")), seed) > 0
