"""MDS, as MosaicML Streaming wrote it, becomes record sets."""

import io
import json
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from recordzoo import packages
from recordzoo.custom.importing import import_records
from recordzoo.errors import ArgumentError, NotPreparedError, PrepareError
from recordzoo.formats import mds
from recordzoo.formats.leaves import list_of_bytes, pil_image
from recordzoo.formats.mds_encodings import encoding_of
from recordzoo.records.reader import RecordReader
from tests.faults import fault
from tests.foreign import WRITTEN, check, check_refused, check_resumed, written


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of Streaming's files, to be damaged."""
    return Path(shutil.copytree(written("mds")[0], tmp_path / "mds"))


def change_index(folder: Path, **values: Any) -> None:
    """Change what an index says of its first shard."""
    path = folder / "index.json"
    document = json.loads(path.read_text())
    document["shards"][0] |= values
    path.write_text(json.dumps(document))


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


@pytest.mark.slow
def test_what_streaming_wrote(tmp_path: Path) -> None:
    path, expected = written("mds")
    reader = check(path, expected, tmp_path / "one.records")
    assert list(reader.names)[8:10] == ["train/shard.00000/000000.jpg", "train/shard.00000/000001.jpg"]
    assert reader.manifest.source == "mds"


@pytest.mark.slow
def test_every_encoding(tmp_path: Path) -> None:
    path, expected = written("mds_kinds")
    reader = check(path, expected, tmp_path / "one.records")
    image = reader.read("image", 1)
    assert reader.read("jpeg_array_0", 1) == reader.read("jpeg_array_1", 1) == reader.read("jpegarray_0", 1) == image
    assert reader.read("bytes", 2) == b"\x02\xff\x00"
    assert np.asarray(reader.value("as_pil", 1)).tolist() == [[[40] * 3] * 3] * 2
    assert np.asarray(reader.value("list_pil_0", 2)).tolist() == [[80] * 3] * 2
    with Image.open(io.BytesIO(reader.read("list_png_1", 1))) as png:
        assert np.asarray(png).tolist() == [[40] * 3] * 2


@pytest.mark.slow
@fault("F8")
def test_resumed(tmp_path: Path) -> None:
    path, expected = written("mds")
    check_resumed(path, check(path, expected, tmp_path / "one.records"), tmp_path / "resumed.records")


def test_one_split_and_other_names_of_fields(data: Path, tmp_path: Path) -> None:
    fields = {"caption": "words", "label": "number"}
    reader = RecordReader(
        import_records(data / "train" / "index.json", tmp_path / "a.records", fields=fields, workers=1)
    )
    assert (len(reader), list(reader.manifest.splits), next(iter(reader.names))) == (5, [], "shard.00000/000000.jpg")
    assert {"image", "words"} == set(reader.manifest.blobs)
    assert "number" in reader.manifest.arrays


@pytest.mark.parametrize("split", ["train", "bz2", "snappy", "zstd"])
@fault("F1")
def test_a_flipped_bit(data: Path, tmp_path: Path, split: str) -> None:
    (path, *_) = sorted((data / split).glob("shard*"))
    flip(path, 300)
    check_refused(data, tmp_path / "one.records", str(path), "its sha1 is not that of the index")
    index = json.loads((data / split / "index.json").read_text())["shards"][0]
    for info in (index["raw_data"], index["zip_data"] or {}):  # only the other hash is there
        info.get("hashes", {}).pop("sha1", None)
    change_index(data / split, **index)
    check_refused(data, tmp_path / "one.records", str(path), "its xxh64 is not that of the index")


def test_a_flipped_bit_without_a_hash(data: Path, tmp_path: Path) -> None:
    path = data / "gz" / "shard.00000.mds.gz"
    flip(path, 300)
    check_refused(data, tmp_path / "one.records", str(path), "damaged")


@fault("F2")
def test_a_cut_file(data: Path, tmp_path: Path) -> None:
    path = data / "train" / "shard.00001.mds"
    path.write_bytes(path.read_bytes()[:-3])
    check_refused(data, tmp_path / "one.records", str(path), "has 1,227 bytes, and the index says 1,230")


