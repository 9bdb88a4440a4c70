"""`Manifest`, the description of a record set, in the words of the format, and its encoding. Imports no NumPy."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from recordzoo.base.files import hash_text
from recordzoo.base.text import JSON, is_device, no_constant
from recordzoo.errors import FormatVersionError, ManifestError

_T = TypeVar("_T")
_E = TypeVar("_E", bound=StrEnum)

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
_INDEX_ROW_BYTES = 24
_UNHASHED = f"sha256:{'0' * 64}"
_KEYS = {"size_bytes": "bytes", "num_values": "values", "num_records": "records"}  # where an attribute has another name


class SetKind(StrEnum):
    """The source of a record set; a variant has the kind of its source.

    The records of ZOO and FOLDER are in the order of the class that reads them. All other kinds come from the user: any
    names, also absolute ones, in any order, and any targets.
    """

    ZOO = "zoo"
    FOLDER = "folder"
    FLAT = "flat"
    LIST = "list"
    IMPORTED = "imported"
    ANNOTATED = "annotated"
    COMBINED = "combined"
    OWN = "own"

    @property
    def text(self) -> str:
        """The content of such a set in words; "" if the dataset's name describes it."""
        return _TEXTS.get(self, "")


_TEXTS = {
    SetKind.FOLDER: "images in classes",
    SetKind.FLAT: "images without classes",
    SetKind.LIST: "images of a list",
    SetKind.ANNOTATED: "images with annotations",
    SetKind.COMBINED: "other record sets",
    SetKind.OWN: "own data",
}


class FieldKind(StrEnum):
    """The meaning of a field's values."""

    CLASS = "class"
    """A class number, -1 for none; or, as raw integers [n], the class numbers of an image's n objects."""
    INT = "int"
    FLOAT = "float"
    MULTILABEL = "multilabel"
    """One number for each of several attributes."""
    TEXT = "text"
    BOXES = "boxes"
    MASKS = "masks"
    IMAGE = "image"
    BYTES = "bytes"
    JSON = "json"


class BoxFormat(StrEnum):
    """The meaning of a box's four numbers: two corners, a corner and the size, or the centre and the size."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The meaning of a field.

    Attributes:
        kind: The meaning of its values.
        names: For CLASS and MULTILABEL, the names of the numbers, in order; None if unknown.
        box_format: For BOXES, the meaning of their numbers; None if unknown.
        is_normalized: For BOXES and JSON, whether coordinates are fractions of the image's size, not pixels.
    """

    kind: FieldKind
    names: tuple[str, ...] | None = None
    box_format: BoxFormat | None = None
    is_normalized: bool = False

    def to_json(self) -> dict[str, JSON]:
        """Return the field's entry for the manifest; ``format`` and ``normalized`` only if known."""
        said: dict[str, JSON] = {"kind": self.kind, "names": None if self.names is None else list(self.names)}
        if self.box_format is not None:
            said["format"] = self.box_format
        return {**said, "normalized": True} if self.is_normalized else said


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


@dataclass(frozen=True, kw_only=True)
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
    num_records: int = 0
    blobs: Mapping[str, BlobSpec]
    arrays: Mapping[str, ArraySpec] = field(default_factory=dict)
    splits: Mapping[str, int] = field(default_factory=dict)
    shards: tuple[ShardSpec, ...]
    fields: Mapping[str, FieldSpec] = field(default_factory=dict)
    default_target: str | None = None
    source: str = ""
    raw_files: tuple[RawFile, ...] = ()
    bad: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What the set's data is, in words; or the names of dataset and part."""
        return self.kind.text or (f"{self.dataset}.{self.part}" if self.part else self.dataset)

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

    def count(self, what: str) -> int:
        """Return the number of "bad" or "skipped" images: 1,000 are named; the number of more is in the metadata."""
        noted = self.metadata.get(f"num_{what}")
        return noted if isinstance(noted, int) else len(getattr(self, what))

    def to_bytes(self) -> bytes:
        """Encode the manifest as ASCII with sorted keys: equal manifests give equal bytes."""
        document = {"format": FORMAT, "version": VERSION, "features": [], "hash": _UNHASHED, **_plain(self)}
        data = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False).encode() + b"\n"
        return _with_hash(data, own_hash(data))


