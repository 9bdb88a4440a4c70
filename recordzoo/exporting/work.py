"""Shards → files: in this process, or in several. Processes, because PNG, CRC-32C and parquet take CPU time."""

import functools
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import loky
from loky.process_executor import TerminatedWorkerError

from recordzoo.exporting.done import Finished
from recordzoo.exporting.target import Shard, Target, Written
from recordzoo.owner import Owner
from recordzoo.progress import Progress
from recordzoo.publish.build import Build
from recordzoo.workers import killed, serve


def write(
    target: Target, shards: Sequence[Shard], finished: Finished, build: Build, workers: int, progress: Progress
) -> None:
    """Write all shards that are not finished.

    Raises:
        PrepareError: A process was killed.
        OSError: A file cannot be written, or a stored value is damaged.
    """
    todo = [shard for shard in shards if shard.name not in finished]
    if workers <= 1 or len(todo) <= 1:

        def tick(num_bytes: int) -> None:
            progress.advance(num_bytes, 1)

        for shard in todo:
            build.check()
            finished.add(shard.name, target.write(shard, build.set, tick))
        return
    executor = loky.ProcessPoolExecutor(
        max_workers=min(workers, len(todo)),
        initializer=serve,
        initargs=(Owner.current(), functools.partial(_bring, target)),
    )
    try:
        _collect(executor, todo, finished, build, workers + 1, progress)
    except (BrokenProcessPool, TerminatedWorkerError) as err:
        raise killed() from err
    finally:
        executor.shutdown(wait=True, kill_workers=True)


def _collect(
    executor: "loky.ProcessPoolExecutor",
    todo: Sequence[Shard],
    finished: Finished,
    build: Build,
    places: int,
    progress: Progress,
) -> None:
    """Hand out shards, a few ahead, and count those that come back."""
    waiting, running = list(reversed(todo)), dict[Future[tuple[Written, int]], Shard]()
    while waiting or running:
        build.check()
        while waiting and len(running) < places:
            shard = waiting.pop()
            running[executor.submit(_write, shard, build.set)] = shard
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            shard = running.pop(future)
            written, num_bytes = future.result()
            finished.add(shard.name, written)
            progress.advance(num_bytes, len(shard.positions))


_targets: list[Target] = []


def _bring(target: Target) -> None:
    """In a worker process: keep how samples are written."""
    _targets[:] = [target]


def _write(shard: Shard, folder: Path) -> tuple[Written, int]:
    """In a worker process: write a shard; also return its stored bytes."""
    sizes: list[int] = []
    return _targets[0].write(shard, folder, sizes.append), sum(sizes)
