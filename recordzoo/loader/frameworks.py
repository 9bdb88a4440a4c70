"""What `RecordLoader` and `RecordSampler` do for Lightning, accelerate, Trainer, `StatefulDataLoader` and timm."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch import distributed
from torch.utils.data import DataLoader

from recordzoo.errors import ArgumentError
from recordzoo.loader.order import whole_number
from recordzoo.loader.parts import tell

# Any, in all of this module: loaders and samplers of other libraries; a RecordSampler and its epochs, whose module
# imports this one.


class Ranks:
    """Number of ranks and number of this rank.

    A missing number is read from `torch.distributed` at each use: Lightning, accelerate and many scripts
    build samplers and loaders before they initialise the process group.

    Args:
        num_replicas: Number of ranks.
        rank: This rank, from 0.
    """

    def __init__(self, num_replicas: int | None = None, rank: int | None = None) -> None:
        self._num_replicas = None if num_replicas is None else whole_number("num_replicas", num_replicas)
        self._rank = None if rank is None else whole_number("rank", rank)
        self.now()

    def now(self) -> tuple[int, int]:
        """Return number of ranks and this rank; 1 and 0 if there is no process group and neither was given.

        Raises:
            ArgumentError: Only one of them is known, or the rank is not below the number of ranks.
        """
        num_replicas, rank = self._num_replicas, self._rank
        if distributed.is_available() and distributed.is_initialized():
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if num_replicas is None and rank is None:
            return 1, 0
        if num_replicas is None or rank is None or not 0 <= rank < num_replicas:
            raise ArgumentError(
                f"rank={rank} and num_replicas={num_replicas}: rank must be one of 0 to num_replicas - 1, and both "
                "must be given where torch.distributed is not initialised."
            )
        return num_replicas, rank

    def that_agree(self) -> int:
        """Return the number of ranks that must have one seed: also those that divide this rank's samples again."""
        is_group = distributed.is_available() and distributed.is_initialized()
        return max(self.now()[0], distributed.get_world_size() if is_group else 1)


class FrameworkLoader(DataLoader[Any]):
    """A `DataLoader` that frameworks use as it is.

    Lightning builds another loader from the attributes of this one that are named like arguments.
    """

    dataset: Any  # as in DataLoader, whose type has no length

    use_stateful_dataloader = True
    """accelerate's `save_state` and `load_state` check this attribute for a loader with a state."""

    def _pass_epoch_on(self) -> None:
        """Give the batch sampler a `set_epoch`: Trainer resumes with a stock DataLoader of these batches.

        A subclass with this method would not work: Lightning replaces samplers of exactly this class.
        """
        if self.batch_sampler is not None and hasattr(self.sampler, "set_epoch"):
            self.batch_sampler.set_epoch = self.sampler.set_epoch  # type: ignore[attr-defined]

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Whether accelerate leaves the loader alone: True if the sampler takes its rank's share itself.

        Otherwise accelerate builds a stock `DataLoader` from it and divides the batches among the ranks.
        """
        num_replicas, _ = Ranks().now()
        return num_replicas == 1 or getattr(self.sampler, "num_replicas", 1) > 1

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        """Ignore the value: accelerate also sets it on loaders that it leaves alone."""

    def check_worker_number_rationality(self) -> None:
        """Do nothing: `DataLoader` warns of more worker processes than cores, and these are usually threads."""

    _worker_init_fn: Callable[[int], None] | None  # private, so that Lightning does not pass it to another loader

    @property
    def worker_init_fn(self) -> Callable[[int], None] | None:
        """Function called in each worker process. Lightning sets one that seeds the workers."""
        return self._worker_init_fn

    @worker_init_fn.setter
    def worker_init_fn(self, function: Callable[[int], None] | None) -> None:
        self._worker_init_fn = function


class EpochIterator(Iterator[int]):
    """Draws this rank's indices one by one; begins the epoch with the first.

    torchdata's StatefulDataLoader makes iterators that it never draws from. It loads the sampler's state, then that of
    an iterator: there nothing may be left of the epoch, which the sampler's own state does not tell from the next one.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._loaded: tuple[int, int] | None = None  # an epoch, and how much of it was consumed
        self._epoch: Any = None
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

    def _from_state(self) -> Any:
        return None if self._loaded is None else self._sampler.make_epoch(*self._loaded)

    def _draw(self, epoch: Any) -> Iterator[int]:
        for start, end in epoch.chunks():
            if self._sampler.shuffle == "block":
                tell(self._sampler.dataset, "will_need", epoch.opened(start, end))
            yield from epoch.indices(start, end).tolist()

    def state_dict(self) -> dict[str, int]:
        """Return the number of the epoch, and how much of it was consumed."""
        if self._epoch is not None:
            return {"epoch": self._epoch.number, "consumed": self._epoch.consumed_at(self._taken)}
        epoch = self._from_state() or self._sampler.upcoming()
        return {"epoch": epoch.number, "consumed": epoch.consumed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume where `state_dict` was called."""
        self._loaded, self._epoch = self._sampler.checked_place(state), None


def check_dealt_once(sampler: Any, num_replicas: int) -> None:
    """Refuse a sampler that divides samples among ranks if `accelerate` divides its batches again.

    `Accelerator.prepare` wraps the batch sampler of every `DataLoader`, also above a `DistributedSampler`: each process
    takes every W-th batch that it draws. accelerate does not ask the sampler whether it takes a share already. But a
    prepared loader registers itself before it draws, so this function can find it.
    """
    accelerate = sys.modules.get("accelerate.state")  # not imported: no loader was prepared
    if num_replicas == 1 or accelerate is None:
        return
    if any(_deals(loader, sampler) for loader in accelerate.GradientState().dataloader_references):
        raise ArgumentError(
            "accelerate deals the batches of this DataLoader to its processes, and RecordSampler has already dealt the "
            f"samples to {num_replicas} ranks: most of them would never be taken. Give RecordSampler num_replicas=1, "
            "rank=0, or do not pass the DataLoader to accelerator.prepare()."
        )


def _deals(loader: Any, sampler: Any) -> bool:
    """Whether a loader takes its samples from this sampler and passes only a share of them to each process."""
    for above in (getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)):
        is_shared = type(loader).__name__ == "DataLoaderDispatcher"  # one process draws for all
        while above is not None and above is not sampler:
            is_shared |= getattr(above, "num_processes", 1) > 1
            above = getattr(above, "batch_sampler", None) or getattr(above, "sampler", None)
        if above is sampler and is_shared:
            return True
    return False
