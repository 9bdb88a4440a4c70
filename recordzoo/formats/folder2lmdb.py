"""folder2lmdb's LMDBs: keys "0", "1", ..., values pairs of an image's file and its label, `__keys__` and `__len__`.

Lyken17/Efficient-PyTorch tools/folder2lmdb.py and its many copies. Over the years the pairs were written with msgpack
(and msgpack_numpy, which makes maps of arrays), with `pyarrow.serialize`, and with pickle. Later versions let a
DataLoader make batches of one, so that the image is a list of one item and the label an array of one number.
Tensorpack's LMDBSerializer, the model of all of them, writes keys of eight digits and no `__len__`; the image's file is
an array of bytes there.

Two more layouts are pickled, or stored with pyarrow, alike:

* NumPy arrays, one for each key, without labels, by copies of folder2lmdb that store decoded images. An array is an
  image [H, W, C] or a tensor [C, H, W]; of 4 dimensions, a DataLoader's batch. Nothing says whether the channels are
  RGB: OpenCV's are BGR.
* Objects with an image's pixels and its label, the class `CIFAR_Image` or `LMDB_Image` of tutorials (realpython.com
  "Three Ways of Storing and Accessing Lots of Images in Python", and its copies): `channels`, `size` (height, width),
  `image` (the bytes of a uint8 array) and `label`, which some leave out. The name of the class and other attributes do
  not matter.
"""

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recordzoo.base.packages import need
from recordzoo.formats.arrow import deserialize
from recordzoo.formats.lmdb_values import (
    ForeignValueError,
    Layout,
    Order,
    Read,
    Value,
    array_value,
    as_label,
    numbered,
    type_name,
)
from recordzoo.recipes.pickled import PickledArray, PickledObject
from recordzoo.recipes.unpickle import unpickle

KEYS, LENGTH = OWN_KEYS = b"__keys__", b"__len__"

_LISTS = re.compile(rb"[\x90-\x9f\xcc-\xd3\xdc\xdd]")  # the first byte of msgpack's lists and numbers
_NUMBERS = re.compile(rb"[<>|][biuf][1248]")
_INSTRUCTIONS = 1000  # of the pickle of a pair
_CONVERT = (
    "If you trust where it comes from, read it with the program that wrote it, and store that dataset with "
    "recordzoo.convert"
)


def pair_value(value: bytes) -> Value:
    """Read a pair.

    Raises:
        ForeignValueError: It is not a pair of bytes and an integer.
    """
    pair = loaded(value)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        what = f"{type_name(pair)} of {len(pair)}" if isinstance(pair, tuple | list) else type_name(pair)
        raise ForeignValueError(f"it is a {what}, not a pair of an image's file and a label. {_CONVERT}")
    return Value(_image(pair[0]), as_number(pair[1]))


