"""`to_hf`: what `datasets` then has is what the record set has, record for record."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import Subset

import recordzoo
from recordzoo import ImageFolderRecord, RecordReader, RecordWriter
from recordzoo.errors import ArgumentError, CorruptRecordError
from tests.foreign import pairs

SAMPLES = pairs(10)
NAMES = ["crow", "gull", "owl", "tit", "wren"]
FIELDS: dict[str, list[Any]] = {
    "caption": [None if n == 3 else f"é{n}" for n in range(10)],
    "boxes": [[{"x": n, "on": [True]}] for n in range(10)],
    "mixed": [n if n % 2 else f"{n}" for n in range(10)],
    "height": [np.float32(n / 2) for n in range(10)],
    "grid": [np.full((2, 3), n, np.int16) for n in range(10)],
    "track": [np.full((n + 200, 2), n, np.float32) for n in range(10)],
    "blob": [bytes([n, 0, 255]) for n in range(10)],
    "label": [np.int64(-n) for n in range(10)],
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("slow") is None:
        return
    import datasets

    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def write(path: Path, splits: bool = True) -> Path:
    """Write records with fields of all kinds; the last two are in no split."""
    with RecordWriter(path, classes=NAMES) as writer:
        for number, (image, label) in enumerate(SAMPLES):
            sample = {"name": f"a/{number}.jpg", "image": image, "target": label}
            split = {"split": "train" if number < 5 else "val-id" if number < 8 else ""} if splits else {}
            writer.write({**sample, **split, **{name: values[number] for name, values in FIELDS.items()}})
    return path


def raw(rows: Any) -> list[tuple[bytes, str]]:
    """The files of images, undecoded, and their names."""
    import datasets

    undecoded = rows.cast_column("image", datasets.Image(decode=False))
    return [(image["bytes"], image["path"]) for image in undecoded["image"]]


@pytest.mark.slow
def test_every_value_comes_back(tmp_path: Path) -> None:
    from datasets import Array2D, ClassLabel, Image, Json, List, Value

    rows = recordzoo.to_hf(write(tmp_path / "x.records", splits=False))
    assert raw(rows) == [(image, f"{number}.jpg") for number, (image, _) in enumerate(SAMPLES)]
    assert rows["label"][:] == [label for _, label in SAMPLES]
    assert rows["name"][:] == [f"a/{number}.jpg" for number in range(10)]
    assert rows[0]["image"].size == (12, 8)
    assert dict(rows.features) == {
        "image": Image(),
        "label": ClassLabel(names=NAMES),
        "name": Value("string"),
        "caption": Value("string"),
        "boxes": List({"x": Value("int64"), "on": List(Value("bool"))}),
        "mixed": Json(),
        "height": Value("float32"),
        "grid": Array2D((2, 3), "int16"),
        "track": Array2D((None, 2), "float32"),
        "blob": Value("binary"),
        "label_field": Value("int64"),
    }
    for name, values in FIELDS.items():
        found = rows[name if name != "label" else "label_field"][:]
        assert [np.asarray(each).tolist() for each in found] == [np.asarray(each).tolist() for each in values], name


@pytest.mark.slow
def test_splits(tmp_path: Path) -> None:
    path = write(tmp_path / "x.records")
    both = recordzoo.to_hf(path)
    assert {name: rows.num_rows for name, rows in both.items()} == {"train": 5, "val_id": 3, "rest": 2}
    assert raw(both["val_id"]) == [(SAMPLES[n][0], f"{n}.jpg") for n in (5, 6, 7)]
    one = recordzoo.to_hf(RecordReader(path), "val-id")
    assert (one.num_rows, str(one.split)) == (3, "val_id")
    assert raw(one) == raw(both["val_id"])
    with pytest.raises(ArgumentError, match="has no split 'vall'"):
        recordzoo.to_hf(path, "vall")


@pytest.mark.slow
def test_a_dataset_and_a_subset(tmp_path: Path) -> None:
    for label, name in enumerate(("crow", "owl")):
        (tmp_path / "birds" / name).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "birds" / name / f"{number}.png").write_bytes(SAMPLES[4 * label + number][0])
    dataset = ImageFolderRecord(tmp_path / "birds", prepare=True)
    rows = recordzoo.to_hf(Subset(dataset, [5, 0, 4]))
    assert raw(rows) == [(SAMPLES[n][0], f"{n % 4}.png") for n in (6, 0, 5)]
    assert rows["label"][:] == [1, 0, 1]
    assert rows.features["label"].names == ["crow", "owl"]
    assert recordzoo.to_hf(dataset).num_rows == 6
    with pytest.raises(ArgumentError, match="a dataset has its own"):
        recordzoo.to_hf(dataset, "train")
    dataset.samples[0] = ("x", 1)
    with pytest.raises(ArgumentError, match="samples of this ImageFolderRecord were changed"):
        recordzoo.to_hf(dataset)
    with pytest.raises(ArgumentError, match="list is no record set and no dataset of recordzoo"):
        recordzoo.to_hf([])


@pytest.mark.slow
def test_a_damaged_record_is_our_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x.records", splits=False)
    (shard,) = path.glob("*.lmdb")
    data = shard.read_bytes()
    shard.write_bytes(data.replace(SAMPLES[4][0], SAMPLES[4][0][:-1] + b"x"))
    with pytest.raises(CorruptRecordError, match="image 4"):
        recordzoo.to_hf(path)
