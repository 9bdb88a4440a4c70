"""Convert units to finished shards, in this process or a pool; journal each at its end."""

import contextlib
import multiprocessing
import queue
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future

from recordzoo.base.hashing import BackgroundHash
from recordzoo.base.progress import Progress
from recordzoo.errors import PrepareError
from recordzoo.preparing.convert import Task, UnitConverter
from recordzoo.preparing.journal import Journal
from recordzoo.preparing.meter import PoolProgress, UnitProgress
from recordzoo.preparing.pools import ExecutorPool, Pool, local_pool
from recordzoo.preparing.rows import UnitDone

AHEAD_BYTES = 2 << 30
"""Maximum lead of submitted units over the archive's hash, so that both read the same cached pages."""

_POLL_S = 0.25


def run_tasks(
    journal: Journal,
    tasks: Sequence[Task],
    hashes: Sequence[BackgroundHash],
    progress: Progress,
    *,
    num_workers: int,
    executor: Executor | None,
    expansion: float,
) -> None:
    """Convert each unfinished unit of a build, and journal it as soon as it is finished.

    Args:
        journal: The build's journal.
        tasks: All units.
        hashes: Running hashes of the archives.
        progress: Receives the progress.
        num_workers: Maximum number of local processes; 1: this process.
        executor: Converts in all its workers instead.
        expansion: Estimated bytes written per byte of raw data.

    Raises:
        SourceError, PrepareError, OSError: A unit failed; units finished before are journalled.
    """
    todo = [task for task in tasks if task.number not in journal.units]
    if not todo:
        return
    pool: contextlib.AbstractContextManager[Pool]
    if executor is not None:
        pool = contextlib.nullcontext(ExecutorPool(executor, todo, progress))
    # A daemonic process (a DataLoader's worker, a multiprocessing.Pool's) may have no children.
    elif num_workers <= 1 or len(todo) == 1 or multiprocessing.current_process().daemon:
        for task in todo:
            _run_here(journal, task, progress)
        return
    else:
        pool = local_pool(num_workers, todo)
    meter = PoolProgress(journal.path, expansion, progress)
    with pool as there:
        _run_pool(journal, there, todo, hashes if there.shares_cache else (), meter)


def _run_here(journal: Journal, task: Task, progress: Progress) -> None:
    meter = UnitProgress(task.unit.size_bytes, progress)
    unit = UnitConverter(task, journal.add_shard, meter.advance).run()
    journal.add_units([unit])
    meter.finish()


def _run_pool(
    journal: Journal, pool: Pool, todo: Sequence[Task], hashes: Sequence[BackgroundHash], meter: PoolProgress
) -> None:
    waiting = list(reversed(todo))
    running: dict[Future[UnitDone], Task] = {}
    ended: queue.SimpleQueue[Future[UnitDone]] = queue.SimpleQueue()
    starts = dict(zip((task.number for task in todo), _starts(todo), strict=True))
    try:
        while waiting or running:
            while waiting and len(running) < pool.places():
                if not _may_start(starts[waiting[-1].number], hashes, running):
                    break
                task = waiting.pop()
                future = pool.submit(task)
                running[future] = task
                future.add_done_callback(ended.put)
            finished = list(_collected(ended))
            _journal(journal, pool, {future: running[future] for future in finished}, meter)
            for future in finished:
                del running[future]
            meter.look([(task.number, task.unit.size_bytes) for task in running.values()])
            journal.check()
    except BaseException:
        # Cancel units that have not begun; journal finished ones, so that they are not converted again.
        left = {future: task for future, task in running.items() if not future.cancel()}
        with contextlib.suppress(OSError, PrepareError):
            made = {future: task for future, task in left.items() if task.number not in journal.units}
            _journal(journal, pool, {future: task for future, task in made.items() if _has_result(future)}, meter)
        raise


def _collected(ended: "queue.SimpleQueue[Future[UnitDone]]") -> Iterator[Future[UnitDone]]:
    """Yield ended units; wait for a moment if there are none."""
    with contextlib.suppress(queue.Empty):
        yield ended.get(timeout=_POLL_S)
        while True:
            yield ended.get_nowait()


def _journal(journal: Journal, pool: Pool, ended: Mapping[Future[UnitDone], Task], meter: PoolProgress) -> None:
    """Journal all converted units in one sync: during a slow sync, several units end."""
    done = [(future.result(), task) for future, task in ended.items() if _has_result(future)]
    if done:
        counts = journal.add_units([unit for unit, _ in done])
        for (unit, task), num_images in zip(done, counts, strict=True):
            meter.finished(unit, task.unit.size_bytes, num_images)
    for future in ended:
        pool.result(future)


def _has_result(future: Future[UnitDone]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _starts(tasks: Sequence[Task]) -> Iterator[int]:
    """Yield each unit's approximate archive offset. After a resume it is too low: units are only submitted earlier."""
    position = 0
    for task in tasks:
        yield position
        position += task.unit.size_bytes


def _may_start(start: int, hashes: Sequence[BackgroundHash], running: dict[Future[UnitDone], Task]) -> bool:
    return not hashes or not running or start - AHEAD_BYTES <= sum(each.position for each in hashes)
