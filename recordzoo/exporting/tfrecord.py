"""TFRecord: `tf.train.Example` messages with the keys of ImageNet's, framed as TensorFlow frames them.

A record is its length (8 bytes), the masked CRC-32C of these, the bytes, and their masked CRC-32C (TensorFlow's
tsl/lib/io/record_writer.h). The messages: tensorflow/core/example/{example,feature}.proto.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.exporting.samples import Content, Field, Sample
from recordzoo.exporting.target import Shard, Target, Tick, Written, json_line, sync
from recordzoo.packages import need

_FEATURES, _FEATURE, _KEY, _VALUE = 1, 1, 1, 2
_BYTES, _FLOATS, _INTEGERS, _LIST = 1, 2, 3, 1
_DELIMITED = 2
_FORMATS = {".jpg": b"JPEG", ".tiff": b"TIFF"}


class TFRecord(Target):
    """See `Target`: ``train-00000-of-00005.tfrecord``, ..."""

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
                head = struct.pack("<Q", len(data))
                file.write(head + _masked_crc(head) + data + _masked_crc(data))
            sync(file)
            return Written({name: file.tell()})

    def _example(self, sample: Sample) -> bytes:
        pairs = b"".join(_field(_FEATURE, _pair(key, value)) for key, value in sorted(self._features(sample)))
        return _field(_FEATURES, pairs)

    def _features(self, sample: Sample) -> Iterator[tuple[str, bytes]]:
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
            yield field.name, _field(_FLOATS, _field(_LIST, numbers.astype("<f4").tobytes()))
        else:
            yield field.name, _integers(numbers.astype(np.int64).ravel().tolist())
        if numbers.ndim > 1:
            yield f"{field.name}/shape", _integers(list(numbers.shape))


def _bytes(value: bytes) -> bytes:
    return _field(_BYTES, _field(_LIST, value))


def _integers(values: list[int]) -> bytes:
    return _field(_INTEGERS, _field(_LIST, b"".join(_varint(value & (1 << 64) - 1) for value in values)))


def _pair(key: str, feature: bytes) -> bytes:
    return _field(_KEY, key.encode()) + _field(_VALUE, feature)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _DELIMITED) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _masked_crc(data: bytes) -> bytes:
    import google_crc32c

    crc = int(google_crc32c.value(data))
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
