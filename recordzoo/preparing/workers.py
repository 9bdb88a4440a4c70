"""Convert units to finished shards, in this process or a pool; report the progress.

The progress is counted in bytes of raw data; each unit counts with exactly its size.
"""

import contextlib
import functools
import hashlib
import itertools
import mmap
import multiprocessing
import os
import pickle
import platform
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import lmdb
import loky
import PIL

import recordzoo
from recordzoo.base.files import BackgroundHash, sync_directory, write_file
from recordzoo.base.process import serve
from recordzoo.base.progress import Progress
from recordzoo.base.settings import need
from recordzoo.errors import ArgumentError, PrepareError, RecordZooError, SourceError
from recordzoo.preparing.assemble import Finished
from recordzoo.preparing.convert import ShardFacts, Task
from recordzoo.preparing.publish import written_bytes

AHEAD_BYTES = 2 << 30
"""Maximum lead of submitted units over the archive's hash, so that both read the same cached pages."""

CONNECT_S = 30.0
"""Timeout for a scheduler's answer: in a cluster job it may start at the same time as this program."""

_POLL_S = 0.25
_FILE_POLL_S = 0.2

_EVERY_S, _REST = 0.25, 19
"""The pause between two looks at the shards of running units: at least 0.25 s, and 19 times a look's duration."""

_PREPARATIONS = 4
"""How many preparations a worker caches: it may serve several at once."""

_loading = threading.Lock()


class PoolProgress:
    """Reports the progress of units in other processes, from the bytes that are written to the build directory.

    It needs no channel to the workers, so it works with any executor. Looking takes at most a twentieth of the time:
    with 1,000 units on a network drive, one look may take seconds.

    Args:
        folder: The build directory.
        expansion: Estimate of bytes in shards for each byte of raw data.
        progress: Receives the progress.
    """

    def __init__(self, folder: Path, expansion: float, progress: Progress) -> None:
        self._folder, self._expansion, self._progress = folder, expansion, progress
        self._there = written_bytes(folder)
        self._told = 0  # bytes of raw data that the progress knows of
        self._next_look = 0.0

    def tell(self, done_bytes: int, running_bytes: int, num_images: int) -> None:
        """Report the bytes of finished units and, if a look is due, those that running ones seem to have read.

        Args:
            done_bytes: The size of the raw data of all finished units.
            running_bytes: That of the running ones.
            num_images: How many images were stored by the units that ended since the last call.
        """
        begin, read = time.monotonic(), 0
        if begin >= self._next_look and self._expansion > 0:
            read = int((written_bytes(self._folder) - self._there) / self._expansion)
            end = time.monotonic()
            self._next_look = end + max(_EVERY_S, _REST * (end - begin))
        now = max(done_bytes, min(read, done_bytes + running_bytes), self._told)
        self._progress.advance(now - self._told, num_images)
        self._told = now


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
        executor: Converts in all its workers instead; gets all units at once, and is not shut down.
        expansion: Estimated bytes written per byte of raw data.
    """
    if not tasks:
        return
    # A daemonic process (a DataLoader's worker, a multiprocessing.Pool's) may have no children.
    is_alone = num_workers <= 1 or len(tasks) == 1 or multiprocessing.current_process().daemon
    if executor is None and is_alone:
        for task in tasks:
            _run_here(finished, task, progress)
        return
    meter = PoolProgress(finished.folder, expansion, progress)
    if executor is not None:
        # Threads share this process's memory.
        shared = None if isinstance(executor, ThreadPoolExecutor) else share(tasks[0])
        submit = functools.partial(_submit, executor, shared)
        try:
            _run_pool(finished, tasks, submit, meter, places=len(tasks))
        except (BrokenExecutor, CancelledError) as err:
            raise _lost(err) from err
        return
    num_workers, setup = min(num_workers, len(tasks)), tasks[0].recipe.worker_setup()
    own = loky.ProcessPoolExecutor(num_workers, initializer=serve, initargs=(os.getpid(), setup))
    try:  # they read through the same page cache as the hash of an archive
        _run_pool(finished, tasks, lambda task: own.submit(task.run), meter, places=num_workers + 1, hashes=hashes)
    except (BrokenExecutor, CancelledError) as err:
        raise PrepareError(
            "A converting process was killed (by the system, for want of memory?). What is finished is kept; "
            "run the same command again, with --workers 1 if it happens again."
        ) from err
    finally:
        own.shutdown(wait=True, kill_workers=True)


def _submit(executor: Executor, shared: Mapping[str, str] | None, task: Task) -> Future[list[ShardFacts]]:
    """Hand a unit to the user's executor: whole, or with the reference to the data that all units share."""
    try:
        if shared is None:
            return executor.submit(task.run)
        # In built-in types: a worker with another version can read the call and report that.
        unit: bytes = cloudpickle.dumps((task.number, task.unit, task.done))
        call = {"versions": versions(), "host": socket.gethostname(), "shared": dict(shared), "unit": unit}
        return executor.submit(convert_assigned, call)
    except RecordZooError:
        raise
    except Exception as err:
        raise _lost(err) from err


