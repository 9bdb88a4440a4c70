"""One binary file with all images, and an index of (offset, length, label)."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from benchmarks.formats.base import Finish, Format, Reading, Samples, map_loader
from recordzoo.records.arrays import map_file


def write(samples: Samples, place: Path) -> None:
    """Write the file, then the index."""
    index, offset = [], 0
    with (place / "images.bin").open("wb") as file:
        for path, label in samples:
            length = file.write(Path(path).read_bytes())
            index.append((offset, length, label))
            offset += length
    np.save(place / "index.npy", np.array(index, np.int64))


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    return map_loader(_Images(place, reading.finish()), reading)


class _Images:
    """The dataset; each worker opens the file for itself, because processes would share its position."""

    def __init__(self, folder: Path, finish: Finish) -> None:
        self.folder, self.finish = folder, finish
        self.index = np.array(map_file(folder / "index.npy"))

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        offset, length, label = self.index[number].tolist()
        self._file.seek(offset)
        return self.finish(self._file.read(length)), label

    def __del__(self) -> None:
        if "_file" in vars(self):
            self._file.close()

    @functools.cached_property
    def _file(self) -> BinaryIO:
        return (self.folder / "images.bin").open("rb", buffering=0)


FORMAT = Format("onefile", "one file, with an index", write, read, "`seek` and `read`")
