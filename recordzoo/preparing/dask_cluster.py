"""Connect to a Dask scheduler and explain its errors. `distributed` is imported only when used."""

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from pathlib import Path
from typing import Any

from recordzoo.errors import ArgumentError, PrepareError

CONNECT_S = 30.0
"""Timeout for a scheduler's answer: in a cluster job it may start at the same time as this program."""

_POLL_S = 0.2


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
        client = Client(set_as_default=False, timeout=CONNECT_S, name="recordzoo", **_place(address))
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


def _place(address: str) -> dict[str, str]:
    """Return the arguments of a client; wait for a scheduler's file."""
    if not address.endswith(".json"):
        return {"address": address}
    file = Path(address).expanduser()
    deadline = time.monotonic() + CONNECT_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise OSError(f"there is no such file after {CONNECT_S:.0f} s")
        time.sleep(_POLL_S)
    return {"scheduler_file": str(file)}


def is_dask(executor: Executor) -> bool:
    """Whether an executor belongs to a Dask client."""
    return type(executor).__module__.startswith("distributed.")


def num_threads(executor: Any) -> int | None:  # Any: distributed may be missing
    """Return the total number of worker threads; None if the scheduler does not answer."""
    try:
        threads: dict[str, int] = executor._client.ncores()
    except Exception:  # noqa: BLE001 - of many kinds; the units' own results say that the scheduler is gone
        return None
    return sum(threads.values())


def problem(err: Exception) -> str | None:
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
