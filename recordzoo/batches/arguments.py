"""What `RecordLoader`'s arguments must be."""

import torch

from recordzoo.errors import ArgumentError


def checked_device(device: torch.device | str | int | None) -> torch.device:
    """Return the device where batches go.

    Raises:
        ArgumentError: torch does not know it, or this process does not see it.
    """
    try:
        found = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as err:
        raise ArgumentError(f"device={device!r} is no device of torch, as 'cpu', 'cuda' and 'cuda:0' are.") from err
    if found.type == "cuda" and not (found.index or 0) < (count := torch.cuda.device_count()):
        raise ArgumentError(
            f"device={device!r}: this process sees {count} CUDA devices (torch {torch.__version__}, "
            f"built for CUDA {torch.version.cuda or 'not at all'}). Leave device out for batches on the CPU."
        )
    return found
