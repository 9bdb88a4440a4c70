"""Read and write marks: one byte per value of a blob field (is this image a plain JPEG?), in a separate file.

Marks follow from the values: readers recompute them if the file is missing or damaged. So the manifest does not name
it.
"""

import os

import numpy as np
from numpy.typing import NDArray

from recordzoo.records.crc import crc32
from recordzoo.records.files import AnyDirectory, pread
from recordzoo.records.manifest import ArraySpec

MARKS_EXTRA_BYTES = 4
"""Bytes after the marks of a file: their checksum."""


def marks_name(field: str) -> str:
    """Return the file name of a field's marks."""
    return f"{field}.marks"


def pack_marks(marks: NDArray[np.uint8], index: ArraySpec) -> bytes:
    """Return the file's content: the marks, and their CRC-32 continued from that of their index."""
    data = marks.astype(np.uint8).tobytes()
    return data + crc32(data, index.crc32).to_bytes(MARKS_EXTRA_BYTES, "little")


def read_marks(directory: AnyDirectory, field: str, index: ArraySpec) -> bytearray | None:
    """Return a field's marks; None if the file is missing, damaged or of another index."""
    size = index.shape[0] + MARKS_EXTRA_BYTES
    try:
        fd = directory.open(marks_name(field), size)
        try:
            data = pread(fd, size, 0)
        finally:
            os.close(fd)
    except OSError:  # includes RecordError
        return None
    return bytearray(memoryview(data)[:-MARKS_EXTRA_BYTES]) if fits(data, index) else None


def fits(data: bytes, index: ArraySpec) -> bool:
    """Whether a file's content is undamaged, and belongs to the index."""
    marks = memoryview(data)[: index.shape[0]]
    return data[len(marks) :] == crc32(marks, index.crc32).to_bytes(MARKS_EXTRA_BYTES, "little")
