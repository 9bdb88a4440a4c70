"""Pickles as data: what they say is put together here, and nothing that they name is ever imported or called.

A pickle is a program for a machine with a stack. `pickletools.genops` reads it without running it; of its instructions
`unpickle` follows those that make numbers, strings, tuples and lists. Of functions a pickle may ask for those alone by
which Python and NumPy write bytes and arrays of numbers, and what these would make is made here from the arguments. All
else is refused by its name. What comes of it is never larger than some times the pickle.
"""

import pickle
import pickletools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_INSTRUCTIONS = 1 << 20

_DTYPE = re.compile(r"[|<>=]?([biufc])(\d{1,2})|(\?)")
_MARK = object()


class PickledArray:
    """An array of numbers out of a pickle.

    Attributes:
        values: The numbers; None for as long as the pickle has not given them.
    """

    values: NDArray[Any] | None = None  # Any: of any numeric dtype


@dataclass
class _Dtype:
    """A NumPy dtype of numbers, as its text without the byte order, and the byte order."""

    text: str
    order: str = "<"

    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.text if self.order == "|" else self.order + self.text)


@dataclass(frozen=True)
class _Function:
    """A function that a pickle may ask for: its name, and what is done here in its place."""

    name: str
    # Any: what the pickle gives as arguments is checked there.
    stand_in: Callable[..., Any]


def unpickle(data: bytes, *, dicts: bool = False, text: bool = False, most: int = MAX_INSTRUCTIONS) -> object:
    """Read a pickle of bytes, strings, numbers, tuples, lists and arrays of numbers (as `PickledArray`).

    Args:
        data: The pickle, of protocol 0 to 5.
        dicts: Whether it may hold dicts, too, with strings as keys.
        text: Whether Python 2's strings are text (Latin-1); bytes otherwise.
        most: How many instructions it may have.

    Raises:
        pickle.UnpicklingError: It is none, or asks for anything else; the message says for what.
    """
    machine = _Machine(dicts, text, len(data))
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number >= most:
                raise pickle.UnpicklingError(f"it has more than {most:,} instructions")
            machine.do(opcode.name, argument)
        return machine.result()
    except pickle.UnpicklingError:
        raise
    except Exception as err:
        raise pickle.UnpicklingError(f"it is no pickle, or a damaged one ({type(err).__name__}: {err})"[:300]) from err


class _Machine:
    """The stack and the memo of a pickle that is being read.

    Args:
        dicts: As `unpickle`.
        text: As `unpickle`.
        most_bytes: How many characters functions may make bytes of: all that there are, but not one text many times.
    """

    # Any: what a pickle holds.
    def __init__(self, dicts: bool, text: bool, most_bytes: int) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._dicts, self._text = dicts, text
        self._left_bytes = most_bytes

    def do(self, name: str, argument: Any) -> None:
        """Follow one instruction.

        Raises:
            pickle.UnpicklingError: It makes something else than data.
        """
        stack = self._stack
        if name in _CONSTANTS:
            stack.append(argument)
        elif name in _PYTHON_2:
            stack.append(argument if self._text else argument.encode("latin-1"))
        elif name == "BYTEARRAY8":
            stack.append(bytes(argument))
        elif name in ("PROTO", "FRAME", "STOP"):
            pass
        elif name in _LITERALS:
            stack.append(_LITERALS[name]())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[-count:] = [tuple(self._top(count))]
        elif name in ("TUPLE", "LIST"):
            items = self._from_mark()
            stack.append(tuple(items) if name == "TUPLE" else items)
        elif name in ("APPEND", "APPENDS"):
            items = self._from_mark() if name == "APPENDS" else [stack.pop()]
            self._target(list).extend(items)
        elif name in ("GLOBAL", "INST"):
            stack.append(_function(argument.replace(" ", ".", 1)))
        elif name == "STACK_GLOBAL":
            module, function = self._top(2)
            if type(module) is not str or type(function) is not str:
                raise pickle.UnpicklingError("it asks for a function whose name is no text")
            stack[-2:] = [_function(f"{module}.{function}")]
        elif name == "REDUCE":
            function, arguments = self._top(2)
            if not isinstance(function, _Function) or not isinstance(arguments, tuple):
                raise pickle.UnpicklingError(f"it calls a {type(function).__name__}")
            self._count(*arguments)
            stack[-2:] = [function.stand_in(*arguments)]
        elif name == "BUILD":
            state = stack.pop()
            self._count(*(state if isinstance(state, tuple) else ()))
            _build(stack[-1], state)
        elif self._dicts and name in ("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"):
            self._do_dict(name)
        else:
            raise pickle.UnpicklingError(f"it holds what is neither bytes, text, number, tuple nor list ({name})")

    def _count(self, *arguments: Any) -> None:
        """Count the texts that a function makes bytes of."""
        self._left_bytes -= sum(len(each) for each in arguments if isinstance(each, str))
        if self._left_bytes < 0:
            raise pickle.UnpicklingError("it copies more than it holds")

    def _do_dict(self, name: str) -> None:
        if name == "EMPTY_DICT":
            self._stack.append({})
            return
        items = self._top(2) if name == "SETITEM" else self._from_mark()
        if name == "SETITEM":
            del self._stack[-2:]
        elif name == "DICT":
            self._stack.append({})
        pairs = dict(zip(items[::2], items[1::2], strict=True))
        if not all(isinstance(key, str | bytes) for key in pairs):
            raise pickle.UnpicklingError("a dict's key is no string")
        self._target(dict).update(pairs)

    def result(self) -> object:
        """Return what was made.

        Raises:
            pickle.UnpicklingError: Nothing was, or a function and no data.
        """
        (made,) = self._stack
        if made is _MARK or isinstance(made, _Function | _Dtype):
            raise pickle.UnpicklingError("it holds no data")
        return made

    def _top(self, count: int) -> list[Any]:
        if len(self._stack) < count:
            raise pickle.UnpicklingError("it takes from an empty stack")
        return self._stack[-count:]

    def _from_mark(self) -> list[Any]:
        items = []
        while (item := self._stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _target(self, kind: type) -> Any:
        if type(self._stack[-1]) is not kind:
            raise pickle.UnpicklingError(
                f"it adds to a {type(self._stack[-1]).__name__} what belongs to a {kind.__name__}"
            )
        return self._stack[-1]


_CONSTANTS = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    )
)
_PYTHON_2 = frozenset(("STRING", "BINSTRING", "SHORT_BINSTRING"))
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
# Any: each a value of its own.
_LITERALS: Mapping[str, Callable[[], Any]] = {
    "MARK": lambda: _MARK,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
}


