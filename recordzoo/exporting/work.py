"""Write shards to files, in one or several processes (PNG, CRC-32C and Parquet take CPU time); track finished ones."""

import functools
import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import loky
from loky.process_executor import TerminatedWorkerError

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.base.owner import Owner
from recordzoo.base.progress import Progress
from recordzoo.base.workers import killed, serve
from recordzoo.formats.writing import Files, Shard, Writer
from recordzoo.publish.build import Build

_FOLDER = ".finished"  # one file per finished shard, written after the shard is synced


class Finished:
    """The finished shards. Files that belong to no finished shard are removed.

    Args:
        folder: The build directory of the output.
        shards: All shards.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard]) -> None:
        self._folder, self._output = folder / _FOLDER, folder
        self._found: dict[str, Files] = {}
        self._folder.mkdir(exist_ok=True)
        for shard in shards:
            written = self._read(shard.name)
            if written is not None:
                self._found[shard.name] = written
        self._sweep()

    def __contains__(self, name: str) -> bool:
        return name in self._found

    @property
    def num_files(self) -> int:
        """The number of their files."""
        return sum(len(written) for written in self._found.values())

    @property
    def num_bytes(self) -> int:
        """Their size."""
        return sum(sum(written.values()) for written in self._found.values())

    def add(self, name: str, written: Files) -> None:
        """Record a shard whose files are synced."""
        crash_point("export.written")
        for folder in {(self._output / file).parent for file in written}:
            durable.sync_directory(folder)
        durable.replace_file(self._folder / f"{name}.json", json.dumps(written).encode())
        self._found[name] = written
        crash_point("export.counted")

    def in_order(self, shards: Sequence[Shard]) -> list[Files]:
        """Return the files of all shards, in shard order."""
        return [self._found[shard.name] for shard in shards]

    def forget(self) -> None:
        """Remove the files needed only to resume."""
        shutil.rmtree(self._folder)

    def _read(self, name: str) -> Files | None:
        """Return a finished shard, or None if any of its files is missing."""
        try:
            written = json.loads((self._folder / f"{name}.json").read_bytes())
            complete = all((self._output / file).stat().st_size == size for file, size in written.items())
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return written if complete else None

    def _sweep(self) -> None:
        """Unlink unrecorded files; a process that only looked dead then writes to nothing visible."""
        counted = {os.path.normpath(name) for written in self._found.values() for name in written}
        for parent, folders, names in os.walk(self._output):
            if _FOLDER in folders:
                folders.remove(_FOLDER)
            for name in names:
                path = Path(parent) / name
                if os.path.normpath(path.relative_to(self._output)) not in counted:
                    durable.remove(path)


def write(
    writer: Writer, shards: Sequence[Shard], finished: Finished, build: Build, workers: int, progress: Progress
) -> None:
    """Write all unfinished shards.

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
            finished.add(shard.name, writer.write(shard, build.set, tick))
        return
    executor = loky.ProcessPoolExecutor(
        max_workers=min(workers, len(todo)),
        initializer=serve,
        initargs=(Owner.current(), functools.partial(_bring, writer)),
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
    """Submit shards, a few ahead, and record the finished ones."""
    waiting, running = list(reversed(todo)), dict[Future[tuple[Files, int]], Shard]()
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


_writers: list[Writer] = []


def _bring(writer: Writer) -> None:
    """Keep the writer, in a worker process."""
    _writers[:] = [writer]


def _write(shard: Shard, folder: Path) -> tuple[Files, int]:
    """Write a shard in a worker process; return its files and its stored bytes."""
    sizes: list[int] = []
    return _writers[0].write(shard, folder, sizes.append), sum(sizes)
