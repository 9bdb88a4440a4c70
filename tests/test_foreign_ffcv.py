"""Betons, as FFCV wrote them, become record sets."""

import io
import json
import lzma
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from recordzoo.custom.importing import import_records
from recordzoo.records.reader import RecordReader
from tests.faults import fault
from tests.foreign import WRITTEN, Expected, check, check_refused, check_resumed, digest

EXPECTED = json.loads((WRITTEN / "ffcv" / "expected.json").read_text(encoding="utf-8"))
DESCRIPTOR = 1 + 16 + 1024


def unpack(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress((WRITTEN / "ffcv" / "data" / f"{name}.xz").read_bytes()))
    return path


def pixels(number: int) -> Any:
    """A picture of the fixture, before FFCV got it."""
    return np.full((4 + number % 3, 5, 3), number % 256, np.uint8)


def opened(value: Any) -> Any:
    """What a record set has of an image, as pixels."""
    return value if isinstance(value, np.ndarray) else np.asarray(Image.open(io.BytesIO(value)))


def patched(path: Path, offset: int, layout: str, *values: int) -> Path:
    data = bytearray(path.read_bytes())
    struct.pack_into(layout, data, offset, *values)
    path.write_bytes(data)
    return path


@pytest.mark.slow
@fault("F8")
def test_every_field_and_a_kill(tmp_path: Path) -> None:
    """Pixels are those that FFCV got, with JPEGs in between, whose bytes are kept."""
    path = unpack("every.beton", tmp_path)
    stored = RecordReader(import_records(path, tmp_path / "first.records", workers=1))
    numbers = range(600)
    images = [digest(stored.read("image", n)) for n in numbers]
    assert images[2:12:3] == EXPECTED["jpegs"][2:12:3]
    assert all(np.array_equal(opened(stored.read("image", n)), pixels(n)) for n in numbers if n % 3 != 2)
    reader = check(
        path,
        Expected(
            images,
            EXPECTED["targets"],
            fields={
                "weight": [n / 4 for n in numbers],
                "identifier": [f"id-{n}".encode() for n in numbers],
                "caption": [{"n": n, "text": "ä" * (n % 3)} for n in numbers],
                "box": [[[n, n + 1, n + 2], [n + 3, n + 4, n + 5]] for n in numbers],
                "embedding": [[n, n] for n in numbers],
            },
        ),
        tmp_path / "one.records",
    )
    assert list(reader.names)[1:3] == ["000001.png", "000002.jpg"]
    assert reader.array("box").dtype == np.int16
    check_resumed(path, reader, tmp_path / "resumed.records")


@pytest.mark.parametrize("mode", ["raw", "jpg", "proportion"])
def test_each_mode(tmp_path: Path, mode: str) -> None:
    reader = RecordReader(import_records(unpack(f"{mode}.beton", tmp_path), tmp_path / "one.records", workers=1))
    assert reader.array("target").tolist() == EXPECTED["targets"][:12]
    values = [reader.value("image", n) for n in range(12)]
    if mode == "jpg":
        assert [digest(value) for value in values] == EXPECTED["jpegs"]
        return
    same = [np.array_equal(opened(value), pixels(n)) for n, value in enumerate(values)]
    if mode == "raw":
        assert all(same)
    else:
        known = [digest(value) in EXPECTED["jpegs"] for value in values]
        assert {True, False} == set(known)
        assert all(a or b for a, b in zip(same, known, strict=True))


def test_files_are_splits(tmp_path: Path) -> None:
    folder = tmp_path / "betons"
    folder.mkdir()
    unpack("jpg.beton", folder).rename(folder / "train_400_0.10_90.beton")
    unpack("raw.beton", folder).rename(folder / "val_400_0.10_90.ffcv")
    reader = RecordReader(import_records(folder, tmp_path / "one.records", workers=1, fields={"label": "number"}))
    assert {name: reader.split(name).tolist() for name in reader.manifest.splits} == {
        "train": list(range(12)),
        "val": list(range(12, 24)),
    }
    assert [reader.names[n] for n in (0, 12)] == ["train/000000.jpg", "val/000000.png"]  # one kind of value a field
    assert reader.array("number").tolist() == EXPECTED["targets"][:12] * 2


