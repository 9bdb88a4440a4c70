"""`split`: the share of each class, groups that stay together, the same division everywhere."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import recordzoo
from recordzoo import RecordReader, RecordWriter
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.records.verify import verify
from tests.combining import assert_holds, every
from tests.running import run


def written(path: Path, count: int = 40, splits: dict[str, range] | None = None) -> RecordReader:
    """A set with two classes, 3 to 1; four records of each patient and each (text) scene."""
    with RecordWriter(path, classes=["cat", "dog"], kinds={"scene": "json"}, shard_bytes=2000) as writer:
        for number in range(count):
            record = {
                "image": bytes([number]) * 50,
                "target": int(number % 4 == 0),
                "patient": number // 4,
                "scene": f"scene {number // 4}",
                "split": [name for name, places in (splits or {}).items() if number in places],
            }
            writer.write(record)
    return RecordReader(path)


def divided(reader: RecordReader, *arguments: object, **options: object) -> RecordReader:
    return RecordReader(recordzoo.split(reader.path, *arguments, **options))


def labelled(path: Path, labels: Sequence[int]) -> RecordReader:
    with RecordWriter(path) as writer:
        for label in labels:
            writer.write({"data": b"", "target": int(label)})
    return RecordReader(path)


def chosen(reader: RecordReader, share: float, seed: int) -> np.ndarray:
    """Which records are in val."""
    output = reader.folder.with_name(f"{seed}.records")
    found = np.zeros(len(reader), bool)
    found[divided(reader, share, seed=seed, output=output).split("val")] = True
    return found


class TestChance:
    def test_each_class_has_its_share(self, tmp_path):
        labels = np.repeat([0, 1, 2, -1], [1000, 100, 14, 6])
        old = labelled(tmp_path / "a.records", labels)
        for seed in range(3):
            counts = [int(chosen(old, 0.1, seed)[labels == label].sum()) for label in (0, 1, 2, -1)]
            assert sum(counts) == 112
            assert counts[:2] == [100, 10]
            assert counts[2:] in ([1, 1], [2, 0])

    def test_it_is_fair_and_seeded(self, tmp_path):
        old = labelled(tmp_path / "a.records", [0] * 100)
        times = sum(chosen(old, 0.3, seed).astype(int) for seed in range(40))
        assert abs(times - 12).max() < 15  # 5 standard deviations of a binomial (40, 0.3)
        found = np.flatnonzero(chosen(old, 0.05, 7000)).tolist()
        assert found == [20, 24, 65, 94, 95]  # the smallest draws of PCG64, which are the same in every NumPy


@pytest.mark.slow
class TestSets:
    def test_all_records_stay_and_the_shards_are_shared(self, tmp_path):
        old = written(tmp_path / "a.records")
        new = divided(old, "20%")
        assert new.path == tmp_path / "a-split.records"
        assert_holds(new, every(old))
        assert {name: len(new.split(name)) for name in new.manifest.splits} == {"train": 32, "val": 8}
        assert sorted([*new.split("train"), *new.split("val")]) == list(range(40))
        assert new.array("target")[new.split("val")].sum() == 2
        assert recordzoo.open(new.path, split="val").targets == new.array("target")[new.split("val")].tolist()
        assert [s.hash for s in new.manifest.shards] == [s.hash for s in old.manifest.shards]
        shutil.rmtree(old.path)
        assert verify(new.path, full=True).problems == []

    @pytest.mark.parametrize("by", ["patient", "scene"])
    def test_groups_stay_together(self, by, tmp_path):
        new = divided(written(tmp_path / "a.records"), 0.2, by=by)
        groups = {name: {place // 4 for place in new.split(name).tolist()} for name in ("train", "val")}
        assert not groups["train"] & groups["val"]
        assert (len(groups["train"]), len(groups["val"])) == (8, 2)

    def test_only_train_is_divided_and_other_splits_stay(self, tmp_path):
        old = written(tmp_path / "a.records", splits={"test": range(8), "train": range(8, 40)})
        new = divided(old, 0.25)
        assert {name: len(new.split(name)) for name in new.manifest.splits} == {"test": 8, "train": 24, "val": 8}
        assert new.split("test").tolist() == list(range(8))
        with pytest.raises(ArgumentError, match="has a split val already"):
            recordzoo.split(new.path, 0.25)
        new = divided(written(tmp_path / "b.records", splits={"test": range(8)}), 0.25)
        assert {name: len(new.split(name)) for name in new.manifest.splits} == {"test": 8, "train": 24, "val": 8}

    def test_the_same_again_and_another_seed(self, tmp_path):
        old = written(tmp_path / "a.records")
        first = divided(old, 0.2)
        assert divided(old, "20%").digest == first.digest
        with pytest.raises(OtherSourceError, match="was not made of these records"):
            recordzoo.split(old.path, 0.2, seed=1)
        other = divided(old, 0.2, seed=1, output=tmp_path / "b.records")
        assert other.split("val").tolist() != first.split("val").tolist()

    def test_what_cannot_be(self, tmp_path):
        old = written(tmp_path / "a.records")
        for val in ("0%", 1.0, "ten", float("nan")):
            with pytest.raises(ArgumentError, match="it must be a share"):
                recordzoo.split(old.path, val)
        with pytest.raises(ArgumentError, match=r"no field 'pateint'; it has .*Did you mean patient"):
            recordzoo.split(old.path, 0.2, by="pateint")
        with pytest.raises(ArgumentError, match="one of the two splits would be empty"):
            recordzoo.split(old.path, 0.001)
        assert os.listdir(tmp_path) == ["a.records"]

    def test_the_command(self, tmp_path):
        written(tmp_path / "a.records")
        words = ["split", "a.records", "--val", "20%", "--by", "patient", "--json"]
        first = run(*words, cwd=tmp_path)
        assert first.returncode == 0, first.stderr
        assert json.loads(first.stdout)["path"] == str(tmp_path / "a-split.records")
        assert json.loads(run(*words, cwd=tmp_path).stdout)["was_ready"]
