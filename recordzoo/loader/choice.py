"""Choose how batches are made, as rows or as samples; and by threads or worker processes: in doubt, measure."""

import functools
import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from recordzoo.errors import ArgumentError
from recordzoo.loader.maker import BatchOptions, Maker
from recordzoo.loader.order import Wanted
from recordzoo.loader.pieces import cut, restored
from recordzoo.loader.rows import Buffers, RowMaker
from recordzoo.loader.samples import JointMaker, SampleMaker
from recordzoo.loader.source import BatchSource, ImageLeaf, JointLeaf
from recordzoo.system.processes import are_forked, cores

# Any, in all of this module: objects are the user's, batches what the collate function makes.

Workers = Literal["threads", "processes"]

_CALLS = 64
"""Maximum number of samples used to measure the user's code, before the first batch."""

_PROBES = 8
_MOST_THREADS = 16
_BUDGET_S = 0.5

_SLOWER = 1.25
"""Processes are chosen if parallel threads take this many times as long as one thread. Below it, sending batches
between processes costs more."""


def maker_of(options: BatchOptions, kept: list[Buffers] | None = None) -> Maker:
    """Return the maker of the batches of a dataset.

    Args:
        options: The dataset, and how batches are made of it.
        kept: Memory of batches of an earlier epoch.
    """
    source = BatchSource(options.dataset)
    if _are_rows(options, source):
        return RowMaker(options, source, kept)
    is_joint = any(isinstance(leaf, JointLeaf) for leaf in source.leaves)
    return (JointMaker if is_joint else SampleMaker)(options, source)


def _are_rows(options: BatchOptions, source: BatchSource) -> bool:
    """Whether images can be made directly into the batch: all fused, one size and dtype, collated by torch."""
    leaves = [leaf for leaf in source.leaves if isinstance(leaf, ImageLeaf)]
    if not leaves or len(leaves) < len(source.leaves):
        return False
    views = [leaf.views for leaf in leaves]
    kinds = {
        (each.is_list, *((plan.size, plan.pointwise.operations, plan.erases) for plan in each.plans)) for each in views
    }
    is_random = options.deterministic and any(leaf.target_transform is not None for leaf in leaves)
    return (
        not is_random
        and options.stacks
        and len(kinds) == 1
        and all(each.is_whole for each in views)
        and all(plan.size is not None for plan in views[0].plans)
    )


@dataclass(frozen=True)
class Choice:
    """The choice of workers for a loader.

    Attributes:
        workers: Threads of this process, or processes.
        why: The reason, for `print(loader)`.
        is_measured: Whether both are possible.
    """

    workers: Workers
    why: str
    is_measured: bool = False


def choose(maker: Maker, length: int | None, num_workers: int, workplace: Any, context: Any) -> Choice:
    """Choose threads or processes; if both are possible, measure.

    Args:
        length: Number of samples; None if unknown.
        num_workers: Number of threads or processes.
        workplace: The object to pickle for processes that are not forked.
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
    return measured(maker, length, min(num_workers, cores()))


def seeded_code(maker: Maker) -> list[str]:
    """List the user's code that needs seeded generators with `deterministic`, except code on a device."""
    options, source = maker.options, maker.source
    found = [] if source.leaves else [source.kind]
    for leaf in source.leaves:
        if isinstance(leaf, JointLeaf):
            # Joint transforms run as written for targets that contain an image: only the samples show that.
            found.append(" ".join(repr(leaf.plan.transforms).split()))
            continue
        found += [" ".join(repr(transform).split()) for plan in leaf.views.plans for transform in plan.rest]
        if isinstance(leaf, ImageLeaf) and leaf.target_transform is not None:
            found.append(f"target_transform {leaf.target_transform!r}")
    if not options.collates_by_default:
        found.append(f"collate_fn {options.collate!r}")
    if options.batch_transform is not None and options.device.type == "cpu":
        found.append(f"batch_transform {options.batch_transform!r}")
    return found


