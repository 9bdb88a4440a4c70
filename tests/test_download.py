import datetime
import errno
import hashlib
import ipaddress
import itertools
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from recordzoo.errors import (
    ArgumentError,
    DiskSpaceError,
    DownloadError,
    HashMismatchError,
    PrepareError,
    TermsError,
)
from recordzoo.owner import Owner
from recordzoo.sources import _http, _part, _transfer
from recordzoo.sources.download import RemoteFile, fetch
from tests.fakes.server import LAST_MODIFIED, Fault, FileServer

NAME = "birds.tgz"
DATA = b"\x1f\x8b\x08\0" + random.Random(7).randbytes(1_000_000)
CHUNK = 128 << 10
OTHER = b"\x1f\x8b\x08\0" + random.Random(8).randbytes(len(DATA) - 4)
PAGE = b"<!DOCTYPE html>\n<html><head><title> Sign in &amp;\n accept </title></head><body>no</body></html>"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waits between attempts, no proxy between this process and the loopback."""
    monkeypatch.setattr(_transfer, "BACKOFF_S", 0.001)
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("RECORDZOO_"):
            monkeypatch.delenv(name)


class Recorder:
    """What a progress bar would show; asserts that it can be shown."""

    def __init__(self, die_at: int | None = None) -> None:
        self.begun: list[tuple[int | None, int]] = []
        self.checked: list[int | None] = []  # sizes of what was there before
        self.notes: list[str] = []
        self.position = 0
        self.ended = False
        self._die_at = die_at

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        self.position, self.ended, self._total = done_bytes, False, total_bytes
        if stage == f"checking what is there of {NAME}":
            assert not self.begun
            self.checked.append(total_bytes)
            return
        assert stage == f"downloading {NAME}"
        self.begun.append((total_bytes, done_bytes))
        self.advance()

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        self.position += num_bytes
        assert self.position >= 0
        assert self._total is None or self.position <= self._total
        if self.begun and self._die_at is not None and self.position >= self._die_at:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)

    def end(self) -> None:
        assert self.begun or self.position == self._total
        self.ended = True


def remote(*servers: FileServer, data: bytes = DATA, **changes: Any) -> RemoteFile:
    """The file as a catalogue knows it: where it is, its size, its hash."""
    facts: dict[str, Any] = {
        "name": NAME,
        "urls": tuple(f"{server.url}/{NAME}" for server in servers),
        "size_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    return RemoteFile(**(facts | changes))


def serve(*faults: Fault, data: bytes = DATA) -> FileServer:
    return FileServer({NAME: data}, {NAME: faults})


def serve_always(fault: Fault, data: bytes = DATA) -> FileServer:
    return FileServer({NAME: data}, {NAME: itertools.repeat(fault)})


def get(file: RemoteFile, folder: Path, **options: Any) -> Path:
    return fetch(file, folder, dataset="birds", **options)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def leave_part(folder: Path, data: bytes, owner: str = "") -> Path:
    """What an earlier process left: bytes of which nobody knows where they came from."""
    path = folder / f"{NAME}.part{owner and '.'}{owner}"
    path.write_bytes(data)
    return path


CHILD = """
import json, sys
from pathlib import Path
from recordzoo.sources import _transfer
from recordzoo.sources.download import RemoteFile, fetch
_transfer.BACKOFF_S = 0.001
urls, size_bytes, sha256, folder = json.loads(sys.argv[1])
fetch(RemoteFile("birds.tgz", tuple(urls), size_bytes, sha256=sha256), Path(folder), dataset="birds")
"""


def start_child(file: RemoteFile, folder: Path, prelude: str = "", **env: str) -> subprocess.Popen[str]:
    spec = json.dumps([file.urls, file.size_bytes, file.sha256, str(folder)])
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", prelude + CHILD, spec],
        env={**os.environ, **env},
        cwd=Path(__file__).parents[1],
        stderr=subprocess.PIPE,
        text=True,
    )


def run_child(file: RemoteFile, folder: Path, prelude: str = "", **env: str) -> tuple[int, str]:
    with start_child(file, folder, prelude, **env) as child:
        _, stderr = child.communicate(timeout=60)
    return child.returncode, stderr


# The plain case


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


def test_an_empty_file(tmp_path: Path) -> None:
    with serve(data=b"") as server:
        assert get(remote(server, data=b""), tmp_path).read_bytes() == b""


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\0"])
def test_a_name_that_leaves_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="plain file name"):
        RemoteFile(name)


def test_the_name_that_a_server_gives_is_not_used(tmp_path: Path) -> None:
    hostile = Fault(headers={"Content-Disposition": 'attachment; filename="../../evil.tgz"'})
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
    if length == "chunked" and at % CHUNK:  # http.client drops the bytes of a read that a cut chunk ends
        at = at // CHUNK * CHUNK
    assert second.range == (f"bytes={at}-" if at else None)
    assert second.sent == len(DATA) - at
    assert recorder.begun == [(len(DATA), 0)]
    assert recorder.position == len(DATA)


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
    assert len(server.log) == 21 > _transfer.ATTEMPTS


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
    assert len(server.log) == 1 + _transfer.ATTEMPTS


def test_a_silent_server_is_left_and_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "0.2")
    recorder = Recorder()
    with serve(Fault(stall_after=2 * CHUNK)) as server:
        assert get(remote(server), tmp_path, progress=recorder).read_bytes() == DATA
    assert any("sent nothing for 0.2 s" in note for note in recorder.notes)
    assert server.log[1].range == f"bytes={2 * CHUNK}-"


def test_a_short_body_is_resumed(tmp_path: Path) -> None:
    with serve(Fault(missing=10)) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert server.log[1].sent == 10


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


def test_a_part_that_is_longer_than_the_file_is_dropped(tmp_path: Path) -> None:
    leave_part(tmp_path, DATA + b"x")
    with serve() as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert server.log[0].range is None


def dead_owner() -> str:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
        mine = Owner.current()
        return str(Owner(mine.host, child.pid, 1, mine.token))


def test_the_longest_part_of_the_dead_is_taken_and_the_others_go(tmp_path: Path) -> None:
    leave_part(tmp_path, DATA[:10])
    leave_part(tmp_path, DATA[:2000], dead_owner())
    leave_part(tmp_path, DATA[:300], dead_owner())
    with serve() as server:
        get(remote(server), tmp_path)
    assert server.log[0].range == "bytes=2000-"
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


def test_a_silent_part_of_another_host_is_resumed(tmp_path: Path) -> None:
    make_old(leave_part(tmp_path, DATA[:5000], str(ELSEWHERE)), _part.SILENT_S + 60)
    with serve() as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert [(request.range, request.sent) for request in server.log] == [("bytes=5000-", len(DATA) - 5000)]
    assert files(tmp_path) == {NAME}


def test_a_part_whose_machine_was_restarted_is_resumed(tmp_path: Path) -> None:
    """Without a hash, so that what lies beside the part must come along."""
    with serve() as server:
        file = remote(server, sha256=None)
        assert run_child(file, tmp_path, RECORDZOO_KILL_AT="download.received")[0] == -signal.SIGKILL
        for path in list(tmp_path.iterdir()):
            owner = Owner.current().host
            path = path.rename(path.with_name(path.name.replace(f".part.{owner}-", f".part.{owner}0-")))
            make_old(path, _part.SILENT_S + 60)
        assert get(file, tmp_path).read_bytes() == DATA
    assert server.log[1].range == f"bytes={CHUNK}-"
    assert server.log[1].if_range
    assert files(tmp_path) == {NAME}


@pytest.mark.parametrize("variable", ["RECORDZOO_STALE_S", "RECORDZOO_TIMEOUT"])
def test_a_longer_patience_holds_for_parts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    part = leave_part(tmp_path, DATA[:5000], str(ELSEWHERE))
    make_old(part, _part.SILENT_S + 60)
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
    make_old(side, _part.SILENT_S + 60)
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
    monkeypatch.setattr(_part, "_READ_BYTES", 100_000)
    monkeypatch.setattr(_part, "_TOUCH_S", 0)
    recorder = Aging(tmp_path)
    with serve() as server:
        get(remote(server), tmp_path, progress=recorder)
    assert len(recorder.ages) == 5
    assert max(recorder.ages) < 60
    assert recorder.checked == [500_000]


def test_a_part_is_young_while_its_owner_waits_and_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Aging(tmp_path)
    monkeypatch.setattr(_transfer.time, "sleep", lambda wait_s: recorder.age())
    with serve(*[Fault(status=503)] * 4) as server:
        get(remote(server), tmp_path, progress=recorder)
    assert len(recorder.ages) == 4
    assert max(recorder.ages) < 60
    assert _part.SILENT_S >= 2 * _transfer.RETRY_AFTER_CAP_S


def test_who_was_stopped_and_lost_its_part_says_so_and_leaves_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / f"{NAME}.part.{ELSEWHERE}"

    def lose(wait_s: float) -> None:
        (part,) = (path for path in tmp_path.glob(f"{NAME}.part.*") if path.suffix != ".json")
        part.rename(taken)

    monkeypatch.setattr(_transfer.time, "sleep", lose)
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


def test_four_processes_at_once_all_end_fine(tmp_path: Path) -> None:
    leave_part(tmp_path, DATA[:1000])
    with serve(*[Fault(drop_after=300_000)] * 4) as server:
        children = [start_child(remote(server), tmp_path) for _ in range(4)]
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


# Wrong answers


def test_an_ignored_range_starts_over(tmp_path: Path) -> None:
    recorder = Recorder()
    with serve(Fault(drop_after=2 * CHUNK), Fault(ignore_range=True)) as server:
        assert get(remote(server), tmp_path, progress=recorder).read_bytes() == DATA
    assert [request.status for request in server.log] == [200, 200]
    assert recorder.begun == [(len(DATA), 0)]
    assert recorder.position == len(DATA)


@pytest.mark.parametrize("shift", [-5, 5])
def test_a_range_from_elsewhere_is_not_appended(tmp_path: Path, shift: int) -> None:
    with serve(Fault(drop_after=1000), Fault(shift=shift)) as server:
        path = get(remote(server, sha256=None), tmp_path)
    assert path.read_bytes() == DATA
    assert [request.range for request in server.log] == [None, "bytes=1000-", None]


@pytest.mark.parametrize("content_range", ["", "bytes", "bytes 1000-", "items 1000-2000/*"])
def test_a_range_without_its_place_is_not_appended(tmp_path: Path, content_range: str) -> None:
    recorder = Recorder()
    with serve(Fault(drop_after=1000), Fault(content_range=content_range)) as server:
        assert get(remote(server), tmp_path, progress=recorder).read_bytes() == DATA
    assert [request.status for request in server.log] == [200, 206, 200]
    assert "from nobody knows where" in recorder.notes[1]


def test_a_range_of_an_unknown_whole_is_appended(tmp_path: Path) -> None:
    unknown = Fault(content_range=f"bytes 1000-{len(DATA) - 1}/*")
    with serve(Fault(drop_after=1000), unknown) as server:
        assert get(remote(server, size_bytes=None), tmp_path).read_bytes() == DATA
    assert server.sent(NAME) == len(DATA)


def test_a_range_that_cannot_be_had_starts_over(tmp_path: Path) -> None:
    with serve(Fault(drop_after=1000), Fault(unsatisfiable=True)) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert [request.status for request in server.log] == [200, 416, 200]


def test_a_range_that_can_never_be_had_is_given_up(tmp_path: Path) -> None:
    with FileServer({}, {NAME: itertools.repeat(Fault(status=416))}) as server, pytest.raises(DownloadError):
        get(remote(server), tmp_path)
    assert len(server.log) == _transfer.ATTEMPTS


@pytest.mark.parametrize("facts", [{}, {"sha256": None, "size_bytes": None}])
def test_a_file_that_changed_between_two_requests_is_not_mixed(tmp_path: Path, facts: dict[str, Any]) -> None:
    with serve(Fault(body=OTHER, drop_after=1000)) as server:
        assert get(remote(server, **facts), tmp_path).read_bytes() == DATA
    assert [request.status for request in server.log] == [200, 200]


def test_a_file_that_changed_is_noticed_though_the_server_ignores_if_range(tmp_path: Path) -> None:
    with serve(Fault(body=OTHER, drop_after=1000), Fault(ignore_if_range=True)) as server:
        assert get(remote(server, sha256=None), tmp_path).read_bytes() == DATA
    assert [request.status for request in server.log] == [200, 206, 200]


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


def test_an_encoded_body_is_an_error(tmp_path: Path) -> None:
    with serve(Fault(encoding="gzip")) as server, pytest.raises(DownloadError, match="Content-Encoding gzip"):
        get(remote(server), tmp_path)
    assert len(server.log) == 1
    assert files(tmp_path) == set()


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
    assert len(server.log) == _transfer.ATTEMPTS
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
    monkeypatch.setattr(_transfer.time, "sleep", recorded.append)
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
    monkeypatch.setattr(_transfer, "BACKOFF_S", 20.0)
    with serve_always(Fault(status=500)) as server, pytest.raises(DownloadError):
        get(remote(server), tmp_path)
    assert 10 <= recorded[0] <= 20
    assert all(15 <= wait <= _transfer.BACKOFF_CAP_S for wait in recorded[1:])
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
    ],
)
def test_retry_after_as_seconds_or_date(text: str, expected: float | None) -> None:
    assert _http.retry_after_s(text, datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)) == expected


def test_a_dead_host_says_why(tmp_path: Path) -> None:
    with serve() as server:
        file = remote(server)
    message = r"no connection to 127\.0\.0\.1:\d+ \(\[Errno \d+\] Connection refused\)"
    with pytest.raises(DownloadError, match=message) as error:
        get(file, tmp_path)
    # What to do on a node without a network.
    assert f"({file.urls[0]} in a browser" in str(error.value)
    assert str(error.value).endswith(f"put it into {tmp_path}.")


@pytest.mark.parametrize("url", ["nothing", "ftp://127.0.0.1/a", "http://", "file:///a"])
def test_an_address_that_is_none_is_named(tmp_path: Path, url: str) -> None:
    with pytest.raises(DownloadError, match=f"'{url}' cannot be asked for"):
        get(RemoteFile(NAME, (url,)), tmp_path)


# Redirects


def test_redirects_are_followed(tmp_path: Path) -> None:
    hops = {f"hop{i}": [Fault(location=f"/hop{i + 1}")] for i in range(4)}
    with FileServer({NAME: DATA}, {NAME: [Fault(location="/hop0")], **hops, "hop4": [Fault(body=DATA)]}) as server:
        assert get(remote(server), tmp_path).read_bytes() == DATA
    assert [request.path for request in server.log] == [NAME, "hop0", "hop1", "hop2", "hop3", "hop4"]


def test_a_redirected_download_resumes_by_its_first_address(tmp_path: Path) -> None:
    faults = {NAME: itertools.repeat(Fault(location="/store?signature=1")), "store": [Fault(drop_after=1000)]}
    with FileServer({"store": DATA}, faults) as server:
        assert get(remote(server, sha256=None), tmp_path).read_bytes() == DATA
    assert server.sent("store") == len(DATA)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (f"/{NAME}", "redirected in a loop"),
        ("/hop0", "more than 5 redirects, the last one to .*/hop5"),
        ("ftp://127.0.0.1/a", "redirects to ftp://127.0.0.1/a"),
        ("file:///etc/hostname", "redirects to file:///etc/hostname"),
    ],
)
def test_redirects_that_are_not_followed(tmp_path: Path, location: str, message: str) -> None:
    hops: dict[str, Iterable[Fault]] = {f"hop{i}": [Fault(location=f"/hop{i + 1}")] for i in range(9)}
    faults = {NAME: itertools.repeat(Fault(location=location)), **hops}
    with FileServer({}, faults) as server, pytest.raises(DownloadError, match=message):
        get(remote(server), tmp_path)
    assert len(server.log) <= 6


@pytest.fixture
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate for 127.0.0.1, and the file that a client must trust for it."""
    x509 = pytest.importorskip("cryptography.x509", reason="certificates are made with cryptography")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    encoding = serialization.Encoding.PEM
    path.write_bytes(certificate.public_bytes(encoding))
    secret = path.with_name("key.pem")
    secret.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, secret)
    return context, path


