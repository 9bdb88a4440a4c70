"""Ending downloads that run in other threads."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class StoppedError(Exception):
    """This download was told to end; what was received is kept."""


class Stop:
    """Tells downloads to end: one that waits or reads ends at once, one that connects when it is connected."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._reading: list[Callable[[], None]] = []

    def set(self) -> None:
        """Tell them."""
        self._event.set()
        with self._lock:
            for interrupt in self._reading:
                interrupt()

    def check(self) -> None:
        """Go on, or end.

        Raises:
            StoppedError: It is to end.
        """
        if self._event.is_set():
            raise StoppedError

    def sleep(self, seconds: float) -> None:
        """Wait so long, or end.

        Raises:
            StoppedError: It is to end.
        """
        self._event.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def reading(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block reads from a server: how another thread makes it stop.

        Raises:
            StoppedError: It is to end.
        """
        with self._lock:
            self.check()
            self._reading.append(interrupt)
        try:
            yield
        finally:
            with self._lock:
                self._reading.remove(interrupt)
