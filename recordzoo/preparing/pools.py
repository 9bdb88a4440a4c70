"""Convert units in processes of this machine, which end with this one."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool

import loky
from loky.process_executor import TerminatedWorkerError

from recordzoo.base.workers import killed, serve
from recordzoo.preparing.convert import ShardFacts, Task, convert_unit
from recordzoo.system.processes import start_time


class Pool:
    """Processes of this machine that convert units.

    Args:
        executor: Starts them.
        places: Target number of units at the workers, running or queued.

    Attributes:
        places: As given.
    """

    shares_cache = True
    """Whether units are read through this machine's page cache, like the archive being hashed."""

    def __init__(self, executor: Executor, places: int) -> None:
        self._executor, self.places = executor, places

    def submit(self, task: Task) -> Future[list[ShardFacts]]:
        """Hand a unit to the workers."""
        try:
            return self._executor.submit(convert_unit, task)
        except (BrokenProcessPool, TerminatedWorkerError) as err:
            raise killed() from err

    def result(self, future: Future[list[ShardFacts]]) -> list[ShardFacts]:
        """Return the result of a unit that has ended; if the pool failed, raise `PrepareError`."""
        try:
            return future.result()
        except (BrokenProcessPool, TerminatedWorkerError) as err:
            raise killed() from err


@contextlib.contextmanager
def local_pool(number: int, tasks: Sequence[Task]) -> Iterator[Pool]:
    """Start processes on this machine; they end with the block or with this process.

    Args:
        number: Maximum number of processes.
        tasks: The units, all of one build.
    """
    setup = tasks[0].recipe.worker_setup()
    executor = loky.ProcessPoolExecutor(
        max_workers=min(number, len(tasks)), initializer=serve, initargs=(os.getpid(), start_time(os.getpid()), setup)
    )
    try:
        yield Pool(executor, number + 1)
    finally:
        executor.shutdown(wait=True, kill_workers=True)
