"""Read formats, modes, widths and heights of a record set's images from their headers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.progress import Progress
from recordzoo.errors import CorruptRecordError
from recordzoo.images.decode import open_picture
from recordzoo.preview.choose import with_value
from recordzoo.recipes.images import quiet
from recordzoo.records.reader import RecordReader

SAMPLE = 2000
"""Number of images read by default."""

SAMPLE_AT_URL = 200
"""The same at a URL, where each image is fetched whole."""

_CHUNK = 256
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # of raw pixels, by their channels


@dataclass
class Headers:
    """Images counted by format ("raw" for pixels), mode and (width, height); and the names of those with a problem.

    No decoder recognises the unreadable ones; of the damaged ones the stored bytes have changed.
    """

    num_images: int
    num_looked_at: int
    formats: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def read_headers(
    reader: RecordReader, field_name: str, progress: Progress, *, sample: int | None = SAMPLE, seed: int = 0
) -> Headers:
    """Read the headers of `sample` images, chosen at random by `seed`; of all for None. No pixel is decoded.

    Raw pixels have one size, which is known without reading.

    Raises:
        CorruptRecordError: The index or another array is damaged; a damaged image is noted.
    """
    positions = with_value(reader, field_name, np.arange(len(reader)))
    if reader.manifest.blobs[field_name].encoding == "raw":
        return _raw_headers(reader, field_name, positions)
    count = len(positions)
    if sample is not None and count > sample:
        positions = np.sort(np.random.default_rng(seed).permutation(positions)[:sample])
    headers = Headers(count, len(positions))
    progress.begin("reading headers", int(reader.lengths(field_name)[positions].sum()))
    with quiet():
        for position in _hinted(reader, field_name, positions.tolist()):
            _read_header(reader, field_name, position, headers)
            progress.advance(int(reader.lengths(field_name)[position]), 1)
    progress.end()
    return headers


def _hinted(reader: RecordReader, field_name: str, positions: list[int]) -> Iterator[int]:
    """Give the positions one by one; the disk reads a few hundred ahead."""
    for start in range(0, len(positions), _CHUNK):
        reader.hint(field_name, positions[start : start + _CHUNK])
        yield from positions[start : start + _CHUNK]


def _read_header(reader: RecordReader, field_name: str, position: int, headers: Headers) -> None:
    try:
        image = open_picture(reader, position, field_name)
        headers.formats[image.format or "raw"] += 1
        headers.modes[image.mode] += 1
        headers.sizes[image.size] += 1
    except CorruptRecordError:
        headers.damaged.append(reader.names[position])
    except Exception:  # noqa: BLE001 - decoders raise anything, also for headers
        headers.unreadable.append(reader.names[position])


def _raw_headers(reader: RecordReader, field_name: str, positions: NDArray[np.int64]) -> Headers:
    shape = reader.manifest.blobs[field_name].shape
    count = len(positions)
    headers = Headers(count, count)
    if not count:
        return headers
    headers.formats["raw"] = count
    shapes = reader.array(f"{field_name}.shape")[positions] if shape is None else np.array([shape])
    different, counts = np.unique(shapes, axis=0, return_counts=True)
    for found, number in zip(different.tolist(), counts.tolist(), strict=True):
        times = number if shape is None else count
        height, width, channels = (*found, 1)[:3]
        headers.sizes[width, height] += times
        headers.modes[_MODES.get(channels, "?")] += times
    return headers
