"""TFRecord: files of framed `tf.train.Example` messages, as TensorFlow, TFDS and many scripts write them.

`parsed` reads such messages, and those of Caffe and TorchRecord, with protobuf.

A record is its length (8 bytes), the masked CRC-32C of these, the bytes, and their masked CRC-32C (TensorFlow's
tsl/lib/io/record_writer.h). A file may be compressed as a whole, with gzip.
"""

import base64
import contextlib
import dataclasses
import functools
import gzip
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.settings import is_installed, need
from recordzoo.errors import SourceError
from recordzoo.formats.base import (
    IMAGES,
    LABELS,
    Foreign,
    Piece,
    Sample,
    fault,
    first_bytes,
    first_of,
    image_ending,
    refuse_missing,
    split_names,
)
from recordzoo.raw.member import MAX_MEMBER_BYTES, unpacked_cap
from recordzoo.recipes.recipe import sniffed_ending

PROTOBUF = ("google.protobuf", "TFRecord, or a database of Caffe or TorchRecord, is read")
"""The arguments of `need`: the package, and what needs it."""

LOOKS_FOR = "files *.tfrecord, *.tfrecords, *.record, *.tfrec or *-00000-of-00001"

# Lists with a value for each object: object_detection/data_decoders/tf_example_decoder.py
_OBJECTS = re.compile(r"image/object/(\w+/\w+|\w*(difficult|truncated|area|crowd|group_of|view|weight))")
_MAYBE = re.compile(r".*[-.]\d{5}-of-\d{5}(\..*)?|.*\.(record|tfrec)(\.gz)?")
_FILE = re.compile(r".*\.tfrecords?(-\d{5}-of-\d{5})?(\.gz)?")
_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_GZIP, _ZLIB = b"\x1f\x8b", b"\x78"


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `recordzoo.formats`."""
    path = Path(location)
    there = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    files = [each for each in there if _FILE.fullmatch(each.name) and each.is_file()]
    if not files:
        others = [each for each in there if _MAYBE.fullmatch(each.name) and each.is_file()]
        files = others if any(map(_begins_like_one, others)) else []  # one may be damaged
    return TFRecords(location, fields, files) if files else None


def _begins_like_one(path: Path) -> bool:
    """Whether the checksum of the first length is right, or the file is compressed. Without the package: True."""
    if not is_installed("google_crc32c"):
        return True
    head = first_bytes(path, _HEADER.size)
    return head.startswith(_GZIP) or _is_header(head)


# Any, here and below: numbers of any dtype; values of all kinds.
class Steps(list[list[bytes] | NDArray[Any]]):
    """The values of each step of a sequence."""


Values = list[bytes] | NDArray[Any] | Steps
"""The values of a key."""


Example = dict[str, Values]


class TFRecords(Foreign):
    """The examples of some files; each file is a piece, and the text before its number is its split."""

    format = "tfrecord"

    def __init__(self, location: str, fields: Mapping[str, str], files: list[Path]) -> None:
        super().__init__(location, fields)
        need("google_crc32c", "TFRecord is read")
        need(*PROTOBUF)
        refuse_missing([path.name for path in files], location)
        splits = split_names([re.sub(r"\.tfrecords?(?=$|-|\.)|\.gz$", "", path.name) for path in files], is_any=True)
        self.pieces = [
            Piece(path.name, path.stat().st_size, (path,), split=split)
            for path, split in zip(files, splits, strict=True)
        ]
        examples = [example for _, (_, example) in first_of(self.pieces, _examples)]
        keys = sorted({key for example in examples for key in example})
        self.check_fields(keys)
        self._features = {
            key: feature_of(key, [each[key] for each in examples if len(each.get(key, ()))]) for key in keys
        }
        images = {key for key in keys if key.startswith("image") or self._features[key].is_image}
        image = self.usual_key("image", images, IMAGES)
        label = self.usual_key("target", keys, LABELS)
        usual = {key: field for key, field in ((image, "image"), (label, "target")) if key is not None}
        self._keys = self.name_fields(keys, usual)
        for key, name in self._keys.items():
            if name == "image":
                self._features[key] = dataclasses.replace(self._features[key], is_text=False)

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        for number, (where, example) in enumerate(_examples(piece)):
            if other := example.keys() - self._keys.keys():
                raise SourceError(
                    f"{where}: it has {', '.join(sorted(other))}, which the first examples have not.",
                    path=str(piece.files[0]),
                )
            sample = {field: self._value(key, example, where) for key, field in self._keys.items()}
            yield Sample.of(sample, f"{piece.name}/{number:06d}{image_ending(sample)}")

    # Any: numbers, bytes, arrays, lists or None.
    def _value(self, key: str, example: Example, where: str) -> Any:
        try:
            return self._features[key].value(example[key]) if key in example else None
        except UnicodeDecodeError as err:
            raise SourceError(f"{where}: {key} is text in the first examples, and not here ({err}).") from err


@dataclass(frozen=True, slots=True)
class Feature:
    """The type of a key's values in the first examples.

    Attributes:
        is_list: There may be several values.
        is_text: All are text in UTF-8 and no images.
        is_image: The first is an image.
    """

    is_list: bool
    is_text: bool
    is_image: bool

    def value(self, values: Values) -> Any:
        """Return a value of a sample: one, or several as an array or a list; None if there are none.

        Raises:
            UnicodeDecodeError: It is not text, although the first examples are.
        """
        if not len(values):
            return None
        if isinstance(values, Steps):
            return _stacked([self._several(step) for step in values])
        if len(values) > 1 or self.is_list:
            return self._several(values)
        if isinstance(values, np.ndarray):
            return values[0].item()
        return values[0].decode() if self.is_text and not self.is_image else values[0]

    def _several(self, values: Values) -> Any:
        """Return a list of values for storage: numbers as an array, text, other bytes in base64."""
        if isinstance(values, np.ndarray):
            return values
        found = cast(list[bytes], values)
        return [value.decode() if self.is_text else base64.b64encode(value).decode() for value in found]


def feature_of(key: str, values: Sequence[Values]) -> Feature:
    """Determine the type of a key's values from the first examples that have some."""
    steps = [step for each in values for step in (each if isinstance(each, Steps) else (each,))]
    is_list = _OBJECTS.fullmatch(key) is not None or max(map(len, values), default=1) > 1
    texts = [value for step in steps if not isinstance(step, np.ndarray) for value in step]
    is_image = bool(texts) and sniffed_ending(texts[0]) != ""
    return Feature(is_list, bool(texts) and all(map(_is_text, texts)), is_image)


