"""The type of an array of any dtype; apart from `types`, because it imports NumPy."""

from typing import Any

from numpy.typing import NDArray

AnyArray = NDArray[Any]
"""An array of any dtype, or of any dtype of the format."""
