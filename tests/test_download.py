import hashlib
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recordzoo.errors import ArgumentError, DownloadError, HashMismatchError, PrepareError
from recordzoo.net import http as retry
from recordzoo.net.url import RemoteFile
from tests.downloading import (
    CHUNK,
    DATA,
    NAME,
    OTHER,
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
from tests.fakes.server import LAST_MODIFIED, Fault
from tests.preparing import wait_for

# The plain case


@pytest.mark.slow
def test_a_process_that_converts_does_not_import_what_downloads() -> None:
    """Each worker process would take a sixth longer to start."""
    code = "import sys, recordzoo.preparing.convert; print('requests' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_downloads_into_a_folder_that_it_makes(tmp_path: Path) -> None:
    recorder = Recorder()
    with serve() as server:
        path = get(remote(server), tmp_path / "a" / "b", progress=recorder)
    assert path == tmp_path / "a" / "b" / NAME
    assert path.read_bytes() == DATA
    assert files(path.parent) == {NAME}
    assert recorder.begun == [(len(DATA), 0)]
    assert recorder.position == len(DATA)
    assert recorder.ended
    headers = server.log[0].headers
    assert headers["User-Agent"].startswith("recordzoo/")
    assert headers["Accept-Encoding"] == "identity"
    assert server.log[0].range is None


def test_an_existing_file_is_returned_untouched(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"what the user put there")
    with serve() as server:
        get(remote(server), tmp_path)
    assert server.log == []
    assert (tmp_path / NAME).read_bytes() == b"what the user put there"


@pytest.mark.parametrize("facts", [{"sha256": None}, {"sha256": None, "size_bytes": None}, {"size_bytes": None}])
def test_facts_that_are_not_known_are_not_compared(tmp_path: Path, facts: dict[str, Any]) -> None:
    with serve() as server:
        assert get(remote(server, **facts), tmp_path).read_bytes() == DATA


def test_md5_is_compared_where_there_is_no_sha256(tmp_path: Path) -> None:
    with serve() as server:
        file = remote(server, sha256=None, md5=hashlib.md5(OTHER).hexdigest().upper())
        with pytest.raises(HashMismatchError, match=f"expected md5 {hashlib.md5(OTHER).hexdigest()}"):
            get(file, tmp_path)


def test_a_file_of_another_sha256_is_kept_for_its_md5(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve() as server:
        file = remote(server, sha256="0" * 64, md5=hashlib.md5(DATA).hexdigest().upper())
        assert get(file, tmp_path).read_bytes() == DATA
        assert len(server.log) == 1
    found = hashlib.sha256(DATA).hexdigest()
    assert (
        f"{NAME} has the SHA-256 {found}, not {'0' * 64}; but it has the expected MD5, {file.second_md5}" in caplog.text
    )


def test_a_file_of_another_sha256_and_another_md5_is_refused(tmp_path: Path) -> None:
    with serve() as server:
        file = remote(server, sha256="0" * 64, md5="1" * 32)
        with pytest.raises(HashMismatchError, match=f"expected sha256 {'0' * 64} or md5 {'1' * 32}, found"):
            get(file, tmp_path)
    assert len(server.log) == 2
    assert [path.name[: -len("12345678")] for path in tmp_path.iterdir()] == [f"{NAME}.bad-"]


def test_the_md5_of_a_file_of_the_right_sha256_is_not_computed(tmp_path: Path) -> None:
    with serve() as server:
        assert get(remote(server, md5="1" * 32), tmp_path).read_bytes() == DATA


def test_an_empty_file(tmp_path: Path) -> None:
    with serve(data=b"") as server:
        assert get(remote(server, data=b""), tmp_path).read_bytes() == b""


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\0"])
def test_a_name_that_leaves_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="plain file name"):
        RemoteFile(name)


@pytest.mark.parametrize("name", ["../../evil.tgz", "/tmp/evil.tgz", "..\\evil.tgz", "evil\0.tgz", "\x1b[31mevil", ""])
def test_the_name_that_a_server_gives_is_not_used(tmp_path: Path, name: str) -> None:
    hostile = Fault(headers={"Content-Disposition": f'attachment; filename="{name}"'})
    with serve(hostile) as server:
        get(remote(server), tmp_path / "data")
    assert files(tmp_path) == {"data"}
    assert files(tmp_path / "data") == {NAME}


# Interrupted, in one process


@pytest.mark.parametrize("at", [0, 1, CHUNK, len(DATA) // 2, len(DATA) - 1])
@pytest.mark.parametrize("length", ["", "close", "chunked"])
def test_a_dropped_connection_is_resumed(tmp_path: Path, at: int, length: str) -> None:
    recorder = Recorder()
    with serve(Fault(drop_after=at, length=length)) as server:
        path = get(remote(server), tmp_path, progress=recorder)
    assert path.read_bytes() == DATA
    first, second = server.log
    assert first.sent == at
    assert second.range == (f"bytes={at}-" if at else None)
    assert second.sent == len(DATA) - at
    assert recorder.begun == [(len(DATA), 0)]
    assert recorder.position == len(DATA)


def test_log_lines_at_the_start_a_retry_and_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a progress of the caller's."""
    caplog.set_level("INFO", "recordzoo")
    with serve(Fault(drop_after=3 * CHUNK)) as server:
        get(remote(server), tmp_path)
    first, retry, last = caplog.messages
    assert first == f"downloading {NAME}"
    assert re.fullmatch(rf"{NAME}: .*; trying again in \d+ s", retry)
    assert re.fullmatch(rf"downloading {NAME}: 1 MB of 1 MB \(100%\)(, .*)?: done", last)


@pytest.mark.parametrize(
    ("etag", "last_modified", "if_range"),
    [
        (None, LAST_MODIFIED, f'"{hashlib.md5(DATA).hexdigest()}"'),
        ('W/"weak"', LAST_MODIFIED, LAST_MODIFIED),
        ("", LAST_MODIFIED, LAST_MODIFIED),
        ("", "", None),
    ],
)
def test_a_resumed_request_names_the_file_it_continues(
    tmp_path: Path, etag: str | None, last_modified: str, if_range: str | None
) -> None:
    with serve(*[Fault(etag=etag, last_modified=last_modified, drop_after=drop) for drop in (9, None)]) as server:
        get(remote(server), tmp_path)
    assert [request.if_range for request in server.log] == [None, if_range]
    assert server.sent(NAME) == len(DATA)


def test_without_a_validator_or_a_hash_nothing_is_resumed(tmp_path: Path) -> None:
    with serve(Fault(etag="", last_modified="", drop_after=9)) as server:
        assert get(remote(server, sha256=None), tmp_path).read_bytes() == DATA
    assert [request.range for request in server.log] == [None, None]


def test_a_reset_connection_is_resumed(tmp_path: Path) -> None:
    with serve(Fault(drop_after=500_000, reset=True), Fault(drop_after=1, reset=True)) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA


def test_a_link_that_always_drops_still_finishes(tmp_path: Path) -> None:
    with serve_always(Fault(drop_after=50_000)) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert server.sent(NAME) == len(DATA)
    assert len(server.log) == 21 > retry.ATTEMPTS


def test_a_link_that_brings_nothing_is_given_up_and_what_came_is_kept(tmp_path: Path) -> None:
    faults = [Fault(drop_after=1000), *[Fault(drop_after=0)] * 5]
    with serve(*faults) as server:
        with pytest.raises(DownloadError, match=r"999004 more expected.*5 attempts.*1 kB are kept"):
            get(remote(server), tmp_path)
        assert files(tmp_path) == {f"{NAME}.part", f"{NAME}.part.json"}
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert server.sent(NAME) == len(DATA)


def test_a_host_that_ignores_range_and_drops_is_given_up(tmp_path: Path) -> None:
    with (
        serve_always(Fault(drop_after=1000, ignore_range=True)) as server,
        pytest.raises(DownloadError, match="attempts"),
    ):
        get(remote(server), tmp_path)
    assert len(server.log) == 1 + retry.ATTEMPTS


def test_a_silent_server_is_left_and_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "0.2")
    recorder = Recorder()
    with serve(Fault(stall_after=2 * CHUNK)) as server:
        assert get(remote(server), tmp_path, progress=recorder).read_bytes() == DATA
    assert any("sent nothing for 0.2 s" in note for note in recorder.notes)
    assert server.log[1].range == f"bytes={2 * CHUNK}-"


@pytest.mark.parametrize(
    ("length", "message"),
    [("", r"999994 bytes read, 10 more expected.*1 MB are kept"), ("close", r"received 999994 of 1000004 bytes")],
)
def test_a_body_that_stays_short_says_how_much_came(tmp_path: Path, length: str, message: str) -> None:
    always_short = Fault(missing=10, length=length, ignore_range=True)
    with serve_always(always_short) as server, pytest.raises(DownloadError, match=message):
        get(remote(server), tmp_path)
    assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[:-10]


def test_a_host_whose_file_is_shorter_says_both_sizes(tmp_path: Path) -> None:
    with (
        serve_always(Fault(body=DATA[:5000], length="close")) as server,
        pytest.raises(HashMismatchError, match=r"expected 1000004 bytes, but http://.* sends 5000 bytes"),
    ):
        get(remote(server), tmp_path)
    assert [request.status for request in server.log] == [200, 416, 416]


@pytest.mark.parametrize("length", ["close", "chunked"])
def test_a_body_of_unknown_length_that_ends_early_is_resumed(tmp_path: Path, length: str) -> None:
    with serve(Fault(body=DATA[:CHUNK], length=length, etag="", last_modified="")) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert server.sent(NAME) == len(DATA)


def test_progress_of_an_unknown_length_has_no_total(tmp_path: Path) -> None:
    recorder = Recorder()
    with serve(Fault(length="chunked")) as server:
        get(remote(server, size_bytes=None), tmp_path, progress=recorder)
    assert recorder.begun == [(None, 0)]
    assert recorder.position == len(DATA)


# Interrupted, across processes


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        ("download.claimed", 0),
        ("download.received", CHUNK),
        ("download.received:5", 5 * CHUNK),
        ("download.complete", len(DATA)),
        ("download.verified", len(DATA)),
        ("download.published", len(DATA)),
    ],
)
def test_after_a_kill_only_the_rest_is_sent(tmp_path: Path, step: str, kept: int) -> None:
    with serve() as server:
        code, stderr = run_child(remote(server), tmp_path, RECORDZOO_KILL_AT=step)
        assert code == -signal.SIGKILL, stderr
        assert (NAME in files(tmp_path)) == (step == "download.published")
        before = len(server.log)
        assert run_child(remote(server), tmp_path) == (0, "")
        again = server.log[before:]
    assert (tmp_path / NAME).read_bytes() == DATA
    assert files(tmp_path) == {NAME}
    if kept == len(DATA):
        assert again == []
    else:
        assert [request.range for request in again] == [f"bytes={kept}-" if kept else None]
        assert again[0].sent == len(DATA) - kept


