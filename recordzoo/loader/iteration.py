"""An epoch in progress: threads prepare batches ahead of the user, or the user's thread makes each when it takes it.

`OnDevice` follows, which moves the batch to a device; `Unbegun` gives it to the user.
"""

import collections
import contextlib
import contextvars
import functools
import logging
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any

import torch
from typing_extensions import override

from recordzoo.base.text import counted
from recordzoo.errors import ForkError
from recordzoo.loader.epochs import Drawing, Indices, Wanted
from recordzoo.loader.making import Less, Maker, batch_seed, cut
from recordzoo.loader.parts import Hint, tell
from recordzoo.loader.placement import code_of_batches

# Any, in all of this module: a batch is what the collate function makes.

logger = logging.getLogger("recordzoo")

_PIECES_PER_THREAD = 2
"""Two pieces a thread: all threads finish a batch at about the same time, and stop soon. More pieces would wait for the
GIL more often."""


class BatchIterator(Iterator[Any], ABC):
    """The batches of an epoch."""

    def __next__(self) -> Any:
        batch, wanted = self.take()
        wanted.mark()
        return batch

    @abstractmethod
    def take(self) -> tuple[Any, Wanted]:
        """Return the next batch without marking it as received; the caller does that with `wanted.mark()`.

        Raises:
            Exception: The error of this batch; the next call returns the next batch, as in `DataLoader`.
            StopIteration: The epoch is over.
            TimeoutError: The batch took longer than `timeout`.
            ForkError: This process was forked from the one that has the workers.
        """

    def is_ready(self) -> bool:
        """Whether `take` would return a batch at once; False if that is not known."""
        return False

    @abstractmethod
    def close(self) -> None:
        """End the work; there are no more batches."""


class Unbegun(Iterator[Any]):
    """The batches of an epoch that begins with the first `next`.

    Lightning calls `iter` before `set_epoch`, so `iter` must not read or decide anything. At the end of the epoch, the
    number of samples that were left out is logged.

    Args:
        begin: Begins the epoch.
        length: Returns the number of batches in a whole epoch.
        count: Called with the number of samples that were left out of a batch.
    """

    def __init__(
        self, begin: Callable[[], BatchIterator], length: Callable[[], int], count: Callable[[int], None]
    ) -> None:
        self._begin: Callable[[], BatchIterator] | None = begin
        self._length, self._count = length, count
        self._batches: BatchIterator | None = None
        self._failures: list[str] = []
        self._log = weakref.finalize(self, _log_left_out, self._failures)

    def __len__(self) -> int:
        return self._length()

    def __next__(self) -> Any:
        if self._batches is None:
            if self._begin is None:
                raise StopIteration
            self._batches = self._begin()
        try:
            batch = next(self._batches)
        except StopIteration:
            self._log()
            raise
        if not isinstance(batch, Less):
            return batch
        self._count(len(batch.failures))
        self._failures += batch.failures
        return batch.batch

    def close(self) -> None:
        """End the work; there are no more batches."""
        self._begin = None
        if self._batches is not None:
            self._batches.close()
        self._log()


