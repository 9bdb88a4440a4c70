"""What a record set is: `Manifest`, and the strict reading of ``manifest.json``.

A manifest may come from a stranger. Everything in it has a type, a range and a pattern; names are matched, never joined
from free text; nothing is allocated for a number before it was compared with a file's size.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recordzoo.aliases import JSON
from recordzoo.errors import FormatVersionError, ManifestError
from recordzoo.records.kinds import SetKind
from recordzoo.records.strict import Node, load_document
from recordzoo.sources.hashing import hash_text

FORMAT = "recordzoo"
VERSION = 1
ORIGINAL = "original"
"""The variant of a record set whose images are stored untouched."""
MANIFEST_NAME = "manifest.json"
ENDING = ".records"
"""What the name of a record set's directory ends in."""

MAX_MANIFEST_BYTES = 64 << 20
MAX_RECORDS = 1 << 40
MAX_FILE_BYTES = 1 << 50
MAX_SHARDS = 1 << 20
MAX_DIMENSIONS = 8

INDEX_DTYPE = np.dtype([("shard", "<u4"), ("slot", "<u4"), ("length", "<u4"), ("crc32", "<u4"), ("offset", "<u8")])
NO_SHARD = 0xFFFFFFFF
"""In an index: this position has no value in this field."""

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""What the name of a field may be."""
SPLIT_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
"""What the name of a split may be."""
_SHARD = re.compile(r"shard-[0-9]{5,7}\.lmdb")
_DATASET = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_DTYPE = re.compile(r"[<|](b1|[iu][1248]|f[248])")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_ENCODINGS = ("image", "raw", "json", "bytes")
_OWN_HASH = re.compile(rb'\n "hash": "(sha256:[0-9a-f]{64})"')  # one space: a key of the document itself
_UNHASHED = f"sha256:{'0' * 64}"


@dataclass(frozen=True, slots=True)
class BlobSpec:
    """A blob field: how its values are encoded.

    Attributes:
        encoding: "image" (an encoded image file), "raw" (numbers in C order), "json" or "bytes".
        shape: For "raw" the shape of every value, [H, W, C] for pixels; None if each has its own, in the array
            ``<field>.shape``.
        dtype: For "raw" the numbers' type; "" otherwise.
    """

    encoding: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array file: dtype (little-endian), shape, and what proves that it is the one that was written."""

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
    """A raw file that the set was made from; `hash` is ``md5:...`` or ``sha256:...`` where it was checked."""

    name: str
    size_bytes: int
    hash: str | None