@pytest.mark.parametrize("step", ["download.claimed", "download.received", "download.complete", "download.verified"])
def test_after_a_kill_without_known_size_or_hash_only_the_rest_is_sent(tmp_path: Path, step: str) -> None:
    kept = {"download.claimed": CHUNK, "download.received": 2 * CHUNK}.get(step, len(DATA))
    with serve() as server:
        file = remote(server, size_bytes=None, sha256=None)
        with pytest.raises(KeyboardInterrupt):
            get(file, tmp_path, progress=Recorder(die_at=CHUNK))
        assert run_child(file, tmp_path, RECORDZOO_KILL_AT=step)[0] == -signal.SIGKILL
        before = len(server.log)
        assert run_child(file, tmp_path) == (0, "")
        again = server.log[before:]
    assert (tmp_path / NAME).read_bytes() == DATA
    assert files(tmp_path) == {NAME}
    assert [request.range for request in again] == [f"bytes={kept}-"]
    assert again[0].status == (206 if kept < len(DATA) else 416)
    assert again[0].sent == len(DATA) - kept


def test_an_interrupt_hands_the_part_back_and_progress_begins_there(tmp_path: Path) -> None:
    with serve() as server:
        with pytest.raises(KeyboardInterrupt):
            get(remote(server), tmp_path, progress=Recorder(die_at=3 * CHUNK))
        assert files(tmp_path) == {f"{NAME}.part", f"{NAME}.part.json"}
        assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[: 3 * CHUNK]
        recorder = Recorder()
        get(remote(server), tmp_path, progress=recorder)
    assert recorder.checked == [3 * CHUNK]
    assert recorder.begun == [(len(DATA), 3 * CHUNK)]
    assert recorder.notes == [f"{NAME}: resuming after 393 kB"]
    assert recorder.position == len(DATA)
    assert server.log[1].sent == len(DATA) - 3 * CHUNK
    assert files(tmp_path) == {NAME}


