"""Are crops decoded faster from tiles between restart markers? Against a region of the plain file, same quality.

A JPEG with a restart marker every few coding units can be cut into tiles, and those that a crop touches be put together
to a smaller JPEG: header with the new size, the tiles' bytes, markers numbered anew. Only they are decoded then.
"""

import io
import re
import time
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torchvision import transforms as T

from benchmarks.common import Line, arguments, interleaved, median, photographs, ratio
from recordzoo.images.frames import Box, open_encoded
from recordzoo.loader.pieces import uniforms
from recordzoo.pixels.render import resample
from recordzoo.transforms.read import read_plan
from recordzoo.transforms.steps import Crop, decide

_UNIT = 16  # pixels a side of a coding unit at 4:2:0
_TILES = (4, 5, 6, 3)  # coding units of a tile: the first that divides a row of them, otherwise a whole row
_MARGIN = 2  # pixels that chroma is interpolated from
_MARKER = re.compile(rb"\xff[\xd0-\xd7]")
_SIDE = 224


@dataclass(frozen=True)
class Photo:
    """A photograph stored in both ways, and the crop that is wanted of it."""

    plain: bytes
    tiled: bytes
    units: int  # of a tile
    size: tuple[int, int]
    box: Box


def store(data: bytes, draws: list[float]) -> Photo:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    row = -(-image.width // _UNIT)
    units = next((units for units in _TILES if row % units == 0), row)
    files = []
    for options in ({}, {"restart_marker_blocks": units}):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=90, subsampling="4:2:0", **options)
        files.append(buffer.getvalue())
    crop = decide(read_plan(T.RandomResizedCrop(_SIDE)).steps, (image.height, image.width), draws)[0]
    assert isinstance(crop, Crop)
    return Photo(files[0], files[1], units, image.size, (crop.left, crop.top, crop.width, crop.height))


def segments(data: bytes) -> tuple[int, int]:
    """Return where a JPEG's height is written, and where its entropy-coded data begins."""
    at, height = 2, 0
    while True:
        kind, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if kind == 0xC0:
            height = at + 5
        at += 2 + length
        if kind == 0xDA:
            return height, at


def markers(data: bytes) -> list[int]:
    """Return where each tile begins, and where the last one ends."""
    start = segments(data)[1]
    return [start, *(found.end() for found in _MARKER.finditer(data, start)), len(data)]


def assembled(photo: Photo, starts: list[int]) -> tuple[bytes, Box]:
    """Return a JPEG of the tiles that the crop touches, and where the crop is in it."""
    width, height = photo.size
    left, top, crop_width, crop_height = photo.box
    row = -(-width // _UNIT)
    tile, tiles = _UNIT * photo.units, row // photo.units
    first, last = max(0, left - _MARGIN) // tile, min(tiles, -(-(left + crop_width + _MARGIN) // tile))
    begin, end = max(0, top - _MARGIN) // _UNIT, min(-(-height // _UNIT), -(-(top + crop_height + _MARGIN) // _UNIT))
    at, start = segments(photo.tiled)
    new_size = min(height, end * _UNIT) - begin * _UNIT, min(width, last * tile) - first * tile
    parts = [photo.tiled[:at], *(side.to_bytes(2, "big") for side in new_size), photo.tiled[at + 4 : start]]
    chosen = [row * tiles + column for row in range(begin, end) for column in range(first, last)]
    for number, index in enumerate(chosen):
        parts += [photo.tiled[starts[index] : starts[index + 1] - 2], bytes((0xFF, 0xD0 + number % 8))]
    parts[-1] = b"\xff\xd9"
    return b"".join(parts), (left - first * tile, top - begin * _UNIT, crop_width, crop_height)


def from_plain(photo: Photo, starts: list[int]) -> np.ndarray:
    return open_encoded(photo.plain, is_plain=True).pixels(photo.box)


def from_tiles(photo: Photo, starts: list[int]) -> np.ndarray:
    data, box = assembled(photo, starts)
    return open_encoded(data, is_plain=True).pixels(box)


def from_scanned(photo: Photo, starts: list[int]) -> np.ndarray:
    return from_tiles(photo, markers(photo.tiled))


def measure(photos: list[bytes], repeats: int) -> list[Line]:
    torch.set_num_threads(1)
    draws = uniforms(1, 0, np.arange(len(photos)), 22).tolist()
    stored = [store(*each) for each in zip(photos, draws, strict=True)]
    starts = [markers(photo.tiled) for photo in stored]
    for photo, known in zip(stored, starts, strict=True):
        whole = np.asarray(Image.open(io.BytesIO(photo.tiled)).crop(_corners(photo.box)))
        if not np.array_equal(from_tiles(photo, known), whole):
            raise AssertionError("the tiles give other pixels")

    def took(way) -> float:
        start = time.thread_time()
        for photo, known in zip(stored, starts, strict=True):
            resample(torch.from_numpy(way(photo, known)).permute(2, 0, 1), _SIDE, _SIDE, "bilinear")
        return (time.thread_time() - start) / len(stored)

    ways = {"plain": from_plain, "tiles": from_tiles, "scanned": from_scanned}
    times = interleaved({name: lambda way=way: took(way) for name, way in ways.items()}, repeats)
    size = sum(len(photo.tiled) for photo in stored) / sum(len(photo.plain) for photo in stored)
    indexed, searched = ratio(times["plain"], times["tiles"]), ratio(times["plain"], times["scanned"])
    return [
        Line(
            f"crops of 224 from tiles between restart markers, {len(stored)} photographs at quality 90",
            f"the region of a plain file: {1 / median(times['plain']):.0f} crops/s on a core",
            "1.15x, or none are stored",
            f"{indexed:.2f}x with markers indexed, {searched:.2f}x with markers searched for; {size:.3f}x as large",
        )
    ]


def _corners(box: Box) -> tuple[int, int, int, int]:
    return box[0], box[1], box[0] + box[2], box[1] + box[3]


if __name__ == "__main__":
    options = arguments(__doc__ or "").parse_args()
    for line in measure(photographs(options.photos), options.repeats):
        print(line)
