import errno
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recordzoo.base.owner import Owner
from recordzoo.errors import (
    ArgumentError,
    DiskSpaceError,
    DownloadError,
    HashMismatchError,
    PrepareError,
)
from recordzoo.net import part as part_module
from recordzoo.net import retry, transfer
from recordzoo.net.download import RemoteFile
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
from tests.fakes.server import LAST_MODIFIED, Fault, FileServer
from tests.faults import fault

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


@fault("D22", "the server gives the file a name such as `../../x`", "its names are never used")
@pytest.mark.parametrize("name", ["../../evil.tgz", "/tmp/evil.tgz", "..\\evil.tgz", "evil\0.tgz", "\x1b[31mevil", ""])
def test_the_name_that_a_server_gives_is_not_used(tmp_path: Path, name: str) -> None:
    hostile = Fault(headers={"Content-Disposition": f'attachment; filename="{name}"'})
    with serve(hostile) as server:
        get(remote(server), tmp_path / "data")
    assert files(tmp_path) == {"data"}
    assert files(tmp_path / "data") == {NAME}


# Interrupted, in one process


@fault("D1", "the connection drops", "it goes on where it stopped, by itself; progress counts no byte twice")
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


@fault("D1")
def test_a_reset_connection_is_resumed(tmp_path: Path) -> None:
    with serve(Fault(drop_after=500_000, reset=True), Fault(drop_after=1, reset=True)) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA


@fault("D1")
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


@fault("D11")
def test_a_silent_server_is_left_and_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "0.2")
    recorder = Recorder()
    with serve(Fault(stall_after=2 * CHUNK)) as server:
        assert get(remote(server), tmp_path, progress=recorder).read_bytes() == DATA
    assert any("sent nothing for 0.2 s" in note for note in recorder.notes)
    assert server.log[1].range == f"bytes={2 * CHUNK}-"


@fault(
    "D3",
    "less comes than was promised",
    "the rest is asked for; if it never comes, an error says how much came of what",
)
def test_a_short_body_is_resumed(tmp_path: Path) -> None:
    with serve(Fault(missing=10)) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert server.log[1].sent == 10


@fault("D3")
@pytest.mark.parametrize(
    ("length", "message"),
    [("", r"999994 bytes read, 10 more expected.*1 MB are kept"), ("close", r"received 999994 of 1000004 bytes")],
)
def test_a_body_that_stays_short_says_how_much_came(tmp_path: Path, length: str, message: str) -> None:
    always_short = Fault(missing=10, length=length, ignore_range=True)
    with serve_always(always_short) as server, pytest.raises(DownloadError, match=message):
        get(remote(server), tmp_path)
    assert (tmp_path / f"{NAME}.part").read_bytes() == DATA[:-10]


@fault("D3")
def test_a_host_whose_file_is_shorter_says_both_sizes(tmp_path: Path) -> None:
    with (
        serve_always(Fault(body=DATA[:5000], length="close")) as server,
        pytest.raises(HashMismatchError, match=r"expected 1000004 bytes, but http://.* sends 5000 bytes"),
    ):
        get(remote(server), tmp_path)
    assert [request.status for request in server.log] == [200, 416, 416]


@fault(
    "D5",
    "the server does not say how long the file is, and the connection is cut",
    "size and hash are known to recordzoo: the rest is asked for",
)
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


@fault("D2", "the process is killed while it downloads", "the next run asks for the rest only")
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


def test_bytes_of_unknown_origin_are_resumed_if_their_hash_is_known(tmp_path: Path) -> None:
    leave_part(tmp_path, DATA[:1000])
    with serve() as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert (server.log[0].range, server.log[0].if_range) == ("bytes=1000-", None)
    assert server.sent(NAME) == len(DATA) - 1000


@pytest.mark.parametrize("options", [{"sha256": None}, {}])
def test_bytes_of_unknown_origin_are_dropped_if_nothing_tells_that_they_are_right(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    leave_part(tmp_path, OTHER[:1000])
    with serve() as server:
        path = get(remote(server, **options), tmp_path, check_hash=bool(options))
    assert path.read_bytes() == DATA
    assert server.log[0].range is None


def test_what_lies_beside_a_part_counts_for_that_part_only(tmp_path: Path) -> None:
    """A crash between two renames may leave the validator of one part beside another."""
    with serve() as server:
        file = remote(server, sha256=None)
        with pytest.raises(KeyboardInterrupt):
            get(file, tmp_path, progress=Recorder(die_at=CHUNK))
        part = tmp_path / f"{NAME}.part"
        leave_part(tmp_path, OTHER[:CHUNK], "new").replace(part)
        assert get(file, tmp_path).read_bytes() == DATA
    assert server.log[1].range is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}'])
