"""Check the arguments of `RecordLoader`."""

import numbers
from typing import Any

import torch
from torch.utils.data import IterableDataset

from recordzoo.base import settings
from recordzoo.errors import ArgumentError
from recordzoo.sampling.samplers import RecordSampler
from recordzoo.sampling.schemes import Draws, names_given
from recordzoo.sampling.state import whole_number
from recordzoo.system.processes import cores

# Any, in all of this module: values are the user's, of whatever type.


def default_threads() -> int:
    """Return the default of `num_workers`: the cores of this process, divided by ``LOCAL_WORLD_SIZE``."""
    return max(1, cores() // settings.ranks_here())


# All functions below raise an ArgumentError that names the argument and its value.


def check_choice(name: str, value: object, valid: tuple[object, ...]) -> None:
    """Accept one of the valid values."""
    if value not in valid:
        raise ArgumentError(f"{name}={value!r} is not one of {', '.join(map(repr, valid))}.")


def check_sizes(**values: Any) -> None:
    """Accept None and numbers of 0 or more, whole ones except for `timeout`."""
    for name, value in values.items():
        if value is None:
            continue
        kind = numbers.Real if name == "timeout" else numbers.Integral
        if not isinstance(value, kind):
            raise ArgumentError(f"{name}={value!r} must be a {'' if name == 'timeout' else 'whole '}number.")
        if value < 0:
            raise ArgumentError(f"{name}={value} must not be negative.")


def check_dataset(dataset: object) -> None:
    """Accept a map-style dataset."""
    if isinstance(dataset, IterableDataset):
        kind = type(dataset).__name__
        raise ArgumentError(f"{kind} has no samples by number: it is for DataLoader, not for RecordLoader.")


def check_function(name: str, value: object) -> None:
    """Accept None or a callable."""
    if value is not None and not callable(value):
        raise ArgumentError(f"{name}={value!r} is no function.")


def check_worker_init_fn(function: object, workers: str) -> None:
    """Accept None, or a function if there may be worker processes."""
    if function is not None and workers == "threads":
        raise ArgumentError(
            f"worker_init_fn={function!r} with workers='threads': a function for each worker process would change this "
            "process, several times. Leave one of them out."
        )


def check_num_workers(num_workers: object, workers: str) -> None:
    """Accept 0 except with `workers="processes"`."""
    if num_workers == 0 and workers == "processes":
        raise ArgumentError("num_workers=0 with workers='processes': pass the number of processes, or leave one out.")


def check_drop_cache(drop_cache: bool, sampler: object) -> None:
    """Accept True with shuffle="block", and with a sampler other than `RecordSampler`.

    For `overfit_batches` Lightning copies the loader with a sampler of its own; `drop_cache` has no effect there.
    """
    if drop_cache and isinstance(sampler, RecordSampler) and sampler.shuffle != "block":
        raise ArgumentError('drop_cache=True needs shuffle="block": else any sample may soon be read again.')


def check_order(
    batch_size: object,
    shuffle: object,
    sampler: object,
    batch_sampler: object,
    drop_last: bool,
    draws: Draws,
) -> None:
    """Accept one way to set the order.

    Lightning replaces the sampler of a loader made in a hook: it adds the sampler and shuffle=False to the recorded
    arguments.
    """
    is_exchanged = shuffle is False
    if (given := names_given(draws)) and not is_exchanged and (sampler is not None or batch_sampler is not None):
        raise ArgumentError(f"A sampler sets the order, and so does {', '.join(given)}: give these to RecordSampler.")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ArgumentError("batch_sampler replaces batch_size, shuffle, sampler and drop_last: pass it, or those.")
    if sampler is not None and shuffle:
        raise ArgumentError("sampler and shuffle both set the order: pass one of them.")
    if batch_size is None and drop_last:
        raise ArgumentError("batch_size=None gives single samples: there is no last batch for drop_last=True.")


def checked_batch_size(batch_size: Any) -> int | None:
    """Return the batch size; None for single samples."""
    try:
        return None if batch_size is None else whole_number("batch_size", batch_size, at_least=1)
    except ArgumentError as err:
        message = f"batch_size={batch_size!r} must be a whole number, 1 or more, or None for single samples."
        raise ArgumentError(message) from err


def checked_device(device: torch.device | str | int | None) -> torch.device:
    """Return the device for batches."""
    try:
        found = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as err:
        raise ArgumentError(f"device={device!r} is not a torch device, such as 'cpu', 'cuda' or 'cuda:0'.") from err
    if found.type == "cuda" and not (found.index or 0) < (count := torch.cuda.device_count()):
        raise ArgumentError(
            f"device={device!r}: this process sees {count} CUDA devices (torch {torch.__version__}, "
            f"built for CUDA {torch.version.cuda or 'not at all'}). Leave device out for batches on the CPU."
        )
    return found
