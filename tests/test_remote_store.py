"""Files at URLs: what is shown of an address, which failures pass, what is said of the others."""

import pickle
import random
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from recordzoo.errors import ArgumentError, RemoteError
from recordzoo.net import store as store_module
from recordzoo.net import url as url_module
from recordzoo.net.store import Store
from recordzoo.net.url import Url, is_url
from tests.fakes.server import Fault, FileServer

PIECE_BYTES = 64 << 10
DATA = random.Random(3).randbytes(PIECE_BYTES * 2 + 12_345)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch, short_pauses: None) -> Iterator[None]:
    """No pauses between attempts, small pieces, no login of another test."""
    monkeypatch.setattr(store_module, "PIECE_BYTES", PIECE_BYTES)
    yield
    url_module._secrets.clear()


def fetched(store: Store, name: str = "a.bin", size: int = len(DATA), start: int = 0) -> bytes:
    return b"".join(store.pieces(name, size, start))


@pytest.mark.parametrize(
    ("text", "shown", "child"),
    [
        ("s3://bucket/set.records/", "s3://bucket/set.records", "s3://bucket/set.records/a"),
        ("https://me:pa:ss@host:8080/x", "https://host:8080/x", "https://me:pa:ss@host:8080/x/a"),
        ("https://TOKEN@host/x", "https://host/x", "https://TOKEN@host/x/a"),
        ("https://host/x?sig=abc&se=1", "https://host/x", "https://host/x/a?sig=abc&se=1"),
        ("abfss://box@account.net/x", "abfss://box@account.net/x", "abfss://box@account.net/x/a"),
        ("http://u:p@[::1]:80/x", "http://[::1]:80/x", "http://u:p@[::1]:80/x/a"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(text, shown, child):
    url = Url.parse(text)
    assert (str(url), (url / "a").full) == (shown, child)
    assert repr(url) == f"Url(public={shown!r})"
    data = pickle.dumps(url / "a")
    for secret in (b"pa:ss", b"TOKEN", b"sig=", b"u:p"):
        assert secret not in data
    assert pickle.loads(data).full == child  # in this process, which knows the login


def test_what_is_a_url_and_what_a_path():
    assert [is_url(each) for each in ("s3://bucket/x", "simplecache::http://host/x")] == [True, True]
    assert not any(is_url(each) for each in ("/data/x", "C:\\data", "a::b", Path("data")))
    with pytest.raises(ArgumentError, match="is no URL"):
        Url.parse("/data")
    with pytest.raises(ArgumentError, match="Pass the URL as a string"):
        is_url(Path("mongodb://me:secret@host/x"))
    with pytest.raises(ArgumentError, match=r"'simplecache::http://host/x' is a chain of file systems\. Give the last"):
        Url.parse("simplecache::http://me:secret@host/x?secret")


def test_a_file_comes_in_pieces_and_from_any_byte_on():
    with FileServer({"a.bin": DATA}) as server:
        store = pickle.loads(pickle.dumps(Store(Url.parse(server.url))))
        assert fetched(store) == DATA
        assert len(server.requests("a.bin")) == 3
        assert fetched(store, start=PIECE_BYTES + 7) == DATA[PIECE_BYTES + 7 :]
        assert store.size("a.bin") == len(DATA)
        assert store.size("b.bin") is None
        assert store.read("a.bin", 10) == DATA[:10]


@pytest.mark.parametrize(
    "fault",
    [Fault(status=500), Fault(status=503), Fault(status=429), Fault(missing=10), Fault(drop_after=1000, reset=True)],
    ids=["500", "503", "429", "cut", "reset"],
)
def test_what_may_pass_is_tried_again_and_nobody_notices(fault):
    with FileServer({"a.bin": DATA}, {"a.bin": [fault, fault]}) as server:
        assert fetched(Store(Url.parse(server.url))) == DATA
        assert len(server.requests("a.bin")) == 5


def test_the_pause_that_a_server_asks_for_is_kept_up_to_five_minutes(monkeypatch):
    recorded = []
    monkeypatch.setattr(store_module.time, "sleep", recorded.append)
    faults = [Fault(status=429, retry_after="7"), Fault(status=503, retry_after="soon"), Fault(status=503)]
    with FileServer({"a.bin": DATA}, {"a.bin": faults}) as server:
        assert Store(Url.parse(server.url)).read("a.bin", 100) == DATA[:100]
    assert recorded[0] == 7
    assert max(recorded[1:]) < 1
    with FileServer({"a.bin": DATA}, {"a.bin": [Fault(status=429, retry_after="301")]}) as server:
        with pytest.raises(RemoteError, match="429"):
            Store(Url.parse(server.url)).read("a.bin", 100)
        assert len(server.requests("a.bin")) == 1


@pytest.mark.slow
def test_what_stalls_is_noticed_and_requested_again(monkeypatch):
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "1")
    with FileServer({"a.bin": DATA}, {"a.bin": [Fault(stall_after=5000)]}) as server:
        assert fetched(Store(Url.parse(server.url))) == DATA


@pytest.mark.parametrize("status", [400, 401, 403])
def test_what_will_not_pass_is_said_at_once_and_without_credentials(status):
    with FileServer({"a.bin": DATA}, {"a.bin": [Fault(status=status)] * 9}) as server:
        url = Url.parse(server.url.replace("://", "://me:geheim@") + "?sig=geheim")
        with pytest.raises(RemoteError) as caught:
            Store(url).read("a.bin", 100)
        assert len(server.requests("a.bin")) == 1
    assert caught.value.status == status
    assert str(caught.value).startswith(f"{server.url}/a.bin cannot be read: ")
    assert ("credentials" in str(caught.value)) == (status != 400)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.details)
    assert "geheim" not in shown
    assert b"geheim" not in pickle.dumps(caught.value)


def test_a_file_that_is_not_there_or_became_shorter():
    with FileServer({"a.bin": DATA[:1000]}) as server:
        store = Store(Url.parse(server.url))
        with pytest.raises(RemoteError, match=r"b\.bin cannot be read: there is no such file") as caught:
            store.read("b.bin", 10)
        assert caught.value.status == 404
        with pytest.raises(RemoteError, match="it is shorter than it was"):
            fetched(store, size=2000)
        with pytest.raises(RemoteError, match="it is shorter than it was"):
            store.read_range("a.bin", 5000, 6000, 9000)


def test_a_server_that_knows_no_ranges_sends_the_file_once_more_at_most():
    faults = [Fault(ignore_range=True)] * 99
    with FileServer({"a.bin": DATA}, {"a.bin": faults}) as server:
        store = Store(Url.parse(server.url))
        assert fetched(store) == DATA
        before = len(server.requests("a.bin"))
        assert fetched(store) == DATA
        assert len(server.requests("a.bin")) == before + 1


def test_a_server_that_is_gone_and_a_scheme_that_is_unknown(monkeypatch):
    with FileServer({}) as server:
        pass
    with pytest.raises(RemoteError, match=r"cannot be read: .*Try again\."):
        Store(Url.parse(server.url)).read("a.bin", 10)
    with pytest.raises(RemoteError, match="nonsense://x cannot be opened: Protocol not known"):
        Store(Url.parse("nonsense://x")).read("a.bin", 10)
    monkeypatch.setenv("RECORDZOO_OFFLINE", "1")
    with pytest.raises(RemoteError, match="RECORDZOO_OFFLINE is set"):
        Store(Url.parse(server.url)).read("a.bin", 10)