def test_https_never_goes_to_http(
    tmp_path: Path, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tls[1]))
    with serve() as plain:
        faults = {NAME: [Fault(drop_after=1000)], "down": [Fault(location=f"{plain.url}/{NAME}")]}
        with FileServer({NAME: DATA}, faults, tls[0]) as secure:
            with pytest.raises(DownloadError, match=r"from https only https is followed"):
                get(remote(urls=(f"{secure.url}/down",)), tmp_path)
            assert get(remote(secure), tmp_path).read_bytes() == DATA
        assert plain.log == []


def test_a_certificate_that_is_not_valid_is_named_and_not_worked_around(
    tmp_path: Path, tls: tuple[ssl.SSLContext, Path]
) -> None:
    message = r"certificate of 127\.0\.0\.1.*self.signed.*REQUESTS_CA_BUNDLE"
    with FileServer({NAME: DATA}, tls=tls[0]) as secure, pytest.raises(DownloadError, match=message):
        get(remote(secure), tmp_path)
    assert secure.log == []


# Wrong content


def test_another_hash_is_kept_aside_and_said(tmp_path: Path) -> None:
    found = hashlib.sha256(OTHER).hexdigest()
    with serve(data=OTHER) as server, pytest.raises(HashMismatchError) as error:
        get(remote(server), tmp_path)
    aside = tmp_path / f"{NAME}.bad-{found[:8]}"
    assert files(tmp_path) == {aside.name}
    assert aside.read_bytes() == OTHER
    assert len(server.log) == 1
    for part in (hashlib.sha256(DATA).hexdigest(), found, "1000004 bytes", str(aside), server.url, LAST_MODIFIED):
        assert part in str(error.value)
    assert error.value.path == aside
    assert (error.value.expected, error.value.found) == (hashlib.sha256(DATA).hexdigest(), found)


