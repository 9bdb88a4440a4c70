"""`SizedSource`: a source that knows the size of each member, and can be cut between any two."""

import bisect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from recordzoo.errors import ArgumentError
from recordzoo.raw.member import Unit


class SizedSource(ABC):
    """Base class of sources that know their members' sizes; see `Source`."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Its kind and path."""

    @abstractmethod
    def member_sizes(self) -> Sequence[int]:
        """Return the size of each member in bytes, in the order of reading.

        Raises:
            NotPreparedError, SourceError: The members cannot be listed.
        """

    @abstractmethod
    def unit(self, start: int, stop: int) -> Unit:
        """Return the members from `start` to before `stop`."""

    @property
    def size_bytes(self) -> int:
        """The total size of all members in bytes."""
        return sum(self.member_sizes())

    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        """See `Source`; adds the overhead of many small members."""
        return max(int(self.size_bytes * expansion), sum(map(cost, self.member_sizes())))

    def units(self, target_bytes: int) -> list[Unit]:
        """Group consecutive members into units of at most `target_bytes`, at least one member each.

        Raises:
            NotPreparedError, SourceError: The members cannot be listed.
        """
        return [self.unit(*run) for run in greedy_runs(self.member_sizes(), target_bytes)]

    def cut(self, num_units: int) -> list[Unit]:
        """Cut into exactly `num_units` units of about the same size.

        Raises:
            ArgumentError: There are fewer members.
            NotPreparedError, SourceError: The members cannot be listed.
        """
        return [self.unit(*run) for run in even_runs(self.member_sizes(), num_units, self.description)]


def greedy_runs(sizes: Sequence[int], target_bytes: int) -> list[tuple[int, int]]:
    """Group consecutive files into (start, stop) runs of at most `target_bytes`, at least one file each."""
    runs = []
    start = run_bytes = 0
    for index, size_bytes in enumerate(sizes):
        if index > start and run_bytes + size_bytes > target_bytes:
            runs.append((start, index))
            start, run_bytes = index, 0
        run_bytes += size_bytes
    return [*runs, (start, len(sizes))] if len(sizes) else []


def even_runs(sizes: Sequence[int], num_runs: int, where: str) -> list[tuple[int, int]]:
    """Group consecutive files into `num_runs` (start, stop) runs of about the same size.

    Raises:
        ArgumentError: There are fewer files; the message names `where`.
    """
    if num_runs > len(sizes):
        raise ArgumentError(f"{num_runs} shards are asked for, but {where} has only {len(sizes)} files.")
    ends = list(itertools.accumulate(size_bytes + 1 for size_bytes in sizes))  # + 1: empty files count too
    bounds = [0]
    for number in range(1, num_runs):
        bound = bisect.bisect_left(ends, ends[-1] * number // num_runs) + 1
        bounds.append(max(bounds[-1] + 1, min(bound, len(sizes) - (num_runs - number))))
    return list(itertools.pairwise([*bounds, len(sizes)]))
