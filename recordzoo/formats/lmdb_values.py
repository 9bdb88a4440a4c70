"""The values of LMDB databases of earlier tools: an image, encoded or as numbers, and its label.

* folder2lmdb (Lyken17/Efficient-PyTorch tools/folder2lmdb.py and its many copies): pairs of an image's file and its
  label. Over the years they were written with msgpack (and msgpack_numpy, which makes maps of arrays), with
  `pyarrow.serialize`, and with pickle. Later versions let a DataLoader make batches of one, so that the image is a list
  of one item and the label an array of one number. In Tensorpack's LMDBSerializer, the model of all of them, the
  image's file is an array of bytes.
* NumPy arrays without labels, by copies of folder2lmdb that store decoded images. An array is an image [H, W, C] or a
  tensor [C, H, W]; of 4 dimensions, a DataLoader's batch. Nothing says whether the channels are RGB: OpenCV's are BGR.
* Objects with an image's pixels and its label, the class `CIFAR_Image` or `LMDB_Image` of tutorials (realpython.com
  "Three Ways of Storing and Accessing Lots of Images in Python", and its copies): `channels`, `size` (height, width),
  `image` (the bytes of a uint8 array) and `label`, which some leave out. The name of the class and other attributes do
  not matter.
* Caffe's `Datum` messages (BVLC/caffe src/caffe/proto/caffe.proto), the pixels in planes and in OpenCV's order, blue
  first (src/caffe/util/io.cpp, CVMatToDatum). With `--encoded` the file itself is stored.
* TorchRecord's `TensorProtos` messages; field numbers are those of torchrecord/tr.proto, which is Caffe2's. The first
  tensor is the image: its dims are Pillow's size, [width, height], its bytes the pixels in RGB, or, by the project's
  second example (test/test_writer.py), the image's file. The second is the label: its digits as text, or a number.

The functions called `..._value` read a whole value, and raise `ValueError` for a value of another kind.
"""

import contextlib
import itertools
import math
import os
import pickle
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import open_at_once, pread
from recordzoo.base.settings import need
from recordzoo.errors import ArchiveError, CorruptRecordError, SourceError
from recordzoo.formats.base import fault
from recordzoo.formats.tfrecord import parsed
from recordzoo.raw.member import MAX_MEMBER_BYTES
from recordzoo.recipes.pickles import PickledArray, PickledObject, unpickle
from recordzoo.recipes.recipe import sniffed_ending
from recordzoo.records.shard import BIG, DB, NODE, PAGE_HEADER, Meta, leaves, read_meta

DATA_FILE = "data.mdb"

INSTRUCTIONS = 1000
"""How many instructions the pickle of a pair may have."""

