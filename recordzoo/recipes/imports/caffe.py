"""Caffe's LMDBs, as `convert_imageset` writes them: keys `%08d_<file>`, values `Datum` messages.

Field numbers from BVLC/caffe src/caffe/proto/caffe.proto (`Datum`), the layout of pixels from src/caffe/util/io.cpp
(CVMatToDatum): planes, and these in OpenCV's order, blue first. With `--encoded` the file itself is stored.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recordzoo.recipes.imports.protobuf import Message, WireError
from recordzoo.recipes.imports.sample import ForeignValueError, Order, Read, Sample, as_label

NAME = "caffe"
EXPECTED = "a Datum of Caffe (channels, height, width, data, label)"

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOATS, _ENCODED = 1, 2, 3, 4, 5, 6, 7


def parse(value: bytes) -> Sample:
    """Read a `Datum`; a label that is not there is 0, as the message's definition has it.

    Raises:
        ForeignValueError: It is none.
    """
    try:
        datum = Message(value)
        data, floats = datum.bytes_of(_DATA) or b"", datum.floats(_FLOATS)
        label = as_label(datum.integer(_LABEL))
        shape = tuple(datum.integer(number) for number in (_CHANNELS, _HEIGHT, _WIDTH))
        is_encoded = bool(datum.integer(_ENCODED))
    except WireError as err:
        raise ForeignValueError(f"it is no Datum: {err}") from err
    if is_encoded:
        if not data:
            raise ForeignValueError("it is a Datum of an encoded image and has no data")
        return Sample(data, label)
    if min(shape) < 1 or math.prod(shape) != max(len(data), len(floats)) or (data and len(floats)):
        raise ForeignValueError(
            f"it is no Datum: {len(data):,} bytes and {len(floats):,} floats for channels, height, width {list(shape)}"
        )
    if len(floats):
        return Sample(floats.astype("<f4").tobytes(), label, shape, "<f4")
    pixels = np.frombuffer(data, np.uint8).reshape(shape).transpose(1, 2, 0)
    if shape[0] == 3:
        pixels = pixels[..., ::-1]
    return Sample(np.ascontiguousarray(pixels).tobytes(), label, pixels.shape, "|u1")


def order(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Keep the order of the keys, which is that of the list that was given to `convert_imageset`."""
    return range(len(keys)), ()
