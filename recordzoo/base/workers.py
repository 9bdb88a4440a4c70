"""Recordzoo's worker processes: their number, and their end with the process that started them."""

import os
import signal
import threading
import time
from collections.abc import Callable

from recordzoo.base.owner import Owner
from recordzoo.errors import PrepareError
from recordzoo.system.processes import cores

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


def serve(builder: Owner, setup: Callable[[], None] | None) -> None:
    """Prepare a worker: it ignores Ctrl-C and ends when the builder ends."""
    # Ctrl-C reaches the whole process group; only the builder acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(builder,), name="recordzoo-builder-lives", daemon=True).start()
    if setup is not None:
        setup()


def _end_with(builder: Owner) -> None:
    """End this process, busy or not, when the builder was killed: loky's idle workers would never end."""
    while not builder.is_gone():
        time.sleep(_POLL_S)
    os._exit(1)
