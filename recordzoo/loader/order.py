"""The order of an epoch: which samples are in each batch."""

import collections
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.types import JSON
from recordzoo.sampling.epoch import CHUNK, Epoch
from recordzoo.sampling.samplers import RecordSampler

# Any, in all of this module: keys are of any kind.

NONE = np.empty(0, np.int64)

Indices = NDArray[np.int64]

Keys = Indices | list[Any]  # Any: a key for `dataset[key]`


@dataclass(frozen=True)
class Wanted:
    """A batch to make.

    Attributes:
        keys: The sampler's keys: int64 [n] if all are integers, otherwise a list.
        places: Their places in the epoch, counted over all ranks; int64 [n].
        mark: Function to call when the user has received the batch.
        upcoming: Indices of the samples to prefetch now, int64 [n].
        finished: Indices of the samples to drop from the page cache after this batch, int64 [n].
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
        seed, epoch: Random numbers are a function of these and of a sample's place. The epoch is 0 if it drew its seed.
        batches: The batches to make, in order.
    """

    seed: int
    epoch: int
    batches: Iterator[Wanted]


class Orders(Protocol):
    """The orders of all epochs, and the user's position in the current one."""

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch."""

    def begin(self) -> EpochBatches:
        """Begin the next epoch, or continue one that was loaded."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the next epoch."""

    def state_dict(self) -> dict[str, JSON]:
        """Return the user's position."""

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Resume from a `state_dict`."""


class SampledOrders:
    """`Orders` of a `RecordSampler`: the state is a few numbers, and a resume skips without iterating."""

    def __init__(self, sampler: RecordSampler, batch_size: int, drop_last: bool, *, drop_cache: bool = False) -> None:
        self._sampler, self._batch_size, self._drop_last = sampler, batch_size, drop_last
        self._drop_cache = drop_cache
        self.set_epoch = sampler.set_epoch
        self.state_dict = sampler.state_dict
        self.load_state_dict = sampler.load_state_dict

    def __len__(self) -> int:
        return num_batches(len(self._sampler), self._batch_size, self._drop_last)

    def begin(self) -> EpochBatches:
        """Begin the sampler's next epoch."""
        epoch = self._sampler.begin()
        return EpochBatches(*epoch.seed.key(epoch.number), self._batches(epoch))

    def _batches(self, epoch: Epoch) -> Iterator[Wanted]:
        size = self._batch_size
        step = size * max(1, CHUNK // size)  # compute the order of many samples at once
        for start in range(epoch.first, epoch.end, step):
            end = min(start + step, epoch.end)
            indices, places = epoch.indices(start, end), epoch.places(start, end)
            blocks, read = self._blocks(epoch, start, end)
            for first in range(0, end - start, size):
                part = slice(first, first + size)
                last = start + first + len(indices[part])
                if len(indices[part]) == size or not self._drop_last:
                    upcoming = indices[part] if blocks is None else NONE if first else blocks
                    finished = read if last == end else NONE
                    yield Wanted(indices[part], places[part], self._mark(epoch, last), upcoming, finished)

    def _blocks(self, epoch: Epoch, start: int, end: int) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Return the samples of the blocks that are first and last read in this range; (None, empty) without blocks."""
        if self._sampler.shuffle != "block":
            return None, NONE
        return epoch.opened(start, end), epoch.closed(start, end) if self._drop_cache else NONE

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._sampler.is_within_epoch:  # a copy or pickle continues the epoch
            self.load_state_dict(self.state_dict())

    def _mark(self, epoch: Epoch, end: int) -> Callable[[], None]:
        if self._drop_last and epoch.end - end < self._batch_size:
            end = epoch.end  # skipped samples count as taken: the epoch is over
        return lambda: self._sampler.mark(epoch, end)


class Drawing:
    """Draws batches from an order, some ahead of those in progress, so that their samples can be prefetched.

    Args:
        ahead: Number of batches to draw ahead.
        announce: Called with each batch when it is drawn.

    Attributes:
        failure: The order's exception, raised for the user after the last batch.
    """

    def __init__(self, batches: Iterator[Wanted], ahead: int, announce: Callable[[Wanted], object]) -> None:
        self._batches, self._ahead, self._announce = batches, ahead, announce
        self._drawn: collections.deque[Wanted] = collections.deque()
        self.failure: Exception | None = None

    def next(self) -> Wanted | None:
        """Return the next batch, or None at the end."""
        while len(self._drawn) <= self._ahead and (wanted := self._draw()) is not None:
            self._announce(wanted)
            self._drawn.append(wanted)
        return self._drawn.popleft() if self._drawn else None

    def stop(self) -> None:
        """Draw no more batches."""
        self._drawn.clear()
        self._batches, self.failure = iter(()), None

    def _draw(self) -> Wanted | None:
        try:
            return next(self._batches, None)
        except Exception as err:  # noqa: BLE001 - whatever a sampler raises
            self._batches, self.failure = iter(()), err
            return None


def num_batches(num_samples: int, batch_size: int, drop_last: bool) -> int:
    """Return the number of batches for a number of samples."""
    return num_samples // batch_size if drop_last else -(-num_samples // batch_size)


def read_keys(keys: Iterable[Any]) -> Keys:
    """Return keys as int64 [n] if all are integers, otherwise as a list; floats and texts are not converted."""
    given = keys if isinstance(keys, np.ndarray | list) else _listed(keys)
    try:
        found = np.asarray(given)
    except ValueError:  # sequences of several lengths
        return list(given)
    if not found.size and found.ndim == 1:
        return np.empty(0, np.int64)
    if found.ndim == 1 and found.dtype.kind == "i":
        return found.astype(np.int64, copy=False)
    numbers = [number_of(key) for key in given]
    return list(given) if None in numbers else np.array(numbers, np.int64)


def indices_of(keys: Iterable[Any], kind: str) -> Indices:
    """Return keys that must be integers."""
    found = read_keys(keys)
    if isinstance(found, list):
        wrong = next(key for key in found if number_of(key) is None)
        raise TypeError(f"{wrong!r} is no index of {kind}: its samples have the numbers 0, 1, 2, ...")
    return found


def number_of(key: Any) -> int | None:
    """Return a key as a 64-bit integer, or None if it is not one."""
    try:
        number = operator.index(key)
    except TypeError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _listed(keys: Iterable[Any]) -> list[Any]:
    listed = getattr(keys, "tolist", None)  # numbers instead of 0-d tensors
    return listed() if listed is not None else list(keys)