def _is_text(value: bytes) -> bool:
    if sniffed_ending(value):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _stacked(steps: list[Any]) -> Any:
    """Return the steps of a sequence: as an array [T] or [T, n] if all have n numbers; otherwise as lists."""
    if all(isinstance(step, np.ndarray) for step in steps) and len({len(step) for step in steps}) == 1:
        whole = np.stack(steps)
        return whole[:, 0] if whole.shape[1] == 1 else whole
    lists = [step.tolist() if isinstance(step, np.ndarray) else step for step in steps]
    return [step[0] for step in lists] if all(len(step) == 1 for step in lists) else lists


def _examples(piece: Piece) -> Iterator[tuple[str, Example]]:
    """Yield each example's location (for messages) and its values."""
    (path,) = piece.files
    with _opened(path) as file:
        for where, data in _records(file, path):
            yield where, read_example(data, where)


def read_example(data: bytes, where: str) -> Example:
    """Read an `Example` or a `SequenceExample`."""
    found: Example = {}
    try:
        message = parsed("Example", data)
        for entry in message.features.feature:
            found[entry.key.decode()] = _feature(entry.value)
        for entry in message.sequences.feature_list:
            found[entry.key.decode()] = Steps(map(_feature, entry.value.feature))
    except ValueError as err:
        raise SourceError(f"{where}: {err}.") from err
    if not found:
        raise SourceError(f"{where}: it is no tf.train.Example with features.")
    return found


