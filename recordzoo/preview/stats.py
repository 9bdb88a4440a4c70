"""Statistics of a record set: classes, bytes, fields and variants."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recordzoo.errors import RecordError
from recordzoo.preview.labels import Labels
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import NO_SHARD, Manifest
from recordzoo.records.reader import RecordReader, is_record_set


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
