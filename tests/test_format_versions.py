"""Each released version of the format is read, with the values that were written then."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import recordzoo
from recordzoo import ImageFolderRecord, RecordReader
from recordzoo.records.verify import verify
from tests.format_versions import CLASSES, COUNT, KINDS, NAMES, SPLITS, WRITERS, values


@pytest.mark.parametrize("version", WRITERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_read(version: int, kind: str, tmp_path: Path) -> None:
    WRITERS[version](tmp_path / "old.records", kind)
    reader = RecordReader(tmp_path / "old.records")
    assert (reader.manifest.kind, len(reader), reader.manifest.default_target) == (kind, COUNT, "target")
    assert [reader.names[i].encode("utf-8", "surrogateescape") for i in range(COUNT)] == NAMES
    assert {name: reader.split(name).tolist() for name in reader.manifest.splits} == SPLITS
    expected = values()
    assert sorted(expected) == sorted([*reader.manifest.blobs, *reader.columns])
    for name, each in expected.items():
        for i, value in enumerate(each):
            _same(reader.value(name, i), value)
    assert verify(tmp_path / "old.records", full=True).ok


def _same(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(found, expected)
    else:
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize("version", WRITERS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "zoo"])
def test_a_dataset_class_opens_it(version: int, kind: str, tmp_path: Path) -> None:
    """Not those of the catalogue, whose sets have fields of their own."""
    WRITERS[version](tmp_path / "old.records", kind)
    dataset = ImageFolderRecord(tmp_path / "old") if kind == "folder" else recordzoo.open(tmp_path / "old.records")
    assert (len(dataset), dataset.classes) == (COUNT, CLASSES)
    for i, data in enumerate(values()["image"]):
        image, target = dataset[i]
        with Image.open(io.BytesIO(data)) as expected:
            assert image.tobytes() == expected.tobytes()
        assert target == i % 2
