"""Several raw files at once: a thread downloads each, and the thread that asked for them tells the progress."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.progress import Progress
from recordzoo.sources.download import CHECKING, RemoteFile
from recordzoo.sources.stop import Stop

MOST = 4
"""How many files are downloaded at once."""

MOST_PER_HOST = 2
"""How many of them from one host: more would be impolite, and some hosts refuse them."""

_POLL_S = 0.5
_GRACE_S = 5.0
"""How long an error waits for the other downloads to end; one that just connects ends later, by itself."""


@dataclass(frozen=True)
class Download:
    """A file to download.

    Attributes:
        remote: Which.
        host: Whom it is asked of first.
        there_bytes: How much of it is there already.
    """

    remote: RemoteFile
    host: str
    there_bytes: int


class Downloads:
    """Downloads several files at once.

    Args:
        fetch: Downloads one, in a thread of its own.
        ended: Told of each, with its path or with what went wrong; what it raises ends the other downloads.
        progress: Told of all together.
    """

    def __init__(
        self,
        fetch: Callable[[RemoteFile, Progress, Stop], Path],
        ended: Callable[[RemoteFile, Path | BaseException], None],
        progress: Progress,
    ) -> None:
        self._fetch, self._ended, self._progress = fetch, ended, progress
        self._stop = Stop()
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._active: Counter[str] = Counter()

    def run(self, wanted: Sequence[Download]) -> None:
        """Download them all.

        Raises:
            BaseException: The first that `ended` or `progress` raised, or Ctrl-C; the other downloads have ended, and
                what they received is kept.
        """
        sizes = [each.remote.expected_bytes for each in wanted]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        self._progress.begin(f"downloading {len(wanted)} files", total, sum(each.there_bytes for each in wanted))
        waiting = list(wanted)
        try:
            while waiting or self._active.total():
                for each in list(waiting):
                    if self._active.total() < MOST and self._active[each.host] < MOST_PER_HOST:
                        waiting.remove(each)
                        self._start(each)
                self._next()
        except BaseException:
            self._stop.set()
            self._settle()
            raise
        self._progress.end()

    def _start(self, each: Download) -> None:
        self._active[each.host] += 1
        # A daemon: one that connects cannot be told to stop, and need not keep the process.
        threading.Thread(target=self._run, args=(each,), name=f"download of {each.remote.name}", daemon=True).start()

    def _run(self, each: Download) -> None:
        """In a thread: download one, and say how it ended."""
        result: Path | BaseException
        try:
            result = self._fetch(each.remote, _Share(self._tell, self._stop, each.there_bytes), self._stop)
        except BaseException as err:  # noqa: BLE001 - raised in the thread that waits
            result = err
        self._events.put(lambda: self._end(each, result))

    def _tell(self, event: Callable[[Progress], None]) -> None:
        self._events.put(lambda: event(self._progress))

    def _end(self, each: Download, result: Path | BaseException) -> None:
        self._active[each.host] -= 1
        self._ended(each.remote, result)

    def _next(self) -> None:
        """Wait for an event, and act on it here."""
        try:
            event = self._events.get(timeout=_POLL_S)  # without it Ctrl-C would not end the wait on Windows
        except queue.Empty:
            return
        event()

    def _settle(self) -> None:
        """Wait for the downloads to end, each of which may just have finished; but not for ever."""
        self._progress = _Silent()
        deadline = time.monotonic() + _GRACE_S
        while self._active.total() and time.monotonic() < deadline:
            try:
                self._next()
            except Exception:  # noqa: BLE001 - the first error is raised; these come of being stopped
                continue


class _Share:
    """One download's part of the progress of all; see `Progress`.

    Args:
        tell: Lets something be told to the progress of all.
        stop: Ends the download when it tells something.
        counted_bytes: How many of its bytes the progress of all has counted already.
    """

    def __init__(self, tell: Callable[[Callable[[Progress], None]], None], stop: Stop, counted_bytes: int) -> None:
        self._tell, self._stop, self._position = tell, stop, counted_bytes
        self._counts = False

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """See `Progress`: bytes of an earlier run are counted already, and are checked first."""
        self._counts = not stage.startswith(CHECKING)
        self.advance(done_bytes - self._position)

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """See `Progress`."""
        self._stop.check()
        if self._counts and num_bytes:
            self._position += num_bytes
            self._tell(lambda progress: progress.advance(num_bytes))

    def note(self, text: str) -> None:
        """See `Progress`."""
        self._stop.check()
        self._tell(lambda progress: progress.note(text))

    def end(self) -> None:
        """See `Progress`: the file is published; only all together have an end."""


class _Silent:
    """Hears nothing; see `Progress`."""

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """See `Progress`."""

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """See `Progress`."""

    def note(self, text: str) -> None:
        """See `Progress`."""

    def end(self) -> None:
        """See `Progress`."""