def order(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Return the keys in the order of `__keys__`; without it, by number if all keys are numbers, else in LMDB's order.

    Raises:
        ForeignValueError: `__keys__` or `__len__` cannot be read, or does not fit the keys of the database.
    """
    places = {key: place for place, key in enumerate(keys)}
    own = {name: places.pop(name) for name in OWN_KEYS if name in places}
    if KEYS in own:
        try:
            named = loaded(read(own[KEYS]), 8 * len(keys) + _INSTRUCTIONS)
        except ForeignValueError as err:
            raise ForeignValueError(f"__keys__ cannot be read: {err}") from err
        found = _named(named, places)
    else:
        left = list(places.values())
        sorted_ = numbered([keys[place] for place in left])
        found = left if sorted_ is None else [left[index] for index in sorted_]
    if LENGTH in own and (length := read(own[LENGTH])) != str(len(found)).encode():
        number = loaded(length)
        if number != len(found):
            raise ForeignValueError(f"__len__ is {str(number)[:20]}, but there are {len(found):,} keys")
    return found, ()


def _named(named: object, places: dict[bytes, int]) -> list[int]:
    """Find the keys that `__keys__` lists."""
    if not isinstance(named, list | tuple) or not all(isinstance(key, bytes | str) for key in named):
        raise ForeignValueError("__keys__ is no list of keys")
    longest = max(map(len, places), default=0)  # a forged list may repeat one long key: it is not copied
    return in_order([_encoded(key[: longest + 1]) for key in named], places, "__keys__")


def in_order(wanted: Sequence[bytes], places: Mapping[bytes, int], source: str) -> list[int]:
    """Return the places of the keys in a list.

    Raises:
        ForeignValueError: The list does not hold each key exactly once.
    """
    missing = [key for key in wanted if key not in places]
    if missing or len(set(wanted)) != len(wanted):
        problem = f"names {missing[0][:80]!r}, which is not there" if missing else "names a key twice"
        raise ForeignValueError(f"{source} {problem}")
    if len(wanted) != len(places):
        raise ForeignValueError(f"{source} names {len(wanted):,} keys, and there are {len(places):,}")
    return [places[key] for key in wanted]


def _encoded(key: bytes | str) -> bytes:
    return key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key


# Any: whatever was stored.
def loaded(value: bytes, most: int = _INSTRUCTIONS, *, objects: bool = False) -> Any:
    """Unpack a value; its first bytes show how it was packed.

    Args:
        value: A pickle, or what msgpack or pyarrow wrote.
        most: How many instructions a pickle may have.
        objects: Whether a pickle may hold objects, see `unpickle`.

    Raises:
        ForeignValueError: It was packed in an unknown way, or holds something else.
    """
    tool = "pyarrow" if value[:4] == b"\0\0\0\0" else "msgpack"
    try:
        if tool == "pyarrow":
            need("pyarrow", "parquet", "What pyarrow.serialize wrote is read")
            return deserialize(value)
        # Pickles begin with protocol 2's mark, or with a letter or sign; msgpack's pairs, lists and lengths otherwise.
        if len(value) > 1 and value[0] <= 0x80:
            return unpickle(value, objects=objects, most=most)
        return _unpacked(value)
    except pickle.UnpicklingError as err:
        raise ForeignValueError(f"{err}. {_CONVERT}") from err
    except ValueError as err:
        raise ForeignValueError(f"as {tool} has it, {err}") from err


# Any, here and below: whatever was stored.
def _unpacked(value: bytes) -> Any:
    """Unpack a list or an integer with msgpack. The old format has one type for text and bytes."""
    if len(value) > 1 and not _LISTS.match(value):
        raise ValueError(f"it begins with {value[:8].hex(' ')}")
    need("msgpack", "lmdb", "What msgpack wrote is read")
    import msgpack

    try:
        return msgpack.unpackb(value, raw=True, strict_map_key=False, object_hook=_array)
    except (msgpack.UnpackException, TypeError, OverflowError) as err:
        raise ValueError(f"it is cut or damaged ({type(err).__name__} {err})") from err


def _array(found: dict[Any, Any]) -> Any:
    """Return the array or number that a map of msgpack_numpy encodes; any other map unchanged."""
    kind, data = found.get(b"type"), found.get(b"data")
    if not isinstance(kind, bytes) or not _NUMBERS.fullmatch(kind) or not isinstance(data, bytes):
        return found
    return np.frombuffer(data, kind.decode()).reshape(found.get(b"shape", ()))


def _item(value: Any) -> Any:
    """Unwrap a list of one value, and turn a pickled array into NumPy's."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return value.values if isinstance(value, PickledArray) and value.values is not None else value


def _image(value: Any) -> bytes:
    found = _item(value)
    if isinstance(found, np.ndarray) and found.dtype == np.uint8 and found.ndim == 1:
        found = found.tobytes()  # a file that was read as an array
    if not isinstance(found, bytes):
        raise ForeignValueError(f"its image is a {type_name(found)}, not an image's file. {_CONVERT}")
    return found


def as_number(value: Any) -> int:
    """Return a label: an integer of Python or NumPy, or a list or an array of one.

    Raises:
        ForeignValueError: It is none.
    """
    found = _item(value)
    if isinstance(found, np.ndarray):
        if found.size != 1 or found.dtype.kind not in "iu":
            raise ForeignValueError("its label is a numpy.ndarray, not a whole number")
        found = int(found.item())
    return as_label(found)


def _array_value(value: bytes) -> Value:
    """Read an array.

    Raises:
        ForeignValueError: It is not an array, or not an image.
    """
    found = loaded(value)
    values = found.values if isinstance(found, PickledArray) else found
    if not isinstance(values, np.ndarray):
        raise ForeignValueError(f"it is a {type_name(found)}, not a numpy.ndarray")
    return array_value(values)


def _object_value(value: bytes) -> Value:
    """Read an object.

    Raises:
        ForeignValueError: It is not an object, or its attributes are not pixels and an integer.
    """
    made = loaded(value, objects=True)
    if not isinstance(made, PickledObject):
        raise ForeignValueError(f"it is a {type_name(made)}, not an object with attributes")
    found = made.attributes
    image, shape = found.get("image"), _shape(found)
    if not isinstance(image, bytes) or len(image) != np.prod(shape, dtype=object):
        size = f"{len(image):,} bytes" if isinstance(image, bytes) else type_name(image)
        raise ForeignValueError(f"the image of its {made.name[:80]} is {size}, not the pixels of size {list(shape)}")
    label = found.get("label")
    return array_value(np.frombuffer(image, np.uint8).reshape(shape), None if label is None else as_number(label))


def _shape(found: dict[str, Any]) -> tuple[int, ...]:
    size, channels = found.get("size"), found.get("channels", 1)
    shape = (*size, channels) if isinstance(size, tuple | list) else ()
    if len(shape) != 3 or not all(type(number) is int and number > 0 for number in shape):
        raise ForeignValueError(f"it has no size and channels, but the attributes {', '.join(found)[:200]}")
    return shape


PAIRS = Layout(
    "folder2lmdb",
    "a pair of folder2lmdb (an image's file, a label), pickled, or by msgpack or pyarrow",
    pair_value,
    order,
)
ARRAYS = Layout("lmdb_arrays", "a numpy.ndarray, pickled or by pyarrow", _array_value, order)
OBJECTS = Layout("lmdb_objects", "a pickled object with image, size, channels and label", _object_value, order)
