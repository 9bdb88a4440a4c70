"""What is compared: which loaders, on which images, how many; no torch."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recordzoo.benching.measure import Measurement, in_fresh_process, medians
from recordzoo.benching.spread import Comparison, compare_speeds
from recordzoo.errors import RecordZooError

FILES = "ImageFolder + DataLoader"
STOCK = "DataLoader over records"
EXACT = "RecordLoader, exact"
FAST = "RecordLoader, fast"

CAN_FORGET = hasattr(os, "posix_fadvise")
"""Whether the first epoch is a cold one."""


@dataclass(frozen=True)
class Task:
    """What each loader is given.

    Attributes:
        records: A record set.
        tree: The image tree that it was made from, if that is there.
        split: Only a split of the record set.
        transform: See `recordzoo.benching.transform.load_transform`.
        workers: Processes of DataLoader, threads of RecordLoader.
        num_images: So many of the images, chosen at random.
    """

    records: Path
    tree: Path | None = None
    split: str | None = None
    transform: str | None = None
    batch_size: int = 64
    workers: int = 2
    num_images: int = 500

    @property
    def loaders(self) -> list[str]:
        """The loaders that can be compared."""
        return [*([FILES] if self.tree else []), STOCK, EXACT, FAST]


@dataclass(frozen=True)
class Result:
    """How a loader did: its measurements, or why there are none."""

    loader: str
    runs: Sequence[Measurement] = ()
    problem: str = ""

    @property
    def median(self) -> Measurement | None:
        """The median of each number; None if it did not run."""
        return medians(self.runs) if self.runs and not self.problem else None


def compare(task: Task, repeats: int, tell: Callable[[str], None]) -> list[Result]:
    """Measure all loaders in turn, so many times over, each time in a fresh process.

    Args:
        tell: Told each measurement in a line.

    Raises:
        RecordZooError: What was asked for cannot be done by any of them.
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
    from recordzoo.benching.loaders import run  # torch, which only the fresh process needs

    return run(loader, task)
