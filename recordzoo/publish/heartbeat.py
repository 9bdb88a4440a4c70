"""A file that is touched every few seconds: "the process that works here lives"."""

import contextlib
import os
import threading
from pathlib import Path

_INTERVAL_S = 5.0


class Heartbeat:
    """A thread that touches a file until it is stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="recordzoo-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, whether it began or not."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            with contextlib.suppress(OSError):  # gone, or a full or failing disk: the worker's business
                os.utime(self._path)
