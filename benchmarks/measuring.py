"""One measurement of a loader: its speed, its CPU time and its memory."""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from benchmarks.usage import cpu_seconds, memory_bytes


@dataclass(frozen=True)
class Measurement:
    """The numbers of one run; None if this system does not tell.

    Attributes:
        images_per_s: In whole epochs, without the first.
        first_epoch_images_per_s: In the first epoch, with the start of the loader and its workers.
        first_batch_s: From the start of the loader to its first batch.
        cpu_ms: CPU time per image, of all processes, without the first epoch.
        memory_bytes: Memory of all processes after the last epoch (PSS), with Python and torch.
    """

    images_per_s: float
    first_epoch_images_per_s: float
    first_batch_s: float
    cpu_ms: float | None = None
    memory_bytes: float | None = None


def measure(make_loader: Callable[[], Iterable[Any]], num_images: int, at_least_s: float) -> Measurement:
    """Run a loader's first epoch, then whole epochs for `at_least_s` seconds, one at least.

    Args:
        make_loader: Opens the data and starts the loader; all imports should be done before.
        num_images: Images in an epoch.
        at_least_s: Minimum time of the epochs after the first.
    """
    start = time.perf_counter()
    loader = make_loader()
    first_batch_s = 0.0
    for _ in loader:
        first_batch_s = first_batch_s or time.perf_counter() - start
    first_epoch_s = time.perf_counter() - start
    cpu_before, start, epochs = cpu_seconds(), time.perf_counter(), 0
    while (took := time.perf_counter() - start) < at_least_s or not epochs:
        for _ in loader:
            pass
        epochs += 1
    cpu_after = cpu_seconds()
    images = epochs * num_images
    return Measurement(
        images_per_s=images / took,
        first_epoch_images_per_s=num_images / first_epoch_s,
        first_batch_s=first_batch_s,
        cpu_ms=None if cpu_before is None or cpu_after is None else (cpu_after - cpu_before) * 1000 / images,
        memory_bytes=memory_bytes(),
    )


def medians(runs: Sequence[Measurement]) -> Measurement:
    """Return the median of each number over several measurements, at least one."""
    found: dict[str, Any] = {}  # Any: a number, or None
    for field in fields(Measurement):
        values = [getattr(run, field.name) for run in runs]
        found[field.name] = None if None in values else statistics.median(values)
    return Measurement(**found)