def _feature(feature: Any) -> list[bytes] | NDArray[Any]:
    if feature.HasField("floats"):
        return np.array(feature.floats.value, np.float32)
    return np.array(feature.integers.value, np.int64) if feature.HasField("integers") else list(feature.texts.value)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file; a compressed one is decompressed while it is read."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        file.seek(0)
        if _is_header(head) or not head.startswith((_GZIP, _ZLIB)):
            yield file
        elif head.startswith(_ZLIB):
            raise fault(path, " is compressed with zlib, which is not read. Write it again with gzip.")
        else:
            try:
                with gzip.open(file) as unpacked:
                    yield cast(BinaryIO, unpacked)
            except (EOFError, zlib.error, gzip.BadGzipFile) as err:
                raise fault(path, f": the compressed file is cut or damaged ({err}).") from err


def _records(file: BinaryIO, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each record's location (for messages) and its bytes."""
    offset, cap_bytes = 0, unpacked_cap(path.stat().st_size)
    while head := file.read(_HEADER.size):
        if len(head) < _HEADER.size:
            raise fault(path, f", byte {offset:,}: the file is cut.")
        if not _is_header(head):
            raise fault(path, f", byte {offset:,}: the checksum of a length is wrong; the file is damaged.")
        length, _ = _HEADER.unpack(head)
        if offset + length > cap_bytes:
            raise fault(path, f" unpacks to more than {cap_bytes:,} bytes, far more than data does.")
        if length > MAX_MEMBER_BYTES:
            raise fault(
                path, f", byte {offset:,}: the record has {length:,} bytes; {MAX_MEMBER_BYTES:,} are the limit."
            )
        body = file.read(length + _CRC.size)
        if len(body) < length + _CRC.size:
            raise fault(path, f", byte {offset:,}: the file is cut.")
        data = body[:length]
        if _masked_crc(data) != _CRC.unpack(body[length:])[0]:
            raise fault(path, f", byte {offset:,}: the checksum of a record is wrong; the file is damaged.")
        yield f"{path}, byte {offset:,}", data
        offset += _HEADER.size + len(body)


def _is_header(head: bytes) -> bool:
    return len(head) == _HEADER.size and _HEADER.unpack(head)[1] == _masked_crc(head[:8])


def _masked_crc(data: bytes) -> int:
    import google_crc32c

    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# The fields of each message: number, name, type; * is a list. tensorflow/core/example/{example,feature}.proto
# (an `Example` is a `SequenceExample` without sequences), BVLC/caffe src/caffe/proto/caffe.proto, torchrecord/tr.proto.
_MESSAGES = {
    "BytesList": "1 value bytes*",
    "FloatList": "1 value float*",
    "Int64List": "1 value int64*",
    "Feature": "1 texts BytesList, 2 floats FloatList, 3 integers Int64List",
    "FeatureEntry": "1 key bytes, 2 value Feature",
    "Features": "1 feature FeatureEntry*",
    "FeatureList": "1 feature Feature*",
    "ListEntry": "1 key bytes, 2 value FeatureList",
    "FeatureLists": "1 feature_list ListEntry*",
    "Example": "1 features Features, 2 sequences FeatureLists",
    "Datum": "1 channels int64, 2 height int64, 3 width int64, 4 data bytes, 5 label int64, 6 floats float*, "
    "7 encoded bool",
    "Tensor": "1 dims int64*, 4 int32s int64*, 5 data bytes*, 6 texts bytes*, 10 int64s int64*",
    "TensorProtos": "1 protos Tensor*",
}


# Any, here and below: a message's class, which is made while the program runs.
@functools.cache
def _classes() -> dict[str, Any]:
    need(*PROTOBUF)
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="recordzoo.proto", package="recordzoo", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            number, field, kind = text.split()
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            made = message.field.add(name=field, number=int(number), label=label)
            if kind in _MESSAGES:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".recordzoo.{kind}"
            else:
                made.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"recordzoo.{name}")) for name in _MESSAGES
    }


def parsed(name: str, data: bytes) -> Any:
    """Read a message.

    Args:
        name: "Example", "Datum" or "TensorProtos".
        data: The whole message.

    Raises:
        ValueError: It is not such a message.
    """
    message = _classes()[name]
    from google.protobuf.message import DecodeError

    try:
        return message.FromString(data)
    except DecodeError as err:
        raise ValueError(f"it is no {name}: {err}") from err
