"""The page of a comparison of formats: Markdown with two charts."""

import datetime
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from PIL import Image

from benchmarks.formats.base import TASKS, Task
from benchmarks.formats.results import Case, Comparing, ratio_text
from benchmarks.formats.tables import Table, not_measured, notes, tables
from recordzoo import __version__
from recordzoo.base import durable
from recordzoo.bench.chart import Group, draw_chart, write_chart

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
_CHARTS: dict[Task, str] = {"images": "decoded images a second", "bytes": "images a second, bytes alone"}


def write_page(path: Path, found: Comparing, command: str) -> None:
    """Write the page, and its charts beside it: ``<page>-images.png`` and ``<page>-bytes.png``.

    Args:
        command: The command that measured, for the page.
    """
    for task in TASKS:
        write_chart(chart_path(path, task), _chart(found, task))
    durable.replace_file(path, _text(path, found, command).encode())


def chart_path(page: Path, task: Task) -> Path:
    """Return where a chart of a page lies."""
    return page.with_name(f"{page.stem}-{task}.png")


def _text(path: Path, found: Comparing, command: str) -> str:
    workers = found.workers[-1]
    parts = [
        "# Formats compared",
        "The same images in each format, read through torch's `DataLoader` with what people use for that format.",
        *([f"**{notes(found)[-1]}**"] if found.is_disturbed else []),
        f"```text\n{command}\n```",
        f"Measured on {_machine(found)}.",
        *(
            f"![{_CHARTS[task].capitalize()}, {workers} workers]({chart_path(path, task).name})"
            for task in ("images", "bytes")
        ),
        *(part for table in tables(found) for part in (f"## {table.title}", _markdown(table))),
        "## How it was measured",
        "\n".join(f"- {line[0].upper()}{line[1:]}" for line in [*notes(found), *_EXPLAINED]),
        "## How each format is read",
        _markdown(_readers(found)),
        "\\* These formats do not read each sample on its own: their random order is less random, and partly "
        "sequential reading.",
        "Versions: " + _versions() + ".",
    ]
    missing = not_measured(found)
    if missing:
        parts += ["## Not measured", "\n".join(f"- {line}" for line in missing)]
    return "\n\n".join(parts) + "\n"


_EXPLAINED = (
    "*Bytes alone*: each image's file as `bytes` in the process that reads it; nothing is decoded, and only the "
    "numbers of bytes reach the main process.",
    "*Sequential* and *random* are whole epochs from the page cache, after a first one. *Cold random* is the first "
    "epoch of a process, from opening the data to the last batch; the start of the workers is part of it, imports are "
    "not.",
    "*Write* ends when the data is on the disk (`fsync`). The images come from the page cache. Records are written by "
    "a process on each core from 16 MiB on; the other formats by one process, as their documentation shows it.",
    "*Peak memory* is that of all processes during an epoch in random order, shared pages counted once (PSS). Python "
    "and torch are part of it, and so is what a process has mapped of the page cache.",
    "Records are read with the `DataLoader`, too, and decoded by Pillow. `RecordLoader` is not measured here.",
)


def _readers(found: Comparing) -> Table:
    rows = [
        (each.title + (" *" if each.shuffle else ""), each.reader, each.shuffle or "each sample on its own")
        for each in (result.format for result in found.results)
    ]
    return Table("", ("Format", "Reader", "Random order"), rows)


def _markdown(table: Table) -> str:
    lines = [table.head, ["---", *["---:" if table.title else "---"] * (len(table.head) - 1)], *table.rows]
    return "\n".join(f"| {' | '.join(cell.replace('*', chr(92) + '*') for cell in line)} |" for line in lines)


def _chart(found: Comparing, task: Task) -> Image.Image:
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
    subtitle = f"{found.num_images:,} images in random order, {found.workers[-1]} workers"
    return draw_chart(groups, f"Formats: {_CHARTS[task]}", subtitle, ("from the page cache", "cold"))


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