class Iteration(BatchIterator):
    """An epoch prepared by threads, which end when it is exhausted, closed or garbage-collected.

    The threads refer to pieces and maker, never to this object: otherwise it would never be garbage-collected.

    Args:
        num_threads: Number of threads.
        ahead: Batches finished before the user asks for them.
        hinted: Further batches to prefetch from the disk.
        timeout_s: Longest wait for a batch; 0: no limit.
        turn: Held while the user's functions of a batch run: an epoch that was left early may still be at it.
    """

    def __init__(
        self,
        maker: Maker,
        batches: Iterator[Wanted],
        num_threads: int,
        *,
        ahead: int,
        hinted: int,
        timeout_s: float,
        turn: threading.Lock,
    ) -> None:
        self._turn = turn
        self._maker, self._ahead, self._timeout_s = maker, ahead, timeout_s
        self._pending: collections.deque[tuple[Wanted, Future[Any]]] = collections.deque()
        self._num_pieces = _PIECES_PER_THREAD * num_threads
        self._pool = pool = _threads(num_threads)
        # The user's functions of targets and batches run in one thread, one after the other.
        have_own = not all(each.is_safe for each in code_of_batches(maker.options, maker.source))
        self._in_order = _threads(1) if have_own else None
        self._home = Home()
        dataset = maker.options.dataset
        self._drawing = Drawing(batches, hinted, lambda what, indices: pool.submit(tell, dataset, what, indices))
        self._end_threads = functools.partial(_end_threads, pool, self._in_order)
        self._forgotten = weakref.finalize(self, self._end_threads, wait=False)

    @override
    def take(self) -> tuple[Any, Wanted]:
        self._home.check()
        try:
            self._work_ahead()
            if not self._pending:
                raise self._drawing.failure or StopIteration
            wanted, pending = self._pending.popleft()
            if wait([pending], self._timeout_s or None).not_done:
                raise late(self._timeout_s)
        except TimeoutError:
            self._end(wait=False)
            raise
        except BaseException:
            self.close()
            raise
        self._drawing.forget(wanted)
        return pending.result(), wanted  # an error is this batch's alone: the next `take` returns the next batch

    @override
    def is_ready(self) -> bool:
        return bool(self._pending) and self._pending[0][1].done()

    def close(self) -> None:
        """End the threads, and wait for them; there are no more batches."""
        self._end(wait=True)

    def _end(self, *, wait: bool) -> None:
        self._pending.clear()
        self._drawing.stop()
        if self._forgotten.detach() and self._home.is_here:
            self._end_threads(wait=wait)

    def _work_ahead(self) -> None:
        while len(self._pending) <= self._ahead and (wanted := self._drawing.next()) is not None:
            try:
                pending = self._begin(wanted)
            except Exception as err:  # noqa: BLE001 - raised when the user has come there
                pending = Future()
                pending.set_exception(err)
            self._pending.append((wanted, pending))

    def _begin(self, wanted: Wanted) -> Future[Any]:
        size = -(-len(wanted.keys) // (1 if self._maker.makes_whole else self._num_pieces))
        maker, seed = self._maker, batch_seed(wanted.epoch_key, wanted.places)
        pieces = cut(wanted.keys, wanted.places, maker.source, wanted.epoch_key, size)
        memory = maker.memory(len(wanted.keys))

        def finish(parts: list[Any]) -> Any:
            return maker.batch(memory, parts, seed)

        if self._in_order is not None:
            parts = [self._pool.submit(maker.make, piece, memory) for piece in pieces]

            turn = self._turn

            def finish_in_turn() -> Any:
                made = [part.result() for part in parts]
                with turn:
                    return finish(made)

            return self._in_order.submit(finish_in_turn)
        pending = _Pending(len(pieces), finish)
        for number, piece in enumerate(pieces):
            self._pool.submit(pending.make, number, functools.partial(maker.make, piece, memory))
        return pending.batch


class CallerIteration(BatchIterator):
    """An epoch made in the user's thread: each batch when it is taken, one sample after the other."""

    def __init__(self, maker: Maker, batches: Iterator[Wanted]) -> None:
        self._maker = maker

        def tell_now(what: Hint, indices: Indices) -> None:
            with contextlib.suppress(IndexError, TypeError, ValueError):  # the batch with that key raises it
                tell(maker.options.dataset, what, indices)

        self._drawing = Drawing(batches, 0, tell_now)

    @override
    def take(self) -> tuple[Any, Wanted]:
        wanted = self._drawing.next()
        if wanted is None:
            raise self._drawing.failure or StopIteration
        batch = self._maker.whole(wanted.keys, wanted.places, wanted.epoch_key)
        self._drawing.forget(wanted)
        return batch, wanted

    @override
    def close(self) -> None:
        self._drawing.stop()


class OnDevice(BatchIterator):
    """Moves batches to a device, one ahead of the user and in the user's thread.

    Args:
        finish: Finishes a moved batch on the device: computes its values and calls `batch_transform`.
    """

    def __init__(self, batches: BatchIterator, device: torch.device, finish: Callable[[Any, Wanted], Any]) -> None:
        self._batches, self._device, self._finish = batches, device, finish
        self._home = Home()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._next: tuple[Any, Wanted] | None = None
        self._failure: Exception | None = None  # of the batch after the next one

    @override
    def take(self) -> tuple[Any, Wanted]:
        self._home.check()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        batch, wanted = self._next or self._move()
        self._next = None
        if self._stream is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_stream(self._stream)
            for tensor in tensors(batch):
                tensor.record_stream(current)  # keep its memory until the user's stream is done with it
        # Do not wait for a batch that is not ready: the user can work on this one meanwhile.
        if self._batches.is_ready():
            try:
                self._next = self._move()
            except Exception as err:  # noqa: BLE001 - raised when the user has come there
                self._failure = err
        return batch, wanted

    @override
    def close(self) -> None:
        self._next = self._failure = None
        self._batches.close()

    def _move(self) -> tuple[Any, Wanted]:
        batch, wanted = self._batches.take()
        with torch.cuda.stream(self._stream) if self._stream is not None else nullcontext():
            return self._finish(to_device(batch, self._device), wanted), wanted


class Home:
    """The process that created this object: a forked child inherits an iterator, but not its threads."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this process created the object."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Raise a `ForkError` in any other process."""
        if not self.is_here:
            raise ForkError(
                f"This iterator of a RecordLoader began in process {self._pid}. Its workers do not belong to process "
                f"{os.getpid()}, which was forked from there. Begin another iterator here: iter(loader)."
            )


def late(timeout_s: float) -> TimeoutError:
    """Return the error for a batch that took longer than `timeout`."""
    return TimeoutError(
        f"No batch was ready after timeout={timeout_s} seconds. Pass a larger timeout, or 0 to wait for ever."
    )


def to_device(batch: Any, device: torch.device) -> Any:
    """Move all tensors of a batch; keep the types of lists, tuples and dicts."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(to_device(value, device) for value in batch)
    return batch


def tensors(batch: Any) -> Iterator[torch.Tensor]:
    """Iterate over all tensors of a batch."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, dict):
        for value in batch.values():
            yield from tensors(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from tensors(value)


class _Pending:
    """A batch in progress. The thread that finishes its last piece collates it."""

    def __init__(self, num_pieces: int, finish: Callable[[list[Any]], Any]) -> None:
        self.batch = Future[Any]()
        self._parts: list[Any] = [None] * num_pieces
        self._failures: dict[int, BaseException] = {}  # by the number of the piece
        self._left, self._lock, self._finish = num_pieces, threading.Lock(), finish

    def make(self, number: int, make: Callable[[], Any]) -> None:
        """Make a piece, in any thread."""
        try:
            self._parts[number] = make()
        except BaseException as err:  # noqa: BLE001 - raised in the user's thread
            self._failures[number] = err
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._end()

    def _end(self) -> None:
        try:
            if self._failures:
                raise self._failures[min(self._failures)]
            self.batch.set_result(self._finish(self._parts))
        except BaseException as err:  # noqa: BLE001 - as above
            self.batch.set_exception(err)
        self._parts, self._failures = [], {}


def _log_left_out(failures: list[str]) -> None:
    if failures:
        logger.warning(
            "RecordLoader left out %s of this epoch that cannot be read or decoded; the first: %s",
            counted(len(failures), "sample"),
            failures[0],
        )


def _end_threads(pool: ThreadPoolExecutor, in_order: ThreadPoolExecutor | None, *, wait: bool) -> None:
    pool.shutdown(wait=wait, cancel_futures=True)  # the thread that waits for a piece goes on
    if in_order is not None:
        in_order.shutdown(wait=wait, cancel_futures=True)


def _threads(number: int) -> ThreadPoolExecutor:
    """Start threads with the settings of this one: context variables, as NumPy's `errstate` is one, and torch's modes.

    torch uses one core in each; otherwise there would be far more threads than cores.
    """
    for_others = torch.get_num_threads()
    switches = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    pool = ThreadPoolExecutor(number, "recordzoo", _work_alone, (contextvars.copy_context(), *switches))
    all_there = threading.Barrier(number)  # otherwise an idle thread takes the work and the next one is not started
    try:
        for started in [pool.submit(all_there.wait) for _ in range(number)]:
            started.result()
    except BaseException:
        all_there.abort()
        pool.shutdown(wait=False)
        raise
    torch.set_num_threads(for_others)  # undo the setting for threads started later
    return pool


def _work_alone(
    context: contextvars.Context, has_gradients: bool, is_autocast: bool, autocast_dtype: torch.dtype
) -> None:
    for variable, value in context.items():
        variable.set(value)
    torch.set_grad_enabled(has_gradients)
    torch.set_autocast_enabled("cpu", is_autocast)
    torch.set_autocast_dtype("cpu", autocast_dtype)
    torch.get_num_threads()  # the first call in a thread copies the process's number: call it before
    torch.set_num_threads(1)
