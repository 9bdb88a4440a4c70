"""`Manifest`, the description of a record set, and its encoding."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recordzoo.base.hashing import hash_text
from recordzoo.base.types import JSON
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind
from recordzoo.system.names import is_device

FORMAT = "recordzoo"
VERSION = 1
OBJECT_LABELS = "labels"
"""The field with the classes of the objects in an image."""

ORIGINAL = "original"
"""The variant of a record set that stores images untouched."""
MANIFEST_NAME = "manifest.json"
ENDING = ".records"
"""Suffix of a record set's directory."""

MAX_MANIFEST_BYTES = 64 << 20
MAX_RECORDS = 1 << 40
MAX_FILE_BYTES = 1 << 50
MAX_SHARDS = 1 << 20
MAX_DIMENSIONS = 8

INDEX_DTYPE = np.dtype([("shard", "<u4"), ("slot", "<u4"), ("length", "<u4"), ("crc32", "<u4"), ("offset", "<u8")])
NO_SHARD = 0xFFFFFFFF
"""In an index: the position has no value in this field."""

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Pattern of field names."""
RESERVED_FIELDS = ("name", "names", "names_offsets", "split")
"""Reserved field names: record sets store names and splits there."""
SPLIT_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
"""Pattern of split names."""
OWN_HASH = re.compile(rb'\n "hash": "(sha256:[0-9a-f]{64})"')
"""The line of the manifest's own hash; one space: only a top-level key matches."""
_NAMES = ("names", "names_offsets")
_UNHASHED = f"sha256:{'0' * 64}"


@dataclass(frozen=True, slots=True)
class BlobSpec:
    """The encoding of a blob field.

    Attributes:
        encoding: "image" (an encoded image file), "raw" (numbers in C order), "json" or "bytes".
        shape: For "raw", the shape of every value, [H, W, C] for pixels; None if they differ: then the array
            ``<field>.shape`` has them.
        dtype: For "raw", the numbers' type; else "".
    """

    encoding: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array file: dtype (little-endian), shape and checksums."""

    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    crc32: int
    hash: str


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """A shard file: its size, number of values, LMDB's page size and last page, and its hash."""

    name: str
    size_bytes: int
    num_values: int
    page_size: int
    last_page: int
    hash: str


@dataclass(frozen=True, slots=True)
class RawFile:
    """A raw file of the set; `hash` is ``md5:...`` or ``sha256:...`` if it was checked."""

    name: str
    size_bytes: int
    hash: str | None


