"""The files themselves, a folder for each class: torchvision's `ImageFolder`."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.formats.base import Format, Reading, Samples, map_loader


def write(samples: Samples, place: Path) -> None:
    """Copy the files."""
    for path, _ in samples:
        target = place / "tree" / Path(path).parent.name / Path(path).name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    from torchvision.datasets import ImageFolder
    from torchvision.datasets.folder import default_loader

    finish = reading.finish()
    if finish.transform is not None:  # as everybody reads images
        return map_loader(ImageFolder(str(place / "tree"), finish.transform, loader=default_loader), reading)
    return map_loader(ImageFolder(str(place / "tree"), finish, loader=_read_bytes), reading)


def _read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


FORMAT = Format("files", "files (ImageFolder)", write, read, "torchvision's `ImageFolder`")
