"""What a server does while a file is downloaded, as a table; and what interrupts a download, or happens beside it."""

import datetime
import hashlib
import re
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from recordzoo.base.progress import format_bytes
from recordzoo.errors import ArgumentError, DownloadError, HashMismatchError, PrepareError
from recordzoo.net import download as transfer
from recordzoo.net import http as retry
from recordzoo.net.url import RemoteFile
from tests.downloading import (
    CHUNK,
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
    run_child,
    serve,
    serve_always,
    start_child,
)
from tests.fakes.server import LAST_MODIFIED, Fault, FileServer
from tests.preparing import wait_for

# The table


@dataclass(frozen=True)
class Row:
    """What a server does, and what follows."""

    faults: Fault | list[Fault] = field(default_factory=list)  # of its answers, in order; or one fault of them all
    asked: str = "200"  # what it answers: "200", or "1000:206" to a request for the rest from byte 1000 on
    error: str = ""  # its type and text, if the file cannot be had like this; it names the address, too
    kept: bytes = b""  # the part that an error leaves; the next download goes on with it
    there: bytes = b""  # the part that an earlier process left
    facts: dict[str, Any] = field(default_factory=dict)  # what else is known of the file, or not known
    options: dict[str, Any] = field(default_factory=dict)  # of the download
    says: str = ""  # what the log or a note says
    found: bytes = DATA


NO_HASH: dict[str, Any] = {"sha256": None}
UNCHECKED = {"check_hash": False}
NO_STAMP = {"etag": "", "last_modified": ""}
SHA256, MD5, OTHER_MD5 = (hashlib.sha256(DATA).hexdigest(), *(hashlib.md5(data).hexdigest() for data in (DATA, OTHER)))
NO_SHA256, NO_MD5 = "0" * 64, "1" * 32
THOUSAND, DROPPED = DATA[:1000], Fault(drop_after=1000)

