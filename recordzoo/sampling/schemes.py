"""Choose the scheme for a sampler's arguments; contradicting arguments are refused only here."""

import math
from collections.abc import Sized
from typing import Any, Literal, TypedDict

from recordzoo.errors import ArgumentError
from recordzoo.sampling.mix import Mix, MixScheme
from recordzoo.sampling.orders import BlockLayout, SampleScheme, Scheme
from recordzoo.sampling.state import truth_value, whole_number
from recordzoo.sampling.storage import storage_of
from recordzoo.sampling.weighted import BalancedWeights, GivenWeights, WithoutReplacement, WithReplacement

_MIN_WINDOWS = 4
"""Minimum number of windows per virtual rank: with few samples, blocks are small."""


class Draws(TypedDict, total=False):
    """The arguments of `RecordSampler` for draws other than once per sample."""

    weights: Any  # an array, a list, a tensor, or "balanced"
    weights_by: str | None
    num_samples: int | None
    replacement: bool | None


def names_given(draws: Draws) -> list[str]:
    """Return the names of the arguments that are not None."""
    return [name for name, value in draws.items() if value is not None]


def is_drawn(dataset: object, draws: Draws) -> bool:
    """Whether samples are drawn other than once each; such samples are shuffled."""
    return isinstance(dataset, Mix) or bool(names_given(draws))


def sizes_of(dataset: Sized) -> list[int]:
    """Return the number of samples as it is now; of a mix, the sums of its datasets' numbers."""
    if not isinstance(dataset, Mix):
        return [len(dataset)]
    dataset.renew()
    return dataset.cumulative_sizes


# Any: the user's value.
def checked_shuffle(shuffle: Any) -> bool | Literal["block"]:
    """Return True, False or "block"."""
    if isinstance(shuffle, str) and shuffle == "block":
        return "block"
    try:
        return truth_value("shuffle", shuffle)
    except ArgumentError as err:
        raise ArgumentError(f"shuffle={shuffle!r} is not one of True, False and 'block'.") from err


def checked_blocks(**values: int) -> dict[str, int]:
    """Return `block_bytes`, `window` and `virtual_ranks` of a sampler."""
    found = {name: whole_number(name, value) for name, value in values.items()}
    for name, value in found.items():
        if value < 1:
            raise ArgumentError(f"{name}={value} must be at least 1.")
    return found


def scheme_of(dataset: Sized, shuffle: bool | str, draws: Draws, **blocks: int) -> Scheme:
    """Return the scheme for a sampler's epochs; `shuffle` and `blocks` are checked ones."""
    given = names_given(draws)
    if isinstance(dataset, Mix):
        if given or shuffle is not True:
            wrong = given[0] if given else f"shuffle={shuffle!r}"
            raise ArgumentError(f"{wrong} with a mix, which says itself how samples are drawn. Leave it out.")
        return MixScheme(dataset)
    if given:
        return _drawn(dataset, shuffle, draws, given)
    return _block_layout(dataset, **blocks) if shuffle == "block" else SampleScheme(len(dataset), shuffle is True)


def _drawn(dataset: Sized, shuffle: object, draws: Draws, given: list[str]) -> Scheme:
    if "weights" not in given:
        raise ArgumentError(f"{', '.join(sorted(given))} without weights: pass weights, or leave them out.")
    if shuffle is not True:
        raise ArgumentError(
            f"shuffle={shuffle!r} with weights: samples are drawn at random, one by one. Leave one out."
        )
    num_samples = draws.get("num_samples")
    if num_samples is not None:
        num_samples = whole_number("num_samples", num_samples, at_least=1)
    weights, field = draws["weights"], draws.get("weights_by")
    is_balanced = isinstance(weights, str)
    if is_balanced and weights != "balanced":
        raise ArgumentError(f"weights={weights!r} is not 'balanced', and no array of numbers.")
    if field is not None and not is_balanced:
        raise ArgumentError(f"weights_by={field!r} is for weights='balanced': it names the field with the classes.")
    found = BalancedWeights(dataset, field) if is_balanced else GivenWeights(weights, len(dataset))
    replacement = draws.get("replacement")
    if replacement is None or truth_value("replacement", replacement):
        return WithReplacement(found, len(dataset) if num_samples is None else num_samples)
    return WithoutReplacement(found, num_samples)


def _block_layout(dataset: Sized, *, block_bytes: int, window: int, virtual_ranks: int) -> BlockLayout:
    storage, length = storage_of(dataset), len(dataset)
    wanted = math.ceil(length * storage.mean_bytes / block_bytes / virtual_ranks)
    per_rank = max(wanted, _MIN_WINDOWS * window)
    return BlockLayout(length, virtual_ranks, per_rank, window, storage.order, storage.mean_bytes)
