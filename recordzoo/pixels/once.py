"""Run work once per process, uninterrupted by Ctrl-C."""

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from recordzoo.system.processes import at_fork

T = TypeVar("T")


class Once(Generic[T]):
    """Runs a function in its own thread at the first call; returns its result at every call.

    Python raises KeyboardInterrupt in the main thread only. So Ctrl-C ends the waiting, the work goes on, and the next
    call waits for it again. numba does not survive an interrupted import or compilation: later uses of it fail.

    The thread is not a daemon: the process ends after the work, because LLVM may crash if interrupted.

    Args:
        work: The function. If it raises, so does the call, and the next call runs it again.
        forked: The result in a process that was forked while the work ran. It must not start the work itself: modules
            that another thread was importing at the fork stay locked there.
    """

    def __init__(self, work: Callable[[], T], forked: T) -> None:
        self._work, self._forked = work, forked
        self._lock = threading.Lock()
        self._run: _Run[T] | None = None
        # A fork waits for the lock: no thread of the child would release it.
        at_fork(before=self._lock.acquire, in_parent=self._lock.release, in_child=self._lock.release)

    def __call__(self) -> T:
        """Wait for the result and return it.

        Raises:
            Exception: The error of the work.
        """
        run = self.begin(again=True)
        if not run.ended.is_set() and run.pid != os.getpid():
            return self._forked
        run.ended.wait()
        if run.failure is not None:
            raise run.failure
        return run.results[0]

    def begin(self, *, again: bool = False) -> "_Run[T]":
        """Start the work unless it was started before (with `again`: or has failed), without waiting."""
        with self._lock:
            run = self._run
            if run is None or (again and run.failure is not None):
                run = _Run(self._work)
                run.start()
                self._run = run  # set last: if Ctrl-C comes before the start, the next call starts another run
            return run

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        run = self._run
        return run is not None and bool(run.results)


class _Run(threading.Thread, Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(name="recordzoo-once")
        self.pid, self.ended = os.getpid(), threading.Event()
        self.results: list[T] = []
        self.failure: BaseException | None = None
        self._work = work

    def run(self) -> None:
        try:
            self.results.append(self._work())
        except BaseException as err:  # noqa: BLE001 - raised in the thread that waits
            self.failure = err
        finally:
            self.ended.set()
