"""`Format`: how images are written and read in one format; `Reading`: what a reader is asked for."""

import importlib
import io
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from recordzoo.bench.formats import NAMES
from recordzoo.packages import is_installed

Task = Literal["bytes", "images"]
Order = Literal["sequential", "random"]
Samples = Sequence[tuple[str, int]]
"""The files to store: path and label."""

TASKS: tuple[Task, ...] = ("bytes", "images")
SHUFFLE_BUFFER = 1000
"""Samples in the buffer of formats that cannot read in random order."""


@dataclass(frozen=True)
class Place:
    """Where a format's data lies.

    Attributes:
        folder: A directory of its own.
        server: The address of MongoDB's server, for that format only.
    """

    folder: Path
    server: str = ""


@dataclass(frozen=True)
class Reading:
    """What a reader is asked for.

    Attributes:
        task: "bytes": read each encoded image as `bytes`. "images": also decode it with Pillow and transform it.
        order: The order of an epoch.
        workers: Processes of the `DataLoader`; 0 reads in this process.
        transform: See `recordzoo.bench.transform.load_transform`.
    """

    task: Task = "bytes"
    order: Order = "random"
    workers: int = 0
    batch_size: int = 64
    transform: str | None = None

    @property
    def shuffled(self) -> bool:
        """Whether the order is random."""
        return self.order == "random"

    def finish(self) -> "Finish":
        """Make the function that each reader applies to each sample."""
        from recordzoo.bench.transform import load_transform

        return Finish(load_transform(self.transform) if self.task == "images" else None)


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
        name: What `--formats` calls it.
        title: What tables call it.
        write: Stores samples at a place.
        read: Opens a place. The iterable that it returns gives an epoch each time it is iterated: batches, each a
            tuple (images as `Finish` made them, labels).
        reader: How it is read, in words.
        packages: What must be installed: the modules' names.
        install: The command that installs them.
        shuffle: How random order is made where it is not each sample on its own.
        size: Bytes on the disk; None: those of the files.
        remove: Removes what was written; None: the folder is removed.
        is_local: Whether this machine's page cache holds the data.
    """

    name: str
    title: str
    write: Callable[[Samples, Place], None]
    read: Callable[[Place, Reading], Iterable[Any]]  # Any: batches are whatever the reader makes
    reader: str
    packages: tuple[str, ...] = ()
    install: str = ""
    shuffle: str = ""
    size: Callable[[Place], int] | None = None
    remove: Callable[[Place], None] | None = None
    is_local: bool = True

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package in self.packages if not is_installed(package)]

    def size_bytes(self, place: Place) -> int:
        """Return how many bytes the format takes on the disk, holes in files not counted."""
        if self.size is not None:
            return self.size(place)
        return sum(_stored_bytes(path) for path in files_of(place))

    def clear(self, place: Place) -> None:
        """Remove what was written."""
        if self.remove is not None:
            self.remove(place)
        shutil.rmtree(place.folder, ignore_errors=True)


def find_format(name: str) -> Format:
    """Return a format by its name, one of `NAMES`."""
    return cast(Format, importlib.import_module(f"recordzoo.bench.formats.{name}").FORMAT)


def all_formats() -> list[Format]:
    """Return all formats, in the order of the tables."""
    return [find_format(name) for name in NAMES]


def files_of(place: Place) -> list[Path]:
    """List the files at a place."""
    return [path for path in sorted(place.folder.rglob("*")) if path.is_file()]


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
