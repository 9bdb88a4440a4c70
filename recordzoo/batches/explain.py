"""What a loader does itself, what it leaves to the transforms, and why: in lines for people."""

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL

from recordzoo.batches.compiled import kernel, why_not_compiled
from recordzoo.batches.fuse import Plan
from recordzoo.batches.makers import SampleMaker, restored
from recordzoo.batches.missing import missing
from recordzoo.batches.order import Wanted
from recordzoo.batches.source import Source
from recordzoo.batches.work import cut
from recordzoo.loading.frames import decoders
from recordzoo.loading.turbojpeg import library

_PROBES = 16

_HELD = 0.5
"""Two threads of which each takes this much longer than alone hold the GIL for most of their work."""


def sample_lines(dataset: object, source: Source, precision: str) -> list[str]:
    """Return what happens to a sample, a line each."""
    if not source.leaves:
        return [f"not fused: {source.problem}; each sample is taken from {type(dataset).__name__}, as it gives it"]
    lines = [f"decoded by {_decoder()}", f"PIL images are resampled by {_resampler(precision)}"]
    if less := missing(source):
        lines.append(f"slower than it could be: {less}")
    if source.is_small:
        lines.append("small images: one thread makes them, as several would wait for each other's turn with the GIL")
    for number, leaf in enumerate(source.leaves):
        if len(source.leaves) > 1:
            lines.append(f"dataset {number}: {type(leaf.dataset).__name__} at {leaf.reader.path}")
        lines += _plan_lines(leaf.plan, precision)
        if leaf.target_transform is not None:
            lines.append(
                f"not fused: target_transform {_line(leaf.target_transform)}; runs for each sample, as written"
            )
    return lines


def _plan_lines(plan: Plan, precision: str) -> list[str]:
    lines = [f"fused: {_line(transform)}" for transform in plan.fused]
    if plan.steps and precision == "fast":
        lines.append("fast: decoded at half the size where that is enough")
    for number, transform in enumerate(plan.rest):
        why = "it comes behind one that is not fused" if number else plan.reason
        lines.append(f"not fused: {_line(transform)}: {why}; runs for each sample, as written")
    if not plan.is_tensor and not plan.rest:
        lines.append("no transform makes a tensor of the image: samples are PIL images")
    elif plan.is_whole and plan.size is None:
        lines.append("images may differ in size: each is made on its own, then they are stacked")
    return lines


def _decoder() -> str:
    found = ", then ".join(decoders())
    return found if library() is not None else f"{found}; libjpeg-turbo 3 would decode only what is kept"


def _resampler(precision: str) -> str:
    found = kernel()
    if found is None:
        slow = "Pillow" if precision == "exact" else "torch"
        return f"{slow}; compiled code would be faster, but {why_not_compiled()}"
    if precision == "exact" and not found.is_exact:
        return f"Pillow {PIL.__version__}: the compiled code, which is faster, gives other pixels than this version"
    return "compiled code (numba), as Pillow does" if found.is_exact else "compiled code (numba)"


def held_by_one(work: Callable[[], object]) -> float:
    """Return how much of some work only one thread can do at a time, 0 to 1.

    It is done by one thread, then by two threads each: if they exclude each other, that takes twice as long. With a
    single core it always does.
    """

    def took(num_threads: int) -> float:
        threads = [threading.Thread(target=work) for _ in range(num_threads)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    work()  # whatever is done only once; what it raises is raised here
    alone, together = (min(took(number) for _ in range(2)) for number in (1, 2))
    return min(1.0, max(0.0, together / alone - 1))


def advice(held: float) -> str:
    """Say what `held_by_one` means for who has transforms that are not fused."""
    speed = f"two threads are {2 / (1 + held):.1f} times as fast as one"
    if held > _HELD:
        return (
            f"what is not fused holds the GIL: {speed}; "
            "DataLoader(dataset, batch_size, sampler=loader.sampler, num_workers=...) is the better choice"
        )
    return f"what is not fused leaves the GIL to others: {speed}"


def measured(length: int, source: Source, maker: SampleMaker) -> str:
    """Make a few samples from all over a dataset of this length, and say whether threads help."""
    count = min(_PROBES, length)
    indices = np.arange(count) * (length // count)
    try:
        (piece,) = cut(Wanted(indices, np.arange(count), lambda: None, indices, indices), source, 0, 0, count)
        with restored():
            return advice(held_by_one(functools.partial(maker.make, piece, None)))
    except KeyError:
        return f"not measured: the samples of {source.kind} do not have the numbers 0, 1, 2, ..."
    except Exception as err:  # noqa: BLE001 - a loader can be printed, whatever its transforms do
        return f"what is not fused fails: {type(err).__name__}: {err}"


# Any: whatever transform.
def _line(transform: Any) -> str:
    return " ".join(repr(transform).split())
