"""Threads that fetch ahead: they end with the process, and a forked child starts its own."""

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Daemon threads that run tasks in the order of submission. The process does not wait for them when it ends.

    Args:
        num_threads: Maximum number of threads; each is started when there is work for it.
        name: Name of the threads.
    """

    def __init__(self, num_threads: int, name: str) -> None:
        self._num_threads, self._name = num_threads, name
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle = 0
        self._started = 0
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        """Queue a task."""
        if self._pid != os.getpid():
            self._forget()
        future: Future[T] = Future()
        with self._lock:
            self._waiting.put((future, work))
            if self._waiting.qsize() > self._idle and self._started < self._num_threads:
                self._started += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            future, work = self._waiting.get()
            with self._lock:
                self._idle -= 1
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as err:  # noqa: BLE001 - raised by the future
                future.set_exception(err)
            del future, work  # frees the last result while this thread waits

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._num_threads, self._name)
