"""Read pickles as data: nothing that they name is ever imported or called.

A pickle is a program for a stack machine, `pickle.Unpickler`. It gets functions and classes from `find_class` only:
here stand-ins for those with which Python and NumPy write bytes and arrays of numbers, and records of attributes for
classes. Anything else is refused by name. Before the program runs, `pickletools.genops` parses it: one that would take
far more memory or time than its length is refused.
"""

import functools
import io
import pickle
import pickletools
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from recordzoo.records.arrays import AnyArray

_MAX_TUPLES = 1000  # Python hashes a nested tuple by recursion, and crashes if it is a dict's key
_REFUSED = re.compile("(BIN)?PERSID|EXT.|DUP|POP.*|EMPTY_SET|ADDITEMS|FROZENSET|NEWOBJ_EX|.*_BUFFER")
_DTYPE = re.compile(r"[|<>=]?([biufc])(\d{1,2})|(\?)")


class RefusedError(pickle.UnpicklingError):
    """A pickle asks for something that is not data; the message names it."""


def unpickle(data: bytes, *, text: bool = False, objects: bool = False, most: int = 1 << 20) -> object:
    """Read a pickle of bytes, strings, numbers, tuples, lists, dicts and arrays of numbers (as `PickledArray`).

    Args:
        data: The pickle, of protocol 0 to 5.
        text: Whether Python 2's strings are text (Latin-1); bytes otherwise.
        objects: Whether it may hold objects that consist of attributes (as `PickledObject`).
        most: Maximum number of instructions.

    Raises:
        pickle.UnpicklingError: It is not a pickle, or needs anything else, which the message names.
    """
    try:
        _check(data, most)
        return _Unpickler(data, text, objects).load()
    except RefusedError:
        raise
    except Exception as err:
        raise pickle.UnpicklingError(f"it is no pickle, or a damaged one ({type(err).__name__}: {err})"[:300]) from err


def _check(data: bytes, most: int) -> None:
    """Refuse a program that leaves plain data, or would take much more memory or time than its length."""
    num_tuples = 0
    for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        num_tuples += opcode.name.startswith("TUPLE")
        if number >= most or num_tuples > _MAX_TUPLES:
            raise RefusedError(f"it has more than {most:,} instructions, or {_MAX_TUPLES:,} tuples")
        if _REFUSED.fullmatch(opcode.name):
            raise RefusedError(f"it holds other things than text, numbers, lists and dicts ({opcode.name})")
        # The memo is an array. Numbers of more than 64 bits may all have one hash: a dict of them is slow.
        largest = most if opcode.name.endswith("PUT") else 1 << 64
        if isinstance(argument, int) and abs(argument) > largest:
            raise RefusedError(f"it has a number of {argument.bit_length()} bits for {opcode.name}")


# Any, here and below: whatever the pickle has.
class PickledObject:
    """An object of a class that is not imported; each class is a subclass of this one.

    Attributes:
        name: Its class, with the module: "torch.Tensor".
        attributes: By name; those of its `__dict__`.
    """

    name: ClassVar[str]
    attributes: Mapping[str, Any]

    def __new__(cls, *arguments: object) -> "PickledObject":
        """Refuse arguments: nothing is known of the class."""
        if arguments:
            raise RefusedError(f"it calls {cls.name[:200]} with arguments")
        made = super().__new__(cls)
        made.attributes = {}
        return made

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict) or not all(isinstance(key, str | bytes) for key in state):
            raise RefusedError(f"a {self.name[:200]} has more than attributes")
        self.attributes = {key.decode("latin-1") if isinstance(key, bytes) else key: state[key] for key in state}


class PickledArray:
    """An array of numbers out of a pickle.

    Attributes:
        values: The numbers; None for as long as the pickle has not given them.
    """

    values: AnyArray | None = None

    def __init__(self, encode: Callable[[str], bytes], *state: Any) -> None:
        self._encode = encode
        if state:
            self.__setstate__((1, *state))

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, data = state
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes | bytearray | str):
            raise RefusedError("it asks for a numpy.ndarray of something else than numbers")
        raw = self._encode(data) if isinstance(data, str) else data
        self.values = np.frombuffer(raw, dtype.order + dtype.text).reshape(shape, order="F" if is_fortran else "C")


class _Dtype:
    """A NumPy dtype of numbers: its text without the byte order, and the byte order, which comes as its state."""

    def __init__(self, text: str | bytes) -> None:
        name = text.decode("latin-1") if isinstance(text, bytes) else text
        if not isinstance(name, str) or not _DTYPE.fullmatch(name):
            raise RefusedError(f"it asks for a numpy.dtype of {str(name)[:30]!r}, which is none of numbers")
        self.text, self.order = name.lstrip("|<>="), "<"

    def __setstate__(self, state: Any) -> None:
        order = state[1].decode() if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(state[2:5]):
            raise RefusedError("it asks for a numpy.dtype with an odd byte order, or of structures")
        self.order = order


class _Function(functools.partial[object]):
    """A stand-in for a function."""

    def __setstate__(self, state: object) -> None:
        raise RefusedError("it sets the state of a function")


class _Unpickler(pickle.Unpickler):
    """Runs a pickle with stand-ins for all functions and classes."""

    def __init__(self, data: bytes, text: bool, objects: bool) -> None:
        super().__init__(io.BytesIO(data), encoding="latin-1" if text else "bytes")
        self._objects = objects
        self._left = len(data)  # characters that may become bytes: all that there are, but not one text many times
        self._classes: dict[str, type[PickledObject]] = {}

    @override
    def find_class(self, module: str, name: str, /) -> Any:
        module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)  # Python 2 has other names
        full = f"{module}.{name}"
        if function := _FUNCTIONS.get(full.replace("numpy._core.", "numpy.core.")):  # NumPy 2 renamed it
            return _Function(function, self.encode)
        if not self._objects and full != "numpy.ndarray":
            raise RefusedError(f"it asks for {full[:200]}")
        return self._classes.setdefault(full, type("PickledObject", (PickledObject,), {"name": full}))

    def encode(self, text: object, encoding: object = "latin1") -> bytes:
        """Stand in for `_codecs.encode`, with which protocols 0 to 2 write bytes."""
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise RefusedError("it encodes something else than bytes")
        self._left -= len(text)
        if self._left < 0:
            raise RefusedError("it expands to more bytes than it has")
        return text.encode("latin-1")


# Functions that pickles call, with `_Unpickler.encode` as first argument; bytes and OrderedDict only for empty ones.
_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "_codecs.encode": lambda encode, *arguments: encode(*arguments),
    "builtins.bytes": lambda _: b"",
    "collections.OrderedDict": lambda _: {},
    "copyreg._reconstructor": lambda _, made, base, state: made() if state is None else made(state),
    "numpy.dtype": lambda _, text, *more: _Dtype(text),
    "numpy.core.multiarray._reconstruct": lambda encode, *_: PickledArray(encode),
    "numpy.core.multiarray.scalar": lambda encode, dtype, data: PickledArray(encode, (), dtype, False, data),
    "numpy.core.numeric._frombuffer": lambda encode, data, dtype, shape, order: PickledArray(
        encode, shape, dtype, order == "F", data
    ),
}
