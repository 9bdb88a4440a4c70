"""Random numbers: functions of seed, epoch and place; and the process's generators, seeded for one piece of work."""

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from recordzoo.sampling.permutation import hash_key, hash_keys

_DRAWS = 0x64726177  # sets these apart from the numbers that the order of the epoch is made of


def uniforms(seed: int, epoch: int, places: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return numbers from 0 to 1, 1 excluded, float64 [places, count]; the same ones for the same arguments."""
    key = hash_key(seed, epoch, _DRAWS)
    hashes = hash_keys(key, places[:, None] * count + np.arange(count))
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def local_seeds(seed: int, epoch: int, places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a 32-bit seed for each place, for generators of others."""
    return hash_keys(hash_key(seed, epoch, _DRAWS + 1), places) >> np.uint64(32)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the process's generators for one piece of work, and leave them as they were.

    For worker processes, and for the user's own thread: any other thread would change what the user's thread draws.
    """
    with restored():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        yield


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Leave the process's generators as they were."""
    of_torch, of_python, of_numpy = torch.default_generator.get_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(of_torch)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
