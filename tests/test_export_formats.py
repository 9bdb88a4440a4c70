"""What `export` writes, read back by `prepare`, and by TensorFlow where it is.

`make formats` makes its environment. webdataset and datasets: tests/frameworks/test_export.py.
"""

import io
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import recordzoo
from recordzoo.custom.writer import RecordWriter
from recordzoo.errors import OtherSourceError, SampleError, SourceError
from recordzoo.records.reader import RecordReader
from tests.exporting import CLASSES, SHARD_BYTES, Given, given, write
from tests.foreign import digest, pairs
from tests.preparing import prepared

HERE = Path(__file__).parent
SAID = os.environ.get("RECORDZOO_TENSORFLOW_PYTHON")
"""`make formats` says which Python, and then it must be there."""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record set with two splits and fields of each kind."""
    return write(tmp_path_factory.mktemp("export") / "a.records", fields=True)


# Any: what the library gives, as JSON.
def read(folder: Path) -> Mapping[str, list[dict[str, Any]]]:
    """Read an export with TensorFlow, in its environment."""
    python = Path(SAID or HERE / ".venv-tensorflow/bin/python").absolute()
    if not python.exists() and not SAID:
        pytest.skip("TensorFlow is installed by `make formats`")
    done = subprocess.run(
        [python, HERE / "read_exports.py", folder], cwd=folder, capture_output=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return found


def sizes(images: list[bytes]) -> list[list[int]]:
    return [list(Image.open(io.BytesIO(data)).size[::-1]) for data in images]


@pytest.mark.slow
def test_tensorflow(there: Path, tmp_path: Path) -> None:
    root = recordzoo.export(there, tmp_path / "records", to="tfrecord", shard_bytes=SHARD_BYTES, workers=1)
    found, wanted = read(root), given(there)
    assert set(found) == {"train", "val"}
    for split, rows in found.items():
        assert [row["image/encoded"] for row in rows] == list(map(digest, wanted.images[split]))
        assert [row["size"] for row in rows] == sizes(wanted.images[split])
        assert [row["image/class/label"] for row in rows] == [[label] for label in wanted.labels[split]]
        assert [row["image/class/text"] for row in rows] == [[CLASSES[label]] for label in wanted.labels[split]]
        assert [row["image/filename"] for row in rows] == [[name] for name in wanted.names[split]]
        formats = {".jpg": "JPEG", ".png": "PNG"}
        assert [row["image/format"] for row in rows] == [[formats[name[-4:]]] for name in wanted.names[split]]
        for row, fields in zip(rows, wanted.fields[split], strict=True):
            assert row["caption"] == [fields["caption"].encode().decode("latin-1")]
            assert json.loads(*row["boxes"]) == fields["boxes"]
            assert (row["weight"], row["corner"]) == ([fields["weight"]], fields["corner"].tolist())
            assert (row["depth/shape"], row["depth"]) == (list(fields["depth"].shape), fields["depth"].ravel().tolist())
            assert row["code"] == [fields["code"].decode("latin-1")]


def samples(of: Given) -> dict[str, list[tuple[bytes, int]]]:
    """The image and the label of each sample, by split."""
    return {split: list(zip(images, of.labels[split], strict=True)) for split, images in of.images.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to", "format"),
    [
        ("tfrecord", "tfrecord"),
        ("parquet", "huggingface"),
        ("webdataset", "webdataset"),
        ("zip", "zip"),
    ],
)
def test_imported_again_it_is_the_same(to: str, format: str, tmp_path: Path) -> None:
    """One class has no images."""
    path = write(tmp_path / "a.records", classes=(*CLASSES, "fox"))
    output = tmp_path / (f"{to}.zip" if to == "zip" else to)
    root = recordzoo.export(path, output, to=to, shard_bytes=SHARD_BYTES, workers=1)
    again = prepared(root, tmp_path / "again.records", from_=format, workers=1)
    assert RecordReader(again).manifest.classes == (*CLASSES, "fox")
    found, wanted = given(again), given(path)
    if to == "zip":  # in the order of the folders
        assert {key: sorted(each) for key, each in samples(found).items()} == {
            key: sorted(each) for key, each in samples(wanted).items()
        }
    else:
        assert samples(found) == samples(wanted)


@pytest.mark.parametrize(("to", "key"), [("tfrecord", "image/filename"), ("parquet", "name")])
def test_names_come_back_from_a_field(to: str, key: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.records")
    root = recordzoo.export(path, tmp_path / to, to=to)
    again = prepared(root, tmp_path / "again.records", fields={key: "name"}, workers=1)
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


def test_a_number_that_is_negative_and_one_that_is_large(tmp_path: Path) -> None:
    """Varints of ten bytes, and of several."""
    ((image, _),) = pairs(1)
    with RecordWriter(tmp_path / "a.records") as writer:
        for number in (-1, 300, 1 << 40):
            writer.write({"image": image, "target": number, "count": [number, -number]})
    root = recordzoo.export(tmp_path / "a.records", tmp_path / "out", to="tfrecord")
    again = RecordReader(prepared(root, tmp_path / "again.records", workers=1))
    assert again.array("target").tolist() == [-1, 300, 1 << 40]


def test_pixels_that_are_none(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "a.records") as writer:
        writer.write({"image": np.zeros((4, 4, 2), np.uint8), "target": 0})
    with pytest.raises(OtherSourceError, match=r"record 0 \(.*\): an array uint8\[4, 4, 2\] is no image"):
        recordzoo.export(tmp_path / "a.records", tmp_path / "out", to="webdataset")


def one_sample(path: Path, **fields: Any) -> Path:
    with RecordWriter(path) as writer:
        writer.write({"image": pairs(1)[0][0], "target": 1, **fields})
    return path


def test_numbers_that_tfrecord_has_not(tmp_path: Path) -> None:
    good = one_sample(tmp_path / "good.records", big=np.uint64((1 << 63) - 1))
    recordzoo.export(good, tmp_path / "good", to="tfrecord")
    bad = one_sample(tmp_path / "bad.records", big=np.array([1, 1 << 63], np.uint64))
    with pytest.raises(OtherSourceError, match=r"0.*: big holds 9223372036854775808; TFRecord has whole numbers up to"):
        recordzoo.export(bad, tmp_path / "bad", to="tfrecord")
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("to", ["tfrecord", "parquet", "webdataset"])
def test_half_of_a_letter(tmp_path: Path, to: str) -> None:
    """JSON has it as an escape; UTF-8 has it not."""
    path = one_sample(tmp_path / "a.records", caption="a\ud83d")
    if to == "webdataset":
        back = prepared(recordzoo.export(path, tmp_path / "out", to=to), tmp_path / "back.records", workers=1)
        assert RecordReader(back).value("json", 0)["caption"] == "a\ud83d"
        return
    with pytest.raises(OtherSourceError, match=r"0.*: caption has '\\ud83d', half of a letter"):
        recordzoo.export(path, tmp_path / "out", to=to)
