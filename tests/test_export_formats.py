"""What `export` writes, read back by `prepare`. By webdataset and datasets: tests/frameworks/test_export.py."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordzoo
from recordzoo.errors import OtherSourceError, SampleError, SourceError
from recordzoo.own.writer import RecordWriter
from recordzoo.records.reader import RecordReader
from tests.exporting import CLASSES, SHARD_BYTES, Given, given, write
from tests.foreign import pairs
from tests.preparing import prepared


def samples(of: Given) -> dict[str, list[tuple[bytes, int]]]:
    """The image and the label of each sample, by split."""
    return {split: list(zip(images, of.labels[split], strict=True)) for split, images in of.images.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to", "format"),
    [
        ("parquet", "huggingface"),
        ("webdataset", "webdataset"),
    ],
)
def test_imported_again_it_is_the_same(to: str, format: str, tmp_path: Path) -> None:
    """One class has no images."""
    path = write(tmp_path / "a.records", classes=(*CLASSES, "fox"))
    root = recordzoo.export(path, tmp_path / to, to=to, shard_bytes=SHARD_BYTES)
    again = prepared(root, tmp_path / "again.records", from_=format, workers=1)
    assert RecordReader(again).manifest.classes == (*CLASSES, "fox")
    assert samples(given(again)) == samples(given(path))


def test_names_come_back_from_a_field(tmp_path: Path) -> None:
    path = write(tmp_path / "a.records")
    root = recordzoo.export(path, tmp_path / "parquet", to="parquet")
    again = prepared(root, tmp_path / "again.records", fields={"name": "name"}, workers=1)
    assert list(RecordReader(again).names) == list(RecordReader(path).names)


def test_a_field_of_names_that_are_none(tmp_path: Path) -> None:
    root = recordzoo.export(write(tmp_path / "a.records"), tmp_path / "out", to="parquet")
    with pytest.raises(
        SampleError, match=r"position 0 of data/train-00000-of-00001:0 in .*: its name is a numpy.int64"
    ):
        prepared(root, tmp_path / "again.records", fields={"label": "name"}, workers=1)


def test_fewer_classes_beside_than_labels(tmp_path: Path) -> None:
    root = recordzoo.export(write(tmp_path / "a.records"), tmp_path / "out", to="webdataset")
    (root / "classes.json").write_text('["a", "b"]')
    with pytest.raises(SourceError, match=r"label 4 has no name; 2 classes have one"):
        prepared(root, tmp_path / "again.records", workers=1)
    (root / "classes.json").write_text(json.dumps(CLASSES))
    again = prepared(root, tmp_path / "again.records", workers=1)
    assert RecordReader(again).manifest.classes == CLASSES


@pytest.mark.parametrize(("text", "message"), [("[", "is no JSON"), ('{"a": 1}', "is no list"), ("[1]", "is no list")])
def test_classes_beside_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    root = recordzoo.export(write(tmp_path / "a.records"), tmp_path / "out", to="webdataset")
    (root / "classes.json").write_text(text)
    with pytest.raises(SourceError, match=rf"classes\.json {message}"):
        prepared(root, tmp_path / "again.records", workers=1)


def test_pixels_that_are_none(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "a.records") as writer:
        writer.write({"image": np.zeros((4, 4, 2), np.uint8), "target": 0})
    with pytest.raises(OtherSourceError, match=r"record 0 \(.*\): an array uint8\[4, 4, 2\] is no image"):
        recordzoo.export(tmp_path / "a.records", tmp_path / "out", to="webdataset")


def one_sample(path: Path, **fields: Any) -> Path:
    with RecordWriter(path) as writer:
        writer.write({"image": pairs(1)[0][0], "target": 1, **fields})
    return path


@pytest.mark.parametrize("to", ["parquet", "webdataset"])
def test_half_of_a_letter(tmp_path: Path, to: str) -> None:
    """JSON has it as an escape; UTF-8 has it not, and a column of such texts is JSON."""
    path = one_sample(tmp_path / "a.records", caption="a\ud83d")
    back = RecordReader(prepared(recordzoo.export(path, tmp_path / "out", to=to), tmp_path / "back.records", workers=1))
    if to == "webdataset":
        assert back.value("json", 0)["caption"] == "a\ud83d"
    else:
        assert json.loads(back.value("caption", 0)) == "a\ud83d"