def test_files_of_other_fields(tmp_path: Path) -> None:
    for name in ("jpg.beton", "every.beton"):
        unpack(name, tmp_path)
    check_refused(tmp_path, tmp_path / "one.records", "jpg.beton has the fields image, label", "one by one")


def test_other_files(tmp_path: Path) -> None:
    """A beton may have any name; something else with its ending is refused."""
    path = unpack("jpg.beton", tmp_path).rename(tmp_path / "data")
    assert len(RecordReader(import_records(path, tmp_path / "one.records", workers=1))) == 12
    path = tmp_path / "a.beton"
    path.write_bytes(b"\1" * 100)
    check_refused(path, tmp_path / "two.records", str(path), "version 257")
    path.write_bytes(b"")
    check_refused(path, tmp_path / "two.records", str(path), "it is cut")


TABLE = 16
METADATA = 24 + 2 * DESCRIPTOR
ROW = 24  # an image: mode, width, height, place; 3 bytes of padding; a label


@pytest.mark.parametrize(
    ("offset", "layout", "value", "text"),
    [
        (2, "<H", 60_000, "its fields are cut"),
        (8, "<Q", 1 << 62, "samples do not fit into"),
        (8, "<Q", 100_000, "60 bytes at 2,097,152 are outside of its pages"),
        (16, "<Q", 0, "FFCV did not finish writing it"),
        (16, "<Q", 1 << 63, "samples do not fit into"),
        (24, "<B", 255, "the field 'image' is of a class of its writer's own"),
        (24, "<B", 99, "the field 'image' has type 99"),
        (METADATA, "<B", 7, "sample 0, image: an image of mode 7"),
        (METADATA + 1, "<H", 65535, "sample 0, image: pixels of 4 x 65535, but 60 bytes"),
        (METADATA + 5, "<Q", 1 << 40, "sample 0, image: pixels of 4 x 5, but 0 bytes"),
    ],
)
@fault("F4")
def test_forged(tmp_path: Path, offset: int, layout: str, value: int, text: str) -> None:
    path = patched(unpack("raw.beton", tmp_path), offset, layout, value)
    check_refused(path, tmp_path / "one.records", str(path), text)


@fault("F4")
def test_a_forged_table(tmp_path: Path) -> None:
    """A sample that is not there, and an image that reaches beyond the pages."""
    path = unpack("jpg.beton", tmp_path)
    (table,) = struct.unpack_from("<Q", path.read_bytes(), TABLE)
    check_refused(
        patched(path, table, "<Q", 12), tmp_path / "one.records", str(path), "the table of its pages is damaged"
    )
    patched(path, table, "<QQQ", 0, table - 100, 101)
    patched(path, METADATA + 5, "<Q", table - 100)
    check_refused(path, tmp_path / "one.records", str(path), "101 bytes at", "outside of its pages")


@pytest.mark.parametrize("left", [10, 1000, 1 << 21])
@fault("F2")
def test_a_cut_file(tmp_path: Path, left: int) -> None:
    path = unpack("raw.beton", tmp_path)
    path.write_bytes(path.read_bytes()[:left])
    check_refused(path, tmp_path / "one.records", str(path), "cut")


@pytest.mark.parametrize(
    "dtype", ['[["", "|O"]]', '[["a", "<i4"], ["b", "<i4"]]', "[" * 700, "x", '[["", "<i4", [4]]]', '[["", ["<i4"]]]']
)
def test_a_forged_dtype(tmp_path: Path, dtype: str) -> None:
    path = unpack("every.beton", tmp_path)
    arguments = 24 + 5 * DESCRIPTOR + 17
    patched(path, arguments + 256, "<Q", len(dtype))
    data = bytearray(path.read_bytes())
    data[arguments + 264 : arguments + 264 + len(dtype)] = dtype.encode()
    path.write_bytes(data)
    check_refused(path, tmp_path / "one.records", str(path), "the field 'box': an array of the dtype")


def test_a_forged_shape(tmp_path: Path) -> None:
    path = patched(unpack("every.beton", tmp_path), 24 + 5 * DESCRIPTOR + 17, "<2Q", 1 << 62, 1 << 62)
    check_refused(path, tmp_path / "one.records", "the field 'box': an array of shape")
