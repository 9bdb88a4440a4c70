"""Stand-ins for what pickles name: arrays of numbers, bytes, objects as records. Nothing is imported."""

import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recordzoo.base.arrays import AnyArray

_DTYPE = re.compile(r"[|<>=]?([biufc])(\d{1,2})|(\?)")


class PickledArray:
    """An array of numbers out of a pickle.

    Attributes:
        values: The numbers; None for as long as the pickle has not given them.
    """

    values: AnyArray | None = None


@dataclass
class PickledObject:
    """An object of a class that is not imported, as described in the pickle.

    Attributes:
        name: Its class, with the module: "torch.Tensor".
        attributes: By name; those of its `__dict__`.
    """

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Dtype:
    """A NumPy dtype of numbers, as its text without the byte order, and the byte order."""

    text: str
    order: str = "<"

    def numpy(self) -> np.dtype[Any]:
        """Return NumPy's own."""
        return np.dtype(self.text if self.order == "|" else self.order + self.text)


@dataclass(frozen=True)
class Function:
    """A function that a pickle may name, and its replacement here."""

    name: str
    stand_in: Callable[..., Any]


@dataclass(frozen=True)
class Class:
    """A class, or anything else, that a pickle names; it is neither imported nor called."""

    name: str


def _encode(text: str, encoding: str = "") -> bytes:
    """Stand in for `_codecs.encode`, with which protocols 0 to 2 write bytes."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("it encodes something else than bytes")
    return text.encode("latin-1")


def _no_bytes(*arguments: object) -> bytes:
    """Stand in for `bytes`, with which protocols 0 to 2 write b""."""
    if arguments:
        raise pickle.UnpicklingError("it makes bytes of something")
    return b""


def _class(*arguments: object) -> object:
    raise pickle.UnpicklingError("it makes a numpy.ndarray by hand")


def reconstructed(made: object, base: object = None, state: object = None) -> PickledObject:
    """Stand in for `copyreg._reconstructor`, with which protocols 0 and 1 create an object."""
    if not isinstance(made, Class) or not isinstance(base, Class) or state is not None:
        raise pickle.UnpicklingError("it makes an object that is more than its attributes")
    return PickledObject(made.name)


def _dtype(text: str | bytes, *_: object) -> Dtype:
    """Stand in for `numpy.dtype`: of numbers, in the byte order that the state says."""
    name = text.decode("latin-1") if isinstance(text, bytes) else text
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise pickle.UnpicklingError(f"it asks for a numpy.dtype of {str(name)[:30]!r}, which is none of numbers")
    return Dtype(name.lstrip("|<>="))


def _reconstruct(*_: object) -> PickledArray:
    """Stand in for NumPy's function of that name: an empty array, whose numbers come with `build`."""
    return PickledArray()


def _scalar(dtype: Dtype, data: bytes | str) -> PickledArray:
    return _filled(PickledArray(), (), dtype, data, False)


def _from_buffer(data: bytes, dtype: Dtype, shape: tuple[int, ...], order: str) -> PickledArray:
    return _filled(PickledArray(), shape, dtype, data, order == "F")


def build(made: Any, state: Any) -> None:
    """Give a dtype its byte order, an array its numbers, or an object its attributes."""
    if isinstance(made, Dtype) and isinstance(state, tuple) and len(state) > 2 and not any(state[2:5]):
        if state[1] not in ("<", ">", "|", "=", b"<", b">", b"|", b"="):
            raise pickle.UnpicklingError("it asks for a numpy.dtype with an odd byte order")
        made.order = state[1].decode() if isinstance(state[1], bytes) else state[1]
    elif isinstance(made, PickledArray) and isinstance(state, tuple) and len(state) == 5:
        _, shape, dtype, is_fortran, data = state
        _filled(made, shape, dtype, data, bool(is_fortran))
    elif isinstance(made, PickledObject) and isinstance(state, dict) and not made.attributes:
        made.attributes = {key.decode("latin-1") if isinstance(key, bytes) else key: state[key] for key in state}
    else:
        raise pickle.UnpicklingError(f"it sets the state of a {type(made).__name__}")


def _filled(array: PickledArray, shape: Any, dtype: Any, data: Any, is_fortran: bool) -> PickledArray:
    if not isinstance(dtype, Dtype) or not isinstance(data, bytes | str) or not isinstance(shape, tuple):
        raise pickle.UnpicklingError("it asks for a numpy.ndarray of something else than numbers")
    if len(shape) > 32 or not all(type(n) is int and n >= 0 for n in shape):
        raise pickle.UnpicklingError("it asks for a numpy.ndarray of an impossible shape")
    raw = data.encode("latin-1") if isinstance(data, str) else data
    array.values = np.frombuffer(raw, dtype.numpy()).reshape(shape, order="F" if is_fortran else "C")
    return array


RECONSTRUCTORS = ("copyreg._reconstructor", "copy_reg._reconstructor")

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "_codecs.encode": _encode,
    "__builtin__.bytes": _no_bytes,
    "builtins.bytes": _no_bytes,
    "numpy.dtype": _dtype,
    "numpy.ndarray": _class,
    **{
        f"numpy.{core}.{name}": function
        for core in ("core", "_core")
        for name, function in (
            ("multiarray._reconstruct", _reconstruct),
            ("multiarray.scalar", _scalar),
            ("numeric._frombuffer", _from_buffer),
        )
    },
}
