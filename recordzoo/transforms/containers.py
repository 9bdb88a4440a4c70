"""`RandomApply`, `RandomChoice`, `RandomOrder`: some of several transforms, none of which changes the size."""

import functools
import itertools
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from recordzoo.transforms.steps import Action, Draws, Size, Step


@dataclass(frozen=True)
class SomeOfStep(Step):
    """Some of several steps.

    Attributes:
        steps: The steps of each transform.
        choose: Random numbers -> the indices of the chosen transforms, in order.
        num_choosing: Random numbers needed by `choose`.
    """

    steps: Sequence[Sequence[Step]]
    choose: Callable[[Draws], Sequence[int]]
    num_choosing: int

    keeps_size = True
    moves = None

    @functools.cached_property
    def num_draws(self) -> int:  # type: ignore[override]  # computed once
        """The draws for choosing, then those of all steps."""
        return self.num_choosing + sum(step.num_draws for steps in self.steps for step in steps)

    @property
    def is_exact(self) -> bool:  # type: ignore[override]  # read-only
        """Whether all steps are exact."""
        return all(step.is_exact for steps in self.steps for step in steps)

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        decided: list[list[Action]] = []
        start = self.num_choosing
        for steps in self.steps:
            found: list[Action] = []
            for step in steps:
                found += step.actions(size, draws[start : start + step.num_draws])
                start += step.num_draws
            decided.append(found)
        return [action for number in self.choose(draws[: self.num_choosing]) for action in decided[number]]


Inner = Sequence[Sequence[Step]]
"""The steps of each transform in a container."""

ContainerReader = Callable[[Any, Inner], Step]


def random_apply(transform: Any, inner: Inner) -> Step:
    """Read `RandomApply`."""
    probability = float(transform.p)
    together = [step for steps in inner for step in steps]
    return SomeOfStep([together], lambda draws: [0] if draws[0] < probability else [], 1)


def random_choice(transform: Any, inner: Inner) -> Step:
    """Read `RandomChoice`."""
    shares = list(transform.p or [1] * len(inner))
    bounds = [bound / sum(shares) for bound in itertools.accumulate(shares)]
    return SomeOfStep(inner, lambda draws: [min(bisect(bounds, draws[0]), len(inner) - 1)], 1)


def random_order(transform: Any, inner: Inner) -> Step:
    """Read `RandomOrder`."""
    return SomeOfStep(inner, lambda draws: sorted(range(len(inner)), key=draws.__getitem__), len(inner))
