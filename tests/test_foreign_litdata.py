"""LitData's chunks, as `litdata.optimize` wrote them, become record sets."""

import json
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from recordzoo import packages
from recordzoo.custom.importing import import_records
from recordzoo.errors import NotPreparedError, PrepareError
from recordzoo.formats import litdata
from recordzoo.formats.chunks import BAD_VALUE
from recordzoo.formats.litdata_json import nested_value
from recordzoo.formats.litdata_leaves import leaf_of
from recordzoo.records.reader import RecordReader
from tests.faults import fault
from tests.foreign import WRITTEN, check, check_refused, check_resumed, written


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of LitData's files, to be damaged."""
    return Path(shutil.copytree(written("litdata")[0], tmp_path / "litdata"))


def change_index(folder: Path, chunk: dict[str, Any] | None = None, **config: Any) -> None:
    """Change what an index says of its first chunk, and its configuration."""
    path = folder / "index.json"
    document = json.loads(path.read_text())
    document["chunks"][0] |= chunk or {}
    document["config"] |= config
    path.write_text(json.dumps(document))


def write(path: Path, offset: int, value: int) -> None:
    """Write four bytes into a file."""
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, offset % len(data), value)
    path.write_bytes(data)


@pytest.mark.slow
def test_what_litdata_wrote(tmp_path: Path) -> None:
    path, expected = written("litdata")
    reader = check(path, expected, tmp_path / "one.records")
    assert list(reader.names)[9:] == ["train/chunk-0-1/000000.jpg", "train/chunk-0-1/000001.jpg"]
    assert reader.manifest.source == "litdata"


@pytest.mark.slow
def test_rows_of_arrow(tmp_path: Path) -> None:
    path, expected = written("litdata_rows")
    reader = check(path, expected, tmp_path / "one.records")
    assert set(reader.manifest.blobs) == {"image", "image_path", "boxes", "about_class"}


@pytest.mark.slow
def test_every_serializer(tmp_path: Path) -> None:
    path, expected = written("litdata_kinds")
    reader = check(path, expected, tmp_path / "one.records")
    assert reader.read("jpegs_0", 1) == reader.read("jpegs_1", 1)
    assert reader.read("bytes", 2) == reader.read("file", 2) == b"\x02\xff"
    assert reader.read("encoded", 0).startswith(b"\x89PNG")
    assert np.asarray(reader.value("pil", 1)).tolist() == [[40] * 3] * 2
    assert reader.array("tensor").dtype == np.int16


@pytest.mark.slow
@fault("F8")
def test_resumed(tmp_path: Path) -> None:
    path, expected = written("litdata")
    check_resumed(path, check(path, expected, tmp_path / "one.records"), tmp_path / "resumed.records")


def test_names_of_fields(data: Path, tmp_path: Path) -> None:
    made = import_records(data / "train", tmp_path / "one.records", fields={"2": "word", "1": "number"}, workers=1)
    reader = RecordReader(made)
    assert (set(reader.manifest.blobs), "number" in reader.manifest.arrays) == ({"image", "word"}, True)


def test_a_chunk_that_litdata_decompressed(data: Path, tmp_path: Path) -> None:
    packed = data / "chunk" / "chunk-0-0.zstd.bin"
    raw = pyarrow.CompressedInputStream(pyarrow.BufferReader(packed.read_bytes()), "zstd").read()
    whole = RecordReader(import_records(data / "chunk", tmp_path / "one.records", workers=1))
    packed.unlink()
    (data / "chunk" / "chunk-0-0.bin").write_bytes(raw)
    assert RecordReader(import_records(data / "chunk", tmp_path / "two.records", workers=1)).digest == whole.digest


