"""Read `.npy` and `.npz` in one thread at a time: CPython before 3.11.8 and 3.12.2 cannot parse two headers at once.

NumPy parses them with `ast`, which then raises SystemError (https://github.com/python/cpython/issues/106905).
"""

import io
import math
import threading
import tokenize
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.process import at_fork

AnyArray = NDArray[Any]
"""An array of any dtype, or of any dtype that the format allows."""

MAX_HEADER_BYTES = 64 << 10
"""Longer headers count as damaged."""

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGED = (tokenize.TokenError, SyntaxError, TypeError, KeyError, IndexError, ArithmeticError, MemoryError)
"""Errors that NumPy passes on when it parses a damaged header; MemoryError is from Python's parser."""

_lock = threading.Lock()
at_fork(before=_lock.acquire, in_parent=_lock.release, in_child=_lock.release)


class Header(NamedTuple):
    """The facts in a `.npy` header: its version, and its array's shape, order and type."""

    version: tuple[int, int]
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: "np.dtype[Any]"
    size_bytes: int
    """The length of the header itself."""


def header_of(data: bytes) -> Header:
    """Read a header from the first `MAX_HEADER_BYTES` of a file.

    Raises:
        ValueError: It is damaged, or of a version other than 1.0 and 2.0.
    """
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"it has version {version} of the format")
    try:
        with _lock:
            shape, is_fortran, dtype = _READERS[version](stream)
    except (*_DAMAGED, RecursionError) as err:
        raise ValueError(f"its header is damaged ({err})") from err
    return Header(version, tuple(shape), is_fortran, dtype, stream.tell())


# Any, here and below: of any dtype.
def array_of(data: bytes, header: Header | None = None) -> NDArray[Any]:
    """Return the array of a `.npy` file, read-only and without a copy.

    Args:
        data: The whole file.
        header: Its header, if that was read already.

    Raises:
        ValueError: It is damaged, or holds Python objects.
    """
    header = header or header_of(data)
    count = math.prod(header.shape)
    values = np.frombuffer(data, header.dtype, count, header.size_bytes)
    return values.reshape(header.shape, order="F" if header.is_fortran else "C")


def arrays_of(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a `.npz` file by name, read-only."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        return {name.removesuffix(".npy"): array_of(packed.read(name)) for name in packed.namelist()}


def map_file(path: Path) -> NDArray[Any]:
    """Map a `.npy` file, read-only. A shape larger than the file is refused.

    Raises:
        ValueError: It is damaged, or holds Python objects.
    """
    try:
        with _lock:
            values: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (*_DAMAGED, RecursionError, EOFError) as err:
        raise ValueError(f"it is damaged ({err})") from err
    return values
