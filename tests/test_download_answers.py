"""What a server answers, and whether its bytes count."""

import datetime
import hashlib
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recordzoo.errors import DownloadError, HashMismatchError
from recordzoo.net import download as transfer
from recordzoo.net import http as answer
from recordzoo.net import http as retry
from recordzoo.net.url import RemoteFile
from tests.downloading import (
    DATA,
    NAME,
    OTHER,
    PAGE,
    Recorder,
    files,
    get,
    leave_part,
    quick,  # noqa: F401 - a fixture
    remote,
    serve,
    serve_always,
)
from tests.fakes.server import LAST_MODIFIED, Fault, FileServer

# What is asked for is the rest, from byte 1000


@dataclass(frozen=True)
class Row:
    """An answer to a request for the rest of a file, and what follows from it.

    Attributes:
        answer: The server's fault, if it is one.
        statuses: Of this answer and those to the requests that it led to.
        kept: How many bytes that were there before counted in the end.
        error: What is raised, if the file cannot be had like this.
        message: What the error says.
        first: The answer that brought the first 1000 bytes.
    """

    answer: Fault
    statuses: list[int]
    kept: int
    error: type[Exception] | None = None
    message: str = ""
    first: Fault = field(default_factory=lambda: Fault(drop_after=1000))


CHANGED = Fault(body=OTHER, drop_after=1000)
ROWS = {
    "206 from there": Row(Fault(), [206], 1000),
    "206 of unknown length": Row(Fault(length="close", content_range=f"bytes 1000-{len(DATA) - 1}/*"), [206], 1000),
    "206 in chunks": Row(Fault(length="chunked"), [206], 1000),
    "206 from behind": Row(Fault(shift=5), [206, 200], 0),
    "206 from before": Row(Fault(shift=-5), [206, 200], 0),
    **{
        f"206 with Content-Range {text!r}": Row(Fault(content_range=text), [206, 200], 0)
        for text in ("", "bytes", "bytes 1000-", "items 1000-2000/*")
    },
    "206 of a changed file": Row(Fault(ignore_if_range=True), [206, 200], 0, first=CHANGED),
    "200 of a changed file": Row(Fault(), [200], 0, first=CHANGED),
    "200 though a range was asked for": Row(Fault(ignore_range=True), [200], 0),
    "200 of a web page": Row(Fault(ignore_range=True, body=PAGE), [200], 1000, DownloadError, "a web page titled"),
    "416": Row(Fault(unsatisfiable=True), [416, 200], 0),
    "more than the rest": Row(Fault(extra=b"x", content_range=""), [206, 200], 0),
    "a longer file": Row(
        Fault(body=DATA + b"x", ignore_range=True), [200, 200], 1000, HashMismatchError, "sends 1000005 bytes"
    ),
    "content encoding gzip": Row(Fault(encoding="gzip"), [206], 1000, DownloadError, "Content-Encoding gzip"),
}


@pytest.mark.parametrize("facts", [{}, {"sha256": None}], ids=["hash known", "hash unknown"])
@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_an_answer_to_a_request_for_the_rest(tmp_path: Path, row: Row, facts: dict[str, Any]) -> None:
    answers = [row.answer] * (len(row.statuses) if row.error else 1)
    with serve(row.first, *answers) as server:
        if row.error:
            with pytest.raises(row.error, match=row.message):
                get(remote(server, **facts), tmp_path)
            assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[: row.kept]
        else:
            assert get(remote(server, **facts), tmp_path).read_bytes() == DATA
            assert server.log[-1].sent == len(DATA) - row.kept
    assert server.log[1].range == "bytes=1000-"
    assert [request.status for request in server.log[1:]] == row.statuses


# Wrong answers


def test_a_range_that_can_never_be_had_is_given_up(tmp_path: Path) -> None:
    with FileServer({}, {NAME: itertools.repeat(Fault(status=416))}) as server, pytest.raises(DownloadError):
        get(remote(server), tmp_path)
    assert len(server.log) == retry.ATTEMPTS


def test_a_changed_file_of_another_size_begins_progress_again(tmp_path: Path) -> None:
    recorder = Recorder()
    with serve(Fault(body=OTHER[:200_000], drop_after=150_000)) as server:
        get(remote(server, size_bytes=None), tmp_path, progress=recorder)
    assert recorder.begun == [(200_000, 0), (len(DATA), 0)]


@pytest.mark.parametrize("length", ["", "close", "chunked"])
def test_a_long_body_is_an_error_and_not_kept(tmp_path: Path, length: str) -> None:
    with serve_always(Fault(extra=b"more", length=length)) as server:
        with pytest.raises(HashMismatchError, match=r"expected 1000004 bytes, but http://.* sends (more|1000008)"):
            get(remote(server), tmp_path, progress=Recorder())
        assert files(tmp_path) == set()
        path = get(remote(server), tmp_path, check_hash=False)
    assert path.read_bytes() == DATA + b"more"