FACTS = {
    "nothing is wrong": Row(),
    "no hash is known": Row(facts=NO_HASH),
    "no size is known": Row(facts={"size_bytes": None}),
    "nothing is known": Row(facts={"sha256": None, "size_bytes": None}),
    "another md5": Row([], "200 200", f"HashMis.*expected md5 {OTHER_MD5}", facts=NO_HASH | {"md5": OTHER_MD5.upper()}),
    "another sha256, and its md5": Row(
        says=f"{NAME} has the SHA-256 {SHA256}, not {NO_SHA256}; but it has the expected MD5, {MD5}",
        facts={"sha256": NO_SHA256, "md5": MD5.upper()},
    ),
    "another sha256 and another md5": Row(
        [], "200 200", f"HashMis.*sha256 {NO_SHA256} or md5 {NO_MD5}, found", facts={"sha256": NO_SHA256, "md5": NO_MD5}
    ),
    "its sha256 and another md5, which is not computed": Row(facts={"md5": NO_MD5}),
    "an empty file": Row(Fault(body=b""), facts={"size_bytes": 0, "sha256": hashlib.sha256().hexdigest()}, found=b""),
    **{
        f"it names the file {name!r}": Row([Fault(headers={"Content-Disposition": f'attachment; filename="{name}"'})])
        for name in ("../../evil.tgz", "/tmp/evil.tgz", "..\\evil.tgz", "evil\0.tgz", "\x1b[31mevil", "")
    },
}
BROKEN = {
    **{
        f"{length or 'a length'}, dropped after {at} bytes": Row(
            [Fault(drop_after=at, length=length)], f"200 {at}:206" if at else "200 200"
        )
        for at in (0, 1, CHUNK, len(DATA) // 2, len(DATA) - 1)
        for length in ("", "close", "chunked")
    },
    "dropped, and neither validator nor hash": Row([Fault(drop_after=9, **NO_STAMP)], "200 200", facts=NO_HASH),
    "reset": Row([Fault(drop_after=500_000, reset=True), Fault(drop_after=0, reset=True)], ""),
    "always dropped": Row(Fault(drop_after=250_000), "200 250000:206 500000:206 750000:206 1000000:206"),
    "dropped, then nothing comes": Row(
        [DROPPED, *[Fault(drop_after=0)] * 5],
        "200" + " 1000:206" * 5,
        "DownloadE.*999004 more expected.*5 attempts.*1 kB are kept",
        THOUSAND,
    ),
    "dropped, then nothing comes, and no hash is known": Row(
        [DROPPED, *[Fault(drop_after=0)] * 5],
        "200" + " 1000:206" * 5,
        "DownloadE.*5 attempts.*1 kB were received; the same command starts over: no hash of the file is known",
        THOUSAND,
        facts=NO_HASH,
    ),
    "always dropped, and ranges are ignored": Row(
        Fault(drop_after=1000, ignore_range=True), "200" + " 1000:200" * 5, "DownloadError.*5 attempts", THOUSAND
    ),
    "silent in the middle": Row([Fault(stall_after=2 * CHUNK)], f"200 {2 * CHUNK}:206", says="sent nothing for 1 s"),
    "always short": Row(
        Fault(missing=10, ignore_range=True), "", "DownloadE.*999994 bytes read, 10 more .*1 MB are kept", DATA[:-10]
    ),
    "always short, without a length": Row(
        Fault(missing=10, length="close", ignore_range=True),
        "",
        "DownloadError.*received 999994 of 1000004 bytes",
        DATA[:-10],
    ),
    "shorter": Row(
        Fault(body=DATA[:5000], length="close"),
        "200 5000:416 5000:416",
        "HashMis.*expected 1000004 bytes, but http://.* sends 5000 bytes",
        DATA[:5000],
    ),
    **{
        f"{length}, ends early": Row([Fault(body=DATA[:CHUNK], length=length, **NO_STAMP)], f"200 {CHUNK}:206")
        for length in ("close", "chunked")
    },
}
CHANGED = Fault(body=OTHER, drop_after=1000)
REST = {
    "206 from there": Row([DROPPED, Fault()], "200 1000:206"),
    **{
        f"206 with Content-Range {text!r}": Row([DROPPED, Fault(content_range=text)], "200 1000:206 200")
        for text in ("", "bytes", "bytes 1000-", "items 1000-2000/*")
    },
    "206 of unknown length": Row(
        [DROPPED, Fault(length="close", content_range=f"bytes 1000-{len(DATA) - 1}/*")], "200 1000:206"
    ),
    "206 in chunks": Row([DROPPED, Fault(length="chunked")], "200 1000:206"),
    "206 from behind": Row([DROPPED, Fault(shift=5)], "200 1000:206 200"),
    "206 from before": Row([DROPPED, Fault(shift=-5)], "200 1000:206 200"),
    "206 of a changed file": Row([CHANGED, Fault(ignore_if_range=True)], "200 1000:206 200"),
    "200 of a changed file": Row([CHANGED, Fault()], "200 1000:200"),
    "200 though a range was asked for": Row([DROPPED, Fault(ignore_range=True)], "200 1000:200"),
    "200 of a web page": Row(
        [DROPPED, Fault(ignore_range=True, body=PAGE)], "200 1000:200", "DownloadE.*a web page titled", THOUSAND
    ),
    "416": Row([DROPPED, Fault(unsatisfiable=True)], "200 1000:416 200"),
    "more than the rest": Row([DROPPED, Fault(extra=b"x", content_range="")], "200 1000:206 200"),
    "a longer file": Row(
        [DROPPED, *[Fault(body=DATA + b"x", ignore_range=True)] * 2],
        "200 1000:200 1000:200",
        "HashMis.*sends 1000005 bytes",
        THOUSAND,
    ),
    "gzip": Row([DROPPED, Fault(encoding="gzip")], "200 1000:206", "DownloadE.*Content-Encoding gzip", THOUSAND),
}
WRONG = {
    "416 to everything": Row(Fault(status=416), "416 416 416 416 416", "DownloadE.*does not have the rest"),
    **{
        f"too long, by {length or 'a length'}": Row(
            Fault(extra=b"more", length=length),
            "200 200",
            "HashMis.*expected 1000004 bytes, but http://.* sends (more|1000008)",
        )
        for length in ("", "close", "chunked")
    },
    "too long, and not checked": Row(Fault(extra=b"more"), options=UNCHECKED, found=DATA + b"more"),
    "another size": Row(
        Fault(body=DATA * 30),
        "1000:206 1000:206",
        "HashMis.*sends 30000120 bytes; nothing of them was kept.*check_hash=False",
        THOUSAND,
        THOUSAND,
    ),
    **{
        f"a web page as {kind}": Row(
            Fault(body=PAGE, content_type=kind, ignore_range=True),
            "1000:200",
            r"DownloadE.*a web page titled 'Sign in & accept' instead of birds\.tgz",
            THOUSAND,
            THOUSAND,
        )
        for kind in ("text/html; charset=utf-8", "application/octet-stream")
    },
    "a text that is called a web page": Row(
        [Fault(body=b"quota exceeded", content_type="text/html")], error="DownloadE.*a web page without a title"
    ),
    "an archive that is called a web page": Row([Fault(content_type="text/html")]),
    "two halves of different files": Row([Fault(body=OTHER, drop_after=1000, **NO_STAMP)], "200 1000:206 200"),
    "the rest of another file, then that file": Row(
        Fault(body=OTHER), "1000:206 200", "HashMis.*is not the expected file", there=THOUSAND
    ),
    "a part of unknown origin, and no hash": Row(facts=NO_HASH, there=OTHER[:1000]),
    "a part of unknown origin, and no check": Row(options=UNCHECKED, there=OTHER[:1000]),
}
BUSY = {
    **{
        f"{status}, four times": Row([Fault(status=status)] * 4, f"{status} " * 4 + "200")
        for status in (408, 425, 429, 500, 502, 503, 504)
    },
    "503 for ever": Row(Fault(status=503), "503 503 503 503 503", "DownloadError.*503 Service Unavailable"),
    **{
        f"{status}": Row(
            Fault(status=status),
            f"1000:{status}",
            rf"DownloadError.*answered {status}.*{hint}.*1\. Open the page\.$",
            THOUSAND,
            THOUSAND,
            {"instructions": "1. Open the page."},
        )
        for hint, statuses in {"mirror": (400, 451), "login": (401, 403), "moved": (404, 410), "proxy": (407,)}.items()
        for status in statuses
    },
    "429 for two hours": Row(
        [DROPPED, Fault(status=429, retry_after="7200")],
        "200 1000:429",
        "DownloadError.*429 Too Many Requests and asks to come back in 2 h 00 min.*1 kB",
        THOUSAND,
    ),
}
ROWS = FACTS | BROKEN | WRONG | BUSY
ROWS |= {f"the rest: {name}": row for name, row in REST.items()}
ROWS |= {f"the rest, without a hash: {name}": replace(row, facts=NO_HASH) for name, row in REST.items()}


def asked(server: FileServer) -> str:
    """Return what a server answered, as in a row."""
    ranges = [(request.range or "").removeprefix("bytes=").replace("-", ":") for request in server.log]
    return " ".join(f"{start}{request.status}" for start, request in zip(ranges, server.log, strict=True))


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, row: Row
) -> None:
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "1" if row.says else "60")
    if row.there:
        leave_part(tmp_path, row.there)
    recorder = Recorder()
    with serve_always(row.faults) if isinstance(row.faults, Fault) else serve(*row.faults) as server:
        file = remote(server, **row.facts)
        if row.error:
            with pytest.raises((DownloadError, HashMismatchError)) as error:
                get(file, tmp_path, progress=recorder, **row.options)
            text = f"{error.type.__name__}: {error.value}"
            assert re.match(row.error, text, re.DOTALL), text
            assert f"{server.url}/{NAME}" in text
        else:
            assert get(file, tmp_path, progress=recorder, **row.options).read_bytes() == row.found
            assert recorder.position == len(row.found)
            assert row.says in "\n".join([*caplog.messages, *recorder.notes])
    assert not row.asked or asked(server) == row.asked
    assert server.sent(NAME) < 30 * len(DATA)
    left = {name for name in files(tmp_path) if ".bad-" not in name}
    assert left == ({f"{NAME}.part"} if row.kept else {NAME} if not row.error else set())
    if row.error:
        if row.kept:
            assert (tmp_path / f"{NAME}.part").read_bytes() == row.kept
        with serve() as good:
            assert get(remote(good), tmp_path).read_bytes() == DATA
        assert good.sent(NAME) == len(DATA) - len(row.kept)


