"""The table of a comparison of formats, and what stands below it."""

import statistics
from collections.abc import Sequence

from benchmarks import pages
from benchmarks.formats.base import Task
from benchmarks.formats.results import Comparing
from recordzoo.base.progress import format_bytes

HEAD = ("images a second", "size", "written in, s", "bytes", "bytes, cold", "decoded, cold")
_SPEEDS: tuple[tuple[Task, str], ...] = (("bytes", "random"), ("bytes", "cold"), ("images", "cold"))
_COLD = "dropped from the page cache"
_NOT_COLD = "not measured: this system does not let a program drop files from the page cache"


def table(found: Comparing) -> str:
    """Make the table: size, writing and speeds of each format with the most workers."""
    rows: list[Sequence[str]] = []
    for result in found.results:
        if result.is_measured:
            speeds = [result.median((task, found.workers[-1]), number) for task, number in _SPEEDS]
            title = result.format.title + (" \\*" if result.format.shuffle else "")
            cells = [f"{value:,.0f}" if value else "-" for value in speeds]
            rows.append(
                (
                    title,
                    f"{result.size_bytes / found.image_bytes:.2f}x",
                    f"{statistics.median(result.write_s):.2f}",
                    *cells,
                )
            )
    return pages.table(HEAD, rows, numbers=True)


def notes(found: Comparing) -> list[str]:
    """Say how it was measured, what the numbers do not tell, and which formats have none."""
    lines = [
        f"{found.num_images:,} images, {format_bytes(found.image_bytes)}, random order (\\*: within blocks); "
        f"{found.workers[-1]} workers of torch's `DataLoader`, medians of {found.repeats}. Cold: "
        f"{_COLD if found.can_be_cold else _NOT_COLD}. Decoded: Pillow, then {found.transform}."
    ]
    if found.is_disturbed:
        lines.append(f"The load average was {found.load:.1f} before the first measurement: measure again.")
    lines += [
        f"{result.format.title} was not measured: {result.left_out or result.problem}."
        for result in found.results
        if not result.is_measured
    ]
    return lines
