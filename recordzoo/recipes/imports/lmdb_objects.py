"""LMDBs of pickled objects with an image's pixels and its label: the class `CIFAR_Image` or `LMDB_Image` of tutorials.

realpython.com "Three Ways of Storing and Accessing Lots of Images in Python", and its copies: `channels`, `size`
(height, width), `image` (the bytes of a uint8 array) and `label`, which some leave out. The name of the class and other
attributes do not matter.
"""

from typing import Any

import numpy as np

from recordzoo.recipes.imports.folder2lmdb import as_number, loaded, order
from recordzoo.recipes.imports.sample import ForeignValueError, Sample, array_sample, type_name
from recordzoo.recipes.pickled import PickledObject

__all__ = ["EXPECTED", "NAME", "order", "parse"]

NAME = "lmdb_objects"
EXPECTED = "a pickled object with image, size, channels and label"


def parse(value: bytes) -> Sample:
    """Read an object.

    Raises:
        ForeignValueError: It is none, or its attributes are not pixels and a whole number.
    """
    made = loaded(value, objects=True)
    if not isinstance(made, PickledObject):
        raise ForeignValueError(f"it is a {type_name(made)}, not an object with attributes")
    found = made.attributes
    image, shape = found.get("image"), _shape(found)
    if not isinstance(image, bytes) or len(image) != np.prod(shape, dtype=object):
        size = f"{len(image):,} bytes" if isinstance(image, bytes) else type_name(image)
        raise ForeignValueError(f"the image of its {made.name[:80]} is {size}, not the pixels of size {list(shape)}")
    label = found.get("label")
    return array_sample(np.frombuffer(image, np.uint8).reshape(shape), None if label is None else as_number(label))


# Any: whatever was stored.
def _shape(found: dict[str, Any]) -> tuple[int, ...]:
    size, channels = found.get("size"), found.get("channels", 1)
    shape = (*size, channels) if isinstance(size, tuple | list) else ()
    if len(shape) != 3 or not all(type(number) is int and number > 0 for number in shape):
        raise ForeignValueError(f"it has no size and channels, but the attributes {', '.join(found)[:200]}")
    return shape
