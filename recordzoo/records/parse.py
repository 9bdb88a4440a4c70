"""Parse ``manifest.json`` strictly.

A manifest may be untrusted. Every value has a type and a range, every name a pattern. A size is compared with the file
before memory of that size is allocated.
"""

import math
import os
import re

from recordzoo.base.program import command
from recordzoo.errors import FormatVersionError, ManifestError
from recordzoo.records.kinds import BoxFormat, FieldKind, FieldSpec, SetKind
from recordzoo.records.manifest import (
    FORMAT,
    MAX_DIMENSIONS,
    MAX_FILE_BYTES,
    MAX_MANIFEST_BYTES,
    MAX_RECORDS,
    MAX_SHARDS,
    NAME_PATTERN,
    OWN_HASH,
    SPLIT_PATTERN,
    VERSION,
    ArraySpec,
    BlobSpec,
    Manifest,
    RawFile,
    ShardSpec,
    array_dtype,
    is_label,
    own_hash,
    shard_name,
)
from recordzoo.records.strict import Node, load_document

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
        ManifestError: A value breaks the format; the message names it.
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
        dataset = top.matching("dataset", _DATASET)
        words = ["PATH"] if dataset in set(SetKind) else [dataset, "--root", os.path.dirname(os.path.dirname(where))]
        raise FormatVersionError(
            f"{where}: this record set was written by a development version of recordzoo. Prepare it again: "
            f"{command('prepare', *words, '--refresh')}",
            path=where,
            version=version,
        )
    found = OWN_HASH.findall(data)
    if found != [top.matching("hash", _HASH).encode()] or own_hash(data) != found[0].decode():
        top.fail("hash", "is not the hash of the manifest: it was damaged or edited")
    return _build(top)


def _build(top: Node) -> Manifest:
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
        fields=top.map_of("fields", NAME_PATTERN, _field),
        default_target=top.optional("default_target", lambda node: node.as_text(64)),
        source=top.text("source", 4096),
        raw_files=tuple(top.list_of("raw_files", _raw_file)),
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
    is_normalized = has_points and "normalized" in node.value and node.get("normalized").as_bool()
    return FieldSpec(kind, names, box_format, is_normalized)


def _blob(node: Node) -> BlobSpec:
    encoding = node.text("encoding")
    shape = node.optional(
        "shape", lambda item: tuple(item.as_list(lambda d: d.as_integer(0, MAX_FILE_BYTES), MAX_DIMENSIONS))
    )
    dtype = node.text("dtype", 4)
    if encoding not in _ENCODINGS or (encoding != "raw" and shape is not None):
        valid = ", ".join(_ENCODINGS)
        node.fail("encoding", f"is {encoding!r} with shape {shape}. Valid: {valid}; only raw may have a shape")
    if bool(dtype) != (encoding == "raw") or (dtype and not _DTYPE.fullmatch(dtype)):
        node.fail("dtype", f"is {dtype!r}. Raw values have a little-endian dtype, others none")
    return BlobSpec(encoding, shape, dtype)


def _array(node: Node) -> ArraySpec:
    dtype = node.text("dtype")
    if dtype and not _DTYPE.fullmatch(dtype):
        node.fail("dtype", f"is {dtype!r}, not a little-endian number")
    shape = tuple(node.list_of("shape", lambda item: item.as_integer(0, MAX_RECORDS + 1), MAX_DIMENSIONS))
    size_bytes = node.integer("bytes", 0, MAX_FILE_BYTES)
    num_bytes = array_dtype(dtype).itemsize * math.prod(shape)
    # NumPy also refuses (0, 2**40, 2**40).
    if not shape or num_bytes > size_bytes or math.prod(max(1, dimension) for dimension in shape) > MAX_FILE_BYTES:
        node.fail("shape", f"is {shape}, which does not fit the file's {size_bytes:,} bytes")
    return ArraySpec(dtype, shape, size_bytes, node.integer("crc32", 0, 0xFFFFFFFF), node.matching("hash", _HASH))


def _shard(node: Node) -> ShardSpec:
    return ShardSpec(
        name=node.matching("name", _SHARD),
        size_bytes=node.integer("bytes", 0, MAX_FILE_BYTES),
        num_values=node.integer("values", 0, 1 << 32),
        page_size=node.integer("page_size", 256, 1 << 16),
        last_page=node.integer("last_page", 0, MAX_FILE_BYTES),
        hash=node.matching("hash", _HASH),
    )


def _raw_file(node: Node) -> RawFile:
    return RawFile(
        name=node.text("name", 1024),
        size_bytes=node.integer("bytes", 0, MAX_FILE_BYTES),
        hash=node.optional("hash", lambda item: item.as_text(200)),
    )
