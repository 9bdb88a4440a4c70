import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from recordzoo.base import files as hashing
from recordzoo.base.files import BackgroundHash, new_hash
from recordzoo.errors import ArgumentError, SourceError

DATA = bytes(range(256)) * 1001


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hashing, "_CHUNK_BYTES", 1000)
    file = tmp_path / "a.bin"
    file.write_bytes(DATA)
    return file


@pytest.mark.parametrize("algorithm", ["md5", "sha256", "sha512"])
def test_hash_of_a_file_is_that_of_its_bytes(path: Path, algorithm: str) -> None:
    background = BackgroundHash(path, algorithm)
    assert background.hexdigest() == hashlib.new(algorithm, DATA).hexdigest()
    assert background.position == len(DATA)
    background.close()
    assert background.hexdigest() == hashlib.new(algorithm, DATA).hexdigest()


def test_hash_of_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    background = BackgroundHash(tmp_path / "empty", "md5")
    assert background.hexdigest() == hashlib.md5(b"").hexdigest()


def test_an_unknown_algorithm_is_named_with_the_valid_ones(path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"'md6'.*sha256"):
        new_hash("md6")
    with pytest.raises(ArgumentError, match="'md6'"):
        BackgroundHash(path, "md6")


def test_a_missing_file_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        BackgroundHash(tmp_path / "nowhere", "md5")


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that ends when its writer wants it to."""
    monkeypatch.setattr(hashing, "_CHUNK_BYTES", 1000)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def wait_for(background: BackgroundHash, position: int) -> None:
    end = time.monotonic() + 60
    while background.position < position:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_position_follows_the_bytes_that_are_there(pipe: Path) -> None:
    writer = os.open(pipe, os.O_RDWR)
    background = BackgroundHash(pipe, "md5")
    os.write(writer, DATA[:3000])
    wait_for(background, 3000)
    assert background.position == 3000
    os.write(writer, DATA[3000:4000])
    os.close(writer)
    assert background.hexdigest() == hashlib.md5(DATA[:4000]).hexdigest()
    assert background.position == 4000


def test_close_stops_before_the_end(pipe: Path) -> None:
    writer = os.open(pipe, os.O_RDWR)
    background = BackgroundHash(pipe, "md5")
    os.write(writer, DATA[:1000])
    wait_for(background, 1000)
    closer = threading.Thread(target=background.close)
    closer.start()
    while closer.is_alive():  # it may hang in its read, and may begin one more if it was not told yet
        os.write(writer, b"x")
        closer.join(0.001)
    os.close(writer)
    with pytest.raises(SourceError, match=rf"pipe was stopped at byte {background.position}, before the end"):
        background.hexdigest()
    assert background.position > 1000


def test_an_error_while_reading_reaches_who_asks(tmp_path: Path) -> None:
    # Reading one's own memory at address 0 fails as a broken disk does: the open succeeds, the read gives EIO.
    memory = Path("/proc/self/mem")
    if not memory.exists():
        pytest.skip("no file at hand that opens and cannot be read")
    background = BackgroundHash(memory, "md5")
    with pytest.raises(OSError, match="Input/output error"):
        background.hexdigest()
    background.close()
