"""One measurement of one format, in a process that did nothing before."""

import gc
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.formats.base import TASKS, Format, Reading, Task, files_of, size_bytes
from benchmarks.formats.pictures import samples_of
from benchmarks.formats.results import Speeds
from benchmarks.usage import CAN_FORGET, forget, memory_bytes
from recordzoo.errors import RecordZooError

AT_LEAST_S = 0.5
"""How long epochs from the page cache are repeated, at least."""

_SAMPLED_EVERY_S = 0.05


def write(made: Format, place: Path, source: Path) -> tuple[float, int]:
    """Write a format anew, and return the seconds until it is on the disk, and its bytes."""
    samples = samples_of(source)
    few = _few(place)
    for each in (few, place):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    made.write(samples[:2], few)  # imports; the package tfrecord cannot read an index of one record
    start = time.perf_counter()
    made.write(samples, place)
    _write_out(files_of(place))
    return time.perf_counter() - start, size_bytes(place)


def measure(made: Format, place: Path, reading: Reading, num_images: int, num_bytes: int) -> dict[Task, Speeds]:
    """Read the bytes, then decoded images.

    Args:
        reading: Its task and order are not looked at.
        num_images: How many images an epoch must give.
        num_bytes: How many bytes they have together.

    Raises:
        RecordZooError: An epoch gave other images.
    """
    found: dict[Task, Speeds] = {}
    for task in TASKS:
        of_task = replace(reading, task=task)
        for _ in made.read(_few(place), replace(of_task, workers=0)):  # imports
            pass
        gc.collect()  # a database may not be open twice in a process
        found[task] = _measure(made, place, of_task, _Epoch(num_images, num_bytes if task == "bytes" else None))
        gc.collect()  # what a process has mapped stays in the page cache
    return found


def _measure(made: Format, place: Path, reading: Reading, epoch: "_Epoch") -> Speeds:
    """Read cold in random order, warm in random order, look at the memory, and read warm in the stored order."""
    random = replace(reading, order="random")
    forget(files_of(place))
    start = time.perf_counter()
    loader = made.read(place, random)
    epoch.run(loader)
    cold = epoch.num_images / (time.perf_counter() - start) if CAN_FORGET else None
    warm = epoch.repeat(loader)
    with _peak_memory() as peak:
        epoch.run(loader)
    del loader
    gc.collect()
    loader = made.read(place, replace(reading, order="sequential"))
    epoch.run(loader)  # starts the workers
    return Speeds(epoch.repeat(loader), warm, cold, peak())


def _write_out(paths: Iterable[Path]) -> None:
    for path in paths:
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def _few(place: Path) -> Path:
    """Return the place of two images, with which all code is imported before the clock runs."""
    return place.with_name(f"{place.name}-few")


class _Epoch:
    """Runs through loaders, and checks that all images came.

    Args:
        num_bytes: Of all images; None: batches are of decoded images.
    """

    def __init__(self, num_images: int, num_bytes: int | None) -> None:
        self.num_images, self._num_bytes = num_images, num_bytes

    # Any: batches are whatever the reader makes.
    def run(self, loader: Iterable[Any]) -> None:
        count = total = 0
        for images, _ in loader:
            count += len(images)
            if self._num_bytes is not None:
                total += int(images.sum())
        if count != self.num_images or total != (self._num_bytes or 0):
            told = f" of {total:,} bytes instead of {self._num_bytes:,}" if self._num_bytes is not None else ""
            raise RecordZooError(f"An epoch gave {count:,} images instead of {self.num_images:,}{told}.")

    def repeat(self, loader: Iterable[Any]) -> float:
        """Return images a second."""
        start, epochs = time.perf_counter(), 0
        while (took := time.perf_counter() - start) < AT_LEAST_S or not epochs:
            self.run(loader)
            epochs += 1
        return epochs * self.num_images / took


@contextmanager
def _peak_memory() -> Iterator[Callable[[], float | None]]:
    """Watch the memory of this process and of those below it; yields a function that returns the largest."""
    ended, found = threading.Event(), [memory_bytes()]

    def watch() -> None:
        while not ended.wait(_SAMPLED_EVERY_S):
            found.append(memory_bytes())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda: max((each for each in found if each is not None), default=None)
    finally:
        found.append(memory_bytes())
        ended.set()
        thread.join()