@pytest.mark.parametrize(
    ("file", "offset", "value", "text"),
    [
        ("train/chunk-0-0.bin", 0, 1 << 31, "it says that it has 2,147,483,648 samples, and the index 3"),
        ("train/chunk-0-0.bin", 4, 3, "its table of offsets is damaged"),
        ("train/chunk-0-0.bin", 8, 1 << 31, "its table of offsets is damaged"),
        ("train/chunk-0-0.bin", 20, 1 << 31, "its values have other sizes than it says"),
        ("batch/chunk-0-0.bin", 12, 3, "version 1 with 3 samples"),
        ("batch/chunk-0-0.bin", 20, 1 << 31, "version 1 with 2 samples"),
        ("batch/chunk-0-0.bin", 28, 1 << 31, "its table of frames is damaged"),
        ("batch/chunk-0-0.bin", 44, 0, "damaged"),
        ("batch/chunk-0-0.bin", 52, 1 << 31, "limit"),
        ("batch/chunk-0-0.bin", 60, 1 << 31, "its table of frames is damaged"),
        ("chunk/chunk-0-0.zstd.bin", 0, 7, "damaged"),
        ("sample/chunk-0-0.bin", 16, 7, "damaged"),
    ],
)
@fault("F4")
def test_a_forged_chunk(data: Path, tmp_path: Path, file: str, offset: int, value: int, text: str) -> None:
    write(data / file, offset, value)
    check_refused((data / file).parent, tmp_path / "one.records", str(data / file), text)


@pytest.mark.parametrize("file", ["train/chunk-0-0.bin", "batch/chunk-0-0.bin", "chunk/chunk-0-0.zstd.bin"])
@fault("F2")
def test_a_cut_chunk(data: Path, tmp_path: Path, file: str) -> None:
    path = data / file
    path.write_bytes(path.read_bytes()[:-3])
    check_refused(path.parent, tmp_path / "one.records", str(path), "it ")


@pytest.mark.parametrize(
    ("offset", "value", "text"),
    [(-12, 1 << 31, "it is cut"), (-12, 9, "Arrow rows are damaged"), (1012, 0xFFFFFF, "Buffer")],
)
def test_forged_rows(tmp_path: Path, offset: int, value: int, text: str) -> None:
    data = Path(shutil.copytree(written("litdata_rows")[0] / "train", tmp_path / "rows"))
    write(data / "chunk-0-0.bin", offset, value)
    check_refused(data, tmp_path / "one.records", str(data / "chunk-0-0.bin"), text)


@fault("F3")
def test_rows_that_are_missing(tmp_path: Path) -> None:
    data = Path(shutil.copytree(written("litdata_rows")[0] / "train", tmp_path / "rows"))
    change_index(data, {"chunk_size": 3})
    check_refused(data, tmp_path / "one.records", "it has 2 rows, and the index 3")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"encryption": {"level": "chunk"}}, "the chunks are encrypted"),
        ({"item_loader": "TokensLoader"}, "the chunks are for TokensLoader"),
        ({"compression": "lz4"}, "compressed with 'lz4'"),
        ({"data_format": None}, "it has no data_format"),
        ({"data_format": ["jpeg", "int"]}, "is damaged"),
        ({"data_format": ["jpeg", "int", "os.system"]}, "is stored as 'os.system', which is not known"),
        ({"data_format": ["jpeg", "int", "no_header_numpy:14"]}, "dtype 14, which is not read"),
        ({"data_spec": "[1, {}]"}, "is damaged"),
        ({"data_spec": "[" * 100_000}, "is damaged"),
        ({"chunk": {"filename": "../chunk/chunk-0-0.zstd.bin"}}, "is no name of a file"),
        ({"chunk": {"filename": "missing.bin"}}, "1 of 2 files are missing: missing.bin"),
        ({"chunk": {"chunk_size": -1}}, "is damaged"),
    ],
)
@fault("F4")
def test_a_forged_index(data: Path, tmp_path: Path, config: dict[str, Any], text: str) -> None:
    change_index(data / "train", **config)
    check_refused(data / "train", tmp_path / "one.records", text)


