"""`on_error="skip"`: how many samples an epoch has left out. `Maker` leaves them out."""

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
    """The samples that were left out of an epoch: how many, and why the first one."""

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
    """Gives the batches of an epoch, counts the samples that they lack, and logs the number when the epoch ends.

    Args:
        batches: The epoch.
        count: Called with the number of samples that a batch lacks, when the user has got it.
    """

    def __init__(self, batches: BatchIterator, count: Callable[[int], None]) -> None:
        self._batches, self._count, self._tally = batches, count, _Tally()
        self._log = weakref.finalize(self, self._tally.log)

    def take(self) -> tuple[Any, Wanted]:
        """See `BatchIterator`."""
        try:
            batch, wanted = self._batches.take()
        except BaseException:  # the last batch, too
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
