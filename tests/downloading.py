"""A file that is downloaded from a server of our own: what the tests of it share."""

import hashlib
import itertools
import json
import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from recordzoo.net import http as retry
from recordzoo.net.download import fetch
from recordzoo.net.url import RemoteFile
from tests.fakes.server import Fault, FileServer
from tests.forking import Forked, Started, can_fork, start
from tests.forking import serve as serve_forks

NAME = "birds.tgz"
DATA = b"\x1f\x8b\x08\0" + random.Random(7).randbytes(1_000_000)
CHUNK = 128 << 10
OTHER = b"\x1f\x8b\x08\0" + random.Random(8).randbytes(len(DATA) - 4)
PAGE = b"<!DOCTYPE html>\n<html><head><title> Sign in &amp;\n accept </title></head><body>no</body></html>"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waits between attempts, no proxy between this process and the loopback."""
    monkeypatch.setattr(retry, "BACKOFF_S", 0.001)
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
        self._die_at = die_at

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        self.position, self._total = done_bytes, total_bytes
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


def leave_part(folder: Path, data: bytes) -> Path:
    """What an earlier process left: bytes of which nobody knows where they came from."""
    path = folder / f"{NAME}.part"
    path.write_bytes(data)
    return path


def start_child(file: RemoteFile, folder: Path, prelude: str = "", **env: str) -> Forked | Started:
    """Download in a process of its own, which first runs some code."""
    spec = json.dumps([file.urls, file.size_bytes, file.sha256, str(folder), prelude])
    variables = {**os.environ, **env}
    if can_fork():
        return Forked(("tests.downloading",), [spec], variables)
    return start([sys.executable, "-m", "tests.downloading", spec], variables)


def run_child(file: RemoteFile, folder: Path, prelude: str = "", **env: str) -> tuple[int | None, str]:
    with start_child(file, folder, prelude, **env) as child:
        _, stderr = child.communicate(timeout=60)
    return child.returncode, stderr


if __name__ == "__main__":
    (given,) = serve_forks() if sys.argv[1:] == ["--serve"] else sys.argv[1:]
    urls, size_bytes, sha256, folder, prelude = json.loads(given)
    warnings.simplefilter("error")
    exec(prelude, {})
    retry.BACKOFF_S = 0.001
    fetch(RemoteFile(NAME, tuple(urls), size_bytes, sha256=sha256), Path(folder), dataset="birds")
