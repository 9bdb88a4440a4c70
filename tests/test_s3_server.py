"""The tests' own S3 server: a real client gets the right answers, and the faults that are asked for."""

import fsspec
import pytest

from tests.fakes.s3 import SLOW_DOWN, Fault

pytestmark = pytest.mark.slow


@pytest.fixture
def client(s3):
    """A file system with the endpoint and credentials of the environment."""
    return fsspec.filesystem("s3", use_listings_cache=False)


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
