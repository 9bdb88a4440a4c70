"""A record set in S3, read with s3fs from a real server: as from HTTP, by forked workers, while the server fails."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import recordzoo
from recordzoo import RecordReader
from recordzoo.errors import RemoteError
from tests.copying import assert_no_secret
from tests.fakes.records import some_values, write_records
from tests.fakes.s3 import EXPIRED, SLOW_DOWN, Fault

VALUES = some_values(40)


@pytest.fixture
def url(s3: Any, tmp_path: Path, own_cache: Path) -> str:
    """The address of a record set of four shards."""
    write_records(tmp_path / "x.records", VALUES, per_shard=10)
    recordzoo.push(tmp_path / "x.records", s3.url)
    return f"{s3.url}/x.records"


@pytest.mark.slow
@pytest.mark.parametrize("cache_bytes", [None, 0])
def test_values_are_those_that_were_pushed_whatever_fails_once(url, s3, cache_bytes):
    for pattern in (r"manifest", r"image\.index", r"shard-00000", r"shard-00001"):
        s3.server.fail("GET", pattern, SLOW_DOWN if "1" in pattern else Fault(500))
    s3.server.fail("GET", r"shard-00002", Fault(drop_after=100))
    reader = RecordReader(url, cache_bytes=cache_bytes)
    reader.hint("image", range(20))
    for each in (reader, pickle.loads(pickle.dumps(reader))):
        assert [each.read("image", position) for position in range(40)] == VALUES


def test_a_checksum_of_the_whole_file_beside_a_range_is_not_compared(url, s3):
    """rclone's server answers so, and Ceph's before 2025; botocore raised."""
    s3.server.fail("GET", r"shard-", Fault(headers={"x-amz-checksum-crc32": "AAAAAA=="}), times=None)
    reader = RecordReader(url, cache_bytes=0)
    assert [reader.read("image", position) for position in (0, 39)] == [VALUES[0], VALUES[39]]


def test_credentials_that_expire_in_mid_epoch_are_one_clear_error(url, s3):
    reader = RecordReader(url, cache_bytes=0)
    assert reader.read("image", 0) == VALUES[0]
    s3.server.fail("GET", r"shard-", EXPIRED, times=None)
    with pytest.raises(RemoteError, match=r"access was refused .* Check the credentials, which may have") as caught:
        reader.read("image", 39)
    assert_no_secret(caught.value)
