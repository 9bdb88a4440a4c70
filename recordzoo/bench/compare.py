"""The comparison: measurements of loaders in turn, each in a fresh process; no torch."""

import multiprocessing
import os
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from recordzoo.bench.task import Task
from recordzoo.errors import RecordZooError

T = TypeVar("T")


@dataclass
class Result:
    """A loader's images per second in each round, or why there are none."""

    loader: str
    rounds: list[float] = field(default_factory=list)
    problem: str = ""

    @property
    def images_per_s(self) -> float | None:
        """The median of the rounds; None if it did not run."""
        return None if self.problem else statistics.median(self.rounds)


def compare(task: Task, repeats: int, tell: Callable[[str], None]) -> list[Result]:
    """Measure all loaders in turn, `repeats` times, each time in a fresh process; `tell` gets a line for each.

    Every second round goes backwards: a machine that slows down meets all loaders alike.

    Raises:
        RecordZooError: The task itself cannot be done, by no loader.
    """
    results = [Result(loader) for loader in task.loaders]
    for number in range(repeats):
        for result in results if number % 2 == 0 else reversed(results):
            if result.problem:
                continue
            try:
                result.rounds.append(in_fresh_process(_run, result.loader, task))
                said = f"{result.rounds[-1]:,.0f} images/s"
            except RecordZooError:
                raise
            except Exception as err:  # noqa: BLE001 - a user's transform may raise anything, in one of the loaders
                result.problem = said = f"{type(err).__name__}: {err}"
            tell(f"{number + 1}/{repeats} {result.loader}: {said}")
    return results


def _run(loader: str, task: Task) -> float:
    from recordzoo.bench.loaders import run  # imports torch, which only the fresh process needs

    return run(loader, task)


def in_fresh_process(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a process of its own, which ends afterwards; its errors are raised here."""
    # Not loky: in its processes torch's DataLoader starts workers as loky does, which fails.
    spawn, usual = multiprocessing.get_context("spawn"), multiprocessing.get_start_method()
    with ProcessPoolExecutor(1, spawn, _set_up, (usual,)) as executor:
        return executor.submit(function, *arguments).result()


def _set_up(method: str) -> None:
    """Start DataLoader's workers as in a user's program; wait for compiled code before measuring."""
    os.environ.setdefault("RECORDZOO_COMPILE", "wait")
    multiprocessing.set_start_method(method, force=True)
