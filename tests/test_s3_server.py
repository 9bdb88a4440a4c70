"""The tests' own S3 server: a real client gets the right answers, and the faults that are asked for."""

import os

import fsspec
import pytest

from tests.fakes.s3 import ACCESS_KEY, EXPIRED, SECRET_KEY, SESSION_TOKEN, SLOW_DOWN, Fault

pytestmark = pytest.mark.slow


@pytest.fixture
def client(s3):
    """A file system with the endpoint and credentials of the environment."""
    return fsspec.filesystem("s3", use_listings_cache=False)


def test_a_client_writes_reads_lists_and_removes(s3, client):
    client.pipe_file(f"{s3.url}/photos/1.jpg", b"one")
    s3.put("photos/2 a%.jpg", b"two")
    assert s3.get("photos/1.jpg") == client.cat_file(f"{s3.url}/photos/1.jpg") == b"one"
    assert client.cat_file(f"{s3.url}/photos/2 a%.jpg", start=1, end=3) == b"wo"
    found = {each["name"]: each["size"] for each in client.ls(f"{s3.url}/photos", detail=True)}
    assert found == {f"{s3.name}/photos/1.jpg": 3, f"{s3.name}/photos/2 a%.jpg": 3}
    client.rm_file(f"{s3.url}/photos/1.jpg")
    assert s3.keys() == ["photos/2 a%.jpg"]


def test_a_large_file_is_sent_in_parts(s3, client, tmp_path):
    data = os.urandom(1 << 20) * 12
    (tmp_path / "large").write_bytes(data)
    client.put_file(os.fspath(tmp_path / "large"), f"{s3.url}/large", chunksize=5 << 20)
    assert len(s3.server.requests("large.*partNumber=", "PUT")) == 3
    assert s3.get("large") == data


def test_faults_come_in_their_order_and_end(s3, client):
    s3.put("a", b"0123456789")
    for fault in (Fault(500), SLOW_DOWN, Fault(drop_after=3), Fault(lost=True)):
        s3.server.fail("GET", "/a", fault)
    assert client.cat_file(f"{s3.url}/a", start=0, end=10) == b"0123456789"
    seen = [(each.status, each.sent) for each in s3.server.requests("/a", "GET")]
    assert [status for status, _ in seen] == [500, 503, 206, 0, 206]
    assert [sent for _, sent in seen[2:]] == [3, 0, 10]


def test_wrong_bytes_and_a_stall(s3, client):
    s3.put("a", b"0123456789")
    s3.server.fail("GET", "/a", Fault(flip=2))
    assert client.cat_file(f"{s3.url}/a", start=0, end=10) == b"01\xcd3456789"
    for fault in (Fault(stall_after=5), Fault(mute=True)):
        s3.server.fail("GET", "/a", fault)
        s3.server.stalled.clear()
        with pytest.raises(TimeoutError):
            client.cat_file(f"{s3.url}/a", start=0, end=10, timeout=0.3)
        assert s3.server.stalled.is_set()


def test_expired_credentials(s3, client):
    s3.put("a", b"0123456789")
    s3.server.fail("GET", "/a", EXPIRED, times=None)
    with pytest.raises(PermissionError, match="ExpiredToken"):
        client.cat_file(f"{s3.url}/a", start=0, end=10)


def test_credentials_arrive_signed_and_are_of_the_tests_only(s3, client):
    client.pipe_file(f"{s3.url}/a", b"")
    sent = s3.server.requests("/a", "PUT")[0].headers
    assert ACCESS_KEY in sent["Authorization"]
    assert sent["x-amz-security-token"] == SESSION_TOKEN
    assert SECRET_KEY not in str(sent)
