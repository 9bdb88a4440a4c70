"""Convert units to finished shards, in this process or a pool; report the progress.

The progress is counted in bytes of raw data; each unit counts with exactly its size.
"""

import contextlib
import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import Executor, Future
from pathlib import Path

from recordzoo.base.hashing import BackgroundHash
from recordzoo.base.progress import Progress
from recordzoo.preparing.assemble import Finished
from recordzoo.preparing.convert import ShardFacts, Task, UnitConverter
from recordzoo.preparing.executor import ExecutorPool
from recordzoo.preparing.pools import Pool, local_pool

AHEAD_BYTES = 2 << 30
"""Maximum lead of submitted units over the archive's hash, so that both read the same cached pages."""

_POLL_S = 0.25

_SHARDS = (".tmp", ".lmdb")
_EVERY_S = 0.25
"""Seconds between two looks at the shards of running units, at least."""

_LOOK_S = 1.0
"""Time limit of one look; it then stops before the next file."""

_REST = 19
"""The pause after a look, as a multiple of the look's duration."""


class UnitProgress:
    """Reports the progress of one unit that this process converts.

    Args:
        size_bytes: The unit's size. It may be an estimate: its members may have more or fewer bytes.
        progress: Receives the progress.
    """

    def __init__(self, size_bytes: int, progress: Progress) -> None:
        self._left, self._progress = size_bytes, progress

    def advance(self, num_bytes: int, num_images: int) -> None:
        """Count bytes read and images stored."""
        counted = min(num_bytes, self._left)
        self._left -= counted
        self._progress.advance(counted, num_images)

    def finish(self) -> None:
        """Count the rest of the unit as done."""
        self.advance(self._left, 0)


class PoolProgress:
    """Reports the progress of units in other processes, from the size of their shards.

    It needs no channel to the workers, so it works with any executor. Looking takes at most a twentieth of the time:
    with 1,000 units on a network drive, one look may take seconds.

    Args:
        folder: The build directory.
        expansion: Bytes in shards for each byte of raw data, as estimated; corrected by the units that are finished.
        progress: Receives the progress.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, folder: Path, expansion: float, progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._expansion, self._progress, self._clock = folder, expansion, progress, clock
        self._told: dict[int, int] = {}
        self._raw_bytes = self._shard_bytes = 0
        self._next_look = 0.0

    def finished(self, shards: Sequence[ShardFacts], size_bytes: int) -> None:
        """Count a finished unit.

        Args:
            shards: Its shards.
            size_bytes: The size of its raw data.
        """
        num_images = sum(facts.num_images for facts in shards)
        self._progress.advance(size_bytes - self._told.pop(shards[0].unit, 0), num_images)
        self._raw_bytes += size_bytes
        self._shard_bytes += sum(facts.size_bytes for facts in shards)

    def look(self, running: Sequence[tuple[int, int]]) -> None:
        """Report the bytes written since the last look, if the next look is due.

        Args:
            running: Number and size in bytes of each running unit.
        """
        begin = self._clock()
        if begin < self._next_look or not running:
            return
        written = self._written({number for number, _ in running}, begin + _LOOK_S)
        end = self._clock()
        self._next_look = end + max(_EVERY_S, _REST * (end - begin))
        expansion = self._shard_bytes / self._raw_bytes if self._raw_bytes and self._shard_bytes else self._expansion
        for number, size_bytes in running:
            before = self._told.get(number, 0)
            estimate = int(written.get(number, 0) / expansion) if expansion > 0 else 0
            now = max(before, min(size_bytes, estimate))
            self._told[number] = now
            self._progress.advance(now - before)

    def _written(self, running: Set[int], until: float) -> dict[int, int]:
        """Add up the shards of each running unit, finished or not; other processes write to the directory.

        The rest is left out when the time is up: a look blocks handing out units.
        """
        written: dict[int, int] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                number = entry.name[1:].partition("-")[0]
                is_shard = entry.name.startswith("u") and number.isdecimal() and entry.name.endswith(_SHARDS)
                if is_shard and int(number) in running:  # no stat of other files: each is a round trip
                    if self._clock() > until:
                        break
                    with contextlib.suppress(OSError):
                        written[int(number)] = written.get(int(number), 0) + entry.stat().st_size
        return written


def run_tasks(
    finished: Finished,
    tasks: Sequence[Task],
    hashes: Sequence[BackgroundHash],
    progress: Progress,
    *,
    num_workers: int,
    executor: Executor | None,
    expansion: float,
) -> None:
    """Convert units, and add each to the finished ones.

    Args:
        finished: The build's finished shards.
        tasks: The other units.
        hashes: Running hashes of the archives.
        progress: Receives the progress.
        num_workers: Maximum number of local processes; 1: this process.
        executor: Converts in all its workers instead.
        expansion: Estimated bytes written per byte of raw data.
    """
    if not tasks:
        return
    pool: contextlib.AbstractContextManager[Pool]
    if executor is not None:
        pool = contextlib.nullcontext(ExecutorPool(executor, tasks))
    # A daemonic process (a DataLoader's worker, a multiprocessing.Pool's) may have no children.
    elif num_workers <= 1 or len(tasks) == 1 or multiprocessing.current_process().daemon:
        for task in tasks:
            _run_here(finished, task, progress)
        return
    else:
        pool = local_pool(num_workers, tasks)
    meter = PoolProgress(finished.folder, expansion, progress)
    with pool as there:
        _run_pool(finished, there, tasks, hashes if there.shares_cache else (), meter)


def _run_here(finished: Finished, task: Task, progress: Progress) -> None:
    meter = UnitProgress(task.unit.size_bytes, progress)
    finished.add(UnitConverter(task, lambda facts: finished.check(), meter.advance).run())
    meter.finish()


def _run_pool(
    finished: Finished, pool: Pool, tasks: Sequence[Task], hashes: Sequence[BackgroundHash], meter: PoolProgress
) -> None:
    waiting = list(reversed(tasks))
    running: dict[Future[list[ShardFacts]], Task] = {}
    ended: queue.SimpleQueue[Future[list[ShardFacts]]] = queue.SimpleQueue()
    starts = dict(zip((task.number for task in tasks), _starts(tasks), strict=True))
    try:
        while waiting or running:
            while waiting and len(running) < pool.places:
                if not _may_start(starts[waiting[-1].number], hashes, running):
                    break
                task = waiting.pop()
                future = pool.submit(task)
                running[future] = task
                future.add_done_callback(ended.put)
            for future in _collected(ended):
                shards, task = pool.result(future), running.pop(future)
                finished.add(shards)
                meter.finished(shards, task.unit.size_bytes)
            finished.check()
            meter.look([(task.number, task.unit.size_bytes) for task in running.values()])
    except BaseException:
        for future in running:  # what the workers finish meanwhile is found by the next run
            future.cancel()
        raise


def _collected(ended: "queue.SimpleQueue[Future[list[ShardFacts]]]") -> Iterator[Future[list[ShardFacts]]]:
    """Yield ended units; wait for a moment if there are none."""
    with contextlib.suppress(queue.Empty):
        yield ended.get(timeout=_POLL_S)
        while True:
            yield ended.get_nowait()


def _starts(tasks: Sequence[Task]) -> Iterator[int]:
    """Yield each unit's approximate archive offset. After a resume it is too low: units are only submitted earlier."""
    position = 0
    for task in tasks:
        yield position
        position += task.unit.size_bytes


def _may_start(start: int, hashes: Sequence[BackgroundHash], running: dict[Future[list[ShardFacts]], Task]) -> bool:
    return not hashes or not running or start - AHEAD_BYTES <= sum(each.position for each in hashes)
