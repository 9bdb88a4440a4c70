"""A file that a living process touches every few seconds, and the time since the last touch."""

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path

_INTERVAL_S = 5.0


class Heartbeat:
    """A thread that touches a file until it is stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start."""
        self._thread = threading.Thread(target=self._run, name="recordzoo-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop; harmless if never started."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            with contextlib.suppress(OSError):  # file gone, or disk full or failing: writing the output fails too
                os.utime(self._path)


def silence_s(path: Path, folder: Path) -> float:
    """Return the seconds since a process last touched its heartbeat file.

    A time in the future (the server's clock was set back, a copy kept its times) counts as equally far in the past: a
    living process touches its file again within seconds.

    Args:
        folder: A directory of the same file system.

    Raises:
        OSError: The file does not exist.
    """
    return abs(_server_time(folder) - path.stat().st_mtime)


def _server_time(folder: Path) -> float:
    """Return the time of the clock that stamps the files of a folder; on a network drive, the server's.

    For a read-only folder, this machine's time.
    """
    with contextlib.suppress(OSError), tempfile.TemporaryFile(prefix=".recordzoo-clock-", dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime
    return time.time()
