"""The layouts of LMDB databases of earlier tools: how each stores an image and its label, and in which order.

* Caffe's `convert_imageset`: keys `%08d_<file>`, values `Datum` messages (BVLC/caffe src/caffe/proto/caffe.proto), the
  pixels in planes and in OpenCV's order, blue first (src/caffe/util/io.cpp, CVMatToDatum). With `--encoded` the file
  itself is stored.
* TorchRecord's `db0`, `db1`, ...: keys are numbers, values `TensorProtos` messages. GeoffreyChen777/TorchRecord
  torchrecord/writer.py has three generations. The released one (0.1.0 and 0.1.1) writes one LMDB file with a named
  database for each part and pads the keys with zeros. Before it, the keys were not padded, and at first each part was a
  directory. Field numbers are those of torchrecord/tr.proto, which is Caffe2's. The first tensor is the image: its dims
  are Pillow's size, [width, height], its bytes the pixels in RGB, or, by the project's second example
  (test/test_writer.py), the image's file. The second is the label: its digits as text, or a number.
* Text recognition, bgshih/crnn tool/create_dataset.py and its copies, such as clovaai/deep-text-recognition-benchmark
  create_lmdb_dataset.py: `image-000000001`, `label-000000001`, ..., `num-samples`. The label is a text. Other keys
  (`lexicon-000000001`) are not read.
* Images' files under their names, without labels: LSUN, and BasicSR's `make_lmdb_from_imgs` (XPixelGroup/BasicSR
  basicsr/utils/lmdb_util.py), which writes `meta_info.txt` into the directory: lines such as `0001.png (480,480,3) 1`,
  whose key is `0001`, in the order in which BasicSR counts the images. Copies of folder2lmdb that leave out the label
  (Fangyh09/Image2LMDB) pickle the file, or store it with pyarrow.
* Pairs, arrays and objects that are pickled, or stored with msgpack or pyarrow: `folder2lmdb`.
"""

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recordzoo.base.packages import is_installed, need
from recordzoo.errors import SourceError
from recordzoo.formats import folder2lmdb
from recordzoo.formats.base import fault
from recordzoo.formats.lmdb_pages import DATA_FILE, Database, PageEntry
from recordzoo.formats.lmdb_values import ForeignValueError, Layout, Order, Read, Value, as_label, numbered
from recordzoo.formats.protobuf import parsed
from recordzoo.recipes.images import sniffed_ending

COUNT = b"num-samples"
"""The key by which databases of text recognition are known."""

_LIST_NAME = "meta_info.txt"
_SHOWN_BYTES = 32
_NEEDS_PROTOBUF = ("caffe", "torchrecord")
_PROTOBUF = ("google.protobuf", "lmdb", "A database of Caffe or TorchRecord is read")


def caffe_value(value: bytes) -> Value:
    """Read a `Datum` of Caffe; a missing label is 0, as in the message's definition.

    Raises:
        ForeignValueError: It is none.
    """
    datum = _parsed("Datum", value)
    data, floats, label = datum.data, np.array(datum.floats, np.float32), as_label(datum.label)
    shape = (datum.channels, datum.height, datum.width)
    if datum.encoded:
        if not data:
            raise ForeignValueError("it is a Datum of an encoded image and has no data")
        return Value(data, label)
    if min(shape) < 1 or math.prod(shape) != max(len(data), len(floats)) or (data and len(floats)):
        raise ForeignValueError(
            f"it is no Datum: {len(data):,} bytes and {len(floats):,} floats for channels, height, width {list(shape)}"
        )
    if len(floats):
        return Value(floats.reshape(shape), label)
    pixels = np.frombuffer(data, np.uint8).reshape(shape).transpose(1, 2, 0)
    if shape[0] == 3:
        pixels = pixels[..., ::-1]
    return Value(pixels, label)


