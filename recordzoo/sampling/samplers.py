"""`RecordSampler`: the order in which a DataLoader takes samples, on every rank, in every epoch, from any place on."""

import math
import operator
from collections.abc import Iterator, Sized
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import distributed
from torch.utils.data import Sampler

from recordzoo.errors import ArgumentError
from recordzoo.sampling.epoch import Epoch
from recordzoo.sampling.orders import BlockLayout, BlockOrder, SampleOrder
from recordzoo.sampling.permutation import Permutation, hash_key
from recordzoo.sampling.storage import hint, storage_of

_MIN_WINDOWS = 4
"""A virtual rank has at least so many windows: where samples are few, blocks are small."""


class RecordSampler(Sampler[int]):
    """Samples indices of a dataset: shuffled or not, distributed or not, resumed in O(1) at any place of an epoch.

    It stands in for `DistributedSampler` and for `DataLoader`'s ``shuffle=True``, in any DataLoader. An epoch is one
    sequence of places, a function of seed and epoch alone; of W ranks each takes every W-th, so that global batches of
    one size hold the same samples whatever W is. All ranks take equally many: the last ones repeat the epoch's first
    samples, or with `drop_last` the samples left over are not taken.

    Each iteration is another epoch: the one after the last that was begun, finished or not, unless `set_epoch` or
    `load_state_dict` names one. Ranks that do not iterate equally often must call `set_epoch`.

    Args:
        dataset: Any dataset with a length. Where its samples are stored counts for ``shuffle="block"`` only, and is
            known of this package's datasets, and of a `Subset` or `ConcatDataset` of them.
        shuffle: True permutes all samples, without a list of them. "block" permutes blocks of samples that are stored
            together and mixes those of a window: for data larger than memory, on disks that seek. False: as they come.
        seed: Together with the epoch, chooses the order; the same on all ranks.
        num_replicas: Number of ranks; that of `torch.distributed` if it is initialised, otherwise 1.
        rank: This rank, from 0.
        drop_last: Leave samples out, rather than repeat some, where they do not divide by the number of ranks.
        block_bytes: "block": the size of a block; smaller if there would be too few.
        window: "block": how many blocks each virtual rank mixes at a time.
        virtual_ranks: "block": a world size that divides it reads each block on one rank only, once an epoch. Any other
            takes the same samples, but reads a block on several ranks.

    Attributes:
        seed, num_replicas, rank, shuffle, drop_last: As above. `load_state_dict` sets the seed.
        window_bytes: How much this rank mixes at a time, and the page cache should hold, on average; 0 unless "block".

    Raises:
        ArgumentError: A value is not one of the valid ones.

    Example:
        >>> sampler = RecordSampler(range(10), seed=1)
        >>> sorted(sampler)
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        dataset: Sized,
        *,
        shuffle: bool | Literal["block"] = True,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
        block_bytes: int = 2 << 20,
        window: int = 4,
        virtual_ranks: int = 64,
    ) -> None:
        self.num_replicas, self.rank = _replicas(num_replicas, rank)
        if shuffle not in (True, False, "block"):
            raise ArgumentError(f"shuffle={shuffle!r} is not one of True, False and 'block'.")
        for name, value in {"block_bytes": block_bytes, "window": window, "virtual_ranks": virtual_ranks}.items():
            if value < 1:
                raise ArgumentError(f"{name}={value} must be at least 1.")
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = operator.index(seed)
        self.drop_last = drop_last
        self.window_bytes = 0
        self._length = len(dataset)
        self._blocks: BlockLayout | None = None
        if shuffle == "block":
            storage = storage_of(dataset)
            wanted = math.ceil(self._length * storage.mean_bytes / block_bytes / virtual_ranks)
            per_rank = max(wanted, _MIN_WINDOWS * window)
            self._blocks = BlockLayout(self._length, virtual_ranks, per_rank, window, storage.order)
            virtual = virtual_ranks // math.gcd(virtual_ranks, self.num_replicas)  # of which this rank reads
            mixed = min(self._length, virtual * window * self._blocks.max_block)
            self.window_bytes = int(mixed * storage.mean_bytes)
        self._epoch = self.make_epoch(0)
        self._taken = 0  # the number of this rank's next place
        self._begun = False

    def __len__(self) -> int:
        """Return how many samples this rank takes in a whole epoch; equal on all ranks."""
        return (self._length if self.drop_last else self._length + self.num_replicas - 1) // self.num_replicas

    def __iter__(self) -> "EpochIterator":
        """Iterate over this rank's indices; the epoch begins with the first of them that is drawn."""
        return EpochIterator(self)

    @property
    def epoch(self) -> int:
        """The epoch that was begun last, or set or loaded since then."""
        return self._epoch.number

    @property
    def consumed(self) -> int:
        """How many samples of the epoch all ranks consumed together, if they are as far as this one."""
        return self._epoch.consumed_at(self._taken)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration that of an epoch; one that is resumed in its middle stays so."""
        if self._begun or epoch != self.epoch:
            self._set(self.make_epoch(operator.index(epoch)))

    def upcoming(self) -> Epoch:
        """Return the epoch that the next `begin` begins."""
        return self.make_epoch(self.epoch + 1) if self._begun else self._epoch

    def make_epoch(self, number: int, consumed: int = 0) -> Epoch:
        """Return any epoch, from a place on; this sampler stays where it is."""
        key = hash_key(self.seed, number)
        order = BlockOrder(self._blocks, key) if self._blocks else SampleOrder(self._permutation(key))
        return Epoch(number, order, self._length, self.rank, self.num_replicas, consumed, self.drop_last)

    def begin(self, epoch: Epoch | None = None) -> Epoch:
        """Begin the epoch that was set or loaded, otherwise the one after the last, and return it: for loaders.

        `indices` and `places` are its; a loader that works ahead of its user says with `mark` how far the user is.

        Args:
            epoch: Begin this one.
        """
        self._set(epoch or self.upcoming())
        self._begun = True
        return self._epoch

    def mark(self, epoch: Epoch, end: int) -> None:
        """Set how far this rank consumed an epoch: up to the place of this number. Older epochs do not count."""
        if epoch is self._epoch:
            self._taken = end

    def places(self, start: int, end: int) -> NDArray[np.int64]:
        """Return `Epoch.places` of the epoch: what randomness may be a function of, with seed and epoch."""
        return self._epoch.places(start, end)

    def indices(self, start: int, end: int) -> NDArray[np.int64]:
        """Return `Epoch.indices` of the epoch: many at once, without Python code a sample."""
        return self._epoch.indices(start, end)

    # Any: JSON values.
    def state_dict(self, taken: int | None = None) -> dict[str, Any]:
        """Return where the sampler is, and what identifies its order: a few numbers, the same on all ranks.

        Args:
            taken: How many samples of this iteration this rank has really used. A DataLoader with workers draws ahead;
                without this, what was drawn counts. (`StatefulDataLoader` and `RecordLoader` count themselves.)
        """
        consumed = self.consumed if taken is None else self._epoch.consumed_at(self._epoch.first + taken)
        return {**self._identity(), "seed": self.seed, "epoch": self.epoch, "consumed": consumed}

    # Any: as above.
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called, on however many ranks; at the end of an epoch, with the next one.

        Raises:
            ArgumentError: The state is that of another order: of another length, another way of shuffling.
        """
        _check_state(state, self._identity())
        self.seed = state["seed"]
        epoch = self.make_epoch(state["epoch"], state["consumed"])
        self._set(epoch if epoch.first < epoch.end else self.make_epoch(epoch.number + 1))

    # Any: as above.
    def _identity(self) -> dict[str, Any]:
        blocks = self._blocks and [self._blocks.virtual_ranks, self._blocks.blocks_per_rank, self._blocks.window]
        return {"length": self._length, "shuffle": self.shuffle, "blocks": blocks}

    def _set(self, epoch: Epoch) -> None:
        self._epoch, self._taken, self._begun = epoch, epoch.first, False

    def _permutation(self, key: int) -> Permutation | None:
        return Permutation(self._length, key) if self.shuffle else None


