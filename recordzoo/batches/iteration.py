"""One epoch in progress: threads that work ahead of the user, and end with it."""

import collections
import weakref
from collections.abc import Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from recordzoo.batches.makers import Maker
from recordzoo.batches.order import Order, Wanted
from recordzoo.batches.source import Source
from recordzoo.batches.work import cut
from recordzoo.sampling.storage import forget, hint

_PIECES_PER_THREAD = 4
"""A batch is cut so finely that the threads end it at about the same time."""


@dataclass(frozen=True)
class Pace:
    """How far the threads work ahead.

    Attributes:
        num_threads: How many there are.
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


class Iteration(Iterator[Any]):
    """Gives the batches of an epoch. When it is exhausted, closed, left or forgotten, its threads end.

    The threads know the pieces and the maker, never this object, so that it can be forgotten.
    """

    def __init__(self, dataset: Sized, source: Source, maker: Maker, order: Order, pace: Pace) -> None:
        self._dataset, self._source, self._maker = dataset, source, maker
        self._order, self._pace = order, pace
        self._drawn: collections.deque[Wanted] = collections.deque()
        self._pending: collections.deque[_Pending] = collections.deque()
        self._pool = _threads(pace.num_threads)
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
        """
        try:
            self._work_ahead()
            if not self._pending:
                raise StopIteration
            pending = self._pending.popleft()
            parts = [part.result(self._pace.timeout_s) for part in pending.parts]
            if len(pending.wanted.finished):
                self._pool.submit(forget, self._dataset, pending.wanted.finished)
            return self._maker.batch(pending.memory, parts), pending.wanted
        except BaseException:
            self.close()
            raise

    def is_ready(self) -> bool:
        """Whether `take` would return a batch at once."""
        return bool(self._pending) and all(part.done() for part in self._pending[0].parts)

    def close(self) -> None:
        """End the threads, and wait for them; there are no more batches."""
        self._pending.clear()
        self._drawn.clear()
        self._order = Order(0, 0, iter(()))
        if self._forgotten.detach():
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _work_ahead(self) -> None:
        while len(self._pending) <= self._pace.ahead and (wanted := self._draw()) is not None:
            self._pending.append(self._begin(wanted))

    def _draw(self) -> Wanted | None:
        """Return the next batch, and have those behind it read from the disk."""
        while len(self._drawn) <= self._pace.hinted and (wanted := next(self._order.batches, None)) is not None:
            self._pool.submit(hint, self._dataset, wanted.upcoming)
            self._drawn.append(wanted)
        return self._drawn.popleft() if self._drawn else None

    def _begin(self, wanted: Wanted) -> _Pending:
        size = -(-len(wanted.indices) // (_PIECES_PER_THREAD * self._pace.num_threads))
        pieces = cut(wanted, self._source, self._order.seed, self._order.epoch, size)
        memory = self._maker.memory(len(wanted.indices))
        return _Pending(wanted, memory, [self._pool.submit(self._maker.make, piece, memory) for piece in pieces])


def _threads(number: int) -> ThreadPoolExecutor:
    """Make threads in which torch works alone: if each had a team of its own, there would be many more than cores."""
    for_others = torch.get_num_threads()
    pool = ThreadPoolExecutor(number, "recordzoo", _work_alone)
    for started in [pool.submit(int) for _ in range(number)]:
        started.result()
    torch.set_num_threads(for_others)  # a thread that sets it sets it for all that are made later
    return pool


def _work_alone() -> None:
    torch.get_num_threads()  # a thread's first use of torch sets its number to the process's; this is it
    torch.set_num_threads(1)
