"""The ranks of a training: their number and shared seed, and a check that samples are divided only once."""

import sys
from typing import Any

import torch
from torch import distributed

from recordzoo.errors import ArgumentError
from recordzoo.sampling.state import whole_number


class Ranks:
    """Number of ranks and number of this rank.

    A missing number is read from `torch.distributed` at each use: Lightning, accelerate and many scripts
    build samplers and loaders before they initialise the process group.

    Args:
        num_replicas: Number of ranks.
        rank: This rank, from 0.
    """

    def __init__(self, num_replicas: int | None = None, rank: int | None = None) -> None:
        self._num_replicas, self._rank = num_replicas, rank
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


class Seed:
    """A seed that may change once: if it was drawn, it becomes 0 as soon as an epoch has several ranks.

    Otherwise each rank would have its own seed and order: some samples would come twice, others never.

    Args:
        value: The seed.
        is_drawn: Whether it was drawn, so that other ranks do not know it.
    """

    def __init__(self, value: int, *, is_drawn: bool = False) -> None:
        self._value, self._is_drawn = whole_number("seed", value), is_drawn

    @classmethod
    def drawn(cls, generator: torch.Generator | None) -> "Seed":
        """Draw a seed from a generator, by default torch's own."""
        return cls(int(torch.empty((), dtype=torch.int64).random_(generator=generator)), is_drawn=True)

    def among(self, num_replicas: int) -> int:
        """Return the seed of an epoch with this many ranks."""
        return 0 if self._is_drawn and num_replicas > 1 else self._value

    def settle(self, num_replicas: int) -> int:
        """Return the seed of an epoch with this many ranks that begins now; a drawn seed replaced by 0 stays 0."""
        if num_replicas > 1:
            self.set(self.among(num_replicas))
        return self._value

    def set(self, value: int) -> None:
        """Set the seed, as if given by the user."""
        self._value, self._is_drawn = value, False


# Any, here and below: loaders and samplers of accelerate and of torch.
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
