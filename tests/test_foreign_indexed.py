"""One big file with an index, in each form that an index has, becomes a record set."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordzoo.errors import NotPreparedError
from recordzoo.formats import find_foreign
from tests.foreign import check, check_refused, expected_of, pairs

SAMPLES = pairs(20)
ORDER = np.random.default_rng(1).permutation(len(SAMPLES))
"""The order in which the images are in the file; the index has another one, which the records keep."""

Rows = list[tuple[int, int, int]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "set"
    made.mkdir()
    return made


def write(folder: Path) -> Rows:
    """Write the file, with some bytes between the images; return offset, length, label of each."""
    starts, data = {}, b"header"
    for number in ORDER.tolist():
        starts[number] = len(data)
        data += SAMPLES[number][0] + b"\0" * (number % 3)
    (folder / "photos.bin").write_bytes(data)
    return [(starts[number], len(image), label) for number, (image, label) in enumerate(SAMPLES)]


def text(separator: str, header: str = "") -> Callable[[Rows], bytes]:
    return lambda rows: (header + "".join(separator.join(map(str, row)) + "\r\n" for row in rows)).encode()


def lines(keys: tuple[str, ...] | None) -> Callable[[Rows], bytes]:
    def encoded(rows: Rows) -> bytes:
        objects: list[Any] = [row if keys is None else dict(zip(keys, row, strict=True)) for row in rows]
        return "\n".join(map(json.dumps, objects)).encode()

    return encoded


TEXTS: dict[str, tuple[str, Callable[[Rows], bytes]]] = {
    "csv without a header": ("photos.csv", text(",")),
    "csv": ("photos.csv", text(",", "\ufeffOffset,Length,Label\n")),
    "tsv": ("photos.bin.tsv", text("\t", "pos\tsize\tclass_id\n")),
    "columns": ("photos.idx", text("  ")),
    "objects": ("index.jsonl", lines(("start", "nbytes", "label"))),
    "lists": ("photos.jsonl", lines(None)),
}


@pytest.mark.parametrize("form", TEXTS)
def test_an_index_of_text(folder: Path, form: str) -> None:
    name, encode = TEXTS[form]
    (folder / name).write_bytes(encode(write(folder)))
    check_samples(folder)


@pytest.mark.parametrize("form", ["plain", "structured"])
def test_an_index_as_an_array(folder: Path, form: str) -> None:
    rows = write(folder)
    kind = np.dtype([("offset", "<u8"), ("length", "<u4"), ("label", "<i4")])
    np.save(folder / "photos.npy", np.array(rows, kind if form == "structured" else np.int64))
    check_samples(folder)


def check_samples(folder: Path) -> None:
    foreign = find_foreign(str(folder), None, {})
    assert foreign is not None
    samples = [sample for piece in foreign.pieces for sample in foreign.read(piece)]
    assert [(sample.values["image"], sample.values["target"]) for sample in samples] == SAMPLES
    assert len(foreign.pieces) > 10
    assert [sample.name for sample in samples[2:4]] == ["000000002.jpg", "000000003.png"]


@pytest.mark.slow
def test_records_and_resumed(folder: Path, tmp_path: Path) -> None:
    rows = write(folder)
    more = [f"{a},{n},{c},é {c},{c / 2},{i if i % 2 else ''},2026_{i},{i}" for i, (a, n, c) in enumerate(rows)]
    header = "offset,length,label,name,score,odd,serial,data\n"
    (folder / "photos.csv").write_text(header + "\n".join(more), encoding="utf-8")
    fields = {
        "field_name": [f"é {label}" for _, label in SAMPLES],
        "score": [label / 2 for _, label in SAMPLES],
        "odd": [number if number % 2 else None for number in range(20)],
        "serial": [f"2026_{number}" for number in range(20)],
        "data": list(range(20)),
    }
    check(folder / "photos.bin", expected_of(SAMPLES, fields=fields), tmp_path / "one.records")


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        ((0, 1 << 40, 0), ("row 8 (1,099,511,627,776 bytes at 0)", "leads out of photos.bin")),
        ((1 << 62, 1 << 62, 0), ("row 8", "leads out of photos.bin")),
        ((-1, 1, 0), ("row 8", "offset is -1, no number of bytes")),
        ((0, 7, 0), ("row 8 (7 bytes at 0)", "overlap")),
    ],
)
def test_a_forged_row(folder: Path, tmp_path: Path, row: tuple[int, int, int], texts: tuple[str, ...]) -> None:
    rows = write(folder)
    (folder / "photos.csv").write_bytes(text(",")([*rows[:7], row, *rows[8:]]))
    check_refused(folder, tmp_path / "one.records", str(folder / "photos.csv"), *texts)


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("photos.csv", b"offset,length\n1,2,3\n", "row 1 has 3 columns, not 2"),
        ("photos.csv", b"from,length\n1,2\n", "no column 'offset' or"),
        ("photos.idx", b"0 " * 2000, "it has 2,000 columns; 1,024 are the most"),
        ("photos.csv", b'offset,length\n"1,2\n' + b"x" * 200_000, "field larger than"),
        ("photos.csv", b"\xff\xfe", "the file is UTF-16"),
        ("photos.jsonl", b'{"offset": 1, "length": 2}\n[1, 2]', "row 2 is no object of offset, length"),
        ("photos.jsonl", b"[" * 100_000, "while decoding a JSON array"),
        ("photos.jsonl", b'{"offset": true, "length": 2}', "offset is True"),
    ],
)
def test_a_damaged_index(folder: Path, tmp_path: Path, name: str, data: bytes, text: str) -> None:
    write(folder)
    (folder / name).write_bytes(data)
    check_refused(folder, tmp_path / "one.records", str(folder / name), text)


def test_a_pickle_and_a_forged_shape(folder: Path, tmp_path: Path) -> None:
    write(folder)
    index = folder / "photos.npy"
    np.save(index, np.array([[1, 2, None]], object))
    check_refused(folder, tmp_path / "one.records", str(index), "cannot be read")
    np.save(index, np.zeros((10, 3), np.int64))
    index.write_bytes(index.read_bytes().replace(b"(10, 3), }          ", b"(1" + b"0" * 11 + b", 3), }"))
    assert b"(100000000000, 3)" in index.read_bytes()
    check_refused(folder, tmp_path / "one.records", str(index), "mmap length is greater than file size")


def test_no_row_and_two_indexes(folder: Path, tmp_path: Path) -> None:
    write(folder)
    (folder / "photos.csv").write_text("offset,length\n", encoding="utf-8")
    check_refused(folder, tmp_path / "one.records", "there is no row in this index")
    (folder / "photos.tsv").write_text("offset\tlength\n", encoding="utf-8")
    check_refused(folder, tmp_path / "one.records", "photos.csv and photos.tsv could both be its index")


def test_a_file_that_shrank(folder: Path) -> None:
    (folder / "photos.csv").write_bytes(text(",")(write(folder)))
    foreign = find_foreign(str(folder), None, {})
    assert foreign is not None
    (folder / "photos.bin").write_bytes(b"")
    with pytest.raises(Exception, match="the file is cut"):
        list(foreign.read(foreign.pieces[0]))


def test_a_binary_index_is_of_another_format(folder: Path, tmp_path: Path) -> None:
    write(folder)
    (folder / "photos.idx").write_bytes(b"MMIDIDX\0\0" + bytes(100))
    assert find_foreign(str(folder), None, {}) is None
    with pytest.raises(NotPreparedError, match="nothing of format indexed"):
        find_foreign(str(folder), "indexed", {})
