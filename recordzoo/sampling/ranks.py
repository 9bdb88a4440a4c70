"""The ranks of a training: their number and shared seed, and a check that samples are divided only once."""

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

from recordzoo.base.types import JSON
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


@dataclass(frozen=True)
class EpochSeed:
    """The seed of one epoch.

    Attributes:
        value: The seed; None if it is not drawn yet.
        is_drawn: Whether it was drawn for this epoch alone: then the number of the epoch does not count, and equal
            seeds give equal orders, as in torch's `RandomSampler`.
    """

    value: int | None
    is_drawn: bool = False

    def key(self, number: int) -> tuple[int, int]:
        """Return seed and epoch number that determine order and random numbers.

        Raises:
            ArgumentError: The seed is not drawn yet.
        """
        if self.value is None:
            raise ArgumentError("The seed of an epoch is drawn when it begins. Begin the epoch first, or pass seed=.")
        return self.value, 0 if self.is_drawn else number

    def state(self) -> dict[str, JSON]:
        """Return the seed's part of a state. "drawn" is left out if the seed was given, False before it is drawn."""
        if self.value is None:
            return {"seed": 0, "drawn": False}
        return {"seed": self.value, "drawn": True} if self.is_drawn else {"seed": self.value}


class Seed:
    """The seed of all epochs if it is given; otherwise each epoch draws one when it begins.

    Epochs of several ranks draw nothing, because each rank would draw another seed: some samples would come twice,
    others never. Their seed is 0.

    Args:
        given: The user's seed.
        generator: The generator to draw from. Default: torch's own.
    """

    def __init__(self, given: int | None = None, generator: torch.Generator | None = None) -> None:
        self._given = None if given is None else whole_number("seed", given)
        self._generator = generator

    def known(self, num_ranks: int) -> EpochSeed:
        """Return the seed of the next epoch, without drawing it."""
        return EpochSeed(0 if self._given is None and num_ranks > 1 else self._given)

    def begin(self, num_ranks: int) -> EpochSeed:
        """Return the seed of an epoch that begins now."""
        known = self.known(num_ranks)
        if known.value is not None:
            return known
        device = "cpu" if self._generator is None else self._generator.device  # torch's default may be another one
        drawn = torch.empty((), dtype=torch.int64, device=device).random_(generator=self._generator)
        return EpochSeed(int(drawn), is_drawn=True)

    def load(self, state: dict[str, Any]) -> EpochSeed | None:  # Any: the values of a checked state
        """Return the seed that a state has for its epoch, if it was drawn; take another one as given."""
        if "drawn" not in state:
            self._given = state["seed"]
        return EpochSeed(state["seed"], is_drawn=True) if state.get("drawn") else None


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
