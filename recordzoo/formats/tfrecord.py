"""TFRecord: files of framed `tf.train.Example` messages, as TensorFlow, TFDS and many scripts write them.

A record is its length (8 bytes), the masked CRC-32C of these, the bytes, and their masked CRC-32C (TensorFlow's
tsl/lib/io/record_writer.h). An `Example` maps keys to lists of bytes, floats or integers
(tensorflow/core/example/{example,feature}.proto).
"""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.base import Foreign, Piece, Sample, first_of
from recordzoo.formats.naming import IMAGES, LABELS, holds_images, image_ending, usual_key
from recordzoo.formats.protobuf import Message, WireError, chunk, packed
from recordzoo.formats.samples import Content, Field
from recordzoo.formats.samples import Sample as Record
from recordzoo.formats.sets import refuse_missing, split_names
from recordzoo.formats.writing import Shard, Tick, Writer, Written, json_line, sync
from recordzoo.packages import is_installed, need
from recordzoo.recipes.images import sniffed_ending
from recordzoo.sources.member import MAX_MEMBER_BYTES

LOOKS_FOR = "files *.tfrecord, *.tfrecords or *-00000-of-00001"

_SHARD = re.compile(r"(?P<prefix>.*?)[-.](?P<number>\d{5})-of-(?P<total>\d{5})(?P<ending>\..*)?")
_FILE = re.compile(r".*\.tfrecords?(-\d{5}-of-\d{5})?")
_LENGTH = struct.Struct("<Q")
_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_FEATURES, _FEATURE, _KEY, _VALUE = 1, 1, 1, 2
_BYTES, _FLOATS, _INTEGERS, _LIST = 1, 2, 3, 1
_FORMATS = {".jpg": b"JPEG", ".tiff": b"TIFF"}


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `Format`."""
    path = Path(location)
    there = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    files = [each for each in there if _FILE.fullmatch(each.name) and each.is_file()]
    if not files:
        numbered = [each for each in there if _SHARD.fullmatch(each.name) and each.is_file()]
        files = numbered if any(map(_begins_with_a_record, numbered)) else []  # one may be damaged
    return TFRecords(location, fields, files) if files else None


class TFRecords(Foreign):
    """The examples of some files; each file is a piece, its split is what stands before its number."""

    format = "tfrecord"

    def __init__(self, location: str, fields: Mapping[str, str], files: list[Path]) -> None:
        super().__init__(location, fields)
        need("google_crc32c", "tfrecord", "TFRecord is read")
        refuse_missing([path.name for path in files], location)
        splits = split_names([re.sub(r"\.tfrecords?(?=$|-)", "", path.name) for path in files], is_any=True)
        self.pieces = [
            Piece(path.name, path.stat().st_size, (path,), split=split)
            for path, split in zip(files, splits, strict=True)
        ]
        examples = [example for _, example in first_of(self.pieces, _examples)]
        keys = sorted({key for example in examples for key in example})
        values = {key: [example.get(key) for example in examples] for key in keys}
        self.check_fields(keys)
        images = {key for key in keys if key.startswith("image") or holds_images(values[key])}
        image = usual_key(fields, "image", images, IMAGES)
        label = usual_key(fields, "target", keys, LABELS)
        usual = {key: field for key, field in ((image, "image"), (label, "target")) if key is not None}
        self._keys = self.name_fields(keys, usual)
        self._texts = {key for key in keys if self._keys[key] != "image" and _are_texts(values[key])}

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        for number, (where, example) in enumerate(_examples(piece)):
            if other := example.keys() - self._keys.keys():
                raise SourceError(
                    f"{where}: it has {', '.join(sorted(other))}, which the first examples have not.",
                    path=str(piece.files[0]),
                )
            sample = {field: self._value(key, example, where) for key, field in self._keys.items()}
            yield {"name": f"{piece.name}/{number:06d}{image_ending(sample)}", **sample}

    # Any, here and below: numbers, bytes, arrays or None.
    def _value(self, key: str, example: Mapping[str, Any], where: str) -> Any:
        value = example.get(key)
        if key not in self._texts or value is None:
            return value
        try:
            return value.decode()
        except (AttributeError, UnicodeDecodeError) as err:
            raise SourceError(f"{where}: {key} is text in the first examples, and not here ({err}).") from err


def _begins_with_a_record(path: Path) -> bool:
    """Whether the checksum of the first length is right; without the package, any file may be one."""
    if not is_installed("google_crc32c"):
        return True
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
    return len(head) == _HEADER.size and _HEADER.unpack(head)[1] == _masked_crc(head[:8])


def _records(file: BinaryIO, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield where each record is, for messages, and its bytes."""
    offset = 0
    while head := file.read(_HEADER.size):
        where = f"{path}, byte {offset:,}"
        if len(head) < _HEADER.size:
            raise SourceError(f"{where}: the file is cut.", path=str(path))
        length, crc = _HEADER.unpack(head)
        if _masked_crc(head[:8]) != crc:
            raise SourceError(f"{where}: the checksum of a length is wrong; the file is damaged.", path=str(path))
        if length > MAX_MEMBER_BYTES:
            raise SourceError(f"{where}: the record has {length:,} bytes; {MAX_MEMBER_BYTES:,} are the limit.")
        body = file.read(length + _CRC.size)
        if len(body) < length + _CRC.size:
            raise SourceError(f"{where}: the file is cut.", path=str(path))
        data = body[:length]
        if _masked_crc(data) != _CRC.unpack(body[length:])[0]:
            raise SourceError(f"{where}: the checksum of a record is wrong; the file is damaged.", path=str(path))
        yield where, data
        offset += _HEADER.size + len(body)


