"""Units → finished shards: in this process, or in several."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import loky
from loky.process_executor import TerminatedWorkerError

from recordzoo.errors import PrepareError
from recordzoo.owner import Owner
from recordzoo.preparing.build import Build
from recordzoo.preparing.convert import Task, UnitConverter, convert_unit
from recordzoo.preparing.meter import PoolProgress, UnitProgress
from recordzoo.preparing.rows import UnitDone
from recordzoo.progress import Progress
from recordzoo.sources.hashing import BackgroundHash
from recordzoo.system.processes import cores

AHEAD_BYTES = 2 << 30
"""How far units are handed out ahead of the archive's hash, so that both read the same pages of the cache."""

_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Workers:
    """The processes that convert.

    Attributes:
        number: How many, at most; 1 for none but this one.
        setup: What each calls before its first unit.
        expansion: About how many bytes they write for each byte of raw data.
    """

    number: int
    setup: Callable[[], None] | None = None
    expansion: float = 1.0


def default_workers() -> int:
    """Return how many processes convert: the cores that this process may use, 8 at most."""
    return min(8, cores())


def run_tasks(
    build: Build, tasks: Sequence[Task], workers: Workers, hashes: Sequence[BackgroundHash], progress: Progress
) -> None:
    """Convert every unit that the build has not got yet, and journal what is finished as soon as it is.

    Raises:
        SourceError, PrepareError, OSError: A unit failed; what was finished before is journalled.
    """
    todo = [task for task in tasks if task.number not in build.units]
    # A daemonic process (a DataLoader's worker, a multiprocessing.Pool's) may have no children.
    if workers.number <= 1 or len(todo) <= 1 or multiprocessing.current_process().daemon:
        for task in todo:
            _run_here(build, task, progress)
        return
    executor = loky.ProcessPoolExecutor(
        max_workers=min(workers.number, len(todo)), initializer=_serve, initargs=(Owner.current(), workers.setup)
    )
    try:
        _run_pool(build, executor, todo, workers, hashes, progress)
    except (BrokenProcessPool, TerminatedWorkerError) as err:
        raise PrepareError(
            "A converting process was killed (by the system, for want of memory?). What is finished is kept; "
            "run the same command again, with --workers 1 if it happens again."
        ) from err
    finally:
        executor.shutdown(wait=True, kill_workers=True)


def _run_here(build: Build, task: Task, progress: Progress) -> None:
    meter = UnitProgress(task.unit.size_bytes, progress)
    unit = UnitConverter(task, build.journal_shard, meter.advance).run()
    build.journal_unit(unit)
    meter.finish()


def _run_pool(
    build: Build,
    executor: Executor,
    todo: Sequence[Task],
    workers: Workers,
    hashes: Sequence[BackgroundHash],
    progress: Progress,
) -> None:
    waiting = list(reversed(todo))
    running: dict[Future[UnitDone], Task] = {}
    starts = dict(zip((task.number for task in todo), _starts(todo), strict=True))
    meter = PoolProgress(build.path, workers.expansion, progress)
    try:
        while waiting or running:
            while waiting and len(running) <= workers.number:
                if not _may_start(starts[waiting[-1].number], hashes, running):
                    break
                task = waiting.pop()
                running[executor.submit(convert_unit, task)] = task
            finished, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in finished:
                _journal(build, future.result(), running.pop(future), meter)
            meter.look([(task.number, task.unit.size_bytes) for task in running.values()])
            build.check()
    except BaseException:
        # Journal what finished meanwhile: it need not be made again.
        for future, task in running.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                with contextlib.suppress(OSError, PrepareError):
                    _journal(build, future.result(), task, meter)
        raise


def _journal(build: Build, unit: UnitDone, task: Task, meter: PoolProgress) -> None:
    new = unit.shards[len(build.shards.get(unit.unit, ())) :]
    for shard in new:
        build.journal_shard(shard)
    build.journal_unit(unit)
    meter.finished(unit, task.unit.size_bytes, sum(shard.num_values for shard in new))


def _starts(tasks: Sequence[Task]) -> Iterator[int]:
    """Yield about where in the archive each unit begins; after a resume too low, which only hands out earlier."""
    position = 0
    for task in tasks:
        yield position
        position += task.unit.size_bytes


def _may_start(start: int, hashes: Sequence[BackgroundHash], running: dict[Future[UnitDone], Task]) -> bool:
    return not hashes or not running or start - AHEAD_BYTES <= sum(each.position for each in hashes)


def _serve(builder: Owner, setup: Callable[[], None] | None) -> None:
    """In a worker: leave signals to the builder, and end when it does."""
    # Ctrl-C reaches the whole process group; the builder alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(builder,), name="recordzoo-builder-lives", daemon=True).start()
    if setup is not None:
        setup()


def _end_with(builder: Owner) -> None:
    """End this process, busy or not, when the builder was killed: loky's idle workers would wait for ever."""
    while not builder.is_gone():
        time.sleep(_POLL_S)
    os._exit(1)
