"""`bench`: measure how fast the user's images become batches, with each loader."""

import contextlib
import dataclasses
import importlib
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from torch.utils.data import DataLoader, Subset
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.base.process import default_workers
from recordzoo.base.text import JSON, clean, counted, no_split
from recordzoo.cli import options
from recordzoo.cli.app import Exit
from recordzoo.errors import ArgumentError, FolderError, NotPreparedError, OtherSourceError, RecordZooError
from recordzoo.families.folders import files_folder
from recordzoo.families.record_set import RecordDataset, open_images
from recordzoo.families.selection import Selection, stored_selection
from recordzoo.loader.loader import RecordLoader
from recordzoo.preparing.changes import tree_of
from recordzoo.records.manifest import NO_SHARD
from recordzoo.records.reader import RecordReader

FILES, FILES_OURS = "DataLoader, files", "RecordLoader, files"
STOCK, EXACT, FAST = "DataLoader, records", "RecordLoader, records", "RecordLoader, records, fast"

DEFAULT = "RandomResizedCrop(224), RandomHorizontalFlip(), PILToTensor()"


@dataclass(frozen=True)
class Task:
    """The data and the options of a comparison.

    Attributes:
        tree: A tree of class folders. None: only records are measured.
        records: A record set, usually of the tree. None: only files are measured.
        split: A split of the record set. None: all images.
        transform: See `load_transform`.
        workers: Processes of DataLoader, threads of RecordLoader.
        num_images: Maximum number of images, chosen at random.
    """

    tree: Path | None
    records: Path | None
    split: str | None = None
    transform: str | None = None
    batch_size: int = 64
    workers: int = 2
    num_images: int = 500

    @property
    def loaders(self) -> list[str]:
        """The loaders that can be compared."""
        return [*((FILES, FILES_OURS) if self.tree else ()), *((STOCK, EXACT, FAST) if self.records else ())]


def load_transform(name: str | None) -> Callable[..., Any]:
    """Import a transform; without a name, make `DEFAULT`.

    Args:
        name: "module:name" as Python would import it in the current directory, or "file.py:name".

    Raises:
        ArgumentError: It cannot be imported, or cannot be called.
    """
    if name is None:
        from torchvision import transforms as T

        usual: Callable[..., Any] = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.PILToTensor()])
        return usual
    place, _, attribute = name.rpartition(":")
    file = Path(place)
    is_file = file.suffix == ".py"
    # A console script's path lacks the current directory; that of a file is also for its own imports.
    sys.path.insert(0, str(file.absolute().parent) if is_file else os.getcwd())
    try:
        transform: object = getattr(importlib.import_module(file.stem if is_file else place), attribute)
    except (Exception, SystemExit) as err:
        why = f"{type(err).__name__}: {err}"
        raise ArgumentError(f"--transform {name} cannot be imported as MODULE:NAME or FILE.py:NAME: {why}") from err
    if not callable(transform):
        kind = type(transform).__name__
        raise ArgumentError(f"--transform {name}: {attribute!r} is of type {kind}, which cannot be called.")
    return transform


_AT_LEAST_S = 1.0  # of the epochs after the first


def run(loader: str, task: Task) -> float:
    """Measure a loader in this process, which did nothing before: images per second, in whole epochs after the first.

    Raises:
        ArgumentError: There is no such transform or split.
        OtherSourceError: The records are not images.
    """
    is_stock = loader in (FILES, STOCK)
    arguments: dict[str, Any] = {"batch_size": task.batch_size, "shuffle": True, "num_workers": task.workers}
    arguments |= {"precision": "fast"} if loader == FAST else {}
    kind: Callable[..., Any] = DataLoader if is_stock else RecordLoader
    chosen = _open(loader, task, load_transform(task.transform))
    made = kind(chosen, persistent_workers=not is_stock or task.workers > 0, **arguments)
    deque(made, maxlen=0)  # not counted: workers start, files get into the page cache
    start, epochs = time.perf_counter(), 0
    while (took_s := time.perf_counter() - start) < _AT_LEAST_S or not epochs:
        deque(made, maxlen=0)
        epochs += 1
    return epochs * len(chosen) / took_s


def _open(loader: str, task: Task, transform: Callable[..., Any]) -> Subset[Any]:
    """Open the data of a loader and choose samples at random, the same ones each time."""
    dataset: Any  # either dataset
    if loader in (FILES, FILES_OURS):
        dataset = ImageFolder(str(task.tree), transform, allow_empty=True)
    else:
        dataset = Images(task.records, transform, task.split or "")  # type: ignore[arg-type]  # it is there
    chosen = random.Random(0).sample(range(len(dataset)), min(task.num_images, len(dataset)))
    return Subset(dataset, chosen)


