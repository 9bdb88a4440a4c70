"""Convert units in the workers of the user's executor, such as a Dask cluster's, perhaps on other hosts.

The data shared by all units is a file in the build directory; each process reads it once. So a unit's call is small,
and a recipe's set-up reaches processes that have no initializer.
"""

import contextlib
import functools
import hashlib
import mmap
import os
import pickle
import platform
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import lmdb
import PIL
from typing_extensions import override

from recordzoo.base import durable
from recordzoo.base.packages import need
from recordzoo.errors import ArgumentError, PrepareError, RecordZooError, SourceError
from recordzoo.preparing.convert import ShardFacts, Task, convert_unit
from recordzoo.preparing.pools import Pool

CONNECT_S = 30.0
"""Timeout for a scheduler's answer: in a cluster job it may start at the same time as this program."""

_FILE_POLL_S = 0.2
_PREPARATIONS = 4
"""How many preparations a worker caches: it may serve several at once."""

_KEPT = "What is finished is kept; run the same command again."
_loading = threading.Lock()


def versions() -> dict[str, str]:
    """Return the versions that affect a shard's bytes or the format of a unit's call."""
    return {
        "recordzoo": str(vars(sys.modules["recordzoo"])["__version__"]),  # importing it here would be circular
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
    durable.write_file(path, data)
    durable.sync_directory(task.folder)
    return {"path": os.fspath(path), "digest": digest}


def call_of(task: Task, shared: Mapping[str, str]) -> dict[str, Any]:
    """Return a unit's call in built-in types: a worker with another version can read it and report that."""
    unit: bytes = cloudpickle.dumps((task.number, task.unit, task.done))
    return {"versions": versions(), "host": socket.gethostname(), "shared": dict(shared), "unit": unit}


def convert_assigned(call: Mapping[str, Any]) -> list[ShardFacts]:
    """Convert a unit, in a worker."""
    _check_versions(call["versions"])
    here, path = socket.gethostname(), Path(call["shared"]["path"])
    try:
        with _loading:
            template = _loaded(path, call["shared"]["digest"])
        number, unit, done = pickle.loads(call["unit"])  # noqa: S301 - from the executor, whose calls are code
        return convert_unit(replace(template, number=number, unit=unit, done=done, shared=path))
    except (SourceError, PrepareError) as err:
        if here == call["host"]:
            raise
        raise type(err)(f"Host {here}: {err}", **err.details) from err


def _check_versions(wanted: Mapping[str, str]) -> None:
    mine = versions()
    other = [f"{name} {mine.get(name)} instead of {wanted[name]}" for name in wanted if mine.get(name) != wanted[name]]
    if other:
        raise PrepareError(
            f"The worker on {socket.gethostname()} has {', '.join(other)}. The records could have other bytes: install "
            "the same versions on all workers."
        )


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


class ExecutorPool(Pool):
    """The workers of an executor, which gets all units at once and is not shut down.

    Args:
        executor: Its workers convert.
        tasks: The units, all of one build.
    """

    shares_cache = False

    def __init__(self, executor: Executor, tasks: Sequence[Task]) -> None:
        super().__init__(executor, len(tasks))
        # Threads share this process's memory.
        self._shared = None if isinstance(executor, ThreadPoolExecutor) else share(tasks[0])

    @override
    def submit(self, task: Task) -> Future[list[ShardFacts]]:
        try:
            if self._shared is None:
                return self._executor.submit(convert_unit, task)
            return self._executor.submit(convert_assigned, call_of(task, self._shared))
        except RecordZooError:
            raise
        except Exception as err:
            raise PrepareError(f"The executor takes no more units ({err!r}). {_KEPT}") from err

    @override
    def result(self, future: Future[list[ShardFacts]]) -> list[ShardFacts]:
        try:
            return future.result()
        except (BrokenExecutor, CancelledError) as err:
            raise PrepareError(f"The executor lost its workers, or was shut down ({err!r}). {_KEPT}") from err


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
    from distributed import Client

    try:
        client = Client(set_as_default=False, timeout=CONNECT_S, name="recordzoo", **_client_arguments(address))
    except ValueError as err:
        raise ArgumentError(
            f"{address!r} is no address of a Dask scheduler ({err}). One is tcp://host:8786, or the path of its "
            "--scheduler-file, which ends in .json."
        ) from err
    except OSError as err:
        raise PrepareError(
            f"No Dask scheduler answers at {address} ({err}). Start one with: dask scheduler, or look at the address "
            "that it printed."
        ) from err
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()


def _client_arguments(address: str) -> dict[str, str]:
    """Return the arguments of a client; wait for a scheduler's file."""
    if not address.endswith(".json"):
        return {"address": address}
    file = Path(address).expanduser()
    deadline = time.monotonic() + CONNECT_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise OSError(f"there is no such file after {CONNECT_S:.0f} s")
        time.sleep(_FILE_POLL_S)
    return {"scheduler_file": str(file)}
