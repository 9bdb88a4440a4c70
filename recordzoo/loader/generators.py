"""Random numbers as functions of seed, epoch and place; seeding of the process's generators for one piece of work."""

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from recordzoo.sampling.permutation import hash_key, hash_keys

_DRAWS = 0x64726177  # separates these from the random numbers of the epoch's order


def uniforms(seed: int, epoch: int, places: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return numbers from 0 to 1, 1 excluded, float64 [places, count]; the same ones for the same arguments."""
    key = hash_key(seed, epoch, _DRAWS)
    hashes = hash_keys(key, places[:, None] * count + np.arange(count))
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def local_seeds(seed: int, epoch: int, places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a 32-bit seed for each place, for the generators of other libraries."""
    return hash_keys(hash_key(seed, epoch, _DRAWS + 1), places) >> np.uint64(32)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the process's generators for one piece of work, then restore them.

    Only for worker processes and the user's thread: other threads would change the random numbers of the user's thread.
    """
    with restored():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        yield


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Restore the process's generators after the block."""
    of_torch, of_python, of_numpy = torch.default_generator.get_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(of_torch)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
