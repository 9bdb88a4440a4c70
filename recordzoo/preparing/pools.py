"""Where units are converted: in processes that end when this one does, or by the workers of the user's executor."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol

import loky
from loky.process_executor import TerminatedWorkerError

from recordzoo.base.owner import Owner
from recordzoo.base.progress import Progress
from recordzoo.base.workers import killed, serve
from recordzoo.errors import PrepareError, RecordZooError
from recordzoo.preparing import dask_cluster
from recordzoo.preparing.assignment import call_of, convert_assigned, convert_watched, share
from recordzoo.preparing.convert import Task, convert_unit
from recordzoo.preparing.rows import UnitDone

_LEAST_AHEAD = 8
"""How many units wait in an executor at least: a cluster that grows with its queue must see one."""

_ASK_S = 5.0
"""How often an executor is asked for the number of its workers, which may come and go."""

_KEPT = "What is finished is kept; run the same command again."


class Pool(Protocol):
    """Converts units in other threads or processes."""

    @property
    def shares_cache(self) -> bool:
        """Whether units are read through the page cache of this machine, as the archive is for its hash."""
        ...

    def places(self) -> int:
        """Return how many units the workers should have now: converted or waiting there."""
        ...

    def submit(self, task: Task) -> Future[UnitDone]:
        """Hand a unit to the workers.

        Raises:
            PrepareError: They take no more units.
        """
        ...

    def result(self, future: Future[UnitDone]) -> UnitDone:
        """Return the result of a unit that has ended.

        Raises:
            PrepareError: The pool failed.
            Exception: The error of the conversion.
        """
        ...


@contextlib.contextmanager
def local_pool(number: int, tasks: Sequence[Task]) -> Iterator[Pool]:
    """Start processes on this machine; they end with the block, or when this process does.

    Args:
        number: How many, at most.
        tasks: The units, all of one build.
    """
    setup = tasks[0].recipe.worker_setup()
    executor = loky.ProcessPoolExecutor(
        max_workers=min(number, len(tasks)), initializer=serve, initargs=(Owner.current(), setup)
    )
    try:
        yield _LocalPool(executor, number + 1)
    finally:
        executor.shutdown(wait=True, kill_workers=True)


class _LocalPool:
    """See `Pool`."""

    shares_cache = True

    def __init__(self, executor: Executor, places: int) -> None:
        self._executor, self._places = executor, places

    def places(self) -> int:
        return self._places

    def submit(self, task: Task) -> Future[UnitDone]:
        try:
            return self._executor.submit(convert_unit, task)
        except (BrokenProcessPool, TerminatedWorkerError) as err:
            raise killed() from err

    def result(self, future: Future[UnitDone]) -> UnitDone:
        try:
            return future.result()
        except (BrokenProcessPool, TerminatedWorkerError) as err:
            raise killed() from err


class ExecutorPool:
    """The workers of an executor, which is left running; see `Pool`.

    Args:
        executor: Its workers convert.
        tasks: The units, all of one build.
        progress: Told if there are no workers.
    """

    shares_cache = False

    def __init__(self, executor: Executor, tasks: Sequence[Task], progress: Progress) -> None:
        self._executor, self._num_tasks, self._progress = executor, len(tasks), progress
        # Threads of this process have what they need.
        self._shared = None if isinstance(executor, ThreadPoolExecutor) else share(tasks[0])
        self._workers: int | None = None
        self._asked = float("-inf")
        self._said = False

    def places(self) -> int:
        """See `Pool`: as many again as there are workers wait, so that none is idle while one result is journalled."""
        now = time.monotonic()
        if now >= self._asked + _ASK_S:
            self._asked = now
            self._workers = num_workers(self._executor)
        if self._workers is None:
            return self._num_tasks
        if self._workers == 0 and not self._said:
            self._said = True
            self._progress.note("No worker is there yet; waiting for one. Ctrl-C ends the wait.")
        return self._workers + max(_LEAST_AHEAD, self._workers)

    def submit(self, task: Task) -> Future[UnitDone]:
        """See `Pool`."""
        call = None if self._shared is None else call_of(task, self._shared)
        try:
            if call is None:
                return self._executor.submit(convert_watched, task)
            return self._executor.submit(convert_assigned, call)
        except RecordZooError:
            raise
        except Exception as err:
            raise PrepareError(f"The executor takes no more units ({_text(err)}). {_KEPT}") from err

    def result(self, future: Future[UnitDone]) -> UnitDone:
        """See `Pool`."""
        try:
            return future.result()
        except (RecordZooError, OSError):
            raise
        except Exception as err:
            if problem := _problem(self._executor, err):
                raise PrepareError(f"{problem} {_KEPT}") from err
            raise


def num_workers(executor: Executor) -> int | None:
    """Return how many calls an executor runs at once, now; None if it does not say."""
    if dask_cluster.is_dask(executor):
        return dask_cluster.num_threads(executor)
    for name in ("_max_workers", "num_workers", "max_workers"):  # concurrent.futures and loky; mpi4py; others
        number = getattr(executor, name, None)
        if isinstance(number, int) and number > 0:
            return number
    return None


def _problem(executor: Executor, err: Exception) -> str | None:
    """Say what went wrong with an executor; None if the conversion itself failed."""
    if dask_cluster.is_dask(executor) and (problem := dask_cluster.problem(err)):
        return problem
    if isinstance(err, CancelledError):
        return "The executor cancelled a unit: it was shut down, or lost its workers."
    if isinstance(err, BrokenExecutor):
        return f"A process of the executor was killed (by the system, for want of memory?): {_text(err)}."
    if "recordzoo" in _text(err) and isinstance(err, ImportError | AttributeError):
        return f"A worker has no recordzoo, or another version of it ({_text(err)}): install the same on all workers."
    return None


def _text(err: Exception) -> str:
    return f"{type(err).__name__}: {err}".rstrip(": ")