def test_a_torn_side_file_is_none(tmp_path: Path, text: str) -> None:
    leave_part(tmp_path, OTHER[:1000])
    (tmp_path / f"{NAME}.part.json").write_text(text)
    with serve() as server:
        assert get(remote(server, sha256=None), tmp_path).read_bytes() == DATA
    assert files(tmp_path) == {NAME}


def test_parts_of_the_living_are_let_be(tmp_path: Path) -> None:
    mine = Owner.current()
    parts = {leave_part(tmp_path, DATA[:5000], str(owner)).name for owner in (mine, ELSEWHERE)}
    make_old(tmp_path / f"{NAME}.part.{mine}", 9000)  # it lives: that can be asked here, whatever its age
    strange = leave_part(tmp_path, DATA[:6000], "not-an-owner").name
    with serve() as server:
        get(remote(server), tmp_path)
    assert server.log[0].range is None
    assert files(tmp_path) == {NAME, strange, *parts}


ELSEWHERE = Owner("another_1234abcd", 1, 1, "ab")
"""Nobody here can ask it: another node, another container, or this machine before it was restarted."""


def make_old(path: Path, age_s: float) -> None:
    then = time.time() - age_s
    os.utime(path, (then, then))


def test_a_part_whose_machine_was_restarted_is_resumed(tmp_path: Path) -> None:
    """Without a hash, so that what lies beside the part must come along."""
    with serve() as server:
        file = remote(server, sha256=None)
        assert run_child(file, tmp_path, RECORDZOO_KILL_AT="download.received")[0] == -signal.SIGKILL
        for path in list(tmp_path.iterdir()):
            owner = Owner.current().host
            path = path.rename(path.with_name(path.name.replace(f".part.{owner}-", f".part.{owner}0-")))
            make_old(path, part_module.SILENT_S + 60)
        assert get(file, tmp_path).read_bytes() == DATA
    assert server.log[1].range == f"bytes={CHUNK}-"
    assert server.log[1].if_range
    assert files(tmp_path) == {NAME}


@pytest.mark.parametrize("variable", ["RECORDZOO_STALE_S", "RECORDZOO_TIMEOUT"])
def test_a_longer_patience_holds_for_parts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    part = leave_part(tmp_path, DATA[:5000], str(ELSEWHERE))
    make_old(part, part_module.SILENT_S + 60)
    monkeypatch.setenv(variable, "7200")
    with serve() as server:
        get(remote(server), tmp_path)
    assert server.log[0].range is None
    assert files(tmp_path) == {NAME, part.name}


def test_what_lies_beside_a_living_part_of_another_host_is_let_be(tmp_path: Path) -> None:
    """It is written once, when the part begins, and the part may grow for hours."""
    part = leave_part(tmp_path, DATA[:5000], str(ELSEWHERE))
    side = part.with_name(f"{part.name}.json")
    side.write_text("{}")
    make_old(side, part_module.SILENT_S + 60)
    with serve() as server:
        get(remote(server), tmp_path)
    assert files(tmp_path) == {NAME, part.name, side.name}


