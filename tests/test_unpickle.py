"""Pickles are data: everything else is refused by name, nothing is executed, and memory has its bounds."""

import contextlib
import copyreg
import os
import pickle
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordzoo.recipes.pickles import PickledArray, PickledObject, unpickle
from tests.running import printed

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Reduced:
    """Pickles as whatever call it is given."""

    def __init__(self, function: Callable, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


class Plain:
    """An object of a class of its own."""


HOSTILE: dict[str, tuple[object, str]] = {
    "a shell": (Reduced(os.system, "touch harmed"), r"(posix|nt)\.system"),
    "eval": (Reduced(eval, "open('harmed', 'w')"), "eval"),
    "open": (Reduced(open, "harmed", "w"), "open"),
    "getattr": (Reduced(getattr, "a", "upper"), "getattr"),
    "copyreg": (Reduced(copyreg._reconstructor, Plain, object, None), "Plain"),  # type: ignore[attr-defined]
    "an object": (Plain(), r"Plain|_reconstructor|__newobj__"),
    "a function": (os.system, "system"),
    "a NumPy function": (Reduced(np.load, "harmed"), r"numpy\.load"),
    "an array of objects": (np.array([Plain()], object), "numpy.dtype of 'O8'"),
    "a structured array": (np.zeros(2, [("a", "u1")]), "numpy.dtype of 'V1'"),
    "a set": ({1}, "set|EMPTY_SET"),
    "a complex number": (1j, "complex"),
}

PROGRAMS = {
    "INST": (b"(S'touch harmed'\nios\nsystem\n.", r"os\.system"),
    "OBJ": (b"(cos\nsystem\nS'touch harmed'\no.", r"os\.system"),
    "NEWOBJ": (b"\x80\x02cbuiltins\nint\n)\x81.", r"builtins\.int"),
    "a persistent id": (b"Psomewhere\n.", "PERSID"),
    "a name that is no text": (b"\x80\x04K\x01K\x02\x93.", "damaged.*STACK_GLOBAL"),
    "a call of a number": (b"\x80\x02K\x01)R.", "not callable"),
    "bytes of a number": (b"cbuiltins\nbytes\n(I999999999999\ntR.", "damaged"),
    "another encoding": (b"c_codecs\nencode\n(Va\nVrot13\ntR.", "something else than bytes"),
    "an array by hand": (b"cnumpy\nndarray\n(I99\ntR.", r"calls numpy\.ndarray with arguments"),
    "a larger array than its numbers": (b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(Vi8\ntRVa\ntR.", "damaged"),
    "a size of 2**63": (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "damaged"),
    "an item of a number": (b"K\x01K\x02a.", "damaged"),
    "an endless list": (b"\x80\x04]" + b"N" * (1 << 20) + b"NN.", "more than 1,048,576"),
    "digits without end": (b"I" + b"9" * 100_000 + b"\n.", "damaged"),
    "a number of 1,000 bits": (b"\x80\x02\x8a\x80" + b"\x7f" * 128 + b".", "1023 bits for LONG1"),
    "a memo at 2**31": (b"K\x01r\xff\xff\xff\x7f.", "31 bits for LONG_BINPUT"),
    "a memo at 2**62": (b"K\x01p4611686018427387904\n.", "63 bits for PUT"),
    "tuples in tuples": (b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"Ns.", "1,000 tuples"),
    "a protocol of the future": (b"\x80\xffK\x01.", "damaged"),
    "a buffer from elsewhere": (b"\x80\x05\x97.", "NEXT_BUFFER"),
    "arguments with names": (b"\x80\x04cbuiltins\nbytes\n)}\x92.", "NEWOBJ_EX"),
    "the state of a function": (b"c_codecs\nencode\n}Vcall\nNsb.", "state of a function"),
    "attributes of a class": (b"cnumpy\nndarray\n(N}V__new__\nNstb.", "damaged"),
    "a byte order that is a type": (b"cnumpy\ndtype\n(Vi8\ntR(I3\nVO,\nNNNtb.", "odd byte order"),
    "no end": (b"\x80\x04K\x01", "damaged"),
    "empty": (b"", "damaged"),
    "an empty stack": (b"\x86.", "damaged"),
}


def plain(value: object) -> object:
    """An array as its list, so that values compare."""
    if isinstance(value, PickledArray):
        assert value.values is not None
        return (value.values.dtype.str, value.values.tolist())
    if isinstance(value, np.ndarray | np.generic):
        return (value.dtype.str, value.tolist())
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value


values = st.recursive(
    st.binary()
    | st.text()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.none(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(values, st.sampled_from(PROTOCOLS))
def test_what_is_data_is_read_as_pickle_reads_it(value: object, protocol: int) -> None:
    assert unpickle(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "value",
    [
        ([b"image"], np.array([7], np.int64)),
        (b"image", np.int64(7)),
        np.arange(12, dtype=np.uint8).reshape(3, 4),
        np.asfortranarray(np.arange(6, dtype="<u2").reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.array([1.5, -2], np.float32),
        np.array([True, False]),
    ],
)
def test_arrays_of_numbers_are_data_too(value: object, protocol: int) -> None:
    assert plain(unpickle(pickle.dumps(value, protocol))) == plain(value)


def test_python_2s_strings_are_bytes_or_text_and_an_ordered_dict_is_a_dict() -> None:
    assert unpickle(pickle.dumps(OrderedDict(b=1, a=[2]))) == {"b": 1, "a": [2]}
    assert unpickle(b"\x80\x02}U\x01aU\x02\xff\xd8s.", text=True) == {"a": "\xff\xd8"}
    assert unpickle(b"\x80\x02U\x02\xff\xd8.") == b"\xff\xd8"


DATA_AS_OBJECTS = ("a function", "an object", "copyreg")
"""What is data if objects are: names, and objects of attributes."""


@pytest.mark.parametrize(
    ("name", "objects"),
    [(name, objects) for objects in (False, True) for name in HOSTILE if not objects or name not in DATA_AS_OBJECTS],
)
def test_everything_else_is_refused_by_name(
    name: str, objects: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    value, text = HOSTILE[name]
    thing = Plain()
    thing.__dict__.update(label=value)
    for protocol in PROTOCOLS:
        for each in (value, thing) if objects else (value,):
            with pytest.raises(pickle.UnpicklingError, match=text):
                unpickle(pickle.dumps(each, protocol), objects=objects)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_objects_as_records_of_their_attributes_if_they_are_asked_for(protocol: int) -> None:
    thing = Plain()
    thing.__dict__.update(image=b"abc", size=(1, 2), label=np.int64(7), kind=np.uint8, inner=Plain(), more={"a": [1]})
    data = pickle.dumps(thing, protocol).replace(__name__.encode(), b"no_such.module_here")
    found = unpickle(data, objects=True)
    assert isinstance(found, PickledObject)
    assert found.name == "no_such.module_here.Plain"
    label, kind, inner = (found.attributes.pop(name) for name in ("label", "kind", "inner"))
    assert found.attributes == {"image": b"abc", "size": (1, 2), "more": {"a": [1]}}
    assert plain(label) == ("<i8", 7)
    assert kind.name == "numpy.uint8"
    assert (inner.name, inner.attributes) == ("no_such.module_here.Plain", {})


def test_objects_of_python_2() -> None:
    for data in (b"(i__main__\nImage\n(dS'label'\nI3\nsb.", b"(c__main__\nImage\no}U\5labelK\3sb."):
        found = unpickle(data, objects=True)
        assert isinstance(found, PickledObject)
        assert (found.name, found.attributes) == ("__main__.Image", {"label": 3})


WITH_OBJECTS = [
    (b"(S'touch harmed'\nios\nsystem\n.", r"calls os\.system with arguments"),
    (b"\x80\x02cos\nsystem\nU\x01a\x85\x81.", r"calls os\.system with arguments"),
    (b"\x80\x02cos\nsystem\nU\x01a\x85R.", r"calls os\.system with arguments"),
    (b"\x80\x02c_codecs\nencode\n)\x81.", "must be a type"),
    (b"ccopy_reg\n_reconstructor\n(cx\nX\nc__builtin__\nint\nI5\ntR.", r"calls x\.X with arguments"),
    (b"\x80\x02cx\nX\n)\x81K\x01b.", "more than attributes"),
    (b"\x80\x02cx\nX\n)\x81}K\x01K\x02sb.", "more than attributes"),
    (b"\x80\x02cx\nX\nN}U\x07__new__K\x01s\x86b.", "damaged"),
]


@pytest.mark.parametrize(
    ("data", "text", "objects"),
    [*((*each, False) for each in PROGRAMS.values()), *((*each, True) for each in WITH_OBJECTS)],
    ids=[*PROGRAMS, *(f"object {number}" for number in range(len(WITH_OBJECTS)))],
)
def test_programs_that_no_tool_writes(data: bytes, text: str, objects: bool) -> None:
    with pytest.raises(pickle.UnpicklingError, match=text):
        unpickle(data, objects=objects)


WATCHED = """
import sys
from recordzoo.recipes.pickles import unpickle
from tests.test_unpickle import HOSTILE, PROGRAMS, PROTOCOLS
import pickle
pickles = [pickle.dumps(v, p) for v, _ in HOSTILE.values() for p in PROTOCOLS] + [d for d, _ in PROGRAMS.values()]
pickles += [pickle.dumps(([b"a"], v), p) for v in ("a", 1) for p in PROTOCOLS]
for data in pickles:  # what Python itself does the first time is done
    for objects in (False, True):
        try: unpickle(data, objects=objects)
        except pickle.UnpicklingError: pass
seen = []
sys.addaudithook(lambda event, arguments: seen.append((event, arguments)))
count = 0
for data in pickles:
    try: unpickle(data)
    except pickle.UnpicklingError: count += 1
    try: unpickle(data, objects=True)
    except pickle.UnpicklingError: pass
assert not seen, seen
assert count == len(pickles) - 12, count
(used,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(used)
"""


def test_nothing_is_imported_called_or_opened(tmp_path: Path) -> None:
    assert int(printed(WATCHED, cwd=tmp_path)) < 400_000  # KiB: sizes of 2**31 and more were only said
    assert list(tmp_path.iterdir()) == []


def test_the_names_of_methods_are_attributes_as_others() -> None:
    """BUILD looks for `__setstate__` in the class, which has its own."""
    data = b"\x80\x02cx\nX\n)\x81}X\x0c\x00\x00\x00__setstate__cos\nsystem\nsbX\x01\x00\x00\x00a\x86."
    found, _ = cast(tuple[Any, Any], unpickle(data, objects=True))
    assert type(found).__setstate__ is PickledObject.__setstate__
    assert found.attributes["__setstate__"].name == "os.system"


def test_registered_extensions_are_refused() -> None:
    copyreg.add_extension("builtins", "eval", 77)
    try:
        data = pickle.dumps(eval, 2)
        assert pickle.loads(data) is eval  # Python keeps it for the next pickle, and asks no find_class
        for objects in (False, True):
            with pytest.raises(pickle.UnpicklingError, match="EXT1"):
                unpickle(data, objects=objects)
    finally:
        copyreg.remove_extension("builtins", "eval", 77)


LENGTH = (1_000_000).to_bytes(8, "little")
TEXT = b"X" + LENGTH[:4] + b"a" * 1_000_000 + b"q\0"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\1btR"
STATE = b"(K\1M\xe8\3M\xe8\3\x86cnumpy\ndtype\n(U\2u1tRK\0h\0tb"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x80\2(" + TEXT + 100 * b"c_codecs\nencode\nh\0X\6\0\0\0latin1\x86R" + b"t.", "expands to more bytes"),
        (b"\x80\2(" + TEXT + 100 * (ARRAY + STATE) + b"t.", "expands to more bytes than it has"),
        (b"\x80\5\x96" + LENGTH + bytes(10**6) + b"q\0(" + 100 * (ARRAY + STATE) + b"t\x86.", ""),
    ],
    ids=["bytes of one text", "arrays of one text", "arrays of the same bytes"],
)
def test_no_many_copies_of_one_long_text_are_made(data: bytes, text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(pickle.UnpicklingError, match=text) if text else contextlib.nullcontext():
            unpickle(data)
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    for start in (b"", b"\x80\x04", b"\x80\x02]"):
        with contextlib.suppress(pickle.UnpicklingError):
            unpickle(start + data + b".", objects=True)


@given(st.data())
def test_a_changed_pickle_is_a_value_or_an_error(data: st.DataObject) -> None:
    value = pickle.dumps((b"x" * 30, np.array([3])), data.draw(st.sampled_from(PROTOCOLS)))
    changed = bytearray(value)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(pickle.UnpicklingError):
        unpickle(bytes(changed))
