"""The section of a comparison of formats, and its two charts."""

import datetime
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from benchmarks import pages
from benchmarks.formats.base import TASKS, Task
from benchmarks.formats.results import Case, Comparing, ratio_text
from benchmarks.formats.tables import Table, not_measured, notes, tables
from benchmarks.svg import Group, draw
from recordzoo import __version__

SECTION = "formats"
_PACKAGES = (
    "torch",
    "torchvision",
    "pillow",
    "lmdb",
    "tfrecord",
    "webdataset",
    "mosaicml-streaming",
    "datasets",
    "pyarrow",
    "h5py",
)
_CHARTS: dict[Task, str] = {"images": "Decoded images a second", "bytes": "Images a second, bytes alone"}


def render(found: Comparing, command: str) -> dict[str, str]:
    """Return the section and its charts, by their names.

    Args:
        command: The command that measured.
    """
    workers = found.workers[-1]
    storing, *speeds = tables(found)
    parts = [
        *([f"**{notes(found)[-1]}**"] if found.is_disturbed else []),
        *(f"![{_CHARTS[task]}, {workers} workers]({chart_name(task)})" for task in TASKS[::-1]),
        _markdown(storing),
        pages.folded("Images a second, by task and workers", "\n\n".join(map(_titled, speeds))),
        pages.folded("How each format is read", _markdown(_readers(found))),
        "\n".join(f"- {line[0].upper()}{line[1:]}" for line in [*notes(found), *not_measured(found)]),
        f"`{command}`; {_machine(found)}; {_versions()}",
    ]
    return {SECTION: "\n\n".join(parts), **{chart_name(task): _chart(found, task) for task in TASKS}}


def chart_name(task: Task) -> str:
    """Return the name of a task's chart."""
    return f"benchmarks-formats-{task}.svg"


def _readers(found: Comparing) -> Table:
    rows = [
        (each.title + (" *" if each.shuffle else ""), each.reader, each.shuffle or "each sample on its own")
        for each in (result.format for result in found.results)
    ]
    return Table("", ("Format", "Reader", "Random order"), rows)


def _titled(made: Table) -> str:
    return f"{made.title}:\n\n{_markdown(made)}"


def _markdown(made: Table) -> str:
    head, *rows = ([cell.replace("*", "\\*") for cell in line] for line in (made.head, *made.rows))
    return pages.table(head, rows, numbers=bool(made.title))


def _chart(found: Comparing, task: Task) -> str:
    case: Case = (task, found.workers[-1])
    groups = [
        Group(
            result.format.title,
            [result.median(case, "random"), result.median(case, "cold")],
            ratio_text(found.comparison(result, case, "random")),
            is_ours=result.format.name == "records",
        )
        for result in found.results
        if result.is_measured
    ]
    return draw(groups, _CHARTS[task], ("random order, from the page cache", "random order, cold"))


def _machine(found: Comparing) -> str:
    return (
        f"{platform.machine()} with {found.cores} cores, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, {datetime.date.today().isoformat()}"
    )


def _versions(packages: Sequence[str] = _PACKAGES) -> str:
    found = [f"recordzoo {__version__}"]
    for name in packages:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
