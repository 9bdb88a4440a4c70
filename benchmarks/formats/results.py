"""What was measured of each format; no torch."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.formats.base import Format, Task


@dataclass(frozen=True)
class Speeds:
    """One measurement of a format: images a second; None where it was not measured.

    Attributes:
        sequential: In the stored order, from the page cache.
        random: In random order, from the page cache.
        cold: In random order after the page cache was dropped; opening the data and starting workers included.
        memory_bytes: The largest memory of all processes during an epoch (PSS), Python and torch included.
    """

    sequential: float
    random: float
    cold: float | None
    memory_bytes: float | None


Case = tuple[Task, int]
"""What was done with the images, and the number of workers."""


@dataclass
class Result:
    """A format's measurements, or why there are none.

    Attributes:
        size_bytes: On the disk.
        write_s: Seconds of each writing, until the data is on the disk.
        runs: The measurements of each case, by round.
        problem: Why it did not run; "" if it did.
        left_out: A package that is not installed, and what helps; "" if there is none.
    """

    format: Format
    size_bytes: int = 0
    write_s: list[float] = field(default_factory=list)
    runs: dict[Case, list[Speeds]] = field(default_factory=dict)
    problem: str = ""
    left_out: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether there are numbers."""
        return not self.problem and not self.left_out

    def median(self, case: Case, number: str) -> float | None:
        """Return the median of a number of `Speeds`; None if it was not measured."""
        values = [getattr(run, number) for run in self.runs.get(case, ())]
        return None if not values or None in values else statistics.median(values)


@dataclass(frozen=True)
class Comparing:
    """What was compared.

    Attributes:
        num_images: How many images.
        image_bytes: Their bytes together.
        workers: The numbers of workers.
        repeats: Rounds.
        can_be_cold: Whether this system lets a program drop files from the page cache.
        load: The load average before the first measurement.
        cores: Cores that could be used.
        results: In the order of the tables.
    """

    num_images: int
    image_bytes: int
    workers: Sequence[int]
    repeats: int
    batch_size: int
    transform: str
    can_be_cold: bool
    load: float
    cores: int
    results: Sequence[Result]

    @property
    def is_disturbed(self) -> bool:
        """Whether other work ran on the machine before the first measurement."""
        return self.load > 0.25 * self.cores
