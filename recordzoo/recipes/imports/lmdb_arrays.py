"""LMDBs of pickled NumPy arrays, one for each key, without labels: copies of folder2lmdb that store decoded images.

An array is an image [H, W, C] or a tensor [C, H, W]; of 4 dimensions, a DataLoader's batch. Nothing says whether the
channels are RGB: OpenCV's are BGR.
"""

from recordzoo.recipes.imports.folder2lmdb import loaded, order
from recordzoo.recipes.imports.sample import ForeignValueError, Sample, array_sample, type_name
from recordzoo.recipes.pickled import PickledArray

__all__ = ["EXPECTED", "NAME", "order", "parse"]

NAME = "lmdb_arrays"
EXPECTED = "a pickled numpy.ndarray"


def parse(value: bytes) -> Sample:
    """Read an array.

    Raises:
        ForeignValueError: It is none, or none of an image.
    """
    found = loaded(value)
    if not isinstance(found, PickledArray) or found.values is None:
        raise ForeignValueError(f"it is a {type_name(found)}, not a numpy.ndarray")
    return array_sample(found.values)
