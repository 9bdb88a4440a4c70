"""The tables of a comparison of formats."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.formats.base import TASKS, Task
from benchmarks.formats.results import Case, Comparing, Result, median_text, ratio_text
from benchmarks.verdicts import LEAST_ROUNDS
from recordzoo.base.progress import format_bytes

_TASKS: dict[Task, str] = {"bytes": "Bytes alone", "images": "Decoded images"}
_COLD = "the files' contents were dropped from the page cache (posix_fadvise); their names stay cached"
_NOT_COLD = "not measured: this system does not let a program drop files from the page cache"


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        title: What is above it.
        head: The columns' names.
        rows: A cell for each column.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(found: Comparing) -> list[Table]:
    """Make all tables: size and writing, then speeds of each task with each number of workers."""
    measured = [result for result in found.results if result.is_measured]
    cases = [(task, workers) for task in TASKS for workers in found.workers]
    return [_storing(found, measured), *(_speeds(found, measured, case) for case in cases)]


def not_measured(found: Comparing) -> list[str]:
    """Say which formats have no numbers, why, and what helps."""
    lines = []
    for result in found.results:
        if result.left_out or result.problem:
            lines.append(f"{result.format.title} was not measured: {result.left_out or result.problem}")
    return lines


def notes(found: Comparing) -> list[str]:
    """Say how it was measured, and what the numbers do not tell."""
    lines = [
        f"{found.num_images:,} images, {format_bytes(found.image_bytes)}; batches of {found.batch_size}; medians of "
        f"{found.repeats}, formats in turn, each in a fresh process",
        f"in parentheses: relative to {found.results[0].format.title}, each round with the same round",
        f"cold: {_COLD if found.can_be_cold else _NOT_COLD}",
        f"decoded images: Pillow, then {found.transform}",
    ]
    if found.repeats < LEAST_ROUNDS:
        lines.append(f"Fewer than {LEAST_ROUNDS} rounds do not show how much the numbers vary: --repeats 5.")
    elif any("?" in text for table in tables(found) for row in table.rows for text in row):
        lines.append("?: the rounds do not agree which is faster.")
    if found.is_disturbed:
        lines.append(
            f"Other work ran on this machine: the load average was {found.load:.1f} before the first measurement, on "
            f"{found.cores} cores. These numbers do not tell which format is faster. Measure again "
            "while nothing else runs."
        )
    return lines


def _storing(found: Comparing, measured: Sequence[Result]) -> Table:
    rows = [
        (
            result.format.title,
            format_bytes(result.size_bytes),
            f"{result.size_bytes / found.image_bytes:.2f}x",
            f"{statistics.median(result.write_s):.2f} s",
        )
        for result in measured
    ]
    return Table("Size and writing", ("Format", "Size", "Of the images", "Write"), rows)


def _speeds(found: Comparing, measured: Sequence[Result], case: Case) -> Table:
    rows = []
    for result in measured:
        cells = [result.format.title + (" *" if result.format.shuffle else "")]
        for number in ("sequential", "random", "cold"):
            ratio = ratio_text(found.comparison(result, case, number))
            cells.append(median_text(result, case, number) + (f" ({ratio})" if ratio else ""))
        memory = median_text(result, case, "memory_bytes", lambda value: f"{value / 1e6:,.0f}")
        rows.append((*cells, memory))
    head = ("Format", "Sequential", "Random", "Cold random", "Peak memory, MB")
    return Table(f"{_TASKS[case[0]]}, {_count(case[1])}: images a second", head, rows)


def _count(workers: int) -> str:
    return f"{workers} worker{'' if workers == 1 else 's'}"
