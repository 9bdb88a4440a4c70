"""`bench`: measure how fast the user's images become batches, with each loader."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from recordzoo.base.meant import no_split
from recordzoo.base.text import clean
from recordzoo.base.types import JSON
from recordzoo.base.workers import default_workers
from recordzoo.bench.compare import Result, compare
from recordzoo.bench.task import DEFAULT, Task
from recordzoo.cli import output as printed
from recordzoo.cli import targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import Json, RecordSet, SplitOption, option, path_option
from recordzoo.cli.tables import table as table_of
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.errors import FolderError, NotPreparedError
from recordzoo.preparing.directories import KnownDirectories
from recordzoo.records.reader import RecordReader


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
    images: Annotated[int, option("N", "How many images make an epoch, at most, chosen at random.", min=1)] = 500,
    repeats: Annotated[int, option("N", "How often each loader is measured.", min=1)] = 5,
    as_json: Json = False,
) -> int:
    """Measure how fast your images become batches: from class folders, and from their records if they are there.

    The loaders take turns, each time in a fresh process. Each number is the median of all rounds.
    """
    workers = default_workers() if workers is None else workers
    tree, records = find_images(path, split)
    task = Task(tree, records, split, transform, batch_size, workers, images)
    results = compare(task, repeats, printed.say)
    if as_json:
        printed.put_json({"bench": document(results, task, repeats)})
    else:
        asked = f"up to {images:,} images, batches of {batch_size}, {workers} workers, medians of {repeats}"
        problems = [f"{result.loader} did not run: {result.problem}" for result in results if result.problem]
        lines = [table(results), "", asked, f"transform: {clean(transform or DEFAULT)}", *problems]
        printed.put(wrapped("\n".join(lines), wrapping_width()))
    return Exit.FAILED if any(result.problem for result in results) else Exit.OK


def find_images(path: str, split: str | None) -> tuple[Path | None, Path | None]:
    """Find a tree and its record set; None for the one that is not there."""
    try:
        reader = RecordReader(targets.find_local_set(path, "bench"))
    except NotPreparedError:
        if split is not None or not Path(path).is_dir():
            raise
        return Path(path), None
    targets.say_changes(reader)
    counts = reader.manifest.splits
    if split is not None and split not in counts:
        raise no_split(reader.path, split, counts)
    if not (len(reader) if split is None else counts[split]):
        of_split = f" of the split {split!r}" if split else ""
        raise FolderError(f"There are no images{of_split} in {reader.path}.", path=str(reader.path))
    known = KnownDirectories.of(reader)
    return Path(known.root) if known is not None and Path(known.root).is_dir() else None, reader.folder


def table(results: Sequence[Result]) -> str:
    """Format the medians, with the slowest and the fastest round; ratios are to the first loader that ran."""
    base = next((result.images_per_s for result in results if result.images_per_s), 0.0)
    rows = []
    for result in results:
        speed = result.images_per_s
        spread = f"{min(result.rounds):,.0f}-{max(result.rounds):,.0f}" if speed else ""
        cells = (f"{speed:,.0f}", spread, f"{speed / base:.2f}x") if speed else ("did not run", "", "")
        rows.append((result.loader, *cells))
    return table_of(("LOADER", "IMAGES/S", "FROM-TO", "RATIO"), rows)


def document(results: Sequence[Result], task: Task, repeats: int) -> dict[str, JSON]:
    """Make the JSON, under stable keys."""
    return {
        **dataclasses.asdict(task),
        "transform": task.transform or DEFAULT,
        "repeats": repeats,
        "loaders": [
            {**dataclasses.asdict(result), "images_per_s": result.images_per_s, "problem": result.problem or None}
            for result in results
        ],
    }
