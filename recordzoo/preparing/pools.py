"""Where units are converted: the interface, and processes of our own, which end when this one does."""

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol

import loky
from loky.process_executor import TerminatedWorkerError

from recordzoo.owner import Owner
from recordzoo.preparing.convert import Task, convert_unit
from recordzoo.preparing.rows import UnitDone
from recordzoo.workers import killed, serve


class Pool(Protocol):
    """Converts units elsewhere than in this thread."""

    @property
    def shares_cache(self) -> bool:
        """Whether units are read on this machine, through the page cache that the archive's hash is read through."""
        ...

    def places(self) -> int:
        """Return how many units should be with the workers now: converted or waiting there."""
        ...

    def submit(self, task: Task) -> Future[UnitDone]:
        """Let a unit be converted.

        Raises:
            PrepareError: No unit can be converted any more.
        """
        ...

    def result(self, future: Future[UnitDone]) -> UnitDone:
        """Return what came of a unit that is finished.

        Raises:
            PrepareError: It could not be converted, for the pool's own reasons.
            Exception: What the conversion raised.
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
