"""`Format`: how images are written and read in one format; `Reading`: what a reader is asked for."""

import importlib
import io
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from recordzoo.base.settings import is_installed

Task = Literal["bytes", "images"]
Order = Literal["sequential", "random"]
Samples = Sequence[tuple[str, int]]
"""The files to store: path and label."""

TASKS: tuple[Task, ...] = ("bytes", "images")
SHUFFLE_BUFFER = 1000
"""Samples in the buffer of formats that cannot read in random order."""


@dataclass(frozen=True)
class Reading:
    """What a reader is asked for.

    Attributes:
        task: "bytes": read each encoded image as `bytes`. "images": also decode it with Pillow and transform it.
        order: The order of an epoch.
        workers: Processes of the `DataLoader`; 0 reads in this process.
    """

    task: Task = "bytes"
    order: Order = "random"
    workers: int = 0
    batch_size: int = 64

    @property
    def shuffled(self) -> bool:
        """Whether the order is random."""
        return self.order == "random"

    def finish(self) -> "Finish":
        """Make the function that each reader applies to each sample."""
        from recordzoo.cli.bench import load_transform

        return Finish(load_transform(None) if self.task == "images" else None)


class Finish:
    """Turns stored bytes into a sample of a batch; the same for all formats. Pickles.

    Args:
        transform: Applied to the decoded image; None: nothing is decoded, and the sample is its number of bytes.
    """

    # Any: whatever the transform returns.
    def __init__(self, transform: Callable[..., Any] | None) -> None:
        self.transform = transform

    def __call__(self, data: bytes) -> Any:
        """Return an image's tensor, or the number of its bytes."""
        if self.transform is None:
            return len(data)
        from PIL import Image

        return self.transform(Image.open(io.BytesIO(data)).convert("RGB"))


@dataclass(frozen=True)
class Format:
    """A format of the comparison. Its functions are those of a module, so that it pickles.

    Attributes:
        name: Its module's name.
        title: What tables call it.
        write: Stores samples in a directory.
        read: Opens the directory. The iterable that it returns gives an epoch each time it is iterated: batches, each a
            tuple (images as `Finish` made them, labels).
        reader: How it is read, in words.
        packages: What must be installed: the modules' names.
        install: The command that installs them.
        shuffle: How random order is made where it is not each sample on its own.
    """

    name: str
    title: str
    write: Callable[[Samples, Path], None]
    read: Callable[[Path, Reading], Iterable[Any]]  # Any: batches are whatever the reader makes
    reader: str
    packages: tuple[str, ...] = ()
    install: str = ""
    shuffle: str = ""

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package in self.packages if not is_installed(package)]


def find_format(name: str) -> Format:
    """Return a format by its name, one of `NAMES`."""
    return cast(Format, importlib.import_module(f"benchmarks.formats.{name}").FORMAT)


def size_bytes(place: Path) -> int:
    """Return how many bytes the files in a directory take on the disk, holes in them not counted."""
    return sum(_stored_bytes(path) for path in files_of(place))


def files_of(place: Path) -> list[Path]:
    """List the files in a directory."""
    return [path for path in sorted(place.rglob("*")) if path.is_file()]


# Any: a dataset with __len__ and __getitem__, which is all that torch asks for.
def map_loader(dataset: Any, reading: Reading) -> Iterable[Any]:
    """Read a dataset that knows each sample by its number with torch's `DataLoader`."""
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset,
        reading.batch_size,
        shuffle=reading.shuffled,
        num_workers=reading.workers,
        persistent_workers=reading.workers > 0,
    )


# Any: as above.
def stream_loader(dataset: Any, reading: Reading, collate: Callable[..., Any] | None = None) -> Iterable[Any]:
    """Read a dataset that chooses its order itself with torch's `DataLoader`."""
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset,
        reading.batch_size,
        num_workers=reading.workers,
        collate_fn=collate,
        persistent_workers=reading.workers > 0,
    )


def _stored_bytes(path: Path) -> int:
    status = os.stat(path)
    blocks: int | None = getattr(status, "st_blocks", None)  # of 512 bytes; not on Windows
    return status.st_size if blocks is None else min(status.st_size, blocks * 512)
