"""Whether a difference of speeds is real: a verdict over rounds that were measured in turn."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["faster", "slower", "the same", "too noisy", "too few rounds"]

LEAST_ROUNDS = 3
"""With fewer rounds, all agree too often by chance."""

_SAME = 1.1
"""Ratios around 1 are "the same" if the largest is at most 1.1 times the smallest; else they are noise."""


@dataclass(frozen=True)
class Comparison:
    """The speed of a loader relative to the first one: median, smallest and largest ratio of all rounds.

    The verdict is "faster" or "slower" if every round says so; else "the same" if the ratios are close, or "too noisy".
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict


def compare_speeds(speeds: Sequence[float], first: Sequence[float]) -> Comparison:
    """Compare the speeds of a loader with those of the first, round by round; at least one round each."""
    ratios = [speed / base for speed, base in zip(speeds, first, strict=False)]
    low, high = min(ratios), max(ratios)
    return Comparison(statistics.median(ratios), low, high, _verdict(low, high, len(ratios)))


def _verdict(low: float, high: float, rounds: int) -> Verdict:
    if rounds < LEAST_ROUNDS:
        return "too few rounds"
    if low > 1:
        return "faster"
    if high < 1:
        return "slower"
    return "the same" if high <= low * _SAME else "too noisy"