class Aging(Recorder):
    """Makes the part look silent for long wherever it is told of something, and tells its age when it is resumed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.ages: list[float] = []

    def age(self) -> None:
        for path in self._folder.glob(f"{NAME}.part.*"):
            self.ages.append(time.time() - path.stat().st_mtime)
            make_old(path, 9000)

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        super().advance(num_bytes, num_images)
        if not self.begun:
            self.age()


def test_a_claimed_part_is_young_at_once_and_while_it_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(leave_part(tmp_path, DATA[:500_000]), 9000)
    monkeypatch.setattr(part_module, "_READ_BYTES", 100_000)
    monkeypatch.setattr(part_module, "_TOUCH_S", 0)
    recorder = Aging(tmp_path)
    with serve() as server:
        get(remote(server), tmp_path, progress=recorder)
    assert len(recorder.ages) == 5
    assert max(recorder.ages) < 60
    assert recorder.checked == [500_000]


def test_a_part_is_young_while_its_owner_waits_and_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Aging(tmp_path)
    monkeypatch.setattr(transfer.time, "sleep", lambda wait_s: recorder.age())
    with serve(*[Fault(status=503)] * 4) as server:
        get(remote(server), tmp_path, progress=recorder)
    assert len(recorder.ages) == 4
    assert max(recorder.ages) < 60
    assert part_module.SILENT_S >= 2 * retry.RETRY_AFTER_CAP_S


def test_who_was_stopped_and_lost_its_part_says_so_and_leaves_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / f"{NAME}.part.{ELSEWHERE}"

    def lose(wait_s: float) -> None:
        (part,) = (path for path in tmp_path.glob(f"{NAME}.part.*") if path.suffix != ".json")
        part.rename(taken)

    monkeypatch.setattr(transfer.time, "sleep", lose)
    with serve(Fault(drop_after=1000)) as server, pytest.raises(PrepareError, match="another process took it over"):
        get(remote(server), tmp_path)
    assert len(server.log) == 1
    assert taken.read_bytes() == DATA[:1000]


def test_a_part_that_somebody_else_wrote_to_is_never_published(tmp_path: Path) -> None:
    class Rival(Recorder):
        def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
            super().advance(num_bytes, num_images)
            if self.position == len(DATA):
                (part,) = (path for path in tmp_path.glob(f"{NAME}.part.*") if path.suffix != ".json")
                with part.open("ab") as file:
                    file.write(b"late")

    with serve() as server, pytest.raises(PrepareError, match="another process wrote to it"):
        get(remote(server, sha256=None), tmp_path, progress=Rival())
    assert files(tmp_path) == set()


def test_a_shorter_part_does_not_replace_a_longer_one(tmp_path: Path) -> None:
    class Rival(Recorder):
        def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
            if num_bytes:
                leave_part(tmp_path, DATA[:500_000])
            super().advance(num_bytes, num_images)

    with serve() as server:
        with pytest.raises(KeyboardInterrupt):
            get(remote(server), tmp_path, progress=Rival(die_at=CHUNK))
        assert files(tmp_path) == {f"{NAME}.part"}
        get(remote(server), tmp_path)
    assert server.log[1].range == "bytes=500000-"


def test_who_loses_the_race_for_a_part_starts_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = leave_part(tmp_path, DATA[:1000])
    rename = os.rename

    def lose(source: Path, target: Path) -> None:
        if source == part:
            part.unlink()  # stands for the winner's rename, which comes between our look and ours
        rename(source, target)

    monkeypatch.setattr(os, "rename", lose)
    with serve() as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert server.log[0].range is None


@fault(
    "D24",
    "several processes download one file, where file locks do nothing",
    "each gets it whole; some bytes come twice",
)
def test_four_processes_at_once_all_end_fine(tmp_path: Path) -> None:
    no_locks = "import fcntl\nfcntl.flock = fcntl.lockf = lambda *_: None\n"
    leave_part(tmp_path, DATA[:1000])
    with serve(*[Fault(drop_after=300_000)] * 4) as server:
        children = [start_child(remote(server), tmp_path, no_locks) for _ in range(4)]
        for child in children:
            with child:
                assert child.communicate(timeout=60) == (None, "")
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


@pytest.mark.parametrize(
    ("name", "kind"), [("ENOSPC", DiskSpaceError), ("EDQUOT", DiskSpaceError), ("EIO", PrepareError)]
)
def test_errors_of_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: type[Exception]) -> None:
    def refuse(fd: int) -> None:
        raise OSError(getattr(errno, name), "refused")

    monkeypatch.setattr(os, "fsync", refuse)  # no file system at hand fails in its fsync when asked to
    with serve() as server, pytest.raises(kind) as error:
        get(remote(server), tmp_path)
    assert type(error.value) is kind
    assert files(tmp_path) == set()  # after a failed fsync no byte can be trusted


def test_the_file_is_on_the_disk_before_its_name_and_then_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def spy(name: str) -> None:
        real: Callable[..., Any] = getattr(os, name)

        def call(*args: Any) -> Any:
            target = os.readlink(f"/proc/self/fd/{args[0]}") if name == "fsync" else str(args[1])
            calls.append(f"{name} {Path(target).name.partition('.part')[0]}")
            return real(*args)

        monkeypatch.setattr(os, name, call)

    if not Path("/proc/self/fd").exists():
        pytest.skip("the name of an open file is read from /proc")
    spy("fsync")
    spy("rename")
    with serve() as server:
        get(remote(server), tmp_path)
    assert calls == [f"fsync {NAME}", f"rename {NAME}", f"fsync {tmp_path.name}"]


# The fake itself


def test_the_server_serves_a_folder_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b.tgz").write_bytes(DATA)
    (tmp_path / "secret").write_bytes(b"x")
    with FileServer(tmp_path / "in") as server:
        assert get(RemoteFile("x", (f"{server.url}/a%20b.tgz",)), tmp_path).read_bytes() == DATA
        with pytest.raises(DownloadError, match="404"):
            get(RemoteFile("y", (f"{server.url}/%2e%2e/secret",)), tmp_path)
    assert [thread for thread in threading.enumerate() if "serve_forever" in thread.name] == []