def _function(name: str) -> _Function:
    if name not in _FUNCTIONS:
        raise pickle.UnpicklingError(f"it asks for {name[:200]}")
    return _Function(name, _FUNCTIONS[name])


def _encode(text: str, encoding: str = "") -> bytes:
    """Stand in for `_codecs.encode`, by which protocols 0 to 2 write bytes."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("it encodes something else than bytes")
    return text.encode("latin-1")


def _no_bytes(*arguments: object) -> bytes:
    """Stand in for `bytes`, by which protocols 0 to 2 write b""."""
    if arguments:
        raise pickle.UnpicklingError("it makes bytes of something")
    return b""


def _class(*arguments: object) -> object:
    raise pickle.UnpicklingError("it makes a numpy.ndarray by hand")


def _dtype(text: str | bytes, *_: object) -> _Dtype:
    """Stand in for `numpy.dtype`: of numbers, in the byte order that the state says."""
    name = text.decode("latin-1") if isinstance(text, bytes) else text
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise pickle.UnpicklingError(f"it asks for a numpy.dtype of {str(name)[:30]!r}, which is none of numbers")
    return _Dtype(name.lstrip("|<>="))


def _reconstruct(*_: object) -> PickledArray:
    """Stand in for NumPy's function of that name: an empty array, whose numbers come with `_build`."""
    return PickledArray()


def _scalar(dtype: _Dtype, data: bytes | str) -> PickledArray:
    return _filled(PickledArray(), (), dtype, data, False)


def _from_buffer(data: bytes, dtype: _Dtype, shape: tuple[int, ...], order: str) -> PickledArray:
    return _filled(PickledArray(), shape, dtype, data, order == "F")


# Any: what a pickle gives.
def _build(made: Any, state: Any) -> None:
    """Give a dtype its byte order, or an array its numbers."""
    if isinstance(made, _Dtype) and isinstance(state, tuple) and len(state) > 2 and not any(state[2:5]):
        if state[1] not in ("<", ">", "|", "=", b"<", b">", b"|", b"="):
            raise pickle.UnpicklingError("it asks for a numpy.dtype with an odd byte order")
        made.order = state[1].decode() if isinstance(state[1], bytes) else state[1]
    elif isinstance(made, PickledArray) and isinstance(state, tuple) and len(state) == 5:
        _, shape, dtype, is_fortran, data = state
        _filled(made, shape, dtype, data, bool(is_fortran))
    else:
        raise pickle.UnpicklingError(f"it sets the state of a {type(made).__name__}")


def _filled(array: PickledArray, shape: Any, dtype: Any, data: Any, is_fortran: bool) -> PickledArray:
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes | str) or not isinstance(shape, tuple):
        raise pickle.UnpicklingError("it asks for a numpy.ndarray of something else than numbers")
    if len(shape) > 32 or not all(type(n) is int and n >= 0 for n in shape):
        raise pickle.UnpicklingError("it asks for a numpy.ndarray of an impossible shape")
    raw = data.encode("latin-1") if isinstance(data, str) else data
    array.values = np.frombuffer(raw, dtype.numpy()).reshape(shape, order="F" if is_fortran else "C")
    return array


# Any: arguments are checked in each.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
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
