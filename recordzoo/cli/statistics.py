"""Statistics of a record set: classes, bytes, fields and variants; formats and sizes of images, from their headers."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.progress import Progress
from recordzoo.errors import CorruptRecordError, RecordError
from recordzoo.images.decode import open_picture, with_value
from recordzoo.recipes.images import quiet
from recordzoo.records.kinds import SetKind
from recordzoo.records.labels import Labels
from recordzoo.records.manifest import NO_SHARD, Manifest
from recordzoo.records.reader import RecordReader, is_record_set

SAMPLE = 2000
"""Number of images read by default."""

SAMPLE_AT_URL = 200
"""The same at a URL, where each image is fetched whole."""

_CHUNK = 256
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # of raw pixels, by their channels


@dataclass(frozen=True)
class ClassCount:
    """The number of records of a class."""

    number: int
    name: str
    count: int


def count_classes(labels: Labels) -> list[ClassCount]:
    """Count the records of each class, in label order; classes without records are there too."""
    numbers, counts = np.unique(labels.numbers, return_counts=True)
    found = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    every = sorted({*found, *range(len(labels.names))})
    return [ClassCount(number, labels.name(number), found.get(number, 0)) for number in every]


@dataclass(frozen=True)
class Bytes:
    """Sizes of the parts of a record set.

    Attributes:
        blobs: The stored values of each blob field; a value that several records share counts once.
        shards: The shard files: all values, and LMDB's overhead.
        arrays: The array files: indices, names, splits and array fields.
        shared: The shard files that other record sets share, by hard links.
    """

    blobs: Mapping[str, int]
    shards: int
    arrays: int
    shared: int = 0

    @property
    def total(self) -> int:
        """All files but the manifest."""
        return self.shards + self.arrays

    @property
    def overhead(self) -> int:
        """All bytes that are not stored values."""
        return self.total - sum(self.blobs.values())


def count_bytes(reader: RecordReader) -> Bytes:
    """Add up the bytes of a record set.

    Raises:
        CorruptRecordError: An index is damaged.
    """
    manifest, shared = reader.manifest, 0
    for shard in manifest.shards if isinstance(reader.path, Path) else ():
        with contextlib.suppress(OSError):  # `verify` reports missing files
            facts = (reader.folder / shard.name).stat()
            shared += facts.st_size if facts.st_nlink > 1 else 0
    return Bytes(
        {name: _stored_bytes(reader, name) for name in manifest.blobs},
        sum(shard.size_bytes for shard in manifest.shards),
        sum(array.size_bytes for array in manifest.arrays.values()),
        shared,
    )


def count_values(reader: RecordReader, field: str) -> int:
    """Return the number of records with a value in a blob field."""
    return int((reader.array(f"{field}.index")["shard"] != NO_SHARD).sum())


def _stored_bytes(reader: RecordReader, field: str) -> int:
    index = reader.array(f"{field}.index")
    index = index[index["shard"] != NO_SHARD]
    place = index["shard"].astype(np.uint64) << np.uint64(32) | index["slot"]
    _, first = np.unique(place, return_index=True)
    return int(index["length"][first].astype(np.int64).sum())


@dataclass(frozen=True)
class VariantStats:
    """Another record set of the same dataset, beside this one."""

    path: Path
    name: str
    num_records: int


def find_variants(reader: RecordReader) -> list[VariantStats]:
    """Find the record sets beside this one that hold the same dataset in another way, sorted by path."""
    found: list[VariantStats] = []
    if not isinstance(reader.path, Path):  # what lies beside a URL is not listed
        return found
    for path in sorted(reader.path.parent.glob("*.records")):
        if path == reader.path or not is_record_set(path):
            continue
        try:
            manifest = RecordReader(path).manifest
        except RecordError:  # a neighbour that is damaged says nothing about this one
            continue
        if manifest.variant != reader.manifest.variant and _is_same_dataset(manifest, reader.manifest):
            found.append(VariantStats(path, manifest.variant, manifest.num_records))
    return found


def _is_same_dataset(one: Manifest, other: Manifest) -> bool:
    if (one.kind, one.dataset, one.part) != (other.kind, other.dataset, other.part):
        return False
    # users' trees have one dataset name; the names of their records differ
    return one.kind is SetKind.ZOO or one.arrays["names"].hash == other.arrays["names"].hash


def spread(values: Sequence[int]) -> tuple[int, float, int]:
    """Return the smallest, the median and the largest of some numbers, at least one."""
    array = np.asarray(values)
    return int(array.min()), float(np.median(array)), int(array.max())


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
