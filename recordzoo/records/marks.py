"""Read and write marks: one byte for each value of a blob field (is this image a plain JPEG?), in a file of their own.

Marks follow from the values: if the file is missing or damaged, readers determine them again. So the manifest does not
name it.
"""

import os

import numpy as np
from numpy.typing import NDArray

from recordzoo.records.crc import crc32
from recordzoo.records.files import AnyDirectory, pread
from recordzoo.records.manifest import ArraySpec

_CHECKSUM_BYTES = 4


def marks_name(field: str) -> str:
    """Return the file of a field's marks."""
    return f"{field}.marks"


def pack_marks(marks: NDArray[np.uint8], index: ArraySpec) -> bytes:
    """Return what the file holds: the marks, and their CRC-32 continued from that of the index that they belong to."""
    data = marks.astype(np.uint8).tobytes()
    return data + crc32(data, index.crc32).to_bytes(_CHECKSUM_BYTES, "little")


def read_marks(directory: AnyDirectory, field: str, index: ArraySpec) -> bytearray | None:
    """Return a field's marks; None if there is no file, or it is damaged or belongs to another index."""
    size = index.shape[0] + _CHECKSUM_BYTES
    try:
        fd = directory.open(marks_name(field), size)
        try:
            data = pread(fd, size, 0)
        finally:
            os.close(fd)
    except OSError:  # RecordErrors among them
        return None
    if len(data) != size:
        return None
    marks = memoryview(data)[:-_CHECKSUM_BYTES]
    is_right = crc32(marks, index.crc32).to_bytes(_CHECKSUM_BYTES, "little") == data[-_CHECKSUM_BYTES:]
    return bytearray(marks) if is_right else None
