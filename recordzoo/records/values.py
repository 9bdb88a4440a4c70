"""Decode the bytes of a blob."""

import json
import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from recordzoo.records.manifest import BlobSpec


def decode_value(spec: BlobSpec, data: bytes, shape: Sequence[int]) -> Any:
    """Return the array of a "raw" value, the object of a "json" one, and the bytes of any other.

    Args:
        spec: The blob field.
        data: The stored value.
        shape: The shape of a "raw" value.

    Raises:
        ValueError: The bytes do not fit the field.
    """
    if spec.encoding == "raw":
        dtype = np.dtype(spec.dtype)
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError(f"{len(data):,} bytes are no {dtype} array of shape {tuple(shape)}")
        return np.frombuffer(data, dtype).reshape(tuple(shape))
    if spec.encoding == "json":
        try:
            return json.loads(data, parse_constant=_refuse)
        except RecursionError:
            raise ValueError("its JSON is nested too deep") from None
    return data


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