@pytest.mark.parametrize("kind", ["br", "bz2", "gz", "zstd", "snappy"])
@fault("F2")
def test_a_cut_compressed_file(data: Path, tmp_path: Path, kind: str) -> None:
    path = data / kind / f"shard.00000.mds.{kind}"
    path.write_bytes(path.read_bytes()[:-9])
    shard = json.loads((data / kind / "index.json").read_text())["shards"][0]
    change_index(data / kind, zip_data=shard["zip_data"] | {"bytes": path.stat().st_size, "hashes": {}})
    check_refused(data / kind, tmp_path / "one.records", str(path), "damaged")


@fault("F3")
def test_missing_files(data: Path, tmp_path: Path) -> None:
    (data / "train" / "shard.00001.mds").unlink()
    check_refused(data, tmp_path / "one.records", "1 of 2 files are missing: shard.00001.mds")
    (data / "train" / "index.json").unlink()
    check_refused(data / "train", tmp_path / "one.records", "index.json is missing")
    (data / "train" / "index.json").write_text("{")
    check_refused(data / "train", tmp_path / "one.records", "index.json cannot be read")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"format": "json"}, "format is 'json'; only mds is read"),
        ({"samples": 4}, "it says that it has 3 samples, and the index 4"),
        ({"samples": -1}, "is damaged"),
        ({"samples": 1 << 40}, "is damaged"),
        ({"raw_data": {"basename": "../../x", "bytes": 1, "hashes": {}}}, "is no name of a file"),
        ({"raw_data": {"basename": "/etc/passwd", "bytes": 1, "hashes": {}}}, "is no name of a file"),
        ({"raw_data": {"basename": "x"}}, "is damaged"),
        ({"column_sizes": [None, 9, None]}, "a column of bytes has 9 bytes"),
        ({"column_names": ["a", "a", "b"]}, "two of its columns have one name"),
        ({"column_names": ["a"]}, "is damaged"),
        ({"column_encodings": ["str", "bytes", "bytes"]}, "a column of bytes has 8 bytes instead of None"),
        ({"column_encodings": ["str", "bytes", "os.system"]}, "has the encoding 'os.system', which is not known"),
        ({"column_encodings": ["str", "bytes", "ndarray:object"]}, "which is not known"),
        ({"column_encodings": ["str", "bytes", "pkl"]}, "column 'label' is stored with Python's pickle"),
    ],
)
@fault(
    "F4",
    "sizes, offsets, types or shapes in a file of another format are forged",
    "an error that names the place; nothing is allocated or read on their word",
)
def test_a_forged_index(data: Path, tmp_path: Path, values: dict[str, Any], text: str) -> None:
    change_index(data / "train", **values)
    check_refused(data / "train", tmp_path / "one.records", text)


@pytest.mark.parametrize(
    ("offset", "value", "text"),
    [
        (0, 1 << 31, "it says that it has 2,147,483,648 samples"),
        (4, 3, "its table of offsets is damaged"),
        (8, 1 << 31, "its table of offsets is damaged"),
        (16, (1 << 32) - 1, "a part of it has 4,294,"),
        (-1, 1 << 31, "its values have other sizes than it says"),
    ],
)
@fault("F4")
def test_a_forged_shard(data: Path, tmp_path: Path, offset: int, value: int, text: str) -> None:
    path = data / "train" / "shard.00000.mds"
    shard = bytearray(path.read_bytes())
    if offset < 0:
        (offset,) = struct.unpack_from("<I", shard, 4)
    struct.pack_into("<I", shard, offset, value)
    path.write_bytes(shard)
    change_index(data / "train", raw_data={"basename": path.name, "bytes": len(shard), "hashes": {}})
    check_refused(data / "train", tmp_path / "one.records", str(path), text)


