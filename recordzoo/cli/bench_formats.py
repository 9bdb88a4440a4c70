"""`bench --formats`: how large a person's own images are in each format, and how fast they are written and read."""

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recordzoo.aliases import JSON
from recordzoo.bench.formats import NAMES
from recordzoo.bench.formats.compare import Plan, compare
from recordzoo.bench.formats.page import write_page
from recordzoo.bench.formats.results import READINGS, Comparing, Result
from recordzoo.bench.formats.tables import not_measured, notes, tables
from recordzoo.cli import output, targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.tables import table as table_of
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.errors import ArgumentError
from recordzoo.meant import did_you_mean
from recordzoo.system.processes import cores

ALL = "all"


def formats_of(text: str) -> list[str]:
    """Return the formats that ``--formats`` names, in the order of the tables; files always, as the others' baseline.

    Raises:
        ArgumentError: One does not exist.
    """
    names = NAMES if text == ALL else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in NAMES:
            there = f"There are {', '.join(NAMES)}, and {ALL}."
            raise ArgumentError(f"--formats {text}: there is no {name!r}. {there}{did_you_mean(name, NAMES)}")
    return [name for name in NAMES if name in names or name == NAMES[0]]


# Any: the other attributes of the plan.
def plan_of(path: str, formats: str, *, work: Path | None, workers: int | None, **options: Any) -> Plan:
    """Find the tree or the record set that a path means, and where formats are written.

    Args:
        formats: As `formats_of` takes it.
        work: Where formats are written; None: beside the images.
        workers: The number of workers; None: 0, 2 and all cores.

    Raises:
        NotPreparedError: There is neither a tree nor a record set.
        ArgumentError: It is at a URL, or there is no such format or directory.
    """
    names = formats_of(formats)
    found = Path(path) if Path(path).is_dir() else targets.find_local_set(path, "bench")
    folder = found.absolute().parent if work is None else work
    if not folder.is_dir():
        raise ArgumentError(f"--work {folder} is no directory.")
    numbers = sorted({0, 2, cores()}) if workers is None else [workers]
    return Plan(path=found, names=names, work=folder, workers=numbers, **options)


def bench_formats(plan: Plan, *, page: Path | None, chart: Path | None, as_json: bool) -> int:
    """Measure, and print tables; returns the exit code.

    Raises:
        ArgumentError: A page is no Markdown, or a chart is asked for, which only a page has.
    """
    if chart is not None:
        raise ArgumentError("--output does not go with --formats, whose charts are beside the page: --page FILE.md")
    if page is not None and page.suffix.lower() != ".md":
        raise ArgumentError(f"--page {page} does not end with .md: a page is Markdown.")
    found = compare(plan, output.say)
    if page is not None:
        write_page(page, found, _command(plan))
    if as_json:
        output.put_json({"bench_formats": document(found)})
    else:
        parts = [f"{each.title}\n{table_of([name.upper() for name in each.head], each.rows)}" for each in tables(found)]
        lines = ["\n\n".join(parts), "", *notes(found), *_footnote(found.results), *not_measured(found)]
        output.put(wrapped("\n".join(lines), wrapping_width()))
    return Exit.FAILED if any(result.problem for result in found.results) else Exit.OK


def document(found: Comparing) -> dict[str, JSON]:
    """Make the JSON, under stable keys; sizes in bytes, times in seconds, speeds in images a second."""
    facts = {each.name: getattr(found, each.name) for each in dataclasses.fields(found) if each.name != "results"}
    return {**facts, "formats": [_format(found, result) for result in found.results]}


def _format(found: Comparing, result: Result) -> dict[str, JSON]:
    return {
        "name": result.format.name,
        "title": result.format.title,
        "size_bytes": result.size_bytes if result.is_measured else None,
        "write_s": list(result.write_s),
        "problem": result.problem or None,
        "left_out": result.left_out or None,
        "readings": [
            {
                "task": task,
                "workers": workers,
                "median": {number: result.median((task, workers), number) for number in (*READINGS, "memory_bytes")},
                "ratio": {number: _ratio(found, result, (task, workers), number) for number in READINGS},
                "runs": [dataclasses.asdict(run) for run in runs],
            }
            for (task, workers), runs in result.runs.items()
        ],
    }


def _ratio(found: Comparing, result: Result, case: Any, number: str) -> float | None:  # Any: a Case
    compared = found.comparison(result, case, number)
    return None if compared is None else compared.ratio


def _footnote(results: Sequence[Result]) -> list[str]:
    return [
        f"* {result.format.title}: {result.format.shuffle}"
        for result in results
        if result.is_measured and result.format.shuffle
    ]


def _command(plan: Plan) -> str:
    """Return the command for a page, without directories of this machine and the address of a server."""
    names = ALL if len(plan.names) == len(NAMES) else ",".join(plan.names)
    words = ["recordzoo", "bench", plan.path.name, "--formats", names]
    words += ["--images", str(plan.num_images), "--repeats", str(plan.repeats)]
    words += ["--workers", str(plan.workers[0])] if len(plan.workers) == 1 else []
    words += ["--transform", plan.transform] if plan.transform else []
    words += ["--mongo", "ADDRESS"] if plan.server else []
    return shlex.join([*words, "--page", "formats.md"])
