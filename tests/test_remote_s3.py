"""A record set in S3, read with s3fs from a real server: as from HTTP, by forked workers, while the server fails."""

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import recordzoo
from recordzoo import RecordReader
from recordzoo.errors import RecordError, RemoteError
from recordzoo.net import http as retry
from tests.fakes.records import some_values, write_records
from tests.fakes.s3 import EXPIRED, SECRET_KEY, SESSION_TOKEN, SLOW_DOWN, Fault

VALUES = some_values(40)


@pytest.fixture
def url(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a record set of four shards."""
    monkeypatch.setattr(retry, "BACKOFF_S", 0.001)
    monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(tmp_path / "cache"))
    write_records(tmp_path / "x.records", VALUES, per_shard=10)
    recordzoo.push(tmp_path / "x.records", s3.url)
    return f"{s3.url}/x.records"


def assert_right(reader: RecordReader) -> None:
    assert [reader.read("image", position) for position in range(40)] == VALUES


@pytest.mark.slow
@pytest.mark.parametrize("cache_bytes", [None, 0])
def test_values_are_those_that_were_pushed_whatever_fails_once(url, s3, cache_bytes, caplog):
    for pattern in (r"manifest", r"image\.index", r"shard-00000", r"shard-00001"):
        s3.server.fail("GET", pattern, SLOW_DOWN if "1" in pattern else Fault(500))
    s3.server.fail("GET", r"shard-00002", Fault(drop_after=100))
    with caplog.at_level(logging.DEBUG, "recordzoo"):
        reader = RecordReader(url, cache_bytes=cache_bytes)
        reader.hint("image", range(20))
        assert_right(reader)
        assert_right(pickle.loads(pickle.dumps(reader)))
    for secret in (SECRET_KEY, SESSION_TOKEN):
        assert secret not in caplog.text
        assert secret.encode() not in pickle.dumps(reader)


def test_credentials_that_expire_in_mid_epoch_are_one_clear_error(url, s3):
    reader = RecordReader(url, cache_bytes=0)
    assert reader.read("image", 0) == VALUES[0]
    s3.server.fail("GET", r"shard-", EXPIRED, times=None)
    with pytest.raises(
        RemoteError, match=r"access was refused .* Check the credentials, which may have expired"
    ) as caught:
        assert_right(reader)
    assert SECRET_KEY not in str(caught.value)
    assert SESSION_TOKEN not in str(caught.value)


def test_a_set_that_is_replaced_in_mid_epoch(url, s3, tmp_path):
    reader = RecordReader(url, cache_bytes=0)
    reader.array("image.index")
    write_records(tmp_path / "y" / "x.records", some_values(40, seed=9), per_shard=10)
    recordzoo.push(tmp_path / "y" / "x.records", s3.url, replace=True)
    with pytest.raises(RecordError, match="was replaced by another record set since it was opened"):
        assert_right(reader)


class Values:
    """A dataset of the values' sums."""

    def __init__(self, reader: RecordReader) -> None:
        self.reader = reader

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, position: int) -> int:
        return int(np.frombuffer(self.reader.read("image", position), np.uint8).sum())


@pytest.mark.slow
@pytest.mark.parametrize("cache_bytes", [None, 0])
def test_forked_workers_read_from_s3(url, cache_bytes):
    dataset = Values(RecordReader(url, cache_bytes=cache_bytes))
    expected = [dataset[position] for position in range(40)]
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="fork")
    assert torch.cat(list(loader)).tolist() == expected
