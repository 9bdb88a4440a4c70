"""Random numbers of the places of an epoch: uniform, a function of their arguments, and of nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from recordzoo.loader.making import local_seeds, uniforms

PLACES = np.arange(20_000)
seeds = st.integers(-(2**63), 2**64)
epochs = st.integers(0, 2**40)
places = st.lists(st.integers(0, 2**40), min_size=1, max_size=30)


def one(seed: int = 1, epoch: int = 0, first: int = 0, count: int = 1) -> NDArray[np.float64]:
    return uniforms(seed, epoch, PLACES + first, count)


@given(seeds, epochs, places, st.integers(0, 30))
def test_a_function_of_seed_epoch_and_place(seed: int, epoch: int, places: list[int], count: int) -> None:
    found = uniforms(seed, epoch, np.array(places), count)
    assert found.shape == (len(places), count)
    assert found.dtype == np.float64
    assert ((found >= 0) & (found < 1)).all()
    for row, place in zip(found, places, strict=True):
        assert np.array_equal(row, uniforms(seed, epoch, np.array([place]), count)[0])
    numbers = local_seeds(seed, epoch, np.array(places))
    assert (numbers < 2**32).all()
    assert numbers.tolist() == [int(local_seeds(seed, epoch, np.array([place]))[0]) for place in places]


def test_of_all_versions_the_same() -> None:
    """A resumed epoch has the crops that it would have had."""
    assert uniforms(7, 3, np.array([0, 5]), 2).tolist() == [
        [0.9294161683566529, 0.9395255763834752],
        [0.20434280775483593, 0.9197255724256828],
    ]
    assert local_seeds(7, 3, np.array([0, 5])).tolist() == [3416704989, 1518678659]


@pytest.mark.parametrize("count", [1, 22])
@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_uniform(seed: int, count: int) -> None:
    found = one(seed, count=count)
    for number in range(count):
        assert stats.kstest(found[:, number], "uniform").pvalue > 1e-4
    assert stats.kstest(found.ravel()[: PLACES.size], "uniform").pvalue > 1e-4
    low = (found * 2**32 % 1).ravel()[: PLACES.size]  # the lower bits too
    assert stats.kstest(low, "uniform").pvalue > 1e-4


@pytest.mark.parametrize(
    "other",
    [one(seed=2), one(seed=0), one(epoch=1), one(seed=1 + 2**32), one(first=1), one(first=64), one(seed=-1)],
    ids=["seed", "seed 0", "epoch", "far seed", "neighbour", "64 further", "negative seed"],
)
def test_independent_of_neighbours(other: NDArray[np.float64]) -> None:
    mine = one()[:, 0]
    assert stats.pearsonr(mine, other[:, 0]).pvalue > 1e-4
    counts, _, _ = np.histogram2d(mine, other[:, 0], 16, ((0, 1), (0, 1)))
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


def test_the_numbers_of_a_place_are_independent() -> None:
    found = one(count=8)
    correlation = np.corrcoef(found.T) - np.eye(8)
    assert np.abs(correlation).max() < 4.5 / len(PLACES) ** 0.5
    assert len(np.unique(found)) == found.size


def test_seeds_are_apart_from_the_numbers() -> None:
    seeds = local_seeds(1, 0, PLACES) / 2**32
    assert stats.kstest(seeds, "uniform").pvalue > 1e-4
    assert stats.pearsonr(seeds, one()[:, 0]).pvalue > 1e-4
    assert len(np.unique(seeds)) > len(PLACES) - 5
