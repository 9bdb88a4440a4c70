"""`RecordWriter` and what `RecordReader` gives of it: a whole set when the block ends, and nothing before."""

import contextlib
import errno
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from recordzoo import ImageFolderRecord, RecordReader, RecordWriter
from recordzoo.errors import ArgumentError, DiskSpaceError, PrepareError, SampleError
from recordzoo.preparing.convert import UnitShards
from recordzoo.records.verify import verify
from tests.fakes.samples import jpeg


def write(path: Path, records: Iterable[dict[str, Any]], **options: Any) -> RecordReader:
    with RecordWriter(path, **options) as writer:
        for record in records:
            writer.write(record)
    return RecordReader(path)


def some(count: int = 300) -> list[dict[str, Any]]:
    return [
        {
            "image": jpeg(i),
            "target": i % 2,
            "box": np.arange(4) * i,
            "caption": f"number {i}",
            "depth": np.full((20 + i % 3, 40, 2), i, np.float32),
            "split": ["train"] if i % 3 else ["test", "hard"],
        }
        for i in range(count)
    ]


def test_all_fields_of_all_records_come_back(tmp_path: Path) -> None:
    records = some()
    reader = write(tmp_path / "my.records", records, shard_bytes=100_000)
    assert len(reader.manifest.shards) > 5
    for number, (record, given) in enumerate(zip(reader, records, strict=True)):
        assert record["name"] == f"{number:09d}.jpg"
        assert list(record) == ["name", "caption", "depth", "image", "box", "target"]
        assert all(record[field] == given[field] for field in ("image", "target", "caption"))
        assert np.array_equal(record["box"], given["box"])
        assert np.array_equal(record["depth"], given["depth"])
        assert record["depth"].dtype == np.float32
    assert reader.split("test").tolist() == reader.split("hard").tolist() == list(range(0, 300, 3))
    assert reader.split("train").tolist() == [i for i in range(300) if i % 3]
    assert verify(tmp_path / "my.records", full=True).ok
    assert [path.name for path in tmp_path.iterdir()] == ["my.records"]


def test_a_reader_is_a_sequence_of_records(tmp_path: Path) -> None:
    reader = write(tmp_path / "my.records", some(7))
    assert reader[-1]["target"] == reader[6]["target"] == reader[np.int64(6)]["target"] == 0
    for position in (7, -8):
        with pytest.raises(IndexError, match=r"out of range: .* has 7 records"):
            reader[position]
    with pytest.raises(TypeError):
        reader["image"]  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        reader[0]["depth"][0, 0, 0] = 1


def test_names_and_classes(tmp_path: Path) -> None:
    records = [{"name": f"{'ab'[i % 2]}/ä {i}.jpg", "image": jpeg(i), "target": i % 2} for i in range(9)]
    write(tmp_path / "my.records", records, classes=["a", "b"])
    dataset = ImageFolderRecord(tmp_path / "my.records")
    assert dataset.classes == ["a", "b"]
    assert dataset.samples[3] == (str(tmp_path / "my.records" / "b" / "ä 3.jpg"), 1)
    wanted = Image.open(io.BytesIO(jpeg(3))).convert("RGB")
    assert dataset[3][0].tobytes() == wanted.tobytes()


def test_classes_of_targets_that_are_no_labels_are_in_the_metadata(tmp_path: Path) -> None:
    records = [{"image": jpeg(i), "target": np.array([i % 2, 1])} for i in range(9)]
    reader = write(tmp_path / "my.records", records, classes=["a", "b"])
    assert (reader.manifest.classes, reader.manifest.metadata["classes"]) == (None, ["a", "b"])
    records = [{"image": jpeg(i), "target": i % 2} for i in range(9)]
    assert "classes" not in write(tmp_path / "two.records", records, classes=["a", "b"]).manifest.metadata


def test_a_split_of_it_as_a_dataset(tmp_path: Path) -> None:
    write(tmp_path / "my.records", [{k: r[k] for k in ("image", "target", "split")} for r in some(30)])
    train = ImageFolderRecord(tmp_path / "my.records", split="train")
    assert len(train) == 20
    assert train.targets == [i % 2 for i in range(30) if i % 3]
    with pytest.raises(ArgumentError, match=r"no split 'val'; it has hard, test, train"):
        ImageFolderRecord(tmp_path / "my.records", split="val")
    with pytest.raises(ArgumentError, match=r"Argument split is 'train', but .* is not a record set"):
        ImageFolderRecord(tmp_path, split="train")


def test_a_value_that_does_not_fit_the_fields_of_those_before_is_refused(tmp_path: Path) -> None:
    records = [{"image": jpeg(0), "target": target} for target in (*[(1, 2)] * 300, (1, 2, 3))]
    with pytest.raises(SampleError, match=r"position 300: 'target' holds a .*\(pass kinds={'target': 'json'}"):
        write(tmp_path / "my.records", records)
    assert list(tmp_path.iterdir()) == []
    assert len(write(tmp_path / "my.records", records, kinds={"target": "json"})) == 301


def test_values_may_be_put_into_the_same_array_each_time(tmp_path: Path) -> None:
    box, depth = np.zeros(3), np.zeros((40, 40), np.float32)

    def records() -> Iterator[dict[str, Any]]:
        for i in range(300):
            box[:], depth[:] = i, i
            yield {"image": jpeg(0), "box": box, "depth": depth}

    reader = write(tmp_path / "my.records", records())
    assert reader.array("box").tolist() == [[i] * 3 for i in range(300)]
    assert [record["depth"][0, 0] for record in reader] == list(range(300))


