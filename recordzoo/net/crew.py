"""Work on several files at a time: one thread per file, one progress for all; an error ends all."""

import contextlib
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from recordzoo.base.progress import Progress, SilentProgress
from recordzoo.errors import ArgumentError

WORKERS = 8
"""Default number of files at a time."""

_POLL_S = 0.5  # without a timeout, Ctrl-C would not end the wait on Windows

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class StoppedError(Exception):
    """The work was stopped; received bytes are kept."""


class Stop:
    """Stops work in other threads. A wait or a read ends at once; a thread that connects ends when it is connected."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._reading: list[Callable[[], None]] = []

    def set(self) -> None:
        """Stop the work."""
        self._event.set()
        with self._lock:
            for interrupt in self._reading:
                interrupt()

    def check(self) -> None:
        """Raise if the work was stopped.

        Raises:
            StoppedError: `set` was called.
        """
        if self._event.is_set():
            raise StoppedError

    def sleep(self, seconds: float) -> None:
        """Sleep, at most until `set` is called.

        Raises:
            StoppedError: `set` was called.
        """
        self._event.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def reading(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Let `set` call `interrupt` while the block reads from a server.

        Raises:
            StoppedError: `set` was called before.
        """
        with self._lock:
            self.check()
            self._reading.append(interrupt)
        try:
            yield
        finally:
            with self._lock:
                self._reading.remove(interrupt)


class Crew:
    """Works on several items at a time. Only the thread that calls `run` uses the progress.

    Args:
        progress: Shows all items together.
        workers: Number of items at a time.
        grace_s: Seconds that an error waits for the other threads. Default: until they end, so that none of them
            writes after `run`.

    Raises:
        ArgumentError: `workers` is less than 1.

    Attributes:
        stop: Set when the work must end; for calls that wait or read.
    """

    def __init__(self, progress: Progress, workers: int = WORKERS, *, grace_s: float = math.inf) -> None:
        if workers < 1:
            raise ArgumentError(f"Argument workers is {workers}; it must be at least 1.")
        self.stop = Stop()
        self._progress, self._workers, self._grace_s = progress, workers, grace_s
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._active: Counter[str] = Counter()

    def advance(self, num_bytes: int = 0) -> None:
        """Add bytes to the progress, from any thread.

        Raises:
            StoppedError: The work was stopped.
        """
        self.stop.check()
        if num_bytes:
            self._events.put(lambda: self._progress.advance(num_bytes))

    def note(self, text: str) -> None:
        """Show a message once, from any thread.

        Raises:
            StoppedError: The work was stopped.
        """
        self.stop.check()
        self._events.put(lambda: self._progress.note(text))

    def run(
        self,
        function: Callable[[_Item], _Result],
        items: Iterable[_Item],
        *,
        ended: Callable[[_Item, _Result | BaseException], None] | None = None,
        host: Callable[[_Item], str] = lambda item: "",
        per_host: int | None = None,
    ) -> list[_Result]:
        """Call a function for each item, several at a time.

        Args:
            function: Called in a thread of its own.
            items: The items, in the order in which they are started.
            ended: Called in this thread for each item, with its result or error. Default: raises the error.
            host: Returns the host of an item.
            per_host: Number of items of one host at a time. Default: `workers`.

        Returns:
            The results in the order of the items, without the items that raised.

        Raises:
            BaseException: The first error of `ended` or the progress, or Ctrl-C. The other calls have ended.
        """
        waiting, results = list(enumerate(items)), dict[int, _Result]()

        def work(number: int, item: _Item) -> None:
            try:
                results[number] = outcome = function(item)
                self._events.put(lambda: end(item, outcome))
            except BaseException as err:  # noqa: BLE001 - raised in the waiting thread
                failure = err
                self._events.put(lambda: end(item, failure))

        def end(item: _Item, outcome: _Result | BaseException) -> None:
            self._active[host(item)] -= 1
            if ended is not None:
                ended(item, outcome)
            elif isinstance(outcome, BaseException):
                raise outcome

        try:
            while waiting or self._active.total():
                for each in list(waiting):
                    if self._active.total() >= self._workers:
                        break
                    if self._active[name := host(each[1])] < (per_host or self._workers):
                        waiting.remove(each)
                        self._active[name] += 1
                        # A daemon: a thread that connects cannot be stopped, and must not keep the process alive.
                        threading.Thread(target=work, args=each, name="recordzoo-crew", daemon=True).start()
                self._next()
        except BaseException:
            self.stop.set()
            self._settle()
            raise
        return [results[number] for number in sorted(results)]

    def _next(self) -> None:
        """Wait for an event and handle it in this thread."""
        try:
            event = self._events.get(timeout=_POLL_S)
        except queue.Empty:
            return
        event()

    def _settle(self) -> None:
        """Wait for the running calls; some may just have finished."""
        self._progress = SilentProgress()
        deadline = time.monotonic() + self._grace_s
        while self._active.total() and time.monotonic() < deadline:
            with contextlib.suppress(Exception):  # later errors result from the stop; the first one is raised
                self._next()
