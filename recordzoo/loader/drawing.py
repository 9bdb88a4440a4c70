"""Batches drawn from an order, some of them ahead of those that are made, so that their samples can be read ahead."""

import collections
from collections.abc import Callable, Iterator

from recordzoo.loader.order import Wanted


class Drawing:
    """Draws batches in their order.

    Args:
        batches: The order.
        ahead: How many batches are drawn ahead.
        announce: Called with each batch when it is drawn.

    Attributes:
        failure: What the order raised. It is raised when the user has come there.
    """

    def __init__(self, batches: Iterator[Wanted], ahead: int, announce: Callable[[Wanted], object]) -> None:
        self._batches, self._ahead, self._announce = batches, ahead, announce
        self._drawn: collections.deque[Wanted] = collections.deque()
        self.failure: Exception | None = None

    def next(self) -> Wanted | None:
        """Return the next batch; None if there is none."""
        while len(self._drawn) <= self._ahead and (wanted := self._draw()) is not None:
            self._announce(wanted)
            self._drawn.append(wanted)
        return self._drawn.popleft() if self._drawn else None

    def stop(self, failure: Exception | None = None) -> None:
        """Draw no more batches."""
        self._drawn.clear()
        self._batches, self.failure = iter(()), failure

    def _draw(self) -> Wanted | None:
        try:
            return next(self._batches, None)
        except Exception as err:  # noqa: BLE001 - whatever a sampler raises
            self._batches, self.failure = iter(()), err
            return None