def _lost(err: Exception) -> PrepareError:
    text = f"The executor lost its workers, or was shut down ({err!r})."
    return PrepareError(f"{text} What is finished is kept; run the same command again.")


def _run_here(finished: Finished, task: Task, progress: Progress) -> None:
    left = task.unit.size_bytes  # perhaps an estimate: its members may have more or fewer bytes

    def advance(num_bytes: int, num_images: int) -> None:
        nonlocal left
        counted = min(num_bytes, left)
        left -= counted
        progress.advance(counted, num_images)

    finished.add(task.run(finished.check, advance))
    progress.advance(left, 0)


def _run_pool(
    finished: Finished,
    tasks: Sequence[Task],
    submit: Callable[[Task], Future[list[ShardFacts]]],
    meter: PoolProgress,
    *,
    places: int,
    hashes: Sequence[BackgroundHash] = (),
) -> None:
    """Convert units in other processes or threads, at most `places` of them running or queued."""
    waiting = list(reversed(tasks))
    running: dict[Future[list[ShardFacts]], Task] = {}
    # Approximate offsets of units in the archive. After a resume they are too low: units are only submitted earlier.
    offsets = itertools.accumulate((task.unit.size_bytes for task in tasks), initial=0)
    starts = dict(zip((task.number for task in tasks), offsets, strict=False))
    done_bytes = 0
    try:
        while waiting or running:
            while waiting and len(running) < places:
                hashed_to = sum(each.position for each in hashes)
                if hashes and running and starts[waiting[-1].number] - AHEAD_BYTES > hashed_to:
                    break
                task = waiting.pop()
                running[submit(task)] = task
            num_images = 0
            for future in wait(running, _POLL_S, FIRST_COMPLETED).done:
                shards = future.result()
                finished.add(shards)
                done_bytes += running.pop(future).unit.size_bytes
                num_images += sum(facts.num_images for facts in shards)
            finished.check()
            meter.tell(done_bytes, sum(task.unit.size_bytes for task in running.values()), num_images)
    except BaseException:
        for future in running:  # what the workers finish meanwhile is found by the next run
            future.cancel()
        raise


def versions() -> dict[str, str]:
    """Return the versions that affect a shard's bytes or the format of a unit's call."""
    return {
        "recordzoo": recordzoo.__version__,
        "lmdb": str(lmdb.__version__),
        "Pillow": PIL.__version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "bytes of a page of memory": str(mmap.PAGESIZE),
    }