def test_check_hash_off_takes_what_comes(tmp_path: Path) -> None:
    with serve(data=OTHER[:5000]) as server:
        assert get(remote(server), tmp_path, check_hash=False).read_bytes() == OTHER[:5000]


@pytest.mark.parametrize("size", [1000, len(DATA)])
def test_a_part_that_was_damaged_on_disk_is_downloaded_again_once(tmp_path: Path, size: int) -> None:
    leave_part(tmp_path, b"!" + DATA[1:size])
    recorder = Recorder()
    with serve() as server:
        assert get(remote(server), tmp_path, progress=recorder).read_bytes() == DATA
    assert [request.range for request in server.log] == ([None] if size == len(DATA) else ["bytes=1000-", None])
    assert server.log[-1].headers["Cache-Control"] == "no-cache"
    assert recorder.position == len(DATA)
    assert files(tmp_path) == {NAME}


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


# Several addresses


def test_the_mirror_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileServer({f"base/birds/{NAME}": DATA, f"env/birds/{NAME}": DATA}) as mirror, serve() as server:
        get(remote(server), tmp_path / "1", mirror=f"{mirror.url}/base/")
        monkeypatch.setenv("RECORDZOO_MIRROR", f"{mirror.url}/env")
        get(remote(server), tmp_path / "2")
        get(remote(server), tmp_path / "3", mirror=f"{mirror.url}/base")
    assert [request.path for request in mirror.log] == [f"{where}/birds/{NAME}" for where in ("base", "env", "base")]
    assert server.log == []