def test_a_file_of_another_size_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    leave_part(tmp_path, DATA[:1000])
    with (
        serve(data=DATA * 30) as server,
        pytest.raises(HashMismatchError, match=r"sends 30000120 bytes; nothing of them was kept.*check_hash=False"),
    ):
        get(remote(server), tmp_path)
    assert server.sent(NAME) < len(DATA * 30)
    assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[:1000]


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/octet-stream"])
def test_a_web_page_is_said_to_be_one(tmp_path: Path, content_type: str) -> None:
    leave_part(tmp_path, DATA[:1000])
    with serve_always(Fault(body=PAGE, content_type=content_type, ignore_range=True)) as server:
        with pytest.raises(DownloadError, match=r"a web page titled 'Sign in & accept' instead of birds\.tgz") as error:
            get(remote(server), tmp_path)
        assert len(server.log) == 1
        assert f"{server.url}/{NAME}" in str(error.value)
    assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[:1000]
    assert files(tmp_path) == {f"{NAME}.part"}


def test_a_text_that_is_called_a_web_page_is_one_and_an_archive_is_not(tmp_path: Path) -> None:
    quota = Fault(body=b"quota exceeded", content_type="text/html")
    with serve(quota) as server, pytest.raises(DownloadError, match="a web page without a title"):
        get(remote(server), tmp_path)
    with serve(Fault(content_type="text/html")) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA


def test_a_web_page_that_is_wanted_is_downloaded(tmp_path: Path) -> None:
    with FileServer({"index.html": PAGE}) as server:
        file = RemoteFile("index.html", (f"{server.url}/index.html",))
        assert get(file, tmp_path).read_bytes() == PAGE


# Busy and unwilling servers


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(tmp_path: Path, status: int) -> None:
    with serve(*[Fault(status=status)] * 4) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert len(server.log) == 5


def test_a_server_that_stays_busy_is_given_up(tmp_path: Path) -> None:
    with serve_always(Fault(status=503)) as server, pytest.raises(DownloadError, match="503 Service Unavailable"):
        get(remote(server), tmp_path)
    assert len(server.log) == retry.ATTEMPTS
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    ("status", "hint"),
    [(400, "mirror"), (401, "login"), (403, "terms"), (404, "moved"), (407, "proxy"), (410, "moved"), (451, "mirror")],
)
def test_a_server_that_refuses_is_not_asked_again(tmp_path: Path, status: int, hint: str) -> None:
    leave_part(tmp_path, DATA[:10])
    with serve_always(Fault(status=status)) as server, pytest.raises(DownloadError, match=hint) as error:
        get(remote(server, instructions="1. Open the page."), tmp_path)
    assert f"answered {status}" in str(error.value)
    assert str(error.value).endswith("1. Open the page.")
    assert len(server.log) == 1
    assert files(tmp_path) == {f"{NAME}.part"}