class Images(RecordDataset):
    """The images of any record set, with their labels; each target is 0 where targets are something else or absent.

    Raises:
        NotPreparedError: There is no such split.
        OtherSourceError: There is no field "image".
    """

    def __init__(self, path: Path, transform: Callable[..., Any], split: str = "") -> None:
        self._start(path, transform=transform)
        reader = open_images(path)
        has_image = reader.array("image.index")["shard"] != NO_SHARD
        has_labels = False
        with contextlib.suppress(OtherSourceError):
            has_labels = stored_selection(reader).has_labels
        selection = Selection(reader, split)
        if not (has_image.all() and has_labels):
            positions = selection.all_positions()
            positions = positions[has_image[positions]]
            selection = Selection(reader, positions=positions, targets=np.zeros(len(positions), np.int64))
        self._show_files(selection, files_folder(reader, str(path)), default_loader, allow_empty=True)


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
                result.rounds.append(in_fresh_process(run, result.loader, task))
                said = f"{result.rounds[-1]:,.0f} images/s"
            except RecordZooError:
                raise
            except Exception as err:  # noqa: BLE001 - a user's transform may raise anything, in one of the loaders
                result.problem = said = f"{type(err).__name__}: {err}"
            tell(f"{number + 1}/{repeats} {result.loader}: {said}")
    return results


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


def bench(
    path: options.RecordSetHere,
    split: options.SplitOption = None,
    transform: Annotated[
        str | None,
        options.path_option(
            "MODULE:NAME|FILE.py:NAME",
            "Your own transforms; default: RandomResizedCrop(224), RandomHorizontalFlip(), PILToTensor().",
        ),
    ] = None,
    batch_size: Annotated[int, options.option("N", "Images in a batch.", min=1)] = 64,
    workers: Annotated[
        int | None,
        options.option("N", "Processes of DataLoader, threads of RecordLoader; default: a core each.", min=0),
    ] = None,
    images: Annotated[
        int, options.option("N", "How many images make an epoch, at most, chosen at random.", min=1)
    ] = 500,
    repeats: Annotated[int, options.option("N", "How often each loader is measured.", min=1)] = 5,
    as_json: options.Json = False,
) -> int:
    """Measure how fast your images become batches: from class folders, and from their records if they are there.

    The loaders take turns, each time in a fresh process. Each number is the median of all rounds.
    """
    workers = default_workers() if workers is None else workers
    tree, records = find_images(path, split)
    task = Task(tree, records, split, transform, batch_size, workers, images)
    results = compare(task, repeats, options.say)
    if as_json:
        options.put_json({"bench": document(results, task, repeats)})
    else:
        loading = f"batches of {batch_size}, {counted(workers, 'worker')}"
        asked = f"up to {counted(images, 'image')}, {loading}, medians of {repeats}"
        problems = [f"{result.loader} did not run: {result.problem}" for result in results if result.problem]
        lines = [table(results), "", asked, f"transform: {clean(transform or DEFAULT)}", *problems]
        options.put("\n".join(lines))
    return Exit.FAILED if any(result.problem for result in results) else Exit.OK


def find_images(path: str, split: str | None) -> tuple[Path | None, Path | None]:
    """Find a tree and its record set; None for the one that is not there."""
    try:
        reader = RecordReader(options.find_local_set(path, "bench"))
    except NotPreparedError:
        if split is not None or not Path(path).is_dir():
            raise
        return Path(path), None
    options.say_changes(reader)
    counts = reader.manifest.splits
    if split is not None and split not in counts:
        raise no_split(reader.path, split, counts)
    if not (len(reader) if split is None else counts[split]):
        of_split = f" of the split {split!r}" if split else ""
        raise FolderError(f"There are no images{of_split} in {reader.path}.", path=str(reader.path))
    tree = tree_of(reader)[0]
    return Path(tree) if os.path.isdir(tree) else None, reader.folder


def table(results: Sequence[Result]) -> str:
    """Format the medians, with the slowest and the fastest round; ratios are to the first loader that ran."""
    base = next((result.images_per_s for result in results if result.images_per_s), 0.0)
    rows = []
    for result in results:
        speed = result.images_per_s
        spread = f"{min(result.rounds):,.0f}-{max(result.rounds):,.0f}" if speed else ""
        cells = (f"{speed:,.0f}", spread, f"{speed / base:.2f}x") if speed else ("did not run", "", "")
        rows.append((result.loader, *cells))
    return options.table(("LOADER", "IMAGES/S", "FROM-TO", "RATIO"), rows)


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