def test_control_c_hands_the_part_back(tmp_path: Path) -> None:
    with serve(Fault(stall_after=CHUNK)) as server:
        with start_child(remote(server), tmp_path) as child:
            assert server.stalled.wait(60)
            child.send_signal(signal.SIGINT)
            _, stderr = child.communicate(timeout=60)
        assert "KeyboardInterrupt" in stderr
        assert not any(".part." in name.removesuffix(".json") for name in files(tmp_path))
        get(remote(server), tmp_path)
    assert files(tmp_path) == {NAME}


def test_an_interrupt_before_the_first_byte_leaves_nothing(tmp_path: Path) -> None:
    with serve() as server, pytest.raises(KeyboardInterrupt):
        get(remote(server), tmp_path, progress=Recorder(die_at=0))
    assert files(tmp_path) == set()


@pytest.mark.parametrize("options", [{"sha256": None}, {}])
def test_bytes_of_unknown_origin_are_dropped_if_nothing_tells_that_they_are_right(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    leave_part(tmp_path, OTHER[:1000])
    with serve() as server:
        path = get(remote(server, **options), tmp_path, check_hash=bool(options))
    assert path.read_bytes() == DATA
    assert server.log[0].range is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}'])
def test_a_torn_side_file_is_none(tmp_path: Path, text: str) -> None:
    leave_part(tmp_path, OTHER[:1000])
    (tmp_path / f"{NAME}.part.json").write_text(text)
    with serve() as server:
        assert get(remote(server, sha256=None), tmp_path).read_bytes() == DATA
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