@fault("F5")
def test_a_tree_that_names_a_type(data: Path, tmp_path: Path) -> None:
    """A factory of a defaultdict is not imported."""
    leaf = {"type": None, "context": None, "children_spec": []}
    context = {"default_factory_module": "this", "default_factory_name": "s", "dict_context": ["a", "b", "c"]}
    spec = {"type": "collections.defaultdict", "context": json.dumps(context), "children_spec": [leaf] * 3}
    change_index(data / "train", data_spec=json.dumps([1, spec]))
    reader = RecordReader(import_records(data / "train", tmp_path / "one.records", fields={"b": "target"}, workers=1))
    assert set(reader.manifest.blobs) == {"image", "c"}
    deep = leaf
    for _ in range(60):
        deep = {"type": "builtins.list", "context": "null", "children_spec": [deep]}
    change_index(data / "train", data_spec=json.dumps([1, deep]))
    check_refused(data / "train", tmp_path / "two.records", "a tree of more than 50 levels")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int", b"\0"),
        ("bool", b""),
        ("tensor", struct.pack(">II", 0, 1 << 31)),
        ("tensor", struct.pack(">IIII", 0, 2, 1 << 31, 1 << 31)),
        ("tensor", struct.pack(">III", 4, 1, 1) + bytes(8)),
        ("numpy", struct.pack("<III", 200, 1, 1) + bytes(8)),
        ("no_header_tensor:1", b"\0"),
        ("json", b""),
        ("json", b"[" * 100_000),
        ("json", bytes([5]) + struct.pack("<II", 1, 0) * 2_000),
        ("json", bytes([1]) + struct.pack("<I", 1 << 31)),
        ("json", bytes([6]) + struct.pack("<II", 1 << 31, 0)),
        ("json", bytes([6]) + struct.pack("<IIIcB", 1, 1, 1, b"a", 3)),
        ("json", bytes([11, 0])),
        ("json", bytes([12])),
    ],
)
def test_a_forged_value(name: str, value: bytes) -> None:
    decode = leaf_of(name, "here").decode
    assert decode is not None
    with pytest.raises(BAD_VALUE):
        decode(value)


def test_values_in_json() -> None:
    """What the files of the tests do not have; the bytes are those of litdata 0.2.76."""
    assert nested_value(b'{"older": [1]}') == {"older": [1]}
    assert nested_value(bytes.fromhex("02020000000100000000000000ffffffffffffffff")) == [1, -1]
    assert nested_value(bytes.fromhex("03010000000000000000000040")) == [2.0]
    assert nested_value(bytes.fromhex("04020000000100")) == [True, False]
    assert nested_value(bytes.fromhex("0100000000")) == []
    expected = {"a": None, "b": ["x", "yz"], "c": [1, "x"], "d": True, "e": "t", "f": 1, "g": 0.5}
    assert nested_value(bytes.fromhex(_NESTED)) == expected


_NESTED = (
    "050700000001000000610b01000000620102000000010000007802000000797a010000006300070000005b312c2278225d01"
    "000000640a0101000000650701000000740100000066080100000000000000010000006709000000000000e03f"
)


def test_what_a_worker_process_gets() -> None:
    path, expected = written("litdata_kinds")
    found = litdata.find(str(path), {})
    assert found is not None
    copy = pickle.loads(pickle.dumps(found))
    assert [sample["target"] for piece in copy.pieces for sample in copy.read(piece)] == expected.targets


@fault("F5")
def test_pickles(tmp_path: Path) -> None:
    check_refused(
        WRITTEN / "litdata_kinds" / "pickled", tmp_path / "one.records", "'1' is stored as pickle: with Python's pickle"
    )


@fault("F7")
def test_without_the_package(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "is_installed", lambda package: False)
    for name in ("batch", "chunk", "sample"):
        with pytest.raises(
            PrepareError, match=r"pyarrow, which is not installed. Run: pip install 'recordzoo\[litdata\]'"
        ):
            import_records(data / name, tmp_path / "one.records")
    assert len(RecordReader(import_records(data / "train", tmp_path / "one.records", workers=1))) == 5


def test_nothing_of_this_format(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError, match=r"There is nothing of format litdata at .* \(looked for index.json"):
        import_records(tmp_path, tmp_path / "one.records", format="litdata")
