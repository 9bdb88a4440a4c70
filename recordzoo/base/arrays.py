"""The type of an array of any dtype. It is not in `types`, because it imports NumPy."""

from typing import Any

from numpy.typing import NDArray

AnyArray = NDArray[Any]
"""An array of any dtype, or of any dtype that the format allows."""
