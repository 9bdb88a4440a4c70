"""Convert units in processes that end with this one, or in the workers of the user's executor, such as a Dask cluster.

`distributed` is imported only when used.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import loky
from loky.process_executor import TerminatedWorkerError
from typing_extensions import override

from recordzoo.base.owner import Owner
from recordzoo.base.progress import Progress
from recordzoo.base.workers import killed, serve
from recordzoo.errors import ArgumentError, PrepareError, RecordZooError
from recordzoo.preparing.assignment import call_of, convert_assigned, share
from recordzoo.preparing.convert import ShardFacts, Task, convert_unit

_LEAST_AHEAD = 8
"""Minimum number of units queued in an executor: some clusters grow with their queue."""

_ASK_S = 5.0
"""Interval between queries for the number of an executor's workers, which may change."""

CONNECT_S = 30.0
"""Timeout for a scheduler's answer: in a cluster job it may start at the same time as this program."""

_FILE_POLL_S = 0.2

_KEPT = "What is finished is kept; run the same command again."


class Pool:
    """Processes of this machine that convert units.

    Args:
        executor: Starts them.
        places: Target number of units at the workers, running or queued.
    """

    shares_cache = True
    """Whether units are read through this machine's page cache, like the archive being hashed."""

    def __init__(self, executor: Executor, places: int) -> None:
        self._executor, self._places = executor, places

    def places(self) -> int:
        """Return the target number of units at the workers, running or queued."""
        return self._places

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
        max_workers=min(number, len(tasks)), initializer=serve, initargs=(Owner.current(), setup)
    )
    try:
        yield Pool(executor, number + 1)
    finally:
        executor.shutdown(wait=True, kill_workers=True)


class ExecutorPool(Pool):
    """The workers of an executor, which is not shut down.

    Args:
        executor: Its workers convert.
        tasks: The units, all of one build.
        progress: Receives a note if there are no workers.
    """

    shares_cache = False

    def __init__(self, executor: Executor, tasks: Sequence[Task], progress: Progress) -> None:
        super().__init__(executor, len(tasks))
        self._progress = progress
        # Threads share this process's memory.
        self._shared = None if isinstance(executor, ThreadPoolExecutor) else share(tasks[0])
        self._workers: int | None = None
        self._asked = float("-inf")
        self._said = False

    @override
    def places(self) -> int:
        now = time.monotonic()
        if now >= self._asked + _ASK_S:
            self._asked = now
            self._workers = num_workers(self._executor)
        if self._workers is None:
            return self._places
        if self._workers == 0 and not self._said:
            self._said = True
            self._progress.note("No worker is there yet; waiting for one. Ctrl-C ends the wait.")
        # One more unit for each worker, so that none is idle while a result is journalled.
        return self._workers + max(_LEAST_AHEAD, self._workers)

    @override
    def submit(self, task: Task) -> Future[list[ShardFacts]]:
        call = None if self._shared is None else call_of(task, self._shared)
        try:
            if call is None:
                return self._executor.submit(convert_unit, task)
            return self._executor.submit(convert_assigned, call)
        except RecordZooError:
            raise
        except Exception as err:
            raise PrepareError(f"The executor takes no more units ({_text(err)}). {_KEPT}") from err

    @override
    def result(self, future: Future[list[ShardFacts]]) -> list[ShardFacts]:
        try:
            return future.result()
        except (RecordZooError, OSError):
            raise
        except Exception as err:
            if problem := _problem(self._executor, err):
                raise PrepareError(f"{problem} {_KEPT}") from err
            raise


def num_workers(executor: Executor) -> int | None:
    """Return the current number of an executor's workers, or None if unknown."""
    if _is_dask(executor):
        return _num_threads(executor)
    for name in ("_max_workers", "num_workers", "max_workers"):  # concurrent.futures and loky; mpi4py; others
        number = getattr(executor, name, None)
        if isinstance(number, int) and number > 0:
            return number
    return None


def _problem(executor: Executor, err: Exception) -> str | None:
    """Describe an executor's failure; None if the conversion itself failed."""
    if _is_dask(executor) and (problem := _dask_problem(err)):
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


@contextlib.contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Connect to a Dask scheduler; yield the executor of its workers.

    Args:
        address: ``tcp://host:8786``, or the JSON file that the scheduler was told to write (``--scheduler-file``).

    Raises:
        ArgumentError: `distributed` is not installed, or the address is invalid.
        PrepareError: No scheduler answers.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as err:
        raise ArgumentError(
            f"Converting on a Dask cluster needs a package that is not installed ({err.name}). "
            "Run: pip install 'recordzoo[dask]'"
        ) from err
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


def _is_dask(executor: Executor) -> bool:
    """Whether an executor belongs to a Dask client."""
    return type(executor).__module__.startswith("distributed.")


def _num_threads(executor: Any) -> int | None:  # Any: distributed may be missing
    """Return the total number of worker threads; None if the scheduler does not answer."""
    try:
        threads: dict[str, int] = executor._client.ncores()
    except Exception:  # noqa: BLE001 - of many kinds; the units' own results say that the scheduler is gone
        return None
    return sum(threads.values())


def _dask_problem(err: Exception) -> str | None:
    """Describe a cluster failure; None if the conversion itself failed."""
    from distributed import KilledWorker

    if isinstance(err, KilledWorker):
        return (
            f"Workers died of the same unit, one after the other, the last at {err.last_worker.address} (for want of "
            "memory?). Their logs say why."
        )
    if isinstance(err, CancelledError):
        return "The connection to the Dask scheduler was lost: it ended, or was started again."
    return None