def choose_seeded(code: str, workers: str, workplace: Any, context: Any) -> Choice:
    """Choose processes for code that needs seeded generators.

    Threads share the process's generators with the user's thread: each would change the other's random numbers.

    Args:
        code: The code, for the message.
        workplace: The object to pickle for processes that are not forked.
    """
    why = ""
    if workers == "threads":
        why = "workers='threads' would seed the generators that your own code draws from. Pass workers='auto'"
    elif multiprocessing.current_process().daemon:
        why = "it needs worker processes, and this process is a daemon, which cannot start any. Iterate in another one"
    elif not are_forked(context) and (problem := _pickling_problem(workplace)):
        why = f"it needs worker processes, and cannot be sent to one ({problem}). Pass what can be pickled"
    if why:
        raise ArgumentError(f"deterministic=True: {code} is not compiled; {why}, or leave deterministic out.")
    return Choice("processes", f"deterministic, and {code} is not compiled")


def is_other(known: list[Any], now: list[Any]) -> bool:
    """Whether any object was replaced (compared by identity, not equality)."""
    return len(known) != len(now) or any(one is not other for one, other in zip(known, now, strict=True))


def measured(maker: SampleMaker, length: int, num_threads: int) -> Choice:
    """Time the first samples of a dataset with threads, and choose the faster kind of workers.

    The generators are restored afterwards in the user's thread, which waits. The first samples are used, because
    samples from all over the dataset would fetch one shard each from a record set at a URL.
    """
    num_threads = min(max(2, num_threads), _MOST_THREADS)
    try:
        with restored():
            if problem := _pickling_problem(_batch(maker, [0])):
                return Choice("threads", f"a batch cannot be sent from another process ({problem})")
            start = time.perf_counter()
            _batch(maker, [0])
            a_sample_s = time.perf_counter() - start
            affordable = int(_BUDGET_S / (1 + num_threads) / max(a_sample_s, 1e-9))
            probes = list(range(max(1, min(_PROBES, length, affordable))))
            _batch(maker, probes)  # values at a URL are fetched once, not by each thread
            first = max(1, len(probes) // num_threads)
            calls = (_CALLS - 2 - len(probes) - first * num_threads) // (1 + num_threads)
            numbers = [number % len(probes) for number in range(max(1, min(calls, affordable)))]
            work, warm_up = (functools.partial(_batch, maker, some) for some in (numbers, numbers[:first]))
            slower = slowdown(work, num_threads, warm_up)
    except KeyError:
        return Choice(
            "processes", f"not measured: the samples of {maker.source.kind} do not have the numbers 0, 1, 2, ..."
        )
    except Exception as err:  # noqa: BLE001 - it is raised again where the user comes to it
        return Choice("processes", f"what is not fused fails: {type(err).__name__}: {err}")
    waiting = "they wait for the GIL" if slower > _SLOWER else "the GIL is mostly free"
    why = f"{num_threads} threads at once take {slower:.2f} times as long as one alone: {waiting}"
    return Choice("processes" if slower > _SLOWER else "threads", why, is_measured=True)


def _batch(maker: Maker, numbers: list[int]) -> Any:
    """Make a batch of these samples."""
    indices = np.array(numbers)
    (piece,) = cut(Wanted(indices, indices, lambda: None, indices, indices), maker.source, 0, 0, len(indices))
    memory = maker.memory(len(indices))
    return maker.collated(memory, [maker.make(piece, memory)])


def slowdown(work: Callable[[], object], num_threads: int = 2, warm_up: Callable[[], object] = bool) -> float:
    """Return the time of several threads working at once, divided by the time of one thread.

    1 if they run in parallel, `num_threads` if they exclude each other, as always on a single core.

    Args:
        work: Run once by one thread, then once by each of several.
        num_threads: At least 2.
        warm_up: Run once by each thread before timing: the first sample takes longer.
    """

    def took(number: int, each: Callable[[], object]) -> float:
        all_there = threading.Barrier(number)

        def timed() -> tuple[float, float]:
            all_there.wait()
            start = time.perf_counter()
            each()
            return start, time.perf_counter()

        spans = [done.result() for done in [pool.submit(timed) for _ in range(number)]]
        return max(end for _, end in spans) - min(start for start, _ in spans)

    with ThreadPoolExecutor(num_threads) as pool:
        took(num_threads, warm_up)
        alone = took(1, work)
        return max(1.0, took(num_threads, work) / alone)


def _pickling_problem(sent: Any) -> str:  # Any: the object to send
    try:
        pickle.dumps(sent)
    except Exception as err:  # noqa: BLE001 - pickle calls methods of the user's classes
        return f"{type(err).__name__}: {err}"
    return ""
