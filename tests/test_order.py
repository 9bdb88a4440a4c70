"""Numbers of an epoch's places: permutations as random as a shuffled list, uniform numbers; a function of their key."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from recordzoo.loader.making import local_seeds, uniforms
from recordzoo.loader.order import Network, Permutation, hash_key, hash_keys

UNLIKELY = 1e-4  # seeds are fixed: a test that passes, passes always


def permuted(size: int, key: int) -> NDArray[np.int64]:
    return Permutation(size, key)(np.arange(size))


@given(st.integers(0, 3000), st.integers())
def test_it_is_a_bijection(size: int, key: int) -> None:
    assert np.array_equal(np.sort(permuted(size, key)), np.arange(size))


@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_large_ones_stay_inside_and_are_distinct(size: int, key: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=50, unique=True))
    permutation = Permutation(size, key)
    found = permutation(numbers)
    assert 0 <= found.min() <= found.max() < size
    assert len(np.unique(found)) == len(numbers)
    assert [int(permutation([number])[0]) for number in numbers] == found.tolist()


def test_shapes_and_what_is_outside() -> None:
    assert Permutation(6, 1)(np.arange(6).reshape(2, 3)).shape == (2, 3)
    assert Permutation(0, 1)([]).tolist() == []
    assert [Permutation(1, key)([0]).tolist() for key in range(5)] == [[0]] * 5
    for number in (-1, 7, 2**40):
        with pytest.raises(IndexError, match=r"outside range\(7\)"):
            Permutation(7, 1)([3, number])


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_all_permutations_of_few_are_equally_frequent(size: int) -> None:
    """A network without enough rounds, or with XOR, favours some, or never makes the others."""
    each = 400
    keys = hash_keys(0, np.arange(math.factorial(size) * each))
    network = Network(size)
    code = sum(network.permute(np.full(len(keys), i), size, keys) * size**i for i in range(size))
    assert len(counts := np.unique(code, return_counts=True)[1]) == math.factorial(size)
    assert stats.chisquare(counts).pvalue > UNLIKELY


@pytest.mark.parametrize("size", [100_000, 1 << 16, (1 << 16) + 1])
def test_neighbours_do_not_stay_together(size: int) -> None:
    for key in range(5):
        found = permuted(size, key)
        for lag in (1, 2, 3, 64, 256):
            correlation = np.corrcoef(found[lag:], found[:-lag])[0, 1]
            assert abs(correlation) * math.sqrt(size) < 4.5
            steps, _ = np.histogram((found[lag:] - found[:-lag]) % size, 100, (0, size))
            assert stats.chisquare(steps).pvalue > UNLIKELY / 10


def test_epochs_and_seeds_have_nothing_in_common() -> None:
    """From one epoch to the next as many samples keep their place as by chance: one on average."""
    size = 5000
    for keys in ([hash_key(7, epoch) for epoch in range(200)], [hash_key(seed, 0) for seed in range(200)]):
        orders = np.stack([permuted(size, key) for key in keys])
        kept = (orders[1:] == orders[:-1]).sum(axis=1)
        assert stats.poisson.sf(kept.sum() - 1, len(kept)) > UNLIKELY
        assert stats.poisson.cdf(kept.sum(), len(kept)) > UNLIKELY
        assert max(abs(np.corrcoef(one, two)[0, 1]) for one, two in itertools.pairwise(orders)) < 0.07


def test_an_order_never_changes() -> None:
    """Checkpoints name orders by seed and epoch: other numbers here would resume them wrongly."""
    assert hash_key(0) == 0xE220A8397B1DCDAF  # the first number of splitmix64
    assert hash_key(0, 0) == 0xA706DD2F4D197E6F
    assert Permutation(1000, hash_key(0, 0))(range(8)).tolist() == [898, 215, 561, 580, 37, 356, 568, 658]


# Uniform numbers

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
