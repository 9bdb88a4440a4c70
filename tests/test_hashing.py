import hashlib
import os
import threading
from pathlib import Path

import pytest

from recordzoo.errors import ArgumentError, SourceError
from recordzoo.sources import hashing
from recordzoo.sources.hashing import BackgroundHash, hash_file

DATA = bytes(range(256)) * 1001


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hashing, "_CHUNK_BYTES", 1000)
    file = tmp_path / "a.bin"
    file.write_bytes(DATA)
    return file


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        self.told.append(("begin", stage, total_bytes, done_bytes))

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        self.told.append(("advance", num_bytes))

    def note(self, text: str) -> None:
        self.told.append(("note", text))

    def end(self) -> None:
        self.told.append(("end",))


@pytest.mark.parametrize("algorithm", ["md5", "sha256", "blake2b"])
def test_hash_of_a_file_is_that_of_its_bytes(path: Path, algorithm: str) -> None:
    assert hash_file(path, algorithm) == hashlib.new(algorithm, DATA).hexdigest()


def test_hash_of_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert hash_file(tmp_path / "empty", "md5") == hashlib.md5(b"").hexdigest()
    background = BackgroundHash(tmp_path / "empty", "md5")
    background.wait_until(10)
    assert background.hexdigest() == hashlib.md5(b"").hexdigest()


def test_progress_counts_every_byte_once(path: Path) -> None:
    recorder = Recorder()
    hash_file(path, "md5", recorder)
    assert recorder.told[0] == ("begin", "checking a.bin", len(DATA), 0)
    assert recorder.told[-1] == ("end",)
    assert sum(entry[1] for entry in recorder.told if entry[0] == "advance") == len(DATA)  # type: ignore[misc]


def test_an_unknown_algorithm_is_named_with_the_valid_ones(path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"'md6'.*sha256"):
        hash_file(path, "md6")
    with pytest.raises(ArgumentError, match="'md6'"):
        BackgroundHash(path, "md6")


def test_a_missing_file_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        BackgroundHash(tmp_path / "nowhere", "md5")


def test_background_hash_is_that_of_the_file(path: Path) -> None:
    background = BackgroundHash(path, "sha256")
    background.wait_until(5000)
    assert background.position >= 5000
    assert background.hexdigest() == hashlib.sha256(DATA).hexdigest()
    assert background.position == len(DATA)
    background.wait_until(len(DATA) + 1)  # past the end: there is no more to wait for
    background.close()
    assert background.hexdigest() == hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that ends when its writer wants it to."""
    monkeypatch.setattr(hashing, "_CHUNK_BYTES", 1000)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_position_follows_the_bytes_that_are_there(pipe: Path) -> None:
    writer = os.open(pipe, os.O_RDWR)
    background = BackgroundHash(pipe, "md5")
    os.write(writer, DATA[:3000])
    background.wait_until(3000)
    assert background.position == 3000
    waiter = threading.Thread(target=background.wait_until, args=(3001,))
    waiter.start()
    assert waiter.is_alive()
    os.write(writer, DATA[3000:4000])
    waiter.join()
    os.close(writer)
    assert background.hexdigest() == hashlib.md5(DATA[:4000]).hexdigest()


def test_close_stops_before_the_end_and_wakes_who_waits(pipe: Path) -> None:
    writer = os.open(pipe, os.O_RDWR)
    background = BackgroundHash(pipe, "md5")
    os.write(writer, DATA[:1000])
    background.wait_until(1000)
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            background.wait_until(5000)
        except SourceError as err:
            failures.append(err)

    waiter = threading.Thread(target=wait)
    waiter.start()
    closer = threading.Thread(target=background.close)
    closer.start()
    waiter.join()  # though the thread still hangs in its read
    os.write(writer, b"x")
    closer.join()
    os.close(writer)
    assert "stopped" in str(failures[0])
    background.wait_until(1000)
    with pytest.raises(SourceError, match=r"pipe was stopped at byte 1001"):
        background.hexdigest()


def test_an_error_while_reading_reaches_who_waits(tmp_path: Path) -> None:
    # Reading one's own memory at address 0 fails as a broken disk does: the open succeeds, the read gives EIO.
    memory = Path("/proc/self/mem")
    if not memory.exists():
        pytest.skip("no file at hand that opens and cannot be read")
    background = BackgroundHash(memory, "md5")
    with pytest.raises(OSError, match="Input/output error"):
        background.wait_until(1)
    with pytest.raises(OSError, match="Input/output error"):
        background.hexdigest()
    background.close()
