"""One epoch in progress: threads that work ahead of the user, and end with it."""

import collections
import threading
import weakref
from collections.abc import Callable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from recordzoo.batches.home import Home
from recordzoo.batches.makers import Maker
from recordzoo.batches.order import EpochBatches, Wanted
from recordzoo.batches.source import BatchSource
from recordzoo.batches.work import cut
from recordzoo.sampling.storage import forget, hint

_PIECES_PER_THREAD = 2
"""A batch is cut so finely that the threads end it at about the same time, and soon when they are to stop; more finely,
they would wait for the GIL more often."""


@dataclass(frozen=True)
class Pace:
    """How far the threads work ahead.

    Attributes:
        num_threads: How many there may be; small images are made by one.
        ahead: How many batches are made before the user asks for them.
        hinted: How many more the kernel reads from the disk.
        timeout_s: How long the user waits for a batch; None for ever.
    """

    num_threads: int
    ahead: int
    hinted: int
    timeout_s: float | None


@dataclass(frozen=True)
class _Pending:
    """A batch in the making."""

    wanted: Wanted
    memory: torch.Tensor | None
    parts: list[Future[Any]]  # Any: what the maker makes


class Batches(Protocol):
    """The batches of an epoch that has begun."""

    def __next__(self) -> Any:  # Any: a batch is what the collate function makes
        """Return the next batch."""

    def close(self) -> None:
        """End the work; there are no more batches."""


class Unbegun(Iterator[Any]):
    """The batches of an epoch that begins when the first of them is asked for.

    Lightning calls `iter` to see whether it may, and says only then which epoch it wants. Nothing is read before.

    Args:
        begin: Begins the epoch.
    """

    def __init__(self, begin: Callable[[], Batches]) -> None:
        self._begin: Callable[[], Batches] | None = begin
        self._batches: Batches | None = None

    def __iter__(self) -> "Unbegun":
        return self

    # Any: as above.
    def __next__(self) -> Any:
        if self._batches is None:
            if self._begin is None:
                raise StopIteration
            self._batches = self._begin()
        return next(self._batches)

    def close(self) -> None:
        """End the work; there are no more batches."""
        self._begin = None
        if self._batches is not None:
            self._batches.close()


class Iteration(Iterator[Any]):
    """Gives the batches of an epoch. When it is exhausted, closed, left or forgotten, its threads end.

    The threads know the pieces and the maker, never this object, so that it can be forgotten.
    """

    def __init__(self, dataset: Sized, source: BatchSource, maker: Maker, order: EpochBatches, pace: Pace) -> None:
        self._dataset, self._source, self._maker = dataset, source, maker
        self._order, self._pace = order, pace
        self._batches = order.batches
        self._failure: Exception | None = None  # raised behind the last batch
        self._drawn: collections.deque[Wanted] = collections.deque()
        self._pending: collections.deque[_Pending] = collections.deque()
        num_threads, self._num_pieces = pace.num_threads, _PIECES_PER_THREAD * pace.num_threads
        if source.is_small:  # several threads, or the end of each piece, would only be waited for
            num_threads = self._num_pieces = 1
        self._pool, self._home = _threads(num_threads), Home()
        self._forgotten = weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)

    def __iter__(self) -> "Iteration":
        return self

    # Any: a batch is what the collate function makes.
    def __next__(self) -> Any:
        batch, wanted = self.take()
        wanted.mark()
        return batch

    # Any: as above.
    def take(self) -> tuple[Any, Wanted]:
        """Return the next batch; it does not count as the user's yet.

        Raises:
            StopIteration: There is none.
            TimeoutError: It took too long.
            ForkError: This process was forked from the one that has the threads.
        """
        self._home.check()
        try:
            self._work_ahead()
            if not self._pending:
                raise self._failure or StopIteration
            pending = self._pending.popleft()
            self._wait(pending.parts)
            parts = [part.result() for part in pending.parts]
            if len(pending.wanted.finished):
                self._pool.submit(forget, self._dataset, pending.wanted.finished)
            return self._maker.batch(pending.memory, parts), pending.wanted
        except TimeoutError:
            self._end(wait=False)
            raise
        except BaseException:
            self.close()
            raise

    def is_ready(self) -> bool:
        """Whether `take` would return a batch at once."""
        return bool(self._pending) and all(part.done() for part in self._pending[0].parts)

    def close(self) -> None:
        """End the threads, and wait for them; there are no more batches."""
        self._end(wait=True)

    def _end(self, *, wait: bool) -> None:
        self._pending.clear()
        self._draw_no_more(None)
        if self._forgotten.detach() and self._home.is_here:
            self._pool.shutdown(wait=wait, cancel_futures=True)

    def _wait(self, parts: list[Future[Any]]) -> None:  # Any: as above
        timeout_s = self._pace.timeout_s
        if timeout_s is not None and wait(parts, timeout_s).not_done:
            raise TimeoutError(
                f"No batch was ready after timeout={timeout_s} seconds. Pass a larger timeout, or 0 to wait for ever."
            )

    def _work_ahead(self) -> None:
        while len(self._pending) <= self._pace.ahead and (wanted := self._draw()) is not None:
            try:
                self._pending.append(self._begin(wanted))
            except Exception as err:  # noqa: BLE001 - raised when the user has come there
                self._draw_no_more(err)

    def _draw(self) -> Wanted | None:
        """Return the next batch, and have those behind it read from the disk."""
        while len(self._drawn) <= self._pace.hinted and (wanted := self._next_wanted()) is not None:
            self._pool.submit(hint, self._dataset, wanted.upcoming)
            self._drawn.append(wanted)
        return self._drawn.popleft() if self._drawn else None

    def _next_wanted(self) -> Wanted | None:
        try:
            return next(self._batches, None)
        except Exception as err:  # noqa: BLE001 - whatever a sampler raises
            self._batches, self._failure = iter(()), err
            return None

    def _draw_no_more(self, failure: Exception | None) -> None:
        self._drawn.clear()
        self._batches, self._failure = iter(()), failure

    def _begin(self, wanted: Wanted) -> _Pending:
        size = -(-len(wanted.keys) // self._num_pieces)
        pieces = cut(wanted, self._source, self._order.seed, self._order.epoch, size)
        memory = self._maker.memory(len(wanted.keys))
        return _Pending(wanted, memory, [self._pool.submit(self._maker.make, piece, memory) for piece in pieces])


def _threads(number: int) -> ThreadPoolExecutor:
    """Make threads in which torch works alone: if each had a team of its own, there would be many more than cores."""
    for_others = torch.get_num_threads()
    pool = ThreadPoolExecutor(number, "recordzoo", _work_alone)
    all_there = threading.Barrier(number)  # a thread that is idle would be given the work of one that is not started
    try:
        for started in [pool.submit(all_there.wait) for _ in range(number)]:
            started.result()
    except BaseException:
        all_there.abort()
        pool.shutdown(wait=False)
        raise
    torch.set_num_threads(for_others)  # a thread that sets it sets it for all that are made later
    return pool


def _work_alone() -> None:
    torch.get_num_threads()  # a thread's first use of torch sets its number to the process's; this is it
    torch.set_num_threads(1)
