"""Which samples the batches hold: of our sampler many at once, of other samplers one by one."""

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recordzoo.aliases import JSON
from recordzoo.errors import ArgumentError
from recordzoo.loader.keys import Keys, read_keys
from recordzoo.sampling.ahead import ahead_of
from recordzoo.sampling.epoch import CHUNK, Epoch
from recordzoo.sampling.ranks import Ranks
from recordzoo.sampling.samplers import RecordSampler
from recordzoo.sampling.seed import Seed

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Wanted:
    """A batch that is to be made.

    Attributes:
        keys: What the sampler gave: int64 [n] if all of them are integers, otherwise a list of the keys.
        places: Where in the epoch they stand, all ranks counted; int64 [n].
        mark: Called when the user has got the batch.
        upcoming: Indices of the samples that are to be read from the disk from now on, int64 [n].
        finished: Indices of those that need not stay in memory once this batch is made, int64 [n].
    """

    keys: Keys
    places: NDArray[np.int64]
    mark: Callable[[], None]
    upcoming: NDArray[np.int64]
    finished: NDArray[np.int64]


@dataclass(frozen=True)
class EpochBatches:
    """The batches of an epoch.

    Attributes:
        seed, epoch: What its random numbers are a function of, with the places.
        batches: Which ones.
    """

    seed: int
    epoch: int
    batches: Iterator[Wanted]