def share(task: Task) -> dict[str, str]:
    """Write the data shared by all units into the build directory; return the reference for each call."""
    template = replace(task, number=-1, unit=None, done=())  # type: ignore[arg-type]  # each call brings its own
    data = cloudpickle.dumps((template, task.recipe.worker_setup()))
    digest = hashlib.sha256(data).hexdigest()
    path = task.folder / f"task.{digest[:16]}.pickle"
    write_file(path, data)
    sync_directory(task.folder)
    return {"path": os.fspath(path), "digest": digest}


def convert_assigned(call: Mapping[str, Any]) -> list[ShardFacts]:
    """Convert a unit, in a worker."""
    here, wanted, mine = socket.gethostname(), call["versions"], versions()
    other = [f"{name} {mine.get(name)} instead of {wanted[name]}" for name in wanted if mine.get(name) != wanted[name]]
    if other:
        raise PrepareError(
            f"The worker on {here} has {', '.join(other)}. The records could have other bytes: install the same "
            "versions on all workers."
        )
    path = Path(call["shared"]["path"])
    try:
        with _loading:
            template = _loaded(path, call["shared"]["digest"])
        number, unit, done = pickle.loads(call["unit"])  # noqa: S301 - from the executor, whose calls are code
        return replace(template, number=number, unit=unit, done=done, shared=path).run()
    except (SourceError, PrepareError) as err:
        if here == call["host"]:
            raise
        raise type(err)(f"Host {here}: {err}", **err.details) from err


@functools.lru_cache(_PREPARATIONS)
def _loaded(path: Path, digest: str) -> Task:
    """Read the data shared by all units of a preparation, and call its set-up, once per process."""
    try:
        data = path.read_bytes()
    except OSError as err:
        raise PrepareError(
            f"The worker on {socket.gethostname()} cannot read {path} ({err.strerror}). All workers must see the raw "
            "data and the records under the same paths as the process that prepares: put both on a shared file system."
        ) from err
    if hashlib.sha256(data).hexdigest() != digest:
        raise PrepareError(f"{path} was changed since it was written. Run the same command again.")
    try:
        task, setup = pickle.loads(data)  # noqa: S301 - its hash came with the call
        if setup is not None:
            setup()
    except Exception as err:
        raise PrepareError(
            f"The worker on {socket.gethostname()} cannot load what it shall convert ({type(err).__name__}: {err}). "
            "Install the same packages on all workers, and let them find the same modules (PYTHONPATH)."
        ) from err
    template: Task = task
    return template


@contextlib.contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Connect to a Dask scheduler; yield the executor of its workers.

    Args:
        address: ``tcp://host:8786``, or the JSON file that the scheduler was told to write (``--scheduler-file``).

    Raises:
        ArgumentError: The address is invalid.
        PrepareError: `distributed` is not installed, or no scheduler answers.
    """
    need("distributed", "A Dask cluster converts", "dask")
    from distributed import Client, comm

    try:
        if address.endswith(".json"):
            file, deadline = Path(address).expanduser(), time.monotonic() + CONNECT_S
            while not file.exists():
                if time.monotonic() > deadline:
                    raise OSError(f"there is no such file after {CONNECT_S:.0f} s")
                time.sleep(_FILE_POLL_S)
            scheduler = {"scheduler_file": str(file)}
        else:
            comm.get_address_host_port(address)  # a client of an invalid address ends only a minute after the program
            scheduler = {"address": address}
        client = Client(set_as_default=False, timeout=CONNECT_S, name="recordzoo", **scheduler)
    except (ValueError, OSError) as err:
        traceback.clear_frames(err.__traceback__)  # they hold a client, which would end only a minute later
        if isinstance(err, OSError):
            hint = "Start one with: dask scheduler, or look at the address that it printed."
            raise PrepareError(f"No Dask scheduler answers at {address} ({err}). {hint}") from err
        hint = "One is tcp://host:8786, or the path of its --scheduler-file, which ends in .json."
        raise ArgumentError(f"{address!r} is no address of a Dask scheduler ({err}). {hint}") from err
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()
