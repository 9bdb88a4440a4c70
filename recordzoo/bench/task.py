"""The task of a comparison: loaders, images and options; no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.bench.measure import Measurement, medians

FILES = "ImageFolder + DataLoader"
STOCK = "DataLoader over records"
EXACT = "RecordLoader, exact"
FAST = "RecordLoader, fast"


@dataclass(frozen=True)
class Task:
    """The data and the options of a comparison.

    Attributes:
        records: A record set.
        tree: The image tree that it was made from, if it is there.
        split: A split of the record set. None: all images.
        transform: See `recordzoo.bench.transform.load_transform`.
        workers: Processes of DataLoader, threads of RecordLoader.
        num_images: Number of images, chosen at random.
    """

    records: Path
    tree: Path | None = None
    split: str | None = None
    transform: str | None = None
    batch_size: int = 64
    workers: int = 2
    num_images: int = 500

    @property
    def loaders(self) -> list[str]:
        """The loaders that can be compared."""
        return [*([FILES] if self.tree else []), STOCK, EXACT, FAST]


@dataclass(frozen=True)
class Result:
    """A loader's measurements, or the reason why there are none."""

    loader: str
    runs: Sequence[Measurement] = ()
    problem: str = ""

    @property
    def median(self) -> Measurement | None:
        """The median of each number; None if it did not run."""
        return medians(self.runs) if self.runs and not self.problem else None
