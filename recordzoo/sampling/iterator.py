"""`EpochIterator`: what a `DataLoader` draws a rank's indices from, one by one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from recordzoo.sampling.ahead import ahead_of
from recordzoo.sampling.epoch import Epoch
from recordzoo.sampling.storage import hint

if TYPE_CHECKING:
    from recordzoo.sampling.samplers import RecordSampler


class EpochIterator(Iterator[int]):
    """Draws this rank's indices one by one; begins the epoch with the first.

    torchdata's StatefulDataLoader makes iterators that it never draws from. It loads the sampler's state, then that of
    an iterator: there nothing may be left of the epoch, which the sampler's own state does not tell from the next one.
    """

    def __init__(self, sampler: "RecordSampler") -> None:
        self._sampler = sampler
        self._loaded: tuple[int, int] | None = None  # number of an epoch, and how much of it was consumed
        self._epoch: Epoch | None = None
        self._drawn: Iterator[int] = iter(())
        self._taken = 0

    def __next__(self) -> int:
        if self._epoch is None:
            self._epoch = self._sampler.begin(self._from_state())
            self._taken = self._epoch.first
            self._drawn = self._draw(self._epoch)
        index = next(self._drawn)
        self._taken += 1
        self._sampler.mark(self._epoch, self._taken)
        return index

    def _from_state(self) -> Epoch | None:
        return None if self._loaded is None else self._sampler.make_epoch(*self._loaded)

    def _draw(self, epoch: Epoch) -> Iterator[int]:
        ahead = ahead_of(self._sampler.dataset, epoch, self._sampler.shuffle)
        for start, end in epoch.chunks():
            if self._sampler.shuffle == "block" and ahead is None:
                hint(self._sampler.dataset, epoch.opened(start, end))
            indices = epoch.indices(start, end).tolist()
            if ahead is None:
                yield from indices
                continue
            for first in range(0, len(indices), ahead.step):
                ahead.advance(start + first)
                yield from indices[first : first + ahead.step]

    def state_dict(self) -> dict[str, int]:
        """Return the number of the epoch, and how much of it was consumed."""
        if self._epoch is not None:
            return {"epoch": self._epoch.number, "consumed": self._epoch.consumed_at(self._taken)}
        epoch = self._from_state() or self._sampler.upcoming()
        return {"epoch": epoch.number, "consumed": epoch.consumed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where `state_dict` was called."""
        self._loaded, self._epoch = (state["epoch"], state["consumed"]), None
