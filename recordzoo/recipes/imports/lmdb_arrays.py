"""LMDBs of NumPy arrays, pickled or by pyarrow, one for each key, without labels.

Copies of folder2lmdb that store decoded images write them.
An array is an image [H, W, C] or a tensor [C, H, W]; of 4 dimensions, a DataLoader's batch. Nothing says whether the
channels are RGB: OpenCV's are BGR.
"""

import numpy as np

from recordzoo.recipes.imports.folder2lmdb import loaded, order
from recordzoo.recipes.imports.sample import ForeignValueError, Sample, array_sample, type_name
from recordzoo.recipes.pickled import PickledArray

__all__ = ["EXPECTED", "NAME", "order", "parse"]

NAME = "lmdb_arrays"
EXPECTED = "a numpy.ndarray, pickled or by pyarrow"


def parse(value: bytes) -> Sample:
    """Read an array.

    Raises:
        ForeignValueError: It is none, or none of an image.
    """
    found = loaded(value)
    values = found.values if isinstance(found, PickledArray) else found
    if not isinstance(values, np.ndarray):
        raise ForeignValueError(f"it is a {type_name(found)}, not a numpy.ndarray")
    return array_sample(values)
