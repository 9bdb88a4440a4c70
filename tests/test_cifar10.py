"""CIFAR10Record beyond the contract: hostile and damaged batches, what is read and when, a download."""

import copy
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordzoo import catalogue
from recordzoo.datasets.cifar_recipe import load_batch
from recordzoo.errors import NotPreparedError, SourceError
from recordzoo.records.reader import RecordReader
from tests.contract import CIFAR10Record
from tests.fakes import cifar as cifar10
from tests.fakes.fake import Fake

FAKE = cifar10.build()
BATCHES = cifar10.batches()


def test_facts_are_torchvisions() -> None:
    from torchvision.datasets import CIFAR10 as REAL

    (remote,) = catalogue.entry("cifar10").raw_files()
    assert (remote.name, remote.md5, remote.urls[0]) == (REAL.filename, REAL.tgz_md5, REAL.url)


def test_a_pickle_may_ask_for_arrays_only() -> None:
    """All that is refused is tried in test_unpickle.py."""
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ValueError, match="Popen"):
            load_batch(pickle.dumps({"data": subprocess.Popen}, protocol))


@pytest.mark.parametrize("data", [b"", b"\x80", b"no pickle", pickle.dumps([1]), BATCHES["test_batch"][:-100]])
def test_what_is_no_batch(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it cannot be unpickled|it holds a list"):
        load_batch(data)


def test_a_batch_of_ones_own_is_taken_without_its_hash(tmp_path: Path) -> None:
    FAKE.write_tree(tmp_path)
    path = tmp_path / cifar10.FOLDER / "data_batch_3"
    batch = pickle.loads(path.read_bytes(), encoding="latin1")
    path.write_bytes(pickle.dumps({**batch, "labels": [0] * len(batch["labels"])}))
    with pytest.raises(SourceError, match="data_batch_3 is damaged"):
        CIFAR10Record(tmp_path)
    assert not (tmp_path / "cifar10.records").exists()
    ours = CIFAR10Record(tmp_path, check_hash=False)
    assert ours.targets[14:21] == [0] * 7
    assert RecordReader(ours.records_path).manifest.raw_files == ()  # nothing that was compared


def test_an_archive_of_ones_own_is_taken_without_its_hashes(tmp_path: Path) -> None:
    FAKE.write_archive(tmp_path)
    wrong = {"train_list": [[name, "0" * 32] for name, _ in cifar10.lists(BATCHES)["train_list"]]}
    kind = type("Repacked", (CIFAR10Record,), wrong)
    with pytest.raises(SourceError, match="data_batch_1 is damaged"):
        kind(tmp_path)
    (file,) = RecordReader(kind(tmp_path, check_hash=False).records_path).manifest.raw_files
    assert file.hash is None


@pytest.mark.parametrize(
    "content",
    [
        {"data": np.zeros((7, 3072), np.float32), "labels": [0] * 7},
        {"data": np.zeros((7, 3071), np.uint8), "labels": [0] * 7},
        {"data": np.zeros((7, 3072), np.uint8), "labels": [0] * 6},
        {"data": np.zeros((7, 3072), np.uint8), "labels": ["a"] * 7},
        {"data": [1, 2], "labels": [0, 1]},
        {},
    ],
)
def test_a_batch_with_other_content(tmp_path: Path, content: dict[str, Any]) -> None:
    data = cifar10.python2_pickle(content)
    files = {**BATCHES, "data_batch_2": data}
    Fake("cifar10", cifar10.packed(files), ()).write_tree(tmp_path)
    kind = type("Changed", (CIFAR10Record,), cifar10.lists(files))
    with pytest.raises(SourceError, match=r"data_batch_2 is not a file of cifar10|there are 42 images, but target 41"):
        kind(tmp_path)


def test_an_incomplete_tree_is_none(tmp_path: Path) -> None:
    FAKE.write_tree(tmp_path)
    (tmp_path / cifar10.FOLDER / "test_batch").unlink()
    with pytest.raises(NotPreparedError, match=r"cifar-10-batches-py/, cifar-10-python\.tar\.gz"):
        CIFAR10Record(tmp_path)
    FAKE.write_archive(tmp_path)
    assert len(CIFAR10Record(tmp_path)) == 35


def test_samples_are_read_one_by_one_until_the_data_is_asked_for(tmp_path: Path) -> None:
    ours = CIFAR10Record(FAKE.write_tree(tmp_path))
    assert ours[3][0].tobytes() == ours.read(3)
    assert "data" not in ours.__dict__
    ours.data[3] = 0
    assert set(ours[3][0].tobytes()) == {0}
    assert set(pickle.loads(pickle.dumps(ours))[3][0].tobytes()) == {0}
    assert ours.data.flags.writeable
    assert ours.data.shape == (35, 32, 32, 3)


def test_a_pickle_reads_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = CIFAR10Record(FAKE.write_tree(tmp_path))
    assigned = CIFAR10Record(tmp_path)
    assigned.data = ours.data.copy()
    as_list = CIFAR10Record(tmp_path)
    as_list.data = ours.data.tolist()
    expected = ours.data.copy()
    size = len(pickle.dumps(CIFAR10Record(tmp_path)))
    with monkeypatch.context() as patch:
        patch.setattr(RecordReader, "read", None)  # any reading fails
        assert len(pickle.dumps(ours)) == size
        assert len(pickle.dumps(copy.copy(ours))) == size
        assert np.array_equal(pickle.loads(pickle.dumps(assigned)).data, expected)
        ours.data[3, 0, 0, 0] ^= 1
        twin = pickle.loads(pickle.dumps(ours))
        assert np.array_equal(twin.data, ours.data)
        assert np.array_equal(pickle.loads(pickle.dumps(twin)).data, ours.data)
        assert np.array_equal(copy.deepcopy(ours).data, ours.data)
    assert pickle.loads(pickle.dumps(as_list)).data == as_list.data
    ours.data = expected[::-1]
    assert np.array_equal(pickle.loads(pickle.dumps(ours)).data, expected[::-1])
    ours.data = expected.astype(object)
    assert pickle.loads(pickle.dumps(ours)).data.dtype == object
