"""`on_error="skip"`: count the samples skipped in an epoch. `Maker` skips them."""

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from recordzoo.loader.iteration import BatchIterator
from recordzoo.loader.makers import Less
from recordzoo.loader.order import Wanted

logger = logging.getLogger("recordzoo")


@dataclass
class _Tally:
    """The samples skipped in an epoch: their number, and the first reason."""

    count: int = 0
    first: str = ""

    def log(self) -> None:
        if self.count:
            logger.warning(
                "RecordLoader left out %s of this epoch that cannot be read or decoded; the first: %s",
                "a sample" if self.count == 1 else f"{self.count:,} samples",
                self.first,
            )


class Counting(BatchIterator):
    """Yields the batches of an epoch, counts the skipped samples, and logs their number at the end of the epoch.

    Args:
        batches: The epoch.
        count: Called with a batch's number of skipped samples, after the user has received the batch.
    """

    def __init__(self, batches: BatchIterator, count: Callable[[int], None]) -> None:
        self._batches, self._count, self._tally = batches, count, _Tally()
        self._log = weakref.finalize(self, self._tally.log)

    def take(self) -> tuple[Any, Wanted]:
        """See `BatchIterator`."""
        try:
            batch, wanted = self._batches.take()
        except BaseException:  # includes the end of the epoch
            self._log()
            raise
        if not isinstance(batch, Less):
            return batch, wanted
        failures = batch.failures

        def mark() -> None:
            wanted.mark()
            self._count(len(failures))
            self._tally.first = self._tally.first or failures[0]
            self._tally.count += len(failures)

        return batch.batch, replace(wanted, mark=mark)

    def is_ready(self) -> bool:
        """See `BatchIterator`."""
        return self._batches.is_ready()

    def close(self) -> None:
        """See `BatchIterator`."""
        self._batches.close()
        self._log()