def test_what_is_not_a_part_stays(tmp_path: Path) -> None:
    names = {f"{NAME}.partial", f"{NAME}.part.notes"}
    for name in names:
        (tmp_path / name).write_text("mine")
    with serve() as server:
        get(remote(server), tmp_path)
    assert files(tmp_path) == {NAME, *names}


def test_a_part_that_somebody_else_wrote_to_is_never_published(tmp_path: Path) -> None:
    class Rival(Recorder):
        def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
            super().advance(num_bytes, num_images)
            if self.position == len(DATA):
                with (tmp_path / f"{NAME}.part").open("ab") as file:
                    file.write(b"late")

    with serve() as server, pytest.raises(PrepareError, match="another process wrote to it"):
        get(remote(server, sha256=None), tmp_path, progress=Rival())
    assert files(tmp_path) == set()


def test_four_processes_at_once_all_end_fine(tmp_path: Path) -> None:
    no_locks = "import errno, fcntl\ndef flock(*_): raise OSError(errno.ENOLCK, 'no locks')\nfcntl.flock = flock\n"
    with serve(*[Fault(drop_after=300_000)] * 4) as server:
        children = [start_child(remote(server), tmp_path, no_locks) for _ in range(4)]
        for child in children:
            with child:
                assert child.communicate(timeout=60) == ("", "")
                assert child.returncode == 0
    assert (tmp_path / NAME).read_bytes() == DATA
    assert files(tmp_path) == {NAME}


def test_a_file_that_another_process_published_meanwhile_stays(tmp_path: Path) -> None:
    class Rival(Recorder):
        def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
            super().advance(num_bytes, num_images)
            if self.position == len(DATA):
                (tmp_path / NAME).write_bytes(b"published")

    with serve() as server:
        get(remote(server), tmp_path, progress=Rival())
    assert (tmp_path / NAME).read_bytes() == b"published"
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