def test_a_record_of_no_split_or_twice_of_one(tmp_path: Path) -> None:
    records = [{"image": jpeg(0), "split": split} for split in (None, ["a", "a"], "a", [])]
    reader = write(tmp_path / "my.records", records)
    assert {name: reader.split(name).tolist() for name in reader.manifest.splits} == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        ({"image": b"x", "split": "Train"}, {}, "'Train' cannot be a split's name"),
        ({"image": b"x", "split": [5]}, {}, "5 cannot be a split's name"),
        ({"image": b"x", "name": 5}, {}, "the name 5 is not valid"),
        ({"image": b"x", "name": "\ud800"}, {}, "is not valid"),
        ({"image": b"x", "target": np.int64(2)}, {"classes": ["a", "b"]}, "2 is not a label: with 2 classes"),
        ({"image": b"x", "target": torch.tensor(-1)}, {"classes": ["a", "b"]}, "-1 is not a label: with 2 classes"),
        ({"Image": b"x"}, {}, "'Image' cannot be a field's name"),
        ({"image": b"x"}, {"kinds": {"images": "raw"}}, "kinds names images, but the fields are image"),
    ],
)
def test_arguments(record: Any, options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=message):
        write(tmp_path / "my.records", [record], **options)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_overwritten_unasked(tmp_path: Path) -> None:
    write(tmp_path / "my.records", some(5))
    with pytest.raises(PrepareError, match=r"is there already\. Pass refresh=True"):
        write(tmp_path / "my.records", some(6))
    assert len(RecordReader(tmp_path / "my.records")) == 5
    (tmp_path / "link.records").symlink_to("my.records")
    assert len(write(tmp_path / "link.records", some(6), refresh=True)) == 6
    (tmp_path / "link.records").unlink()
    assert len(RecordReader(tmp_path / "my.records")) == 6
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").touch()
    with pytest.raises(PrepareError, match="is in the way"):
        write(tmp_path / "thesis", some(6), refresh=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.records", "thesis"]


def test_no_records_no_set(tmp_path: Path) -> None:
    with pytest.raises(PrepareError, match="No records were written to"):
        write(tmp_path / "my.records", [])
    with pytest.raises(PrepareError, match="writes only inside its with block"):
        RecordWriter(tmp_path / "my.records").write({"image": b"x"})
    assert list(tmp_path.iterdir()) == []


class TestOneBlockAfterAnother:
    """What a block leaves, and what the next one on the same writer or path finds."""

    def test_a_failed_block_leaves_nothing_for_the_next(self, tmp_path: Path) -> None:
        writer = RecordWriter(tmp_path / "my.records")
        with contextlib.suppress(ZeroDivisionError), writer:
            writer.write({"image": jpeg(0), "target": 0})
            raise ZeroDivisionError
        with writer:
            assert len(writer) == 0
            writer.write({"label": 7})
        assert len(writer) == 1
        with pytest.raises(PrepareError, match="writes only inside its with block"):
            writer.write({"label": 8})
        reader = RecordReader(tmp_path / "my.records")
        assert [reader[0], len(reader)] == [{"name": "000000000", "label": 7}, 1]

    def test_a_refused_first_record_fixes_no_fields(self, tmp_path: Path) -> None:
        with RecordWriter(tmp_path / "my.records") as writer:
            with pytest.raises(ArgumentError, match="cannot be a split's name"):
                writer.write({"image": jpeg(0), "split": "Train"})
            writer.write({"x": 1})
        assert RecordReader(tmp_path / "my.records")[0] == {"name": "000000000", "x": 1}

    def test_a_record_whose_second_value_is_refused_is_not_stored(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("recordzoo.own.writer.MAX_VALUE_BYTES", 5000)
        with RecordWriter(tmp_path / "my.records") as writer:
            writer.write({"a": b"1", "b": b"2"})
            with pytest.raises(SampleError, match="position 1: 'b' has 6,000 bytes, more than a shard takes"):
                writer.write({"a": b"3", "b": bytes(6000)})
            writer.write({"a": b"5", "b": b"6"})
        reader = RecordReader(tmp_path / "my.records")
        assert [(each["a"], each["b"]) for each in reader] == [(b"1", b"2"), (b"5", b"6")]
        assert sum(spec.num_values for spec in reader.manifest.shards) == 4

    def test_after_a_full_disk_nothing_is_published(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not even if the program goes on: some values of a record may be stored, and others not."""
        original, calls = UnitShards.put, []

        def put(self: UnitShards, blob: Any, mark: Any) -> None:
            calls.append(blob)
            if len(calls) == 4:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            original(self, blob, mark)

        def write_on() -> None:
            with RecordWriter(tmp_path / "my.records") as writer:
                writer.write({"a": b"1", "b": b"2"})
                with pytest.raises(DiskSpaceError, match="Nothing is kept; free some space"):
                    writer.write({"a": b"3", "b": b"4"})
                with pytest.raises(PrepareError, match="nothing is published"):
                    writer.write({"a": b"5", "b": b"6"})

        monkeypatch.setattr(UnitShards, "put", put)
        with pytest.raises(PrepareError, match=r"Record 1 could not be stored .*; nothing is published"):
            write_on()
        assert list(tmp_path.iterdir()) == []

    def test_a_second_writer_is_refused(self, tmp_path: Path) -> None:
        with RecordWriter(tmp_path / "my.records") as writer:
            with pytest.raises(PrepareError, match="another thread of this process is writing"):
                write(tmp_path / "my.records", some(6))
            writer.write({"x": 1})
        assert len(RecordReader(tmp_path / "my.records")) == 1
