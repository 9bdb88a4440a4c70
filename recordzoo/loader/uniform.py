"""Random numbers that are a function of where they are used: of seed, epoch, place in the epoch, and which number."""

import numpy as np
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