# Any: what a manifest holds.
def _plain(value: Any) -> Any:
    """Return a manifest, or a value in it, as JSON: an object for a specification, with the format's keys."""
    if isinstance(value, FieldSpec):
        return value.to_json()
    if isinstance(value, Manifest | BlobSpec | ArraySpec | ShardSpec | RawFile):
        return {_KEYS.get(each.name, each.name): _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


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


_SHARD = re.compile(r"shard-[0-9]{5,7}\.lmdb")
_DATASET = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_DTYPE = re.compile(r"[<|](b1|[iu][1248]|f[248])")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_ENCODINGS = ("image", "raw", "json", "bytes")


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Parse an untrusted manifest.

    Args:
        data: The file's bytes.
        where: The file's path, for the messages.

    Raises:
        FormatVersionError: It has a later format, or needs an unknown feature.
        ManifestError: It is not JSON, or a value breaks the format; the message names it.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"{where}: the manifest has more than {MAX_MANIFEST_BYTES:,} bytes.", path=where)
    try:
        document = json.loads(
            data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=no_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as err:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        problem = "nested too deeply" if isinstance(err, RecursionError) else str(err)
        raise ManifestError(f"{where}: the manifest is not valid JSON ({problem}).", path=where) from err
    top = Node(document, where, "the manifest")
    if top.get("format").as_text() != FORMAT:
        top.fail("format", f"is not {FORMAT!r}")
    version = top.get("version").as_integer(1, 1 << 31)
    features = top.get("features").as_list(lambda node: node.as_text(200))
    if version > VERSION or features:
        what = f"format {version}" if version > VERSION else f"the features {', '.join(map(repr, features))}"
        raise FormatVersionError(
            f"{where}: this record set uses {what}; this recordzoo reads format {VERSION}. "
            "Upgrade recordzoo, or prepare the dataset again with this version.",
            path=where,
            version=version,
        )
    found = OWN_HASH.findall(data)
    if found != [top.matching("hash", _HASH).encode()] or own_hash(data) != found[0].decode():
        top.fail("hash", "is not the hash of the manifest: it was damaged or edited")
    return _build(top)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


class Node:
    """A value of the document with its place, for error messages."""

    def __init__(self, value: JSON, where: str, path: str) -> None:
        self.value, self.where, self.path = value, where, path

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise an error that names the place."""
        raise ManifestError(
            f"{self.where}: {self.path}: {key!r} {problem}. The record set is damaged or not one; "
            "prepare the dataset again.",
            path=self.where,
        )

    def of(self, kind: type[_T]) -> _T:
        """Return a value of a type that JSON has."""
        if type(self.value) is not kind:  # exactly: True is an int for isinstance
            self.fail("this", f"is a {type(self.value).__name__}, not a {kind.__name__}")
        return self.value

    def get(self, key: str) -> "Node":
        """Return the value of a key."""
        document = self.of(dict)
        if key not in document:
            self.fail(key, "is missing")
        return Node(document[key], self.where, f"{self.path}, {key[:80]!r}")

    def as_text(self, limit: int = 200) -> str:
        """Return a text of at most `limit` characters."""
        text = self.of(str)
        if len(text) > limit:
            self.fail("this", f"is a text of {len(text):,} characters, more than {limit:,}")
        return text

    def as_integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""
        number = self.of(int)
        if not low <= number <= high:
            self.fail("this", f"is {str(number)[:40]}, not between {low} and {high}")
        return number

    def as_list(self, item: Callable[["Node"], _T], limit: int = 10_000_000) -> list[_T]:
        """Return a list of at most `limit` entries, each read by `item`."""
        values = self.of(list)
        if len(values) > limit:
            self.fail("this", f"has {len(values):,} entries, more than {limit:,}")
        return [item(Node(value, self.where, f"{self.path}[{i}]")) for i, value in enumerate(values)]

    def matching(self, key: str, pattern: re.Pattern[str]) -> str:
        """Return the text of a key, which must match a pattern completely."""
        text = self.get(key).as_text()
        if not pattern.fullmatch(text):
            self.fail(key, f"is {text!r}, which does not match {pattern.pattern}")
        return text

    def one_of(self, key: str, words: type[_E]) -> _E:
        """Return the text of a key, which must be a member of an enumeration."""
        text = self.get(key).as_text()
        if text not in set(words):
            self.fail(key, f"is {text!r}, not one of {', '.join(words)}")
        return words(text)

    def map_of(self, key: str, names: re.Pattern[str] | None, item: Callable[["Node"], _T]) -> dict[str, _T]:
        """Return the object of a key; its own keys must match `names`, `item` reads its values."""
        node = self.get(key)
        result = {}
        for name in node.of(dict):
            if names is not None and not names.fullmatch(name):
                self.fail(key, f"has the name {name[:80]!r}, which does not match {names.pattern}")
            result[name] = item(node.get(name))
        return result

    def optional(self, key: str, item: Callable[["Node"], _T]) -> _T | None:
        """Return the value of a key, read by `item`, or None for null."""
        node = self.get(key)
        return None if node.value is None else item(node)


def _build(top: Node) -> Manifest:
    num_records = top.get("records").as_integer(0, MAX_RECORDS)
    manifest = Manifest(
        kind=top.one_of("kind", SetKind),
        dataset=top.matching("dataset", _DATASET),
        part=top.get("part").as_text(64),
        variant=top.matching("variant", _DATASET),
        num_records=num_records,
        blobs=top.map_of("blobs", NAME_PATTERN, _blob),
        arrays=top.map_of("arrays", re.compile(r"[a-z][a-z0-9_.-]{0,127}"), _array),
        splits=top.map_of("splits", SPLIT_PATTERN, lambda node: node.as_integer(0, MAX_RECORDS)),
        shards=tuple(top.get("shards").as_list(_shard, MAX_SHARDS)),
        fields=top.map_of("fields", NAME_PATTERN, _field),
        default_target=top.optional("default_target", lambda node: node.as_text(64)),
        source=top.get("source").as_text(4096),
        raw_files=tuple(top.get("raw_files").as_list(_raw_file)),
        bad=top.map_of("bad", None, lambda node: node.as_text(4096)),
        skipped=top.map_of("skipped", None, lambda node: node.as_text(4096)),
        metadata=top.map_of("metadata", None, lambda node: node.value),
    )
    if manifest.part and not _DATASET.fullmatch(manifest.part):
        top.fail("part", "is not a part's name")
    _check_arrays(top, manifest)
    _check_fields(top, manifest)
    for number, shard in enumerate(manifest.shards):
        if shard.name != shard_name(number):
            top.fail("shards", f"names {shard.name!r} where {shard_name(number)!r} must stand")
    return manifest


def _check_arrays(top: Node, manifest: Manifest) -> None:
    """Check that the format's own arrays exist and have the right shapes."""
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


def _check_fields(top: Node, manifest: Manifest) -> None:
    """Check that every field has an entry that fits the encoding of its values."""
    stored = {*manifest.blobs, *manifest.columns}
    if manifest.fields.keys() != stored:
        top.fail("fields", f"has {', '.join(sorted(manifest.fields))}; stored are {', '.join(sorted(stored))}")
    if manifest.default_target is not None and manifest.default_target not in stored:
        top.fail("default_target", f"is {manifest.default_target!r}, which is no field")
    for name, field_spec in manifest.fields.items():
        blob, array = manifest.blobs.get(name), manifest.arrays.get(name)
        fits = {
            FieldKind.CLASS: _is_of_classes(blob, array),
            FieldKind.IMAGE: blob is not None and blob.encoding in ("image", "raw"),
            FieldKind.TEXT: blob is not None and blob.encoding == "json",
            FieldKind.JSON: blob is not None and blob.encoding == "json",
            FieldKind.BYTES: blob is not None and blob.encoding == "bytes",
        }
        if not fits.get(field_spec.kind, True):
            top.fail("fields", f"says that {name!r} is {field_spec.kind}, and it is stored otherwise")


def _is_of_classes(blob: BlobSpec | None, array: ArraySpec | None) -> bool:
    """Whether a field stores one class, or a row of classes, per record."""
    if blob is not None:
        return blob.encoding == "raw" and len(blob.shape or (0,)) == 1 and is_label(blob.dtype, (0,))
    return array is not None and is_label(array.dtype, array.shape)


def _field(node: Node) -> FieldSpec:
    kind = node.one_of("kind", FieldKind)
    names = node.optional("names", lambda item: tuple(item.as_list(lambda name: name.as_text(4096))))
    if names is not None and kind not in (FieldKind.CLASS, FieldKind.MULTILABEL):
        node.fail("names", f"names classes, and the field is {kind}")
    box_format = node.one_of("format", BoxFormat) if kind is FieldKind.BOXES and "format" in node.value else None
    has_points = kind in (FieldKind.BOXES, FieldKind.JSON)
    is_normalized = has_points and "normalized" in node.value and node.get("normalized").of(bool)
    return FieldSpec(kind, names, box_format, is_normalized)


def _blob(node: Node) -> BlobSpec:
    encoding = node.get("encoding").as_text()
    shape = node.optional(
        "shape", lambda item: tuple(item.as_list(lambda d: d.as_integer(0, MAX_FILE_BYTES), MAX_DIMENSIONS))
    )
    dtype = node.get("dtype").as_text(4)
    if encoding not in _ENCODINGS or (encoding != "raw" and shape is not None):
        valid = ", ".join(_ENCODINGS)
        node.fail("encoding", f"is {encoding!r} with shape {shape}. Valid: {valid}; only raw may have a shape")
    if bool(dtype) != (encoding == "raw") or (dtype and not _DTYPE.fullmatch(dtype)):
        node.fail("dtype", f"is {dtype!r}. Raw values have a little-endian dtype, others none")
    return BlobSpec(encoding, shape, dtype)


def _array(node: Node) -> ArraySpec:
    dtype = node.get("dtype").as_text()
    if dtype and not _DTYPE.fullmatch(dtype):
        node.fail("dtype", f"is {dtype!r}, not a little-endian number")
    shape = tuple(node.get("shape").as_list(lambda item: item.as_integer(0, MAX_RECORDS + 1), MAX_DIMENSIONS))
    size_bytes = node.get("bytes").as_integer(0, MAX_FILE_BYTES)
    num_bytes = (int(dtype[2:]) if dtype else _INDEX_ROW_BYTES) * math.prod(shape)
    # NumPy also refuses (0, 2**40, 2**40).
    if not shape or num_bytes > size_bytes or math.prod(max(1, dimension) for dimension in shape) > MAX_FILE_BYTES:
        node.fail("shape", f"is {shape}, which does not fit the file's {size_bytes:,} bytes")
    crc = node.get("crc32").as_integer(0, 0xFFFFFFFF)
    return ArraySpec(dtype, shape, size_bytes, crc, node.matching("hash", _HASH))


def _shard(node: Node) -> ShardSpec:
    return ShardSpec(
        name=node.matching("name", _SHARD),
        size_bytes=node.get("bytes").as_integer(0, MAX_FILE_BYTES),
        num_values=node.get("values").as_integer(0, 1 << 32),
        page_size=node.get("page_size").as_integer(256, 1 << 16),
        last_page=node.get("last_page").as_integer(0, MAX_FILE_BYTES),
        hash=node.matching("hash", _HASH),
    )


def _raw_file(node: Node) -> RawFile:
    return RawFile(
        name=node.get("name").as_text(1024),
        size_bytes=node.get("bytes").as_integer(0, MAX_FILE_BYTES),
        hash=node.optional("hash", lambda item: item.as_text(200)),
    )