def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the waits instead of waiting: the clock is the one thing here that no server can serve."""
    recorded: list[float] = []
    monkeypatch.setattr(transfer.time, "sleep", recorded.append)
    return recorded


def test_retry_after_is_kept_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = waits(monkeypatch)
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=100)
    texts = ["7", f"{soon:%a, %d %b %Y %H:%M:%S GMT}", "soon", None]
    with serve(*[Fault(status=429, retry_after=text) for text in texts]) as server:
        get(remote(server), tmp_path)
    assert recorded[0] == 7
    assert 60 < recorded[1] <= 100
    assert recorded[2] <= 0.004
    assert recorded[3] <= 0.008


def test_waits_grow_and_are_jittered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = waits(monkeypatch)
    monkeypatch.setattr(retry, "BACKOFF_S", 20.0)
    with serve_always(Fault(status=500)) as server, pytest.raises(DownloadError):
        get(remote(server), tmp_path)
    assert 10 <= recorded[0] <= 20
    assert all(15 <= wait <= retry.BACKOFF_CAP_S for wait in recorded[1:])
    assert len(set(recorded)) == len(recorded) == 4


def test_a_server_that_asks_to_wait_for_long_has_failed(tmp_path: Path) -> None:
    message = r"429 Too Many Requests and asks to come back in 2 h 00 min.*5 kB"
    faults = Fault(drop_after=5000), Fault(status=429, retry_after="7200")
    with serve(*faults) as server, pytest.raises(DownloadError, match=message):
        get(remote(server), tmp_path)
    assert f"{NAME}.part" in files(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("0", 0),
        ("120", 120),
        ("-1", None),
        ("1.5", None),
        ("nan", None),
        ("Sat, 01 Jan 2000 00:00:30 GMT", 30),
        ("Sat, 01 Jan 2000 00:00:30 -0000", 30),
        ("Fri, 31 Dec 1999 00:00:00 GMT", 0),
        ("never", None),
        ("9" * 400, 1e9),
        ("9" * 5000, 1e9),
        ("Mon, 01 Jan 99999999999 00:00:00 GMT", None),
        ("Sat, 01 Jan 2000 00:00:30 +99999999999999", None),
    ],
)
def test_retry_after_as_seconds_or_date(text: str, expected: float | None) -> None:
    assert retry.retry_after_s(text, datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), ("0", 0), (" 7 ", 7), ("-1", None), ("1.5", None), ("\xb2", None), ("9" * 18, 10**18 - 1)]
    + [("9" * digits, None) for digits in (19, 400, 5000)],
)
def test_a_number_of_bytes(text: str, expected: int | None) -> None:
    assert answer.count(text) == expected


MANY = b"9" * 400
TOO_MANY = b"9" * 5000  # int() refuses to read these
ABSURD = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\nbirds" % MANY,
    "long length": b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\nbirds" % TOO_MANY,
    "start": b"HTTP/1.1 206 OK\r\nContent-Range: bytes %b-%b/%b\r\n\r\nbirds" % (MANY, MANY, MANY),
    "long start": b"HTTP/1.1 206 OK\r\nContent-Range: bytes %b-%b/*\r\n\r\nbirds" % (TOO_MANY, TOO_MANY),
    "total": b"HTTP/1.1 206 OK\r\nContent-Range: bytes 1000-2000/%b\r\n\r\nbirds" % MANY,
    "long total": b"HTTP/1.1 206 OK\r\nContent-Range: bytes 1000-2000/%b\r\n\r\nbirds" % TOO_MANY,
    "no range": b"HTTP/1.1 416 No\r\nContent-Range: bytes */%b\r\n\r\n" % TOO_MANY,
    "wait": b"HTTP/1.1 429 Wait\r\nRetry-After: %b\r\n\r\n" % MANY,
    "long wait": b"HTTP/1.1 429 Wait\r\nRetry-After: %b\r\n\r\n" % TOO_MANY,
    "late": b"HTTP/1.1 429 Wait\r\nRetry-After: Mon, 01 Jan 99999999999 00:00:00 GMT\r\n\r\n",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b\r\nbirds" % MANY,
    "long chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b\r\nbirds" % TOO_MANY,
    "status": b"HTTP/1.1 %b OK\r\n\r\n" % MANY,
    "location": b"HTTP/1.1 302 Go\r\nLocation: http://[\r\n\r\n",
    "bytes": b"HTTP/1.1 302 Go\r\nLocation: /\xff\r\n\r\n",
    "folded": b'HTTP/1.1 200 OK\r\nETag: "a\r\n b"\r\nContent-Length: 900\r\n\r\nbirds',
}


@pytest.mark.parametrize("raw", ABSURD.values(), ids=list(ABSURD))
@pytest.mark.parametrize("facts", [{}, {"size_bytes": None}], ids=["size known", "size unknown"])
def test_headers_that_mean_nothing_lead_to_the_next_address(tmp_path: Path, raw: bytes, facts: dict[str, Any]) -> None:
    leave_part(tmp_path, DATA[:1000])
    with serve_always(Fault(raw=raw)) as absurd, serve() as good:
        assert get(remote(absurd, good, **facts), tmp_path).read_bytes() == DATA
        with pytest.raises((DownloadError, HashMismatchError)):
            get(remote(absurd, **facts), tmp_path / "other")


def test_a_dead_host_says_why(tmp_path: Path) -> None:
    with serve() as server:
        file = remote(server)
    message = r"no connection to 127\.0\.0\.1:\d+ \(\[Errno \d+\] Connection refused\)"
    with pytest.raises(DownloadError, match=message) as error:
        get(file, tmp_path)
    # What to do on a node without a network.
    assert f"({file.urls[0]} in a browser" in str(error.value)
    assert str(error.value).endswith(f"put it into {tmp_path}.")


# Wrong content


def test_another_hash_is_kept_aside_and_said(tmp_path: Path) -> None:
    found = hashlib.sha256(OTHER).hexdigest()
    with serve(data=OTHER) as server, pytest.raises(HashMismatchError) as error:
        get(remote(server), tmp_path)
    aside = tmp_path / f"{NAME}.bad-{found[:8]}"
    assert files(tmp_path) == {aside.name}
    assert aside.read_bytes() == OTHER
    assert [request.headers.get("Cache-Control") for request in server.log] == [None, "no-cache"]
    for part in (hashlib.sha256(DATA).hexdigest(), found, "1000004 bytes", str(aside), server.url, LAST_MODIFIED):
        assert part in str(error.value)
    assert error.value.path == aside
    assert (error.value.expected, error.value.found) == (hashlib.sha256(DATA).hexdigest(), found)


def test_two_halves_of_different_files_are_downloaded_again_once(tmp_path: Path) -> None:
    with serve(Fault(body=OTHER, drop_after=1000, etag="", last_modified="")) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert [request.range for request in server.log] == [None, "bytes=1000-", None]
    assert files(tmp_path) == {NAME}


def test_a_damaged_part_of_a_wrong_file_fails_after_one_more_download(tmp_path: Path) -> None:
    leave_part(tmp_path, DATA[:1000])
    with serve(data=OTHER) as server, pytest.raises(HashMismatchError):
        get(remote(server), tmp_path)
    assert [request.sent for request in server.log] == [len(DATA) - 1000, len(DATA)]