@dataclass(frozen=True)
class Manifest:
    """The description of a record set, without its shards.

    Attributes:
        kind: The source of the set.
        dataset: For ZOO, its name in the catalogue; for IMPORTED, the format; else the kind.
        part: Part of the raw data, or "".
        variant: The form of the stored images; "original" means untouched.
        num_records: Number of positions.
        blobs: Blob fields by name; the array ``<name>.index`` is the index of each.
        arrays: Array files by name (without ".npy"), including indices, names and splits.
        splits: Number of positions of each split; the array ``split-<name>`` has the positions.
        shards: Shards by number.
        fields: The meaning of each blob field and each array field.
        default_target: The field of a sample's default target, or None.
        source: The form of the raw data: "archive", "tree", "list", "lmdb", "samples", "records", or a foreign
            format: "tfrecord".
        raw_files: The archives of the raw data.
        bad: Names of images that no decoder recognised when they were stored, with the reasons.
        skipped: Names of members that were skipped on request, with the reasons.
        metadata: Further values that the dataset reads when it is opened; JSON.
    """

    kind: SetKind
    dataset: str
    part: str
    variant: str
    num_records: int
    blobs: Mapping[str, BlobSpec]
    arrays: Mapping[str, ArraySpec]
    splits: Mapping[str, int]
    shards: tuple[ShardSpec, ...]
    fields: Mapping[str, FieldSpec] = field(default_factory=dict)
    default_target: str | None = None
    source: str = ""
    raw_files: tuple[RawFile, ...] = ()
    bad: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def is_listed(self) -> bool:
        """Whether the user chose the records: their names may be absolute, their order and targets are arbitrary.

        Records of a dataset or of class folders are in the order of the class that reads them.
        """
        return self.kind not in (SetKind.ZOO, SetKind.FOLDER)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names of the default target in label order, or None."""
        spec = self.fields.get(self.default_target or "")
        return spec.names if spec is not None and spec.kind is FieldKind.CLASS else None

    @property
    def object_classes(self) -> tuple[str, ...] | None:
        """Class names of the objects in the images, or None."""
        spec = self.fields.get(OBJECT_LABELS)
        return spec.names if spec is not None and spec.kind is FieldKind.CLASS else None

    @property
    def label_field(self) -> str | None:
        """The default target, if it is one integer per record."""
        spec = self.arrays.get(self.default_target or "")
        return self.default_target if spec is not None and is_label(spec.dtype, spec.shape) else None

    @property
    def columns(self) -> list[str]:
        """The names of the array fields, without the format's own arrays."""
        return [name for name in self.arrays if NAME_PATTERN.fullmatch(name) and name not in _NAMES]

    def to_bytes(self) -> bytes:
        """Encode the manifest as ASCII with sorted keys: equal manifests give equal bytes."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "features": [],
            "kind": self.kind,
            "dataset": self.dataset,
            "part": self.part,
            "variant": self.variant,
            "records": self.num_records,
            "blobs": {
                name: {
                    "encoding": spec.encoding,
                    "shape": None if spec.shape is None else list(spec.shape),
                    "dtype": spec.dtype,
                }
                for name, spec in self.blobs.items()
            },
            "arrays": {
                name: {
                    "dtype": spec.dtype,
                    "shape": list(spec.shape),
                    "bytes": spec.size_bytes,
                    "crc32": spec.crc32,
                    "hash": spec.hash,
                }
                for name, spec in self.arrays.items()
            },
            "splits": dict(self.splits),
            "shards": [
                {
                    "name": spec.name,
                    "bytes": spec.size_bytes,
                    "values": spec.num_values,
                    "page_size": spec.page_size,
                    "last_page": spec.last_page,
                    "hash": spec.hash,
                }
                for spec in self.shards
            ],
            "fields": {name: spec.to_json() for name, spec in self.fields.items()},
            "default_target": self.default_target,
            "source": self.source,
            "raw_files": [{"name": r.name, "bytes": r.size_bytes, "hash": r.hash} for r in self.raw_files],
            "bad": dict(self.bad),
            "skipped": dict(self.skipped),
            "metadata": dict(self.metadata),
            "hash": _UNHASHED,
        }
        data = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False).encode() + b"\n"
        return _with_hash(data, own_hash(data))


def own_hash(data: bytes) -> str:
    """Return the SHA-256 of a manifest's bytes, with zeros in place of this hash.

    The manifest has hashes of all other files. Without its own, a flipped bit could turn one class into another.
    """
    return hash_text(hashlib.sha256(_with_hash(data, _UNHASHED)))


def _with_hash(data: bytes, text: str) -> bytes:
    return OWN_HASH.sub(b'\n "hash": "%s"' % text.encode(), data)


def manifest_digest(data: bytes) -> str:
    """Return the identity of a record set: the SHA-256 of its manifest, which contains all other hashes."""
    return hashlib.sha256(data).hexdigest()


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"shard-{number:05d}.lmdb"


def is_field_name(name: str) -> bool:
    """Whether a new field may have this name; on Windows, device names are refused."""
    return NAME_PATTERN.fullmatch(name) is not None and name not in RESERVED_FIELDS and not is_device(name)


def is_label(dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether an array has one integer per record, of a type that fits int64."""
    return len(shape) == 1 and dtype[1:2] in ("i", "u") and dtype != "<u8"


def array_dtype(text: str) -> np.dtype[Any]:
    """Return the dtype for a manifest's text; "" means an index row."""
    return np.dtype(text) if text else INDEX_DTYPE
