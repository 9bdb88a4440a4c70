"""`bench`: measure how fast the user's images become batches, with each loader."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from recordzoo.base.meant import no_split
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.base.types import JSON
from recordzoo.base.workers import default_workers
from recordzoo.bench.chart import Group, draw_chart, write_chart
from recordzoo.bench.compare import LEAST_ROUNDS, Comparison, compare, comparisons
from recordzoo.bench.measure import Measurement
from recordzoo.bench.task import FILES, Result, Task
from recordzoo.bench.transform import DEFAULT
from recordzoo.cli import output as printed
from recordzoo.cli import targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import Json, RecordSet, SplitOption, file_option, option, path_option
from recordzoo.cli.tables import table as table_of
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.errors import ArgumentError, FolderError
from recordzoo.preparing.directories import KnownDirectories
from recordzoo.records.reader import RecordReader
from recordzoo.system.usage import CAN_FORGET


def bench(
    path: RecordSet,
    split: SplitOption = None,
    transform: Annotated[
        str | None,
        path_option(
            "MODULE:NAME|FILE.py:NAME",
            "Your own transforms; default: RandomResizedCrop(224), RandomHorizontalFlip(), PILToTensor().",
        ),
    ] = None,
    batch_size: Annotated[int, option("N", "Images in a batch.", min=1)] = 64,
    workers: Annotated[
        int | None, option("N", "Processes of DataLoader, threads of RecordLoader; default: a core each.", min=0)
    ] = None,
    images: Annotated[int, option("N", "How many images make an epoch, chosen at random.", min=1)] = 500,
    repeats: Annotated[int, option("N", "How often each loader is measured.", min=1)] = 5,
    output: Annotated[Path | None, file_option("Also draw the chart into this PNG file.")] = None,
    as_json: Json = False,
) -> int:
    """Measure how fast your images become batches: with ImageFolder if the tree is there, and from its records.

    The loaders take turns, each time in a fresh process: images a second, the first epoch with cold caches, the time to
    the first batch, CPU time and memory. Each number is the median of all rounds; speeds come with the smallest and
    largest, and with a verdict: "faster" or "slower" only if every round says so.
    """
    task = find_task(
        path,
        num_images=images,
        split=split,
        transform=transform,
        batch_size=batch_size,
        workers=default_workers() if workers is None else workers,
    )
    if output is not None and output.suffix.lower() != ".png":
        raise ArgumentError(f"--output {output} does not end with .png: a chart is a PNG.")
    results = compare(task, repeats, printed.say)
    if output is not None:
        write_chart(output, draw_results(results, task, repeats))
    if as_json:
        printed.put_json({"bench": document(results, task, repeats)})
    else:
        problems = [f"{result.loader} did not run: {result.problem}" for result in results if result.problem]
        lines = [table(results), "", *doubts(results, repeats), *_notes(task, repeats), *problems]
        printed.put(wrapped("\n".join(lines), wrapping_width()))
    return Exit.FAILED if any(result.problem for result in results) else Exit.OK


# Any: the other options of the task.
def find_task(path: str, *, num_images: int, split: str | None, **options: Any) -> Task:
    """Find the record set of a path, and the tree that it was made from, if that exists."""
    reader = RecordReader(targets.find_local_set(path, "bench"))
    targets.say_changes(reader)
    counts = reader.manifest.splits
    if split is not None and split not in counts:
        raise no_split(reader.path, split, counts)
    total = len(reader) if split is None else counts[split]
    if not total:
        of_split = f" of the split {split!r}" if split else ""
        raise FolderError(f"There are no images{of_split} in {reader.path}.", path=str(reader.path))
    known = KnownDirectories.of(reader)
    tree = Path(known.root) if known is not None and Path(known.root).is_dir() else None
    return Task(reader.folder, tree, split, num_images=min(num_images, total), **options)


def table(results: Sequence[Result]) -> str:
    """Format the numbers: the speeds with their spread, then the rest."""
    compared = zip(results, comparisons(results), strict=True)
    speeds = [(result.loader, *_speed_cells(result, each)) for result, each in compared]
    others = [(result.loader, *_other_cells(result.median)) for result in results if result.median is not None]
    parts = [table_of(("LOADER", "IMAGES/S", "FROM-TO", "RATIO", "FROM-TO", "VERDICT"), speeds)]
    if others:
        parts.append(table_of(("LOADER", "FIRST EPOCH", "FIRST BATCH", "CPU/IMAGE", "MEMORY"), others))
    return "\n\n".join(parts)


def document(results: Sequence[Result], task: Task, repeats: int) -> dict[str, JSON]:
    """Make the JSON, under stable keys."""
    return {
        **dataclasses.asdict(task),
        "transform": task.transform or DEFAULT,
        "repeats": repeats,
        "first_epoch_is_cold": CAN_FORGET,
        "loaders": [
            {
                "name": result.loader,
                "median": None if result.median is None else dataclasses.asdict(result.median),
                "images_per_s_range": None if result.median is None else _range(result),
                "ratio": None if compared is None else compared.ratio,
                "ratio_range": None if compared is None else [compared.low, compared.high],
                "verdict": None if compared is None else compared.verdict,
                "runs": [dataclasses.asdict(run) for run in result.runs],
                "problem": result.problem or None,
            }
            for result, compared in zip(results, comparisons(results), strict=True)
        ],
    }


def draw_results(results: Sequence[Result], task: Task, repeats: int) -> Any:  # Any: an image of Pillow
    """Draw the medians as bars."""
    groups = [
        Group(
            result.loader,
            [result.median.images_per_s, result.median.first_epoch_images_per_s],
            _chart_note(compared),
            is_ours=result.loader != FILES,
        )
        for result, compared in zip(results, comparisons(results), strict=True)
        if result.median is not None and compared is not None
    ]
    series = ("warm", "first epoch" + (", cold" if CAN_FORGET else ""))
    return draw_chart(groups, f"{task.records.name}: images a second", _notes(task, repeats)[0], series)


def _chart_note(compared: Comparison) -> str:
    if compared.verdict == "first":
        return "1.00x"
    doubt = ", too noisy to tell" if compared.verdict == "too noisy" else ""
    return f"{compared.ratio:.2f}x ({_from_to(compared)}{doubt})"


def _from_to(compared: Comparison) -> str:
    return f"{compared.low:.2f}-{compared.high:.2f}"


def _range(result: Result) -> list[float]:
    speeds = [run.images_per_s for run in result.runs]
    return [min(speeds), max(speeds)]


def _speed_cells(result: Result, compared: Comparison | None) -> tuple[str, ...]:
    if result.median is None or compared is None:
        return "did not run", *[""] * 4
    low, high = _range(result)
    speeds = f"{result.median.images_per_s:,.0f}", f"{low:,.0f}-{high:,.0f}"
    if compared.verdict == "first":
        return *speeds, "1.00x", "", ""
    return *speeds, f"{compared.ratio:.2f}x", _from_to(compared), compared.verdict


def _other_cells(median: Measurement) -> tuple[str, ...]:
    return (
        f"{median.first_epoch_images_per_s:,.0f}",
        f"{median.first_batch_s:.2f} s",
        "-" if median.cpu_ms is None else f"{median.cpu_ms:.2f} ms",
        "-" if median.memory_bytes is None else format_bytes(int(median.memory_bytes)),
    )


def doubts(results: Sequence[Result], repeats: int) -> list[str]:
    """Describe comparisons that are too noisy to decide, and what helps."""
    found = comparisons(results)
    lines = [
        f"{result.loader}: too noisy to tell whether it is faster or slower: {_from_to(compared)} times as fast as "
        f"the first over {repeats} rounds."
        for result, compared in zip(results, found, strict=True)
        if compared is not None and compared.verdict == "too noisy"
    ]
    if lines:
        lines.append(f"Let nothing else run meanwhile, or measure more: --repeats {3 * repeats} --images 2000.")
    if any(compared is not None and compared.verdict == "too few rounds" for compared in found):
        lines.append(f"Fewer than {LEAST_ROUNDS} rounds do not show how much the numbers vary: --repeats 5.")
    return lines


def _notes(task: Task, repeats: int) -> list[str]:
    cold = "starts cold (the files' cached contents were dropped) and" if CAN_FORGET else "is not cold, but"
    return [
        f"{task.num_images:,} images, batches of {task.batch_size}, {task.workers} workers, medians of {repeats}",
        f"transform: {clean(task.transform or DEFAULT)}",
        f"The first epoch {cold} has the start of the workers in it; the other numbers are of later epochs, warm.",
    ]
