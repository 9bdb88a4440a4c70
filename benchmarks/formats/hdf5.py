"""HDF5: a dataset of byte arrays of different lengths, and one of labels."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.formats.base import Finish, Format, Reading, Samples, map_loader


def write(samples: Samples, place: Path) -> None:
    """Write both datasets."""
    import h5py

    with h5py.File(place / "images.h5", "w") as file:
        images = file.create_dataset("image", len(samples), h5py.vlen_dtype(np.uint8))
        for number, (path, _) in enumerate(samples):
            images[number] = np.frombuffer(Path(path).read_bytes(), np.uint8)
        file["label"] = np.array([label for _, label in samples], np.int64)


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    return map_loader(_Images(place / "images.h5", reading.finish()), reading)


class _Images:
    """The dataset; each worker opens the file for itself, because HDF5's library may not cross a fork."""

    def __init__(self, path: Path, finish: Finish) -> None:
        self.path, self.finish = path, finish
        with self._open() as file:
            self.labels = file["label"][:]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.finish(self._images[index].tobytes()), int(self.labels[index])

    @functools.cached_property
    def _images(self) -> Any:
        return self._open()["image"]

    def _open(self) -> Any:
        import h5py

        return h5py.File(self.path, "r")


FORMAT = Format("hdf5", "HDF5", write, read, "h5py, a dataset of variable length", ("h5py",), "pip install h5py")