class EpochIterator(Iterator[int]):
    """Draws this rank's indices one by one; begins the epoch with the first.

    torchdata's StatefulDataLoader makes iterators that it never draws from. It loads the sampler's state, then that of
    an iterator: there nothing may be left of the epoch, which the sampler's own state does not tell from the next one.
    """

    def __init__(self, sampler: RecordSampler) -> None:
        self._sampler = sampler
        self._epoch: Epoch | None = None
        self._drawn: Iterator[int] | None = None
        self._taken = 0

    def __next__(self) -> int:
        if self._epoch is None or self._drawn is None:
            self._epoch = self._sampler.begin(self._epoch)
            self._taken = self._epoch.first
            self._drawn = self._draw(self._epoch)
        index = next(self._drawn)
        self._taken += 1
        self._sampler.mark(self._epoch, self._taken)
        return index

    def _draw(self, epoch: Epoch) -> Iterator[int]:
        for start, end in epoch.chunks():
            if self._sampler.shuffle == "block":
                hint(self._sampler.dataset, epoch.opened(start, end))
            yield from epoch.indices(start, end).tolist()

    def state_dict(self) -> dict[str, int]:
        """Return the number of the epoch, and how much of it was consumed."""
        epoch = self._epoch or self._sampler.upcoming()
        return {"epoch": epoch.number, "consumed": epoch.consumed_at(max(self._taken, epoch.first))}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where `state_dict` was called."""
        self._epoch = self._sampler.make_epoch(state["epoch"], state["consumed"])


def _replicas(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """Return number of ranks and rank, those of `torch.distributed` where they are not given.

    Raises:
        ArgumentError: Only one is known, or the rank is none of the ranks.
    """
    if distributed.is_available() and distributed.is_initialized():
        num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        rank = distributed.get_rank() if rank is None else rank
    if num_replicas is None and rank is None:
        return 1, 0
    if num_replicas is None or rank is None or not 0 <= rank < num_replicas:
        raise ArgumentError(
            f"rank={rank} and num_replicas={num_replicas}: rank must be one of 0 to num_replicas - 1, and both must be "
            "given where torch.distributed is not initialised."
        )
    return num_replicas, rank


# Any: JSON values.
def _check_state(state: dict[str, Any], own: dict[str, Any]) -> None:
    """Refuse what is no state of a sampler with this identity.

    Raises:
        ArgumentError: It is not.
    """
    for name in ("seed", "epoch", "consumed", *own):
        if name not in state:
            raise ArgumentError(f"This is no state of a RecordSampler: it has no {name!r}, but {sorted(state)}.")
    for name, value in own.items():
        if state[name] != value:
            raise ArgumentError(
                f"The state is that of another order: {name} was {state[name]!r} and is {value!r} here. Give the "
                "sampler the dataset and the arguments that it had then."
            )
