"""Threads or worker processes: which of them make these batches faster, found out by making a few."""

import functools
import math
import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from recordzoo.loader.generators import restored
from recordzoo.loader.makers import Maker
from recordzoo.loader.order import Wanted
from recordzoo.loader.samples import SampleMaker
from recordzoo.loader.source import BatchSource
from recordzoo.loader.work import cut
from recordzoo.system.processes import are_forked, cores

Workers = Literal["threads", "processes"]

_PROBES = 8
_BUDGET_S = 0.5

_LONG_S = 0.02
"""Work is repeated for at least as long: Python takes the GIL from a thread after 5 ms only."""

_SLOWER = 1.25
"""Worker processes are chosen when threads that work at once take so much longer than one alone. Below it, sending
batches from process to process costs more."""


@dataclass(frozen=True)
class Choice:
    """What makes batches.

    Attributes:
        workers: Threads of this process, or processes.
        why: For people.
        is_measured: Whether it could be the other one.
    """

    workers: Workers
    why: str
    is_measured: bool = False


def choose(
    maker: Maker, source: BatchSource, length: int | None, num_workers: int, workplace: Any, context: Any
) -> Choice:
    """Choose threads or processes; if it is not clear from the start, make a few samples.

    Args:
        maker: What makes batches.
        source: What has the samples.
        length: How many there are; None if nobody knows.
        num_workers: How many threads or processes.
        workplace: What must be sent to processes that are not forked.
        context: How processes are started: a name, a context of multiprocessing, or None.
    """
    if not isinstance(maker, SampleMaker):
        return Choice("threads", "all is fused")
    if multiprocessing.current_process().daemon:
        return Choice("threads", "this process is a daemon and cannot start others")
    if not are_forked(context) and (problem := _pickling_problem(workplace)):
        return Choice("threads", f"the dataset cannot be sent to another process ({problem})")
    if not length:
        return Choice("processes", "what is not fused may hold the GIL", is_measured=True)
    return measured(maker, source, length, min(num_workers, cores()))


# Any: whatever objects.
def is_other(known: list[Any], now: list[Any]) -> bool:
    """Whether an object was exchanged for another one, even for an equal one."""
    return len(known) != len(now) or any(one is not other for one, other in zip(known, now, strict=True))


def measured(maker: SampleMaker, source: BatchSource, length: int, num_threads: int) -> Choice:
    """Make the first samples of a dataset of this length, and say what makes them faster.

    The first ones, as samples from all over the dataset would make a record set at a URL fetch a shard for each.
    """
    num_threads = max(2, num_threads)
    try:
        with restored():
            if problem := _pickling_problem(_batch(maker, source, 1)):
                return Choice("threads", f"a batch cannot be sent from another process ({problem})")
            start = time.perf_counter()
            _batch(maker, source, 1)
            a_sample_s = time.perf_counter() - start
            affordable = int(_BUDGET_S / (2 + num_threads) / max(a_sample_s, 1e-9))
            count = max(1, min(_PROBES, length, affordable))
            slower = slowdown(functools.partial(_batch, maker, source, count), num_threads)
    except KeyError:
        return Choice("processes", f"not measured: the samples of {source.kind} do not have the numbers 0, 1, 2, ...")
    except Exception as err:  # noqa: BLE001 - it is raised again where the user comes to it
        return Choice("processes", f"what is not fused fails: {type(err).__name__}: {err}")
    waiting = "they wait for the GIL" if slower > _SLOWER else "the GIL is mostly free"
    why = f"{num_threads} threads at once take {slower:.2f} times as long as one alone: {waiting}"
    return Choice("processes" if slower > _SLOWER else "threads", why, is_measured=True)


def _repeated(work: Callable[[], object], count: int) -> None:
    for _ in range(count):
        work()


# Any: a batch is what the collate function makes.
def _batch(maker: Maker, source: BatchSource, count: int) -> Any:
    """Make a batch of the first samples."""
    indices = np.arange(count)
    (piece,) = cut(Wanted(indices, indices, lambda: None, indices, indices), source, 0, 0, count)
    return maker.batch([], [maker.make(piece, [])])


def slowdown(work: Callable[[], object], num_threads: int = 2) -> float:
    """Return how many times as long several threads take that each do some work at once, as one that does it alone.

    1 if they do not hinder each other, their number if they exclude each other. With a single core they always do.

    Args:
        work: Done several times.
        num_threads: At least 2.
    """

    def took(number: int) -> float:
        threads = [threading.Thread(target=work) for _ in range(number)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    work()  # whatever is done only once; what it raises is raised here
    first = took(1)
    if first < _LONG_S:
        return slowdown(functools.partial(_repeated, work, math.ceil(_LONG_S / first)), num_threads)
    repeats = max(1, min(3, int(_BUDGET_S / (3 * first))))
    alone = min([first, *(took(1) for _ in range(repeats - 1))])
    together = min(took(num_threads) for _ in range(repeats))
    return max(1.0, together / alone)


def _pickling_problem(sent: Any) -> str:  # Any: whatever is sent
    try:
        pickle.dumps(sent)
    except Exception as err:  # noqa: BLE001 - pickle's, or whatever a class of somebody raises
        return f"{type(err).__name__}: {err}"
    return ""