# What the table does not show


def test_downloads_into_a_folder_that_it_makes(tmp_path: Path) -> None:
    with serve() as server:
        assert get(remote(server), tmp_path / "a" / "b") == tmp_path / "a" / "b" / NAME
    headers = server.log[0].headers
    assert headers["User-Agent"].startswith("recordzoo/")
    assert headers["Accept-Encoding"] == "identity"


def test_an_existing_file_is_returned_untouched(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"what the user put there")
    with serve() as server:
        get(remote(server), tmp_path)
    assert server.log == []
    assert (tmp_path / NAME).read_bytes() == b"what the user put there"


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\0"])
def test_a_name_that_leaves_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="plain file name"):
        RemoteFile(name)


def test_a_web_page_that_is_wanted_is_downloaded(tmp_path: Path) -> None:
    with FileServer({"index.html": PAGE}) as server:
        file = RemoteFile("index.html", (f"{server.url}/index.html",))
        assert get(file, tmp_path).read_bytes() == PAGE


@pytest.mark.parametrize(
    ("stamp", "if_range"),
    [
        ({}, f'"{hashlib.md5(DATA).hexdigest()}"'),
        ({"etag": 'W/"weak"'}, LAST_MODIFIED),
        ({"etag": ""}, LAST_MODIFIED),
        (NO_STAMP, None),
    ],
)
def test_a_resumed_request_names_the_file_it_continues(
    tmp_path: Path, stamp: dict[str, str], if_range: str | None
) -> None:
    with serve(*[Fault(**stamp, drop_after=drop) for drop in (9, None)]) as server:
        get(remote(server), tmp_path)
    assert [request.if_range for request in server.log] == [None, if_range]
    assert server.sent(NAME) == len(DATA)


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


