"""Refuse to divide samples among the ranks twice: by our sampler, and again by accelerate."""

import sys
from typing import Any

from recordzoo.errors import ArgumentError


# Any, here and below: loaders and samplers of accelerate and of torch.
def check_dealt_once(sampler: Any, num_replicas: int) -> None:
    """Refuse to give a rank its share only where `accelerate` takes a share of that share.

    `Accelerator.prepare` wraps the batch sampler of every `DataLoader`, also above a `DistributedSampler`: each process
    takes every W-th batch that it draws. accelerate does not ask the sampler whether it takes a share already. But a
    prepared loader registers itself before it draws, so this function can find it.

    Raises:
        ArgumentError: The sampler's share would be dealt again.
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