def test_the_next_address_goes_on_where_the_first_one_failed(tmp_path: Path) -> None:
    with serve(Fault(drop_after=5000), Fault(status=404)) as first, serve() as second:
        assert get(remote(first, second), tmp_path).read_bytes() == DATA
    assert second.log[0].range == "bytes=5000-"
    assert second.log[0].if_range is None
    assert first.sent(NAME) + second.sent(NAME) == len(DATA)


def test_the_next_address_starts_over_if_no_hash_is_known(tmp_path: Path) -> None:
    with serve(Fault(body=OTHER, drop_after=5000), Fault(status=404)) as first, serve() as second:
        assert get(remote(first, second, sha256=None), tmp_path).read_bytes() == DATA
    assert second.log[0].range is None


def test_bytes_of_two_addresses_are_never_resumed_without_a_hash(tmp_path: Path) -> None:
    with serve(Fault(drop_after=5000), Fault(status=404)) as first, serve() as second:
        with pytest.raises(KeyboardInterrupt):
            get(remote(first, second), tmp_path, progress=Recorder(die_at=CHUNK))
        assert files(tmp_path) == {f"{NAME}.part"}
        get(remote(second, sha256=None), tmp_path)
    assert second.log[-1].range is None


def test_a_wrong_file_of_one_address_gives_way_to_the_right_one_of_another(tmp_path: Path) -> None:
    with serve(data=OTHER) as first, serve() as second:
        assert get(remote(first, second), tmp_path, progress=Recorder()).read_bytes() == DATA
    assert files(tmp_path) == {NAME}


