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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defect", "report"),
    [
        ("error", "exit code 1: .*KeyError: 'input'"),
        ("death", "SIGSEGV"),
        ("hang", "SIGALRM"),
        ("memory", "exit code 1: .*AssertionError: .* bytes of memory"),
    ],
)
def test_what_an_input_breaks_is_reported_with_it(defect: str, report: str) -> None:
    held = b"x" * (700 << 20) if defect == "memory" else b"x"  # as pytest may hold, which is not the child's
    with pytest.raises(AssertionError, match=f"(?s){defect} with seed 5 ended with {report}.*The input, [1-9]"):
        fuzz.fuzz(defect, 60, 5)
    assert held
