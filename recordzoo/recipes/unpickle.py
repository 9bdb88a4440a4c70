"""Read pickles as data: nothing that they name is ever imported or called.

A pickle is a program for a stack machine. `pickletools.genops` parses it without running it. `unpickle` follows only
the instructions for numbers, strings, tuples and lists and, on request, reads an object of any class as a record of its
attributes. The only allowed functions are those with which Python and NumPy write bytes and arrays of numbers; their
results are computed here from the arguments. Anything else is refused by name. The result is never larger than a small
multiple of the pickle.
"""

import pickle
import pickletools
from collections.abc import Callable, Mapping
from typing import Any

from recordzoo.recipes.pickled import (
    FUNCTIONS,
    RECONSTRUCTORS,
    Class,
    Dtype,
    Function,
    PickledObject,
    build,
    reconstructed,
)

MAX_INSTRUCTIONS = 1 << 20

_MARK = object()


def unpickle(
    data: bytes, *, dicts: bool = False, text: bool = False, objects: bool = False, most: int = MAX_INSTRUCTIONS
) -> object:
    """Read a pickle of bytes, strings, numbers, tuples, lists and arrays of numbers (as `PickledArray`).

    Args:
        data: The pickle, of protocol 0 to 5.
        dicts: Whether it may hold dicts, too, with strings as keys.
        text: Whether Python 2's strings are text (Latin-1); bytes otherwise.
        objects: Whether it may hold objects that consist of attributes (as `PickledObject`); and dicts, too.
        most: Maximum number of instructions.

    Raises:
        pickle.UnpicklingError: It is not a pickle, or needs anything else, which the message names.
    """
    machine = _Machine(dicts or objects, text, objects, len(data))
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
        objects: As `unpickle`.
        most_bytes: Limit on the characters that calls convert to bytes, so that a small pickle cannot expand.
    """

    def __init__(self, dicts: bool, text: bool, objects: bool, most_bytes: int) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._dicts, self._text, self._objects = dicts, text, objects
        self._left_bytes = most_bytes

    def do(self, name: str, argument: Any) -> None:
        """Execute one instruction."""
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
        elif name == "GLOBAL":
            stack.append(self._named(argument.replace(" ", ".", 1)))
        elif name in ("INST", "OBJ", "NEWOBJ"):
            self._make(name, argument)
        elif name == "STACK_GLOBAL":
            module, function = self._top(2)
            if type(module) is not str or type(function) is not str:
                raise pickle.UnpicklingError("it asks for a function whose name is no text")
            stack[-2:] = [self._named(f"{module}.{function}")]
        elif name == "REDUCE":
            function, arguments = self._top(2)
            if isinstance(function, Class):
                raise pickle.UnpicklingError(f"it asks for {function.name[:200]}")
            if not isinstance(function, Function) or not isinstance(arguments, tuple):
                raise pickle.UnpicklingError(f"it calls a {type(function).__name__}")
            self._count(*arguments)
            stack[-2:] = [function.stand_in(*arguments)]
        elif name == "BUILD":
            state = stack.pop()
            self._count(*(state if isinstance(state, tuple) else ()))
            build(stack[-1], state)
        elif self._dicts and name in ("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"):
            self._do_dict(name)
        else:
            raise pickle.UnpicklingError(f"it holds other things than bytes, text, numbers, tuples and lists ({name})")

    def _named(self, name: str) -> Function | Class:
        """Return the stand-in of a known function. If objects are allowed, other names become a `Class`."""
        if name in FUNCTIONS:
            return Function(name, FUNCTIONS[name])
        if not self._objects:
            raise pickle.UnpicklingError(f"it asks for {name[:200]}")
        return Function(name, reconstructed) if name in RECONSTRUCTORS else Class(name)

    def _make(self, name: str, argument: Any) -> None:
        """Create an object of a class without arguments: INST names the class, the others have it on the stack."""
        if name == "NEWOBJ":
            made, arguments = self._top(2)
            del self._stack[-2:]
        else:
            items = self._from_mark()
            made = self._named(argument.replace(" ", ".", 1)) if name == "INST" else items.pop(0)
            arguments = tuple(items)
        if not isinstance(made, Class):
            raise pickle.UnpicklingError(f"it creates a {getattr(made, 'name', type(made).__name__)}")
        if arguments != ():
            raise pickle.UnpicklingError(f"it creates a {made.name[:200]} with arguments")
        self._stack.append(PickledObject(made.name))

    def _count(self, *arguments: Any) -> None:
        """Count the characters that a function converts to bytes."""
        self._left_bytes -= sum(len(each) for each in arguments if isinstance(each, str))
        if self._left_bytes < 0:
            raise pickle.UnpicklingError("it expands to more bytes than it has")

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
        """Return the result."""
        (made,) = self._stack
        if made is _MARK or isinstance(made, Function | Dtype | Class):
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
                f"it adds items to a {type(self._stack[-1]).__name__} instead of a {kind.__name__}"
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
_LITERALS: Mapping[str, Callable[[], Any]] = {
    "MARK": lambda: _MARK,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
}
