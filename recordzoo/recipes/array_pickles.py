"""Pickles of dicts, lists, text, numbers and arrays, as CIFAR's batches are; nothing else in a pickle is loaded."""

import codecs
import io
import pickle
from typing import Any

import numpy as np
from typing_extensions import override

_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): codecs.encode,
}


# Any: what a dataset pickled; the callers look at it.
def load_arrays(data: bytes) -> dict[str, Any]:
    """Unpickle a dict; text of Python 2 is read as Latin-1.

    Raises:
        ValueError: It is no pickle of a dict, or asks for a class or function that no array needs.
    """
    try:
        content = _Unpickler(io.BytesIO(data), encoding="latin1").load()
    except Exception as err:  # a damaged pickle raises anything
        raise ValueError(f"it cannot be unpickled ({type(err).__name__}: {err})"[:300]) from err
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not a dict")
    return content


class _Unpickler(pickle.Unpickler):
    # Any: a class or a function.
    @override
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None