def _masked_crc(data: bytes) -> int:
    import google_crc32c

    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _examples(piece: Piece) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield where each example of a file is, for messages, and its values."""
    (path,) = piece.files
    with path.open("rb") as file:
        for where, data in _records(file, path):
            yield where, _example(data, where)


def _example(data: bytes, where: str) -> dict[str, Any]:
    """Read an `Example`: one value is itself, several are an array or a list, none is None."""
    found = {}
    try:
        for features in Message(data).all_bytes(_FEATURES):
            for entry in Message(features).all_bytes(_FEATURE):
                pair = Message(entry)
                found[(pair.bytes_of(_KEY) or b"").decode()] = _feature(pair.bytes_of(_VALUE) or b"")
    except (WireError, UnicodeDecodeError) as err:
        raise SourceError(f"{where}: it is no tf.train.Example: {err}.") from err
    if not found:
        raise SourceError(f"{where}: it is no tf.train.Example with features.")
    return found


def _feature(data: bytes) -> Any:
    feature = Message(data)
    for kind in feature.numbers & {_BYTES, _FLOATS, _INTEGERS}:
        inner = Message(feature.bytes_of(kind) or b"")
        if kind == _BYTES:
            values = inner.all_bytes(_LIST)
            return None if not values else values[0] if len(values) == 1 else [_as_text(value) for value in values]
        numbers = inner.floats(_LIST) if kind == _FLOATS else np.array(inner.integers(_LIST), np.int64)
        return None if not len(numbers) else numbers[0].item() if len(numbers) == 1 else numbers
    return None


def _as_text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _are_texts(values: Iterable[Any]) -> bool:
    """Whether there are values, and all are UTF-8 and no images."""
    there = [value for value in values if value is not None]
    return bool(there) and all(map(_is_text, there))


def _is_text(value: Any) -> bool:
    if not isinstance(value, bytes) or sniffed_ending(value):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


class TFRecordWriter(Writer):
    """Writes ``train-00000-of-00005.tfrecord``, ..."""

    name = "tfrecord"

    def __init__(self, content: Content, splits: Sequence[str]) -> None:
        super().__init__(content, splits)
        need("google_crc32c", "tfrecord", "TFRecord is written")

    @override
    def write(self, shard: Shard, folder: Path, tick: Tick) -> Written:
        name = f"{shard.split or 'data'}-{shard.number:05d}-of-{shard.total:05d}.tfrecord"
        with open(folder / name, "wb") as file:
            for _, sample in self.samples(shard, tick):
                data = self._example(sample)
                length = _LENGTH.pack(len(data))
                file.write(length + _CRC.pack(_masked_crc(length)) + data + _CRC.pack(_masked_crc(data)))
            sync(file)
            return Written({name: file.tell()})

    def _example(self, sample: Record) -> bytes:
        pairs = (chunk(_KEY, key.encode()) + chunk(_VALUE, value) for key, value in sorted(self._features(sample)))
        return chunk(_FEATURES, b"".join(chunk(_FEATURE, pair) for pair in pairs))

    def _features(self, sample: Record) -> Iterator[tuple[str, bytes]]:
        yield "image/encoded", _bytes(sample.image)
        yield "image/format", _bytes(_FORMATS.get(sample.ending, sample.ending[1:].upper().encode()))
        yield "image/filename", _bytes(sample.name.encode())
        if sample.label is not None:
            yield "image/class/label", _integers([sample.label])
        if self.content.classes:
            yield "image/class/text", _bytes(sample.class_name.encode())
        for field in self.content.fields:
            yield from _of_field(field, sample.fields[field.name])


# Any, here and below: values of all kinds.
def _of_field(field: Field, value: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the features of a field. An `Example` has lists only: arrays get their shape beside them."""
    if value is None:
        yield field.name, b""
    elif field.kind in ("image", "bytes"):
        yield field.name, _bytes(value)
    elif field.kind == "json":
        yield field.name, _bytes(value.encode("utf-8", "replace") if isinstance(value, str) else json_line(value)[:-1])
    else:
        numbers = np.asarray(value)
        if numbers.dtype.kind == "f":
            yield field.name, chunk(_FLOATS, chunk(_LIST, numbers.astype("<f4").tobytes()))
        else:
            yield field.name, _integers(numbers.astype(np.int64).ravel().tolist())
        if numbers.ndim > 1:
            yield f"{field.name}/shape", _integers(list(numbers.shape))


def _bytes(value: bytes) -> bytes:
    return chunk(_BYTES, chunk(_LIST, value))


def _integers(values: list[int]) -> bytes:
    return chunk(_INTEGERS, chunk(_LIST, packed(values)))