def _in_place(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Keep the order of the keys, which is that of `convert_imageset`'s list."""
    return range(len(keys)), ()


def torchrecord_value(value: bytes) -> Value:
    """Read a pair of tensors.

    Raises:
        ForeignValueError: It is not a pair of tensors, or its pixels are not RGB.
    """
    tensors = _parsed("TensorProtos", value).protos
    if len(tensors) != 2:
        raise ForeignValueError(f"it is no TensorProtos of two tensors, but has {len(tensors)}")
    dims, data = list(tensors[0].dims), b"".join(tensors[0].data[-1:])
    label = _torchrecord_label(tensors[1])
    if not data:
        raise ForeignValueError("its first tensor has no bytes")
    if len(dims) == 2 and min(dims) > 0 and dims[0] * dims[1] * 3 == len(data):
        return Value(np.frombuffer(data, np.uint8).reshape(dims[1], dims[0], 3), label)
    if sniffed_ending(data):
        return Value(data, label)
    raise ForeignValueError(
        f"its first tensor is neither an image's file nor RGB: {len(data):,} bytes for width and height {dims[:8]}"
    )


# Any: messages have no types.
def _parsed(name: str, value: bytes) -> Any:
    need(*_PROTOBUF)
    try:
        return parsed(name, value)
    except ValueError as err:
        raise ForeignValueError(f"it is no {name}: {err}") from err


def _torchrecord_label(tensor: Any) -> int:
    numbers = [*tensor.int32s, *tensor.int64s]
    if len(numbers) == 1:
        return as_label(numbers[0])
    texts = [*tensor.data[-1:], *tensor.texts]
    if numbers or len(texts) != 1:
        raise ForeignValueError("its second tensor is not one label")
    digits = texts[0].strip()
    if len(digits) > 20 or not digits.removeprefix(b"-").isdigit():
        raise ForeignValueError(f"its label is {digits[:20]!r}, not a whole number")
    return as_label(int(digits))


def _by_number(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Sort the keys as numbers, which gives the order of the writer's list.

    Raises:
        ForeignValueError: A key is not a number.
    """
    found = numbered(keys)
    if found is None:
        raise ForeignValueError('its keys are not "0", "1", "2", ...')
    return found, ()


def _text_value(value: bytes) -> Value:
    """Return an image's file; its text has a key of its own."""
    return Value(value)


def _by_count(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Return the keys of images and labels from 1 to `num-samples`.

    Raises:
        ForeignValueError: An image or a label is missing, or there are more.
    """
    places = {key: place for place, key in enumerate(keys)}
    stored = read(places[COUNT]) if COUNT in places else b"not there"
    if not stored.isdigit() or len(stored) > 20:
        raise ForeignValueError(f"its key num-samples is {stored[:20].decode('latin-1')}")
    number_of_images = sum(key.startswith(b"image-") for key in keys)
    if int(stored) != number_of_images:
        raise ForeignValueError(f"num-samples is {int(stored)}, but there are {number_of_images:,} keys image-...")
    wanted = [[b"%s-%09d" % (kind, number + 1) for number in range(int(stored))] for kind in (b"image", b"label")]
    for key in (*wanted[0], *wanted[1]):
        if key not in places:
            raise ForeignValueError(f"key {key!r} is not there")
    images, labels = ([places[key] for key in each] for each in wanted)
    return images, labels


def _image_value(value: bytes) -> Value:
    """Take an image's file.

    Raises:
        ForeignValueError: Its first bytes are not those of an image.
    """
    image: object = value
    if not sniffed_ending(value):
        with contextlib.suppress(ForeignValueError):
            image = folder2lmdb.loaded(value)
    if not isinstance(image, bytes) or not sniffed_ending(image):
        raise ForeignValueError(f"it is no image's file, but begins with {value[:8].hex(' ')}")
    return Value(image)


def _by_list(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Return the keys in the order of `meta_info.txt`; without it, of `__keys__` or of the database.

    Raises:
        ForeignValueError: `meta_info.txt` does not fit the keys of the database.
    """
    listing = file.with_name(_LIST_NAME)
    if file.name != DATA_FILE or not listing.is_file():
        return folder2lmdb.order(keys, read, file)
    places = {key: place for place, key in enumerate(keys)}
    with listing.open("rb") as lines:
        names = [line.strip().rsplit(b" ", 2)[0] for line in lines if line.strip()]
    wanted = [name.rpartition(b".")[0] or name for name in names]
    return folder2lmdb.in_order(wanted, places, _LIST_NAME), ()


TORCHRECORD = Layout(
    "torchrecord", "TensorProtos of TorchRecord (an image's size and pixels, a label)", torchrecord_value, _by_number
)
CAFFE = Layout("caffe", "a Datum of Caffe (channels, height, width, data, label)", caffe_value, _in_place)
STORED = Layout("", "any bytes", Value, _in_place)
"""Values that are images and nothing else, in LMDB's order; never detected, only requested."""

TEXTS = Layout(
    "lmdb_text", "an image's file under image-000000001, and its text under label-000000001", _text_value, _by_count
)
IMAGES = Layout("lmdb_images", "an image's file", _image_value, _by_list)

KNOWN = {
    each.name: each
    for each in (folder2lmdb.PAIRS, TORCHRECORD, CAFFE, folder2lmdb.ARRAYS, folder2lmdb.OBJECTS, TEXTS, IMAGES)
}
"""All layouts by name, in the order in which they are tried."""


def ordered(
    database: Database, entries: Sequence[PageEntry], layout: Layout
) -> tuple[tuple[PageEntry, ...], tuple[PageEntry, ...]]:
    """Return a database's records in their order, without other keys; also the keys of their labels.

    Raises:
        SourceError: The database does not have this layout.
    """

    def read(place: int) -> bytes:
        return database.value(entries[place])

    try:
        places, labels = layout.order([entry.key for entry in entries], read, database.path)
    except ForeignValueError as err:
        raise fault(database.path, f" is no database of {layout.name}: {err}.") from err
    return tuple(entries[place] for place in places), tuple(entries[place] for place in labels)


def recognised(database: Database, entries: Sequence[PageEntry]) -> Layout:
    """Find the layout by the keys, or by the first value.

    Raises:
        SourceError: The database has no known layout.
    """
    keys = {entry.key for entry in entries}
    if COUNT in keys:
        return TEXTS
    has_list = not keys.isdisjoint(folder2lmdb.OWN_KEYS)
    first = next((entry for entry in entries if entry.key not in folder2lmdb.OWN_KEYS), entries[0])
    value = database.value(first)
    reasons: dict[str, str] = {}
    no_protobuf = not is_installed(_PROTOBUF[0])
    for name, layout in KNOWN.items():
        try:
            if layout is not TEXTS and not (name in _NEEDS_PROTOBUF and no_protobuf):
                layout.parse(value)
                return layout
        except ForeignValueError as err:
            reasons[name] = f"{layout.expected}: {err}"
    if has_list:
        return folder2lmdb.PAIRS
    if no_protobuf:  # another layout may fit
        need(*_PROTOBUF)
    raise SourceError(
        f"{database.path} is of no known LMDB layout ({', '.join(KNOWN)}). Read it with the program that wrote it, "
        "and store that dataset with recordzoo.convert.",
        path=str(database.path),
        sample={"key": str(first.key[:100])[2:-1], "begins": value[:_SHOWN_BYTES].hex(" "), "size_bytes": len(value)},
        reasons=reasons,
    )