_HEAD_BYTES = 2 << 16  # both meta pages, at LMDB's largest page size
_OVERFLOW = 0x04
_SUB_DATABASE, _DUPLICATES = 0x02, 0x04
_MAX_COUNTS = 4
_MAX_DEPTH = 16
_STREAM_ENDS = (b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\0")  # of an Arrow stream; the second before Arrow 0.15
_CHANNELS = (1, 3, 4)
_LISTS = re.compile(rb"[\x90-\x9f\xcc-\xd3\xdc\xdd]")  # the first byte of msgpack's lists and numbers
_NUMBERS = re.compile(rb"[<>|][biuf][1248]")
_CONVERT = (
    "If you trust where it comes from, read it with the program that wrote it, and store that dataset with "
    "recordzoo.convert"
)


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A key and the place of its value in the file."""

    key: bytes
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class PageTree:
    """One database of a file: the unnamed one, whose name is empty, or a named one.

    Attributes:
        name: Its key in the unnamed database.
        root: The number of its first page.
        entries: The number of keys according to its header.
    """

    name: bytes
    root: int
    entries: int


class Database:
    """An LMDB file, opened; as a context manager it is closed at the end.

    Args:
        path: The file.
        status: Its size and modification time in ns at the first opening; None at the first opening.

    Attributes:
        meta: The newer of its meta pages.
        status: Its size and its time of change.

    Raises:
        SourceError: The file cannot be opened, or has changed since the first opening.
        ArchiveError: The file is not an LMDB database.
    """

    def __init__(self, path: Path, status: tuple[int, int] | None = None) -> None:
        self.path = path
        try:
            self._file = open(path, "rb", buffering=0, opener=open_at_once)  # noqa: SIM115 - closed by `__exit__`
        except OSError as err:
            raise fault(path, f" cannot be read ({err.strerror}).") from err
        try:
            found = os.fstat(self._file.fileno())
            self.status = (found.st_size, found.st_mtime_ns)
            if status is not None and self.status != status:
                raise SourceError(
                    f"{path} changed while it was read. Wait until nothing writes to it, then run the same again.",
                    path=str(path),
                    worthless=True,
                )
            try:
                self.meta: Meta = read_meta(self._read(0, min(_HEAD_BYTES, found.st_size)), str(path))
            except CorruptRecordError as err:
                raise ArchiveError(f"{path} is no LMDB database (version 0.9), or its head is damaged.") from err
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def trees(self) -> list[PageTree]:
        """Return the named databases in LMDB's order, or the unnamed one if it has none.

        Raises:
            ArchiveError: The file is cut or damaged.
            SourceError: It holds both named databases and values, or named databases with an order of their own.
        """
        main = PageTree(b"", self.meta.root, self.meta.entries)
        found: list[PageTree] = []
        for flags, entry in self._nodes(main):
            if flags != _SUB_DATABASE:  # with the flag for duplicates, the key has several values
                if found:
                    raise self._foreign(found[0].name, "a named database beside plain values")
                return [main]
            if entry.length != DB.size:
                raise self._damaged(f"the named database {entry.key!r} has an impossible size")
            _, order, _, _, _, _, entries, root = DB.unpack(self._read(entry.offset, DB.size))
            if order:
                raise self._foreign(entry.key, "a named database with an order of its own")
            found.append(PageTree(entry.key, root, entries))
        return found or [main]

    def entries(self, tree: PageTree | None = None) -> Iterator[PageEntry]:
        """Yield every key of a database, in LMDB's order, with the place of its value.

        Args:
            tree: One of `trees`. Default: the unnamed database.

        Raises:
            ArchiveError: The file is cut or damaged: a page is invalid, or points outside the file.
            SourceError: It holds named databases, or several values for a key.
        """
        tree = tree or PageTree(b"", self.meta.root, self.meta.entries)
        before: bytes | None = None
        count = 0
        for flags, entry in self._nodes(tree):
            if flags & (_SUB_DATABASE | _DUPLICATES):
                raise self._foreign(entry.key, "a named database" if flags & _SUB_DATABASE else "several values")
            if before is not None and entry.key <= before:
                raise self._damaged(f"key {entry.key!r} stands behind {before!r}")
            before = entry.key
            count += 1
            yield entry
        if count != tree.entries:
            raise self._damaged(f"its tree has {count:,} keys, its head says {tree.entries:,}")

    def value(self, entry: PageEntry) -> bytes:
        """Read a value.

        Raises:
            ArchiveError: The value has an invalid place, or is larger than any image.
        """
        if entry.length > MAX_MEMBER_BYTES:
            raise self._damaged(f"the value of {entry.key!r} has {entry.length:,} bytes")
        size = self.meta.page_size
        if entry.offset % size != PAGE_HEADER:  # inside its leaf, which was checked
            return self._read(entry.offset, entry.length)
        data = self._read(entry.offset - PAGE_HEADER, PAGE_HEADER + entry.length)
        number, flags = entry.offset // size, int.from_bytes(data[10:12], "little")
        if int.from_bytes(data[:8], "little") != number or not flags & _OVERFLOW:
            raise self._damaged(f"page {number} is not the value of {entry.key!r}")
        return data[PAGE_HEADER:]

    def _nodes(self, tree: PageTree) -> Iterator[tuple[int, PageEntry]]:
        """Yield the flags of each key, and the key."""
        size = self.meta.page_size
        num_pages = self.status[0] // size
        for number, page, nodes in leaves(self._page, tree.root, num_pages, self._damaged):
            for node in nodes:
                low, high, flags, key_length = NODE.unpack_from(page, node)
                start = node + NODE.size + key_length
                key, offset, length = page[node + NODE.size : start], number * size + start, low | high << 16
                if start + (8 if flags & BIG else length) > size:
                    raise self._damaged(f"page {number} has a node outside itself")
                if flags & BIG:
                    offset = int.from_bytes(page[start : start + 8], "little") * size + PAGE_HEADER
                if offset + length > self.status[0] or offset < 2 * size:
                    raise self._damaged(f"the value of {key!r} lies outside the file, which may be cut")
                yield flags, PageEntry(key, offset, length)

    def _page(self, number: int) -> bytes:
        return self._read(number * self.meta.page_size, self.meta.page_size)

    def _read(self, offset: int, length: int) -> bytes:
        parts = []
        try:
            while length > 0 and (part := pread(self._file.fileno(), length, offset)):
                parts.append(part)
                offset, length = offset + len(part), length - len(part)
        except OSError as err:
            raise fault(self.path, f" cannot be read ({err.strerror}).") from err
        if length > 0:
            raise self._damaged("it ends too early")
        return b"".join(parts)

    def _foreign(self, key: bytes, kind: str) -> SourceError:
        return fault(
            self.path,
            f": key {key!r} has {kind}; none of the known tools writes that. Read it with Python's lmdb "
            "and store it with recordzoo.convert.",
        )

    def _damaged(self, problem: str) -> ArchiveError:
        return ArchiveError(f"{self.path} is damaged: {problem}. Copy it again.", path=str(self.path))


@dataclass(frozen=True, slots=True)
class Value:
    """A stored value, read.

    Attributes:
        image: An image's file, untouched; or numbers: uint8 pixels [H, W, C] in RGB, other numbers as they were.
        label: Its class, or a text. None if the tool stores none, or stores it under another key.
    """

    image: bytes | NDArray[Any]  # Any: of any numeric dtype
    label: int | str | None = None

    @property
    def kind(self) -> str:
        """A description of the image, and of the label if it is not a number."""
        label = "" if isinstance(self.label, int) else " without a label" if self.label is None else " with a text"
        if isinstance(self.image, bytes):
            return f"an encoded image{label}"
        if self.image.dtype == np.uint8:
            return f"pixels{label}"
        return f"{self.image.dtype.str} numbers of {self.image.ndim} dimensions{label}"

    def singles(self) -> Iterator[tuple[str, "Value"]]:
        """Yield the images of a batch, numbers of 4 dimensions, each with the end of its name; any other as it is."""
        if isinstance(self.image, bytes) or self.image.ndim < 4:
            yield "", self
            return
        for number, image in enumerate(self.image):
            yield f"/{number}", Value(image, self.label)


def pair_value(value: bytes) -> Value:
    """Read a pair of folder2lmdb."""
    pair = loaded(value)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        what = f"{_type(pair)} of {len(pair)}" if isinstance(pair, tuple | list) else _type(pair)
        raise ValueError(f"it is a {what}, not a pair of an image's file and a label. {_CONVERT}")
    image = _item(pair[0])
    if isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 1:
        image = image.tobytes()  # a file that was read as an array
    if not isinstance(image, bytes):
        raise ValueError(f"its image is a {_type(image)}, not an image's file. {_CONVERT}")
    return Value(image, _label(pair[1]))


def array_value(value: bytes) -> Value:
    """Read an array."""
    found = loaded(value)
    values = found.values if isinstance(found, PickledArray) else found
    if not isinstance(values, np.ndarray):
        raise ValueError(f"it is a {_type(found)}, not a numpy.ndarray")
    return _image(values)


def object_value(value: bytes) -> Value:
    """Read an object with the attributes of an image."""
    made = loaded(value, objects=True)
    if not isinstance(made, PickledObject):
        raise ValueError(f"it is a {_type(made)}, not an object with attributes")
    found = made.attributes
    size, channels = found.get("size"), found.get("channels", 1)
    shape = (*size, channels) if isinstance(size, tuple | list) else ()
    if len(shape) != 3 or not all(type(number) is int and number > 0 for number in shape):
        raise ValueError(f"it has no size and channels, but the attributes {', '.join(found)[:200]}")
    image, label = found.get("image"), found.get("label")
    if not isinstance(image, bytes) or len(image) != math.prod(shape):
        what = f"{len(image):,} bytes" if isinstance(image, bytes) else _type(image)
        raise ValueError(f"the image of its {made.name[:80]} is {what}, not the pixels of size {list(shape)}")
    return _image(np.frombuffer(image, np.uint8).reshape(shape), None if label is None else _label(label))


def caffe_value(value: bytes) -> Value:
    """Read a `Datum` of Caffe; a missing label is 0, as in the message's definition."""
    datum = parsed("Datum", value)
    data, floats, label = datum.data, np.array(datum.floats, np.float32), _label(datum.label)
    shape = (datum.channels, datum.height, datum.width)
    if datum.encoded:
        if not data:
            raise ValueError("it is a Datum of an encoded image and has no data")
        return Value(data, label)
    if min(shape) < 1 or math.prod(shape) != max(len(data), len(floats)) or (data and len(floats)):
        raise ValueError(
            f"it is no Datum: {len(data):,} bytes and {len(floats):,} floats for channels, height, width {list(shape)}"
        )
    if len(floats):
        return Value(floats.reshape(shape), label)
    pixels = np.frombuffer(data, np.uint8).reshape(shape).transpose(1, 2, 0)
    return Value(pixels[..., ::-1] if shape[0] == 3 else pixels, label)


def torchrecord_value(value: bytes) -> Value:
    """Read a pair of tensors of TorchRecord; pixels must be RGB."""
    tensors = parsed("TensorProtos", value).protos
    if len(tensors) != 2:
        raise ValueError(f"it is no TensorProtos of two tensors, but has {len(tensors)}")
    dims, data = list(tensors[0].dims), b"".join(tensors[0].data[-1:])
    label = _torchrecord_label(tensors[1])
    if not data:
        raise ValueError("its first tensor has no bytes")
    if len(dims) == 2 and min(dims) > 0 and dims[0] * dims[1] * 3 == len(data):
        return Value(np.frombuffer(data, np.uint8).reshape(dims[1], dims[0], 3), label)
    if sniffed_ending(data):
        return Value(data, label)
    raise ValueError(
        f"its first tensor is neither an image's file nor RGB: {len(data):,} bytes for width and height {dims[:8]}"
    )


def _torchrecord_label(tensor: Any) -> int:  # Any: messages have no types
    numbers = [*tensor.int32s, *tensor.int64s]
    if len(numbers) == 1:
        return _label(numbers[0])
    texts = [*tensor.data[-1:], *tensor.texts]
    if numbers or len(texts) != 1:
        raise ValueError("its second tensor is not one label")
    digits = texts[0].strip()
    if len(digits) > 20 or not digits.removeprefix(b"-").isdigit():
        raise ValueError(f"its label is {digits[:20]!r}, not a whole number")
    return _label(int(digits))


def image_value(value: bytes) -> Value:
    """Take an image's file, which may be pickled or stored with pyarrow."""
    image: object = value
    if not sniffed_ending(value):
        with contextlib.suppress(ValueError):
            image = loaded(value)
    if not isinstance(image, bytes) or not sniffed_ending(image):
        raise ValueError(f"it is no image's file, but begins with {value[:8].hex(' ')}")
    return Value(image)


# Any, here and below: whatever was stored.
def loaded(value: bytes, most: int = INSTRUCTIONS, *, objects: bool = False) -> Any:
    """Unpack a value; its first bytes show how it was packed.

    Args:
        value: A pickle, or what msgpack or pyarrow wrote.
        most: How many instructions a pickle may have.
        objects: Whether a pickle may hold objects, see `unpickle`.

    Raises:
        ValueError: It was packed in an unknown way, or holds something else.
    """
    tool = "pyarrow" if value[:4] == b"\0\0\0\0" else "msgpack"
    try:
        if tool == "pyarrow":
            need("pyarrow", "What pyarrow.serialize wrote is read")
            return deserialize(value)
        # Pickles begin with protocol 2's mark, or with a letter or sign; msgpack's pairs, lists and lengths otherwise.
        if len(value) > 1 and value[0] <= 0x80:
            return unpickle(value, objects=objects, most=most)
        return _unpacked(value)
    except pickle.UnpicklingError as err:
        raise ValueError(f"{err}. {_CONVERT}") from err
    except ValueError as err:
        raise ValueError(f"as {tool} has it, {err}") from err


def _unpacked(value: bytes) -> Any:
    """Unpack a list or an integer with msgpack. The old format has one type for text and bytes."""
    if len(value) > 1 and not _LISTS.match(value):
        raise ValueError(f"it begins with {value[:8].hex(' ')}")
    need("msgpack", "What msgpack wrote is read")
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


def _image(values: NDArray[Any], label: int | None = None) -> Value:
    """Turn an array [H, W], [H, W, C] or [C, H, W], or a batch of them, into a value; uint8 becomes [H, W, C]."""
    if not 2 <= values.ndim <= 4 or not values.size:
        raise ValueError(f"its image is a numpy.ndarray of shape {list(values.shape)[:8]}, which is none of an image")
    if values.dtype == np.uint8:
        if values.ndim == 2:
            values = values[..., None]
        elif values.shape[-1] not in _CHANNELS and values.shape[-3] in _CHANNELS:
            values = np.moveaxis(values, -3, -1)
    return Value(values, label)


def _label(value: Any) -> int:
    """Return a label of 64 bits: an integer of Python or NumPy, or a list or an array of one."""
    found = _item(value)
    if isinstance(found, np.ndarray):
        if found.size != 1 or found.dtype.kind not in "iu":
            raise ValueError("its label is a numpy.ndarray, not a whole number")
        found = int(found.item())
    if type(found) is not int:
        raise ValueError(
            f"its label is a {_type(found)}, not a whole number. recordzoo.convert stores labels of all kinds, given a "
            "dataset that reads them"
        )
    if not -(1 << 63) <= found < 1 << 63:
        raise ValueError("its label is larger than 64 bits")
    return found


def _type(value: object) -> str:
    """Name the type of an unpacked value; for arrays, NumPy's name."""
    is_array = isinstance(value, np.ndarray | PickledArray)
    return "numpy.ndarray" if is_array else type(value).__name__


def deserialize(data: bytes) -> Any:
    """Read what `pyarrow.serialize` wrote: bytes, text, whole numbers, lists, tuples (as lists), None; or one array.

    Counts of 4 bytes each, 1 if there is an array, precede a stream with one value: a dense union, whose lists are
    lists of the same union. Until version 0.12, lists were structs of one list. An array follows the stream. Tested
    with the output of all versions from 0.8 to 11.0.

    Raises:
        ValueError: The data is something else, or damaged.
    """
    import pyarrow

    words = struct.unpack(f"<{_MAX_COUNTS}I", data[: 4 * _MAX_COUNTS].ljust(4 * _MAX_COUNTS, b"\xff"))
    start = 4 * next((place for place, word in enumerate(words) if word > 1), _MAX_COUNTS)
    try:
        stream = pyarrow.BufferReader(data[start:])
        with pyarrow.ipc.open_stream(stream) as reader:
            batch = reader.read_next_batch()
        if 1 in words[: start // 4]:
            rest = data[start + stream.tell() :]
            while rest.startswith(_STREAM_ENDS):
                rest = rest[4:]
            values = pyarrow.ipc.read_tensor(pyarrow.BufferReader(rest)).to_numpy()
            if values.dtype.kind not in "iuf" or not values.size:
                raise ValueError(f"its array has {values.dtype} numbers of shape {list(values.shape)[:8]}")
            return values
        batch.validate(full=True)
        if batch.num_columns != 1 or batch.num_rows != 1 or batch.nbytes > 2 * len(data):
            raise ValueError(f"it has {batch.num_columns} columns of {batch.num_rows} values")
        return _python_values(batch.column(0), _MAX_DEPTH, len(data))[0]
    except (pyarrow.ArrowException, OSError, IndexError, TypeError, StopIteration, MemoryError, OverflowError) as err:
        raise ValueError(f"it is cut or damaged ({' '.join(str(err).split())[:200]})") from err


def _python_values(array: Any, depth: int, most: int) -> list[Any]:
    """Return the values of a column; the code of a union's value says which member it is, by place."""
    import pyarrow

    types, kind = pyarrow.types, array.type
    if not depth or len(array) > most:
        raise ValueError("it is nested too deep, or too long")
    if types.is_union(kind):
        columns = [_python_values(array.field(place), depth - 1, most) for place in range(kind.num_fields)]
        places = zip(array.type_codes.to_pylist(), array.offsets.to_pylist(), strict=True)
        return [columns[code][place] for code, place in places]
    if types.is_struct(kind) and [kind.field(place).name for place in range(kind.num_fields)] in (["list"], ["tuple"]):
        return _python_values(array.field(0), depth - 1, most)
    if types.is_list(kind):
        inner, ends = _python_values(array.values, depth - 1, most), array.offsets.to_pylist()
        return [inner[first:stop] for first, stop in itertools.pairwise(ends)]
    if not (types.is_int64(kind) or types.is_binary(kind) or types.is_string(kind) or types.is_null(kind)):
        raise ValueError(f"it holds a {kind}")
    found: list[Any] = array.to_pylist()
    return found
