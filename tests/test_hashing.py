import hashlib
import os
import threading
from pathlib import Path

import pytest

from recordzoo.base import files as hashing
from recordzoo.base.files import BackgroundHash, new_hash
from recordzoo.errors import ArgumentError, SourceError
from tests.preparing import wait_for

DATA = bytes(range(256)) * 1001


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that ends when its writer wants it to."""
    monkeypatch.setattr(hashing, "_CHUNK_BYTES", 1000)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_an_unknown_algorithm_is_named_with_the_valid_ones() -> None:
    with pytest.raises(ArgumentError, match=r"'md6'.*sha256"):
        new_hash("md6")


def test_position_follows_the_bytes_that_are_there(pipe: Path) -> None:
    writer = os.open(pipe, os.O_RDWR)
    background = BackgroundHash(pipe, "md5")
    os.write(writer, DATA[:3000])
    wait_for(lambda: background.position >= 3000, "the bytes that are there")
    assert background.position == 3000
    os.write(writer, DATA[3000:4000])
    os.close(writer)
    assert background.hexdigest() == hashlib.md5(DATA[:4000]).hexdigest()
    assert background.position == 4000


def test_close_stops_before_the_end(pipe: Path) -> None:
    writer = os.open(pipe, os.O_RDWR)
    background = BackgroundHash(pipe, "md5")
    os.write(writer, DATA[:1000])
    wait_for(lambda: background.position >= 1000, "the first bytes")
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
