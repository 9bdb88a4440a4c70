"""Several files at a time: threads that stop together when one of them fails, or the user says so."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from recordzoo.progress import Progress

WORKERS = 8
"""Default number of files copied at a time."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Stopped(Exception):
    """Another file failed, or Ctrl-C came: what is under way ends, so that the first error can be told."""


class Crew:
    """Work on many files, a few at a time.

    Args:
        workers: How many at a time.
        progress: Told of the bytes, from one thread at a time.
    """

    def __init__(self, workers: int, progress: Progress) -> None:
        self._workers, self._progress = workers, progress
        self._lock = threading.Lock()
        self._is_stopping = False

    def advance(self, num_bytes: int) -> None:
        """Tell the progress of some more bytes.

        Raises:
            Stopped: This work is to end.
        """
        with self._lock:
            if self._is_stopping:
                raise Stopped
            self._progress.advance(num_bytes)

    def note(self, text: str) -> None:
        """Say something once."""
        with self._lock:
            self._progress.note(text)

    def run(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """Call a function with each item, several at a time; return the results in the order of the items.

        Raises:
            Exception: The first that a call raised; the other calls were ended.
        """
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="recordzoo-copy")
        try:
            futures = [pool.submit(function, item) for item in items]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failed = [future for future in futures if future in done and future.exception() is not None]
            if failed:
                self._stop()
                pool.shutdown(cancel_futures=True)
            return [future.result() for future in failed or futures]
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _stop(self) -> None:
        with self._lock:
            self._is_stopping = True