@fault("F4")
def test_what_snappy_says_of_its_size(data: Path, tmp_path: Path) -> None:
    shard = json.loads((data / "snappy" / "index.json").read_text())["shards"][0]
    for size in (shard["raw_data"]["bytes"] + 5, (1 << 32) - 1):
        change_index(data / "snappy", raw_data=shard["raw_data"] | {"bytes": size})
        check_refused(data / "snappy", tmp_path / "one.records", f"it does not decompress to {size:,} bytes")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("str", b"\xff"),
        ("json", b"[" * 100_000),
        ("str_int", b"1" * 5_000),
        ("ndarray", b""),
        ("ndarray", bytes([7, 0])),
        ("ndarray", bytes([8, 63 << 2 | 3])),
        ("ndarray", bytes([8, 2 << 2 | 3]) + b"\xff" * 16 + b"\0"),
        ("ndarray:uint8", bytes([1 << 2, 200]) + b"\0"),
        ("pil", b"\0"),
        ("pil", struct.pack("<III", 1 << 31, 1 << 31, 3) + b"RGB"),
        ("pil", struct.pack("<III", 2, 2, 3) + b"xyz" + bytes(12)),
        ("pil", struct.pack("<III", 2, 2, 3) + b"RGB" + bytes(11)),
        ("list[png]", struct.pack("<II", 0, (1 << 32) - 1)),
        ("jpeg_array", struct.pack("<II", 1, 9) + b"abc"),
    ],
)
@fault("F4")
def test_a_forged_value(name: str, value: bytes) -> None:
    with pytest.raises(mds.BAD_VALUE):
        encoding_of(name, "here").decode(value)


def test_a_forged_size_of_an_image() -> None:
    """It is refused before Pillow takes the memory."""
    with pytest.raises(ValueError, match="an image of 30000 x 30000 pixels in 9 bytes"):
        pil_image(struct.pack("<III", 30_000, 30_000, 3) + b"RGB" + bytes(9))


def test_lists_and_images() -> None:
    assert list_of_bytes(struct.pack("<III", 2, 1, 2) + b"abc") == (b"a", b"bc")
    image = pil_image(struct.pack("<III", 9, 1, 1) + b"1" + b"\xff\x80")
    assert (image.mode, image.size) == ("1", (9, 1))


def test_what_a_worker_process_gets() -> None:
    found = mds.find(str(written("mds_kinds")[0]), {})
    assert found is not None
    copy = pickle.loads(pickle.dumps(found))
    (piece,) = copy.pieces
    assert [sample["target"] for sample in copy.read(piece)] == written("mds_kinds")[1].targets


@fault(
    "F5",
    "a file of another format holds a pickle or names code to import",
    "nothing is executed or imported: an error that names the field",
)
def test_pickles(tmp_path: Path) -> None:
    check_refused(
        WRITTEN / "mds_kinds" / "pickled", tmp_path / "one.records", "column 'extra'", "Python's pickle (pkl)"
    )


def test_a_hash_that_is_not_known(data: Path, tmp_path: Path) -> None:
    path = data / "train" / "shard.00000.mds"
    for name in ("shake_128", "crc"):
        info = {"basename": path.name, "bytes": path.stat().st_size, "hashes": {name: "00"}}
        change_index(data / "train", raw_data=info)
        check_refused(data / "train", tmp_path / "one.records", f"a hash of {name!r}, which is not known")


def test_fields_that_are_not_there(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"has no 'lable', .* Did you mean"):
        import_records(data, tmp_path / "one.records", fields={"lable": "target"})
    with pytest.raises(ArgumentError, match="gives two keys the name 'target'"):
        import_records(data, tmp_path / "one.records", fields={"label": "target", "caption": "target"})


@fault("F7")
def test_without_the_packages(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "is_installed", lambda package: False)
    with pytest.raises(PrepareError, match=r"xxhash, which is not installed. Run: pip install 'recordzoo\[mds\]'"):
        import_records(data / "train", tmp_path / "one.records")
    with pytest.raises(PrepareError, match=r"MDS compressed with zstd is read with pyarrow, .*'recordzoo\[mds\]'"):
        import_records(data / "zstd", tmp_path / "one.records")
    assert len(RecordReader(import_records(data / "gz", tmp_path / "one.records", workers=1))) == 2


def test_nothing_of_this_format(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"version": 1}')
    with pytest.raises(NotPreparedError, match=r"There is nothing of format mds at .* \(looked for index.json"):
        import_records(tmp_path, tmp_path / "one.records", format="mds")