def test_a_dead_host_says_why(tmp_path: Path) -> None:
    with serve() as dead:
        file = remote(dead)
    message = r"no connection to 127\.0\.0\.1:\d+ \(\[Errno \d+\] Connection refused\)"
    recorder = Recorder()
    with pytest.raises(DownloadError, match=message) as error:
        get(file, tmp_path, progress=recorder)
    assert sum("trying again in" in note for note in recorder.notes) == retry.ATTEMPTS - 1
    # What to do on a node without a network.
    assert f"({file.urls[0]} in a browser" in str(error.value)
    assert str(error.value).endswith(f"put it into {tmp_path}.")


# Waits, and numbers that are none


def test_retry_after_is_kept_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[float] = []  # instead of waiting: the clock is the one thing here that no server can serve
    monkeypatch.setattr(transfer.time, "sleep", recorded.append)
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=100)
    texts = ["7", f"{soon:%a, %d %b %Y %H:%M:%S GMT}", "soon", None]
    with serve(*[Fault(status=429, retry_after=text) for text in texts]) as server:
        get(remote(server), tmp_path)
    assert recorded[0] == 7
    assert 60 < recorded[1] <= 100
    assert recorded[2] <= 0.004
    assert recorded[3] <= 0.008


MANY = b"9" * 400
TOO_MANY = b"9" * 5000  # int() refuses to read these
ABSURD = {
    "long length": b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\nbirds" % TOO_MANY,
    **{
        f"length {text!r}": b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\nbirds" % text
        for text in (b"-1", b"1.5", b"\xb2", b"9" * 19)
    },
    "long start": b"HTTP/1.1 206 OK\r\nContent-Range: bytes %b-%b/*\r\n\r\nbirds" % (TOO_MANY, TOO_MANY),
    "long total": b"HTTP/1.1 206 OK\r\nContent-Range: bytes 1000-2000/%b\r\n\r\nbirds" % TOO_MANY,
    "no range": b"HTTP/1.1 416 No\r\nContent-Range: bytes */%b\r\n\r\n" % TOO_MANY,
    "long wait": b"HTTP/1.1 429 Wait\r\nRetry-After: %b\r\n\r\n" % TOO_MANY,
    "late": b"HTTP/1.1 429 Wait\r\nRetry-After: Mon, 01 Jan 99999999999 00:00:00 GMT\r\n\r\n",
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


# Interrupted, across processes


@pytest.mark.parametrize(
    ("step", "least"),
    [
        ("download.claimed", 0),
        ("download.received", 1),
        ("download.received:5", 5),
        ("download.complete", len(DATA)),
        ("download.verified", len(DATA)),
        ("download.published", len(DATA)),
    ],
)
@pytest.mark.parametrize("is_known", [True, False], ids=["size and hash", "neither"])
def test_after_a_kill_only_the_rest_is_sent(tmp_path: Path, is_known: bool, step: str, least: int) -> None:
    with serve() as server:
        file = remote(server, **({} if is_known else {"size_bytes": None, "sha256": None}))
        code, stderr = run_child(file, tmp_path, RECORDZOO_KILL_AT=step)
        assert code == -signal.SIGKILL, stderr
        assert (NAME in files(tmp_path)) == (step == "download.published")
        kept = (tmp_path / (NAME if step == "download.published" else f"{NAME}.part")).stat().st_size
        assert least <= kept <= max(least, 6 * CHUNK)
        before = len(server.log)
        assert run_child(file, tmp_path) == (0, "")
        again = server.log[before:]
    assert (tmp_path / NAME).read_bytes() == DATA
    assert files(tmp_path) == {NAME}
    if kept == len(DATA) and (is_known or step == "download.published"):
        assert again == []
    else:  # of another process, only bytes that the hash can verify are gone on with
        assert [request.range for request in again] == [f"bytes={kept}-" if kept and is_known else None]
        assert again[0].sent == len(DATA) - kept * is_known


def test_an_interrupt_hands_the_part_back_and_progress_begins_there(tmp_path: Path) -> None:
    with serve() as server:
        with pytest.raises(KeyboardInterrupt):
            get(remote(server), tmp_path, progress=(dead := Recorder(die_at=3 * CHUNK)))
        assert files(tmp_path) == {f"{NAME}.part"}
        assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[: dead.position]
        recorder = Recorder()
        get(remote(server), tmp_path, progress=recorder)
    assert recorder.checked == [dead.position]
    assert recorder.begun == [(len(DATA), dead.position)]
    assert recorder.notes == [f"{NAME}: resuming after {format_bytes(dead.position)}"]
    assert recorder.position == len(DATA)
    assert server.log[1].sent == len(DATA) - dead.position
    assert files(tmp_path) == {NAME}


def test_control_c_hands_the_part_back(tmp_path: Path) -> None:
    with serve(Fault(stall_after=CHUNK)) as server:
        with start_child(remote(server), tmp_path) as child:
            assert server.stalled.wait(60)
            child.send_signal(signal.SIGINT)
            _, stderr = child.communicate(timeout=60)
        assert "KeyboardInterrupt" in stderr
        assert not any(".part." in name for name in files(tmp_path))
        get(remote(server), tmp_path)
    assert files(tmp_path) == {NAME}


def test_another_process_is_waited_for(tmp_path: Path) -> None:
    """One downloads; the others take its file."""
    with serve(Fault(stall_after=CHUNK)) as server:
        file = remote(server)
        first = start_child(file, tmp_path, RECORDZOO_TIMEOUT="1")
        wait_for(lambda: (tmp_path / f"{NAME}.part").exists() and server.log, "the first bytes")
        said = Recorder()
        assert get(file, tmp_path, progress=said).read_bytes() == DATA
        with first:
            assert first.communicate(timeout=60) == ("", "")
    assert said.notes[0].startswith(f"Waiting for process {first.pid} on ")
    assert len([request for request in server.log if request.range is None]) == 1
    assert files(tmp_path) == {NAME}


class Rival(Recorder):
    """Another process, which writes to a file when all is received."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        super().advance(num_bytes, num_images)
        if self.position == len(DATA):
            with self.path.open("ab") as file:
                file.write(b"late")


def test_a_part_that_somebody_else_wrote_to_is_never_published(tmp_path: Path) -> None:
    with serve() as server, pytest.raises(PrepareError, match="another process wrote to it"):
        get(remote(server, sha256=None), tmp_path, progress=Rival(tmp_path / f"{NAME}.part"))
    assert files(tmp_path) == set()


def test_a_file_that_another_process_published_meanwhile_stays(tmp_path: Path) -> None:
    with serve() as server:
        get(remote(server), tmp_path, progress=Rival(tmp_path / NAME))
    assert (tmp_path / NAME).read_bytes() == b"late"
    assert files(tmp_path) == {NAME}


# The disk


def test_a_full_disk_says_what_is_missing_and_keeps_what_is_there(tmp_path: Path) -> None:
    """A limit on the size of a file is the full disk that needs no privileges: write(2) takes some bytes, then none."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
    with serve() as server:
        code, stderr = run_child(remote(server), tmp_path, limit)
        assert code == 1
        assert (
            f"DiskSpaceError: No room left in {tmp_path} for {NAME}: 300 kB are there, 700 kB still missing" in stderr
        )
        assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[:300_000]
        get(remote(server), tmp_path)
    assert server.log[1].range == "bytes=300000-"
    assert (tmp_path / NAME).read_bytes() == DATA
