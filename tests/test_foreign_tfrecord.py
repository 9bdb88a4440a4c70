"""TFRecord files, as TensorFlow wrote them, become record sets."""

import shutil
import struct
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from recordzoo.errors import ArgumentError
from recordzoo.records.reader import RecordReader
from tests.fakes.legacy import chunk
from tests.foreign import check, check_refused, imported, written
from tests.preparing import prepared


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A copy of TensorFlow's files, to be damaged."""
    return Path(shutil.copytree(written("tfrecord")[0], tmp_path / "tfrecord"))


def framed(data: bytes) -> bytes:
    """Frame a record as TensorFlow does."""

    def crc(part: bytes) -> bytes:
        value = google_crc32c.value(part)
        return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    head = struct.pack("<Q", len(data))
    return head + crc(head) + data + crc(data)


@pytest.mark.slow
def test_what_tensorflow_wrote(tmp_path: Path) -> None:
    reader = check(*written("tfrecord"), tmp_path / "one.records")
    assert list(reader.names)[2:4] == ["train-00000-of-00002/000002.jpg", "train-00000-of-00002/000003.png"]
    assert reader.manifest.source == "tfrecord"
    check(*written("tfrecord-sequences"), tmp_path / "sequences" / "one.records")


@pytest.mark.slow
def test_objects_of_a_compressed_file(tmp_path: Path) -> None:
    """Lists with a value for each object: numbers as arrays of their own length, words as lists."""
    reader = check(*written("tfrecord-objects"), tmp_path / "one.records")
    assert reader.manifest.blobs["image_object_bbox_xmin"].encoding == "raw"
    assert reader.value("image_object_bbox_xmin", 2).dtype == np.float32


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """Several values that are no UTF-8 are in base64, as bytes within Parquet's lists are; these are no "image"."""
    path = tmp_path / "a.tfrecord"
    several = chunk(1, chunk(1, b"\xff\xd8\xff") + chunk(1, b"\x01"))
    path.write_bytes(framed(chunk(1, chunk(1, chunk(1, b"images") + chunk(2, several)))))
    check_refused(path, tmp_path / "one.records", "field 'image' would hold a list, no image", "--field KEY=FIELD")
    assert imported(path, fields={"images": "views"}).value("views", 0) == ["/9j/", "AQ=="]


def test_one_file_and_other_names_of_fields(files: Path, tmp_path: Path) -> None:
    path = files / "validation-00000-of-00001"
    fields = {"image/class/text": "name_of_class", "image/class/label": "number"}
    reader = imported(path, tmp_path / "one.records", fields=fields)
    assert len(reader) == 3
    assert {"number", "image_height"} <= set(reader.manifest.arrays)
    assert set(reader.manifest.blobs) == {"image", "name_of_class"}


def example(**values: bytes) -> bytes:
    """Encode an `Example` of short values of bytes."""

    def part(number: int, data: bytes) -> bytes:
        assert len(data) < 128
        return bytes([number << 3 | 2, len(data)]) + data

    entries = [part(1, key.encode()) + part(2, part(1, part(1, value))) for key, value in values.items()]
    return part(1, b"".join(part(1, entry) for entry in entries))


def test_two_keys_that_usually_are_the_image(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(framed(example(image=b"\xff\xd8\xff", image_raw=b"\xff\xd8\x00")))
    reader = RecordReader(prepared(path, tmp_path / "one.records", workers=1))
    assert [reader.read(name, 0) for name in ("image", "image_raw")] == [b"\xff\xd8\xff", b"\xff\xd8\x00"]
    with pytest.raises(ArgumentError, match="'image' and 'image_raw' would both become the field 'photo'"):
        prepared(path, tmp_path / "two.records", fields={"image": "photo", "image_raw": "photo"})


def test_a_key_that_the_first_example_lacks(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    records = [example(image=b"\xff\xd8\xff"), example(image=b"\xff\xd8\x00", caption=b"a cat")]
    path.write_bytes(b"".join(map(framed, records)))
    reader = RecordReader(prepared(path, tmp_path / "one.records", workers=1))
    assert [reader.value("caption", position) for position in (0, 1)] == [None, "a cat"]
    path.write_bytes(b"".join(map(framed, records[:1] * 64 + records[1:])))
    check_refused(path, tmp_path / "two.records", "it has caption, which the first examples have not")


def test_plain_numbers_are_no_splits(tmp_path: Path) -> None:
    folder = tmp_path / "ours" / "train"
    folder.mkdir(parents=True)
    for name in ("part_0", "part_1", "part_10"):
        (folder / f"{name}.tfrecord").write_bytes(framed(example(image=b"\xff\xd8\xff")))
    assert RecordReader(prepared(folder, tmp_path / "one.records", workers=1)).manifest.splits == {}
    check_refused(folder.parent, tmp_path / "two.records", "Prepare each by itself: recordzoo prepare")
