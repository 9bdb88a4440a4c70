"""Recordzoo's worker processes: their number, and their end with the process that started them."""

import os
import signal
import threading
import time
from collections.abc import Callable

from recordzoo.errors import PrepareError
from recordzoo.system.processes import cores, exists, start_time

_POLL_S = 0.25


def default_workers() -> int:
    """Return the default number of workers: the cores that this process may use, at most 8."""
    return min(8, cores())


def killed() -> PrepareError:
    """Return the error for a worker that was killed."""
    return PrepareError(
        "A converting process was killed (by the system, for want of memory?). What is finished is kept; "
        "run the same command again, with --workers 1 if it happens again."
    )


def serve(builder: int, started: int | None, setup: Callable[[], None] | None) -> None:
    """Prepare a worker: it ignores Ctrl-C and ends when the builder ends.

    Args:
        builder: The builder's process number.
        started: Its start time: a later process may get the number.
        setup: Called in the worker before its first unit.
    """
    # Ctrl-C reaches the whole process group; only the builder acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(builder, started), name="recordzoo-builder-lives", daemon=True).start()
    if setup is not None:
        setup()


def _end_with(builder: int, started: int | None) -> None:
    """End this process, busy or not, when the builder was killed: loky's idle workers would never end."""
    while exists(builder) and start_time(builder) == started:
        time.sleep(_POLL_S)
    os._exit(1)