class Orders(Protocol):
    """The orders of all epochs, and how far the user has come in the last one."""

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch."""

    def begin(self) -> EpochBatches:
        """Begin the next epoch, or go on in one that was loaded."""

    def set_epoch(self, epoch: int) -> None:
        """Make the next epoch this one."""

    def state_dict(self) -> dict[str, JSON]:
        """Return where the user is."""

    def load_state_dict(self, state: dict[str, Any]) -> None:  # Any: as above
        """Go on where `state_dict` was called."""


class Singles:
    """Batches of one sample each.

    Args:
        sampler: Gives their keys.
    """

    # Any: whatever keys.
    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]  # a TypeError if it has no length, as in DataLoader

    # Any: as above.
    def __iter__(self) -> Iterator[list[Any]]:
        return ([key] for key in self._sampler)


class SampledOrders:
    """Those of a `RecordSampler`: a few numbers say where one is, and getting there costs nothing.

    Args:
        sampler: The sampler.
        batch_size: Samples in a batch.
        drop_last: Leave out a last batch that is not full.
        drop_cache: Let the kernel forget the blocks that were read.
    """

    def __init__(self, sampler: RecordSampler, batch_size: int, drop_last: bool, *, drop_cache: bool = False) -> None:
        self._sampler, self._batch_size, self._drop_last = sampler, batch_size, drop_last
        self._drop_cache = drop_cache
        self.set_epoch = sampler.set_epoch
        self.state_dict = sampler.state_dict
        self.load_state_dict = sampler.load_state_dict

    def __len__(self) -> int:
        return _num_batches(len(self._sampler), self._batch_size, self._drop_last)

    def begin(self) -> EpochBatches:
        """Begin the sampler's next epoch."""
        epoch = self._sampler.begin()
        return EpochBatches(self._sampler.seed, epoch.number, self._batches(epoch))

    def _batches(self, epoch: Epoch) -> Iterator[Wanted]:
        size = self._batch_size
        ahead = ahead_of(self._sampler.dataset, epoch, self._sampler.shuffle)
        step = size * max(1, CHUNK // size)  # the order of many samples is computed at once
        for start in range(epoch.first, epoch.end, step):
            end = min(start + step, epoch.end)
            indices, places = epoch.indices(start, end), epoch.places(start, end)
            blocks, read = self._blocks(epoch, start, end)
            for first in range(0, end - start, size):
                if ahead is not None:
                    ahead.advance(start + first)
                part = slice(first, first + size)
                last = start + first + len(indices[part])
                if len(indices[part]) == size or not self._drop_last:
                    upcoming = indices[part] if blocks is None else _NONE if first else blocks
                    finished = read if last == end else _NONE
                    yield Wanted(indices[part], places[part], self._mark(epoch, last), upcoming, finished)

    def _blocks(self, epoch: Epoch, start: int, end: int) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Return the samples of the blocks that these places read first, and last; None if there are no blocks."""
        if self._sampler.shuffle != "block":
            return None, _NONE
        return epoch.opened(start, end), epoch.closed(start, end) if self._drop_cache else _NONE

    def _mark(self, epoch: Epoch, end: int) -> Callable[[], None]:
        if self._drop_last and epoch.end - end < self._batch_size:
            end = epoch.end  # what is left out counts as taken: the epoch is over
        return lambda: self._sampler.mark(epoch, end)


class IteratedOrders:
    """Those of any sampler of batches; to go on in the middle, what was taken is drawn again.

    Args:
        batches: Gives lists of indices, the same ones again for the same epoch if it is to be resumed.
        seed: For the random numbers.
        sampler: The sampler behind it; a distributed one has a rank, and is told the epoch.
    """

    # Any: a sampler of any kind, and keys of any kind.
    def __init__(self, batches: Iterable[list[Any]], seed: Seed, sampler: Any) -> None:
        self._batches, self._seed, self._sampler = batches, seed, sampler
        self._ranks = Ranks()
        self._epoch, self._taken, self._begun, self._is_over = 0, 0, False, False

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]  # a TypeError if it has no length, as in DataLoader

    def begin(self) -> EpochBatches:
        """Iterate over the sampler."""
        if self._begun:
            self._set(self._epoch + 1)
        self._begun = True
        seed = self._seed.settle(self._num_replicas())
        return EpochBatches(seed, self._epoch, self._wanted(self._epoch, self._taken))

    def set_epoch(self, epoch: int) -> None:
        """Make the next epoch this one, for the sampler too if it has epochs."""
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        if self._begun or epoch != self._epoch:
            self._set(epoch)

    def state_dict(self) -> dict[str, JSON]:
        """Return seed, epoch and the number of batches that were taken; of an epoch that is over, the next one's."""
        epoch, taken = (self._epoch + 1, 0) if self._is_over else (self._epoch, self._taken)
        return {"seed": self._seed.among(self._num_replicas()), "epoch": epoch, "batches": taken}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Go on there; at the end of an epoch, with the next one.

        Raises:
            ArgumentError: It is another sampler's state.
        """
        if state.keys() != self.state_dict().keys():
            raise ArgumentError(
                f"A state with {', '.join(state)} is not one of a RecordLoader with a sampler or batch_sampler of your "
                f"own, which has {', '.join(self.state_dict())}. Give the loader the arguments that it had then."
            )
        epoch, taken = state["epoch"], state["batches"]
        if taken and isinstance(self._batches, Sized) and taken >= len(self._batches):
            epoch, taken = epoch + 1, 0
        self.set_epoch(epoch)
        self._seed.set(state["seed"])
        self._set(epoch, taken)

    def _set(self, epoch: int, taken: int = 0) -> None:
        self._epoch, self._taken, self._begun, self._is_over = epoch, taken, False, False

    def _num_replicas(self) -> int:
        """Return how many ranks must agree on a seed, also those that the sampler knows nothing of."""
        return max(self._ranks.now()[0], getattr(self._sampler, "num_replicas", 1))

    def _wanted(self, epoch: int, skipped: int) -> Iterator[Wanted]:
        rank, num_replicas = getattr(self._sampler, "rank", 0), getattr(self._sampler, "num_replicas", 1)
        count = 0
        for number, (chosen, is_last) in enumerate(_with_last(self._batches), 1):
            keys = read_keys(chosen)
            places = rank + num_replicas * np.arange(count, count + len(keys), dtype=np.int64)
            count += len(keys)
            if number > skipped:
                upcoming = _NONE if isinstance(keys, list) else keys
                yield Wanted(keys, places, self._mark(epoch, number, is_last=is_last), upcoming, _NONE)

    def _mark(self, epoch: int, number: int, *, is_last: bool) -> Callable[[], None]:
        def mark() -> None:
            if epoch == self._epoch:
                self._taken, self._is_over = number, is_last

        return mark


def _with_last(batches: Iterable[list[Any]]) -> Iterator[tuple[list[Any], bool]]:
    """Iterate over batches, each with whether it is the last one: not every sampler has a length, or the right one."""
    upcoming = iter(batches)
    batch = next(upcoming, None)
    while batch is not None:
        try:
            following = next(upcoming, None)
        except BaseException:
            yield batch, False  # the sampler fails behind this batch, not before it
            raise
        yield batch, following is None
        batch = following


def _num_batches(num_samples: int, batch_size: int, drop_last: bool) -> int:
    return num_samples // batch_size if drop_last else -(-num_samples // batch_size)
