"""The comparison: the loaders in turn, in fresh processes, and whether a difference is real; no torch."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from recordzoo.bench.measure import Measurement, in_fresh_process
from recordzoo.bench.task import Result, Task
from recordzoo.errors import RecordZooError

Verdict = Literal["first", "faster", "slower", "the same", "too noisy", "too few rounds"]

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


def compare(task: Task, repeats: int, tell: Callable[[str], None]) -> list[Result]:
    """Measure all loaders in turn, `repeats` times, each time in a fresh process; `tell` gets a line for each.

    Raises:
        RecordZooError: The task itself cannot be done, by no loader.
    """
    runs: dict[str, list[Measurement]] = {loader: [] for loader in task.loaders}
    problems: dict[str, str] = {}
    for number, loader in turns(task.loaders, repeats):
        if loader in problems:
            continue
        found = runs[loader]
        try:
            found.append(in_fresh_process(_run, loader, task))
        except RecordZooError:
            raise
        except Exception as err:  # noqa: BLE001 - a person's transform may raise anything, in one of the loaders
            problems[loader] = f"{type(err).__name__}: {err}"
            tell(f"{number + 1}/{repeats} {loader}: {problems[loader]}")
        else:
            tell(f"{number + 1}/{repeats} {loader}: {found[-1].images_per_s:,.0f} images/s")
    return [Result(loader, tuple(found), problems.get(loader, "")) for loader, found in runs.items()]


def turns(loaders: Sequence[str], repeats: int) -> Iterator[tuple[int, str]]:
    """Yield round and loader. Every second round goes backwards: a machine that slows down meets all loaders alike."""
    for number in range(repeats):
        for loader in loaders if number % 2 == 0 else reversed(loaders):
            yield number, loader


def comparisons(results: Sequence[Result]) -> list[Comparison | None]:
    """Compare each loader with the first that ran; None for those that did not run."""
    speeds = [None if result.median is None else [run.images_per_s for run in result.runs] for result in results]
    first = next((index for index, each in enumerate(speeds) if each), None)
    if first is None:
        return [None] * len(results)
    found: list[Comparison | None] = []
    for index, each in enumerate(speeds):
        compared = None if each is None else compare_speeds(each, speeds[first] or ())
        found.append(replace(compared, verdict="first") if compared and index == first else compared)
    return found


def _run(loader: str, task: Task) -> Measurement:
    from recordzoo.bench.loaders import run  # imports torch, which only the fresh process needs

    return run(loader, task)


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