def test_all_addresses_are_named_when_none_has_it(tmp_path: Path) -> None:
    with serve(Fault(status=404)) as first, serve(data=OTHER) as second, serve(Fault(status=403)) as third:
        with pytest.raises(HashMismatchError, match=r"none of 3 addresses") as error:
            get(remote(first, second, third), tmp_path)
        for server in (first, second, third):
            assert f"{server.url}/{NAME}" in str(error.value)
    assert error.value.path.read_bytes() == OTHER


# Asked not to


def test_terms_that_are_not_accepted_give_the_instructions_and_touch_nothing(tmp_path: Path) -> None:
    with serve() as server:
        file = remote(server, needs_terms=True, instructions="1. Sign up.\n2. Download.")
        with pytest.raises(TermsError, match=r"^1\. Sign up\.\n2\. Download\.\n") as error:
            get(file, tmp_path / "data")
        for part in (str(tmp_path / "data" / NAME), "1 MB", str(file.sha256)):
            assert part in str(error.value)
        assert server.log == []
        assert files(tmp_path) == set()
        get(file, tmp_path, accept_terms=True)
    assert len(server.log) == 1


def test_a_mirror_needs_no_terms_and_its_failure_does_not_reach_the_official_host(tmp_path: Path) -> None:
    with FileServer({f"birds/{NAME}": DATA}, {f"birds/{NAME}": [Fault(status=404)]}) as mirror, serve() as server:
        file = remote(server, needs_terms=True, instructions="1. Sign up.")
        with pytest.raises(DownloadError, match=r"404(.|\n)*1\. Sign up"):
            get(file, tmp_path, mirror=mirror.url)
        get(file, tmp_path, mirror=mirror.url)
    assert server.log == []


def test_a_file_without_address_gives_the_instructions(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"1\. Ask by mail\.\n.*birds\.tgz \(size unknown, no known hash\)"):
        get(RemoteFile(NAME, instructions="1. Ask by mail."), tmp_path)
    with pytest.raises(DownloadError, match="RECORDZOO_MIRROR"):
        get(RemoteFile(NAME), tmp_path)


def test_offline_opens_no_socket(tmp_path: Path) -> None:
    hook = """
import sys
def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        sys.exit(f"offline, and yet {event}")
sys.addaudithook(hook)
"""
    with serve() as server:
        code, stderr = run_child(remote(server), tmp_path, hook, RECORDZOO_OFFLINE="1")
        assert code == 1
        for part in ("DownloadError", "RECORDZOO_OFFLINE", str(tmp_path / NAME), "1 MB", f"{server.url}/{NAME}"):
            assert part in stderr
        assert "and yet" in run_child(remote(server), tmp_path, hook)[1]
        (tmp_path / NAME).write_bytes(DATA)
        assert run_child(remote(server), tmp_path, hook, RECORDZOO_OFFLINE="1") == (0, "")
    assert server.log == []


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
