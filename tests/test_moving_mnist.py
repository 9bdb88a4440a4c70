"""Moving MNIST's file of 0.8 GB: read without a copy and in little memory; and files that are something else."""

import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import recordzoo
from recordzoo.errors import SourceError
from recordzoo.recipes import arrays
from tests import contract
from tests.fakes.arrays import npy, svhn

NAME = "mnist_test_seq.npy"


def write(root: Path, data: bytes) -> Path:
    (root / "MovingMNIST").mkdir()
    (root / "MovingMNIST" / NAME).write_bytes(data)
    return root


def test_a_large_file_takes_little_memory_and_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    videos = np.zeros((20, 500, 64, 64), np.uint8)
    videos[:, :, 0, 0] = np.arange(20)[:, None] + np.arange(500) % 200
    write(tmp_path, npy(videos))
    monkeypatch.setattr(arrays.tempfile, "TemporaryFile", None)
    tracemalloc.start()
    (made,) = recordzoo.prepare("moving_mnist", tmp_path, check_hash=False, workers=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < videos.nbytes // 2
    dataset = recordzoo.open(made)
    assert len(dataset) == 500
    assert all((dataset[index][:, 0].numpy() == videos[:, index]).all() for index in (0, 63, 64, 499))
    assert not hasattr(dataset, "targets")


def test_a_file_that_is_not_copied_is_hashed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    svhn.write_archive(tmp_path)
    monkeypatch.setattr(arrays.tempfile, "TemporaryFile", None)
    other = {**contract.SVHNRecord.split_list, "test": ["", "test_32x32.mat", "0" * 32]}
    monkeypatch.setattr(contract.SVHNRecord, "split_list", other)
    assert len(contract.SVHNRecord(tmp_path, "train")) == 12
    with pytest.raises(SourceError, match=r"test_32x32\.mat is damaged: its MD5 is .* not 0{32}"):
        contract.SVHNRecord(tmp_path, "test")


def saved(array: NDArray[Any], version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


FRAMES = np.zeros((20, 2, 64, 64), np.uint8)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>not found</html>",
        saved(FRAMES)[:-1],
        saved(FRAMES, (2, 0)),
        saved(FRAMES.astype(np.float32)),
        saved(np.asfortranarray(FRAMES)),
        saved(FRAMES.transpose(1, 0, 2, 3)),
        saved(FRAMES[0]),
    ],
    ids=["empty", "a page", "cut", "version 2", "floats", "column-major", "videos first", "one frame"],
)
def test_a_file_that_is_something_else(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"mnist_test_seq\.npy is not a file of moving_mnist"):
        recordzoo.prepare("moving_mnist", write(tmp_path, data), check_hash=False, workers=1)