@dataclass(frozen=True)
class Manifest:
    """All that is known of a record set without opening its shards.

    Attributes:
        kind: What the set was made from.
        dataset: Of ZOO, its name in the catalogue; of IMPORTED, the format; of others, the kind.
        part: Part of the raw data, or "".
        variant: How images are stored; "original" means untouched.
        num_records: Number of positions.
        blobs: Blob fields by name; the index of each is the array ``<name>.index``.
        arrays: Array files by name (without ".npy"), indices, names and splits among them.
        splits: Number of positions of each split; the positions are the array ``split-<name>``.
        shards: Shards by number.
        classes: Class names in label order, or None.
        source: What the set was made from: "archive", "tree", "list", "lmdb", "samples", "records", or a
            foreign format: "tfrecord".
        raw_files: The archives it was made from.
        bad: Names of images that no decoder recognised when they were stored, each with the reason.
        skipped: Names of members that were left out on request, each with the reason.
        metadata: What the dataset wants to know when it is opened; JSON.
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
    classes: tuple[str, ...] | None = None
    source: str = ""
    raw_files: tuple[RawFile, ...] = ()
    bad: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def is_listed(self) -> bool:
        """Whether somebody listed the records: any names, absolute ones too, in any order, and any targets.

        Records of a dataset or of class folders are in the order of the class that reads them.
        """
        return self.kind not in (SetKind.ZOO, SetKind.FOLDER)

    def to_bytes(self) -> bytes:
        """Write the manifest: the same manifest gives the same bytes, ASCII, keys sorted."""
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
            "classes": None if self.classes is None else list(self.classes),
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
    """Return the SHA-256 of a manifest's bytes with zeros in the place where they name it themselves.

    All else has a hash in the manifest; without this one a flipped bit in it would make a class another class.
    """
    return hash_text(hashlib.sha256(_with_hash(data, _UNHASHED)))


def _with_hash(data: bytes, text: str) -> bytes:
    return _OWN_HASH.sub(b'\n "hash": "%s"' % text.encode(), data)


def manifest_digest(data: bytes) -> str:
    """Return the identity of a record set: the SHA-256 of its manifest, which holds the hashes of all else."""
    return hashlib.sha256(data).hexdigest()


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Read a manifest, believing nothing.

    Args:
        data: The file's bytes.
        where: The file's path, for the messages.

    Raises:
        FormatVersionError: Written in a later format, or needs a feature that is not known here.
        ManifestError: Anything in it is not as the format says; the message names it.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"{where}: the manifest has more than {MAX_MANIFEST_BYTES:,} bytes.", path=where)
    top = load_document(data, where)
    if top.text("format") != FORMAT:
        top.fail("format", f"is not {FORMAT!r}")
    version = top.integer("version", 1, 1 << 31)
    features = top.list_of("features", lambda node: node.as_text(200))
    if version > VERSION or features:
        what = f"format {version}" if version > VERSION else f"the features {', '.join(map(repr, features))}"
        raise FormatVersionError(
            f"{where}: this record set uses {what}; this recordzoo reads format {VERSION}. "
            "Upgrade recordzoo, or prepare the dataset again with this version.",
            path=where,
            version=version,
        )
    if "kind" not in top.value:
        raise FormatVersionError(
            f"{where}: this record set was written by a development version of recordzoo. Prepare the dataset again.",
            path=where,
            version=version,
        )
    found = _OWN_HASH.findall(data)
    if found != [top.matching("hash", _HASH).encode()] or own_hash(data) != found[0].decode():
        top.fail("hash", "is not the hash of the manifest: it was damaged or edited")
    return _build(top)


def _build(top: "Node") -> Manifest:
    num_records = top.integer("records", 0, MAX_RECORDS)
    manifest = Manifest(
        kind=top.one_of("kind", SetKind),
        dataset=top.matching("dataset", _DATASET),
        part=top.text("part", 64),
        variant=top.matching("variant", _DATASET),
        num_records=num_records,
        blobs=top.map_of("blobs", NAME_PATTERN, _blob),
        arrays=top.map_of("arrays", re.compile(r"[a-z][a-z0-9_.-]{0,127}"), _array),
        splits=top.map_of("splits", SPLIT_PATTERN, lambda node: node.as_integer(0, MAX_RECORDS)),
        shards=tuple(top.list_of("shards", _shard, MAX_SHARDS)),
        classes=top.optional("classes", lambda node: tuple(node.as_list(lambda item: item.as_text(4096)))),
        source=top.text("source", 4096),
        raw_files=tuple(top.list_of("raw_files", _raw_file)),
        bad=top.map_of("bad", None, lambda node: node.as_text(4096)),
        skipped=top.map_of("skipped", None, lambda node: node.as_text(4096)),
        metadata=top.map_of("metadata", None, lambda node: node.value),
    )
    if manifest.part and not _DATASET.fullmatch(manifest.part):
        top.fail("part", "is not a part's name")
    _check_arrays(top, manifest)
    for number, shard in enumerate(manifest.shards):
        if shard.name != shard_name(number):
            top.fail("shards", f"names {shard.name!r} where {shard_name(number)!r} must stand")
    return manifest


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"shard-{number:05d}.lmdb"


def _check_arrays(top: "Node", manifest: Manifest) -> None:
    """Check that the arrays that the format itself needs are there, with the shapes that it needs."""
    needed: dict[str, tuple[str, tuple[int, ...]]] = {"names_offsets": ("<u8", (manifest.num_records + 1,))}
    for name, blob in manifest.blobs.items():
        needed[f"{name}.index"] = ("", (manifest.num_records,))
        if blob.encoding == "raw" and blob.shape is None:
            shapes = manifest.arrays.get(f"{name}.shape")
            dimensions = shapes.shape[1] if shapes is not None and len(shapes.shape) == 2 else 0
            needed[f"{name}.shape"] = ("<u4", (manifest.num_records, min(dimensions, MAX_DIMENSIONS)))
    for name, count in manifest.splits.items():
        needed[f"split-{name}"] = ("<i8", (count,))
    names = manifest.arrays.get("names")
    if names is None or names.dtype != "|u1" or len(names.shape) != 1:
        top.fail("arrays", "lacks 'names', or it is not a row of bytes")
    for name, (dtype, shape) in needed.items():
        spec = manifest.arrays.get(name)
        if spec is None or spec.dtype != dtype or spec.shape != shape:
            top.fail("arrays", f"lacks {name!r}, or it has another dtype or shape than {shape}")
    for name, spec in manifest.arrays.items():
        if (spec.dtype == "") != name.endswith(".index") or ("." in name and name not in needed):
            top.fail("arrays", f"has {name!r}, which belongs to no blob field")
        own = name in needed or name == "names"
        if not own and not (NAME_PATTERN.fullmatch(name) and spec.shape[:1] == (manifest.num_records,)):
            top.fail("arrays", f"has {name!r} with shape {spec.shape}; its first dimension must be the records")


def _blob(node: "Node") -> BlobSpec:
    encoding = node.text("encoding")
    shape = node.optional(
        "shape", lambda item: tuple(item.as_list(lambda d: d.as_integer(0, MAX_FILE_BYTES), MAX_DIMENSIONS))
    )
    dtype = node.text("dtype", 4)
    if encoding not in _ENCODINGS or (encoding != "raw" and shape is not None):
        node.fail(
            "encoding", f"is {encoding!r} with shape {shape}; known are {', '.join(_ENCODINGS)}, a shape with raw"
        )
    if bool(dtype) != (encoding == "raw") or (dtype and not _DTYPE.fullmatch(dtype)):
        node.fail("dtype", f"is {dtype!r}; raw values have one, of little-endian numbers, others have none")
    return BlobSpec(encoding, shape, dtype)


def _array(node: "Node") -> ArraySpec:
    dtype = node.text("dtype")
    if dtype and not _DTYPE.fullmatch(dtype):
        node.fail("dtype", f"is {dtype!r}, not a little-endian number")
    shape = tuple(node.list_of("shape", lambda item: item.as_integer(0, MAX_RECORDS + 1), MAX_DIMENSIONS))
    size_bytes = node.integer("bytes", 0, MAX_FILE_BYTES)
    num_bytes = array_dtype(dtype).itemsize * math.prod(shape)
    # NumPy refuses (0, 2**40, 2**40) too.
    if not shape or num_bytes > size_bytes or math.prod(max(1, dimension) for dimension in shape) > MAX_FILE_BYTES:
        node.fail("shape", f"is {shape}, which does not fit the file's {size_bytes:,} bytes")
    return ArraySpec(dtype, shape, size_bytes, node.integer("crc32", 0, 0xFFFFFFFF), node.matching("hash", _HASH))


def array_dtype(text: str) -> np.dtype[Any]:
    """Return the dtype that a manifest's text stands for; "" is the index row."""
    return np.dtype(text) if text else INDEX_DTYPE


def _shard(node: "Node") -> ShardSpec:
    return ShardSpec(
        name=node.matching("name", _SHARD),
        size_bytes=node.integer("bytes", 0, MAX_FILE_BYTES),
        num_values=node.integer("values", 0, 1 << 32),
        page_size=node.integer("page_size", 256, 1 << 16),
        last_page=node.integer("last_page", 0, MAX_FILE_BYTES),
        hash=node.matching("hash", _HASH),
    )


def _raw_file(node: "Node") -> RawFile:
    return RawFile(
        name=node.text("name", 1024),
        size_bytes=node.integer("bytes", 0, MAX_FILE_BYTES),
        hash=node.optional("hash", lambda item: item.as_text(200)),
    )
