"""PatchCamelyon by code: HDF5 files, each compressed with gzip on its own."""

import gzip
import io

import h5py
import numpy as np
from numpy.typing import NDArray

from tests.fakes.fake import Case, Fake
from tests.fakes.scale import scaled


def _hdf5(name: str, values: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w", track_order=False) as container:
        container.create_dataset(name, data=values, chunks=(min(len(values), 4), *values.shape[1:]), track_times=False)
    return gzip.compress(file.getvalue(), mtime=0)


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {}
    for split, count in (("train", 11), ("valid", 6), ("test", 5)):
        images = np.repeat(rng.integers(0, 256, (scaled(count), 12, 96, 3), dtype=np.uint8), 8, axis=1)
        labels = rng.integers(0, 2, (scaled(count), 1, 1, 1)).astype(np.uint8)
        files[f"camelyonpatch_level_2_split_{split}_x.h5.gz"] = _hdf5("x", images)
        files[f"camelyonpatch_level_2_split_{split}_y.h5.gz"] = _hdf5("y", labels)
    arguments = ({}, {"split": "val"}, {"split": "test"})
    h5py = r"^Selection can't process|^Indexing with None|^Field names only|^Cannot handle this data type"
    differences = [(h5py, "cannot be interpreted as an integer", "h5py may not be installed where records are read")]
    bad = ({"split": "valid"}, {"split": None})
    return Fake("pcam", files, [Case("PCAMRecord", arguments, bad, differences=differences)])


FAKES = (_build(),)
