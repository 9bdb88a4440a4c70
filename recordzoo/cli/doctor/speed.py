"""A test of two seconds: how fast the disk reads, how many images a second are decoded. A rough guide, no benchmark."""

import io
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from recordzoo.system.files import DONT_NEED, advise

FILE_BYTES = 64 << 20
READ_BYTES = 112 << 10
"""A random read is as large as an image of ImageNet."""

PICTURE = (500, 375)
"""Pixels of the image that is decoded."""

_CHUNK_BYTES = 1 << 20
_SHARE_S = 0.5
"""Each of the four parts takes so long at most."""


@dataclass(frozen=True, slots=True)
class DiskSpeed:
    """What the disk did.

    Attributes:
        write_bytes_per_s: Written and synced.
        sequential_bytes_per_s: Read from front to back.
        random_reads_per_s: Reads of 112 KiB at random places, one after another.
        is_cold: Whether the file was dropped from the page cache before it was read.
    """

    write_bytes_per_s: float
    sequential_bytes_per_s: float
    random_reads_per_s: float
    is_cold: bool


@dataclass(frozen=True, slots=True)
class DecoderSpeed:
    """Images a second, on one core; None where there is no such decoder."""

    pillow: float
    libjpeg_turbo: float | None


def disk_speed(folder: Path, free_bytes: int) -> DiskSpeed | None:
    """Write a temporary file into a directory and read it; None if there is no room for one.

    Raises:
        OSError: The disk fails.
    """
    if free_bytes < 4 * FILE_BYTES:
        return None
    with tempfile.TemporaryFile(prefix=".recordzoo-doctor-", dir=folder, buffering=0) as file:
        chunk = random.Random(0).randbytes(_CHUNK_BYTES)
        began, size = time.perf_counter(), 0
        while size < FILE_BYTES and time.perf_counter() - began < _SHARE_S:
            size += file.write(chunk)
        os.fsync(file.fileno())
        written = size / (time.perf_counter() - began)
        is_cold = _forget(file.fileno())
        sequential = _rate(lambda step: _read_at(file, step * _CHUNK_BYTES, _CHUNK_BYTES), size // _CHUNK_BYTES)
        _forget(file.fileno())
        places = random.Random(1).sample(range(size // READ_BYTES), min(256, size // READ_BYTES))
        reads = _rate(lambda step: _read_at(file, places[step] * READ_BYTES, READ_BYTES), len(places))
    return DiskSpeed(written, sequential * _CHUNK_BYTES, reads, is_cold)


def decoder_speed() -> DecoderSpeed:
    """Decode a generated JPEG of 500 x 375 pixels again and again."""
    from recordzoo.loading.decode import decode_rgb
    from recordzoo.loading.turbojpeg import Decompressor, library

    data = _picture()
    pillow = _rate(lambda _: decode_rgb(data).load())
    if library() is None:
        return DecoderSpeed(pillow, None)
    decompressor = Decompressor()
    header = decompressor.header(data)
    return DecoderSpeed(pillow, _rate(lambda _: decompressor.region(data, header)))


def _picture() -> bytes:
    """Make a JPEG with as much detail as a photograph."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8)).resize(PICTURE, Image.Resampling.BICUBIC)
    pixels = np.asarray(coarse, np.int16) + rng.integers(-12, 13, (PICTURE[1], PICTURE[0], 3), np.int16)
    file = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def _rate(work: Callable[[int], object], most: int | None = None) -> float:
    """Return how often a second something is done: once at least, `most` times or for half a second."""
    began = time.perf_counter()
    count = 0
    while True:
        work(count)
        count += 1
        took = time.perf_counter() - began
        if count == most or took >= _SHARE_S:
            return count / max(took, 1e-9)


def _read_at(file: IO[bytes], offset: int, size: int) -> None:
    file.seek(offset)
    file.read(size)


def _forget(fd: int) -> bool:
    """Drop a file from the page cache, where the system can be told to; return whether it can."""
    if advise is None:
        return False
    advise(fd, 0, 0, DONT_NEED)
    return True
