"""`write_set`: complete a record set by writing arrays and manifest beside finished shards.

Some files beside the manifest tell the source of the set. They are not part of the format, and the manifest does not
name them: they contain times and places, and every build of a record set must give the same bytes.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base import durable
from recordzoo.base.files import read_small
from recordzoo.base.process import crash_point
from recordzoo.base.text import JSON
from recordzoo.net.part import HashedFile
from recordzoo.records.arrays import AnyArray, file_name, marks_name, pack_marks, pack_names, write_array
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    NAME_PATTERN,
    OBJECT_LABELS,
    ORIGINAL,
    ArraySpec,
    BlobSpec,
    FieldKind,
    FieldSpec,
    Manifest,
    RawFile,
    SetKind,
    ShardSpec,
    is_label,
    manifest_digest,
    parse_manifest,
)

MADE_FROM_FILE = "made-from.bin"
"""The raw files with their sizes and times."""

TREE_FILE = "tree.json"
"""The path of a tree of images and the modification time of each of its directories."""

LIST_FILE = "list.json"
"""The places of a list of files."""

COMBINED_FILE = "combined.json"
"""The places of the record sets that a set was combined from. Earlier versions wrote it; nothing reads it."""

LAYOUT_FILE = "layout.json"
"""``shard_bytes`` or ``num_shards`` of the preparation, if one was given."""

COPIED_FILE = "copied.json"
"""The path or URL, without a login, from which a record set was copied or pulled, and its digest."""

BESIDE = (TREE_FILE, LIST_FILE, MADE_FROM_FILE, COMBINED_FILE, LAYOUT_FILE, COPIED_FILE)

MAX_EXTRA_BYTES = 1 << 30
"""A larger file beside a record set is not copied: it is optional."""

_LIKE_OURS = re.compile(r"shard-[0-9]{5,7}\.lmdb|[a-z0-9_.-]+\.npy|.+\.marks")

_TARGETS = ("target", "label")


@dataclass(frozen=True)
class SetContents:
    """The contents of a record set without the shards' bytes; see `Manifest` for the other attributes.

    Attributes:
        indices: The index rows (`INDEX_DTYPE`) of each blob field, one per position.
        names: The records' names in canonical order.
        arrays: Array fields; the first dimension is the position.
        splits: Positions of each split, int64.
        fields: The meaning of fields whose storage does not show it.
        default_target: The default target. Default: "target" or "label", preferably with one integer per record.
        classes: The names of the default target's classes.
        shards: The shards in the folder, by number.
        marks: Marks of each blob field's values, uint8 [N], for `RecordReader.marks`; 0: unknown. They follow from the
            values, so they are not part of the set's identity.
        extras: Files that are not part of the set's identity, by name.
    """

    kind: SetKind
    dataset: str
    part: str
    blobs: Mapping[str, BlobSpec]
    indices: Mapping[str, AnyArray]
    names: Sequence[str]
    shards: Sequence[ShardSpec]
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    splits: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    fields: Mapping[str, FieldSpec] = field(default_factory=dict)
    default_target: str | None = None
    classes: Sequence[str] | None = None
    variant: str = ORIGINAL
    source: str = ""
    raw_files: Sequence[RawFile] = ()
    bad: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    marks: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)
    extras: Mapping[str, bytes] = field(default_factory=dict)


def write_set(folder: Path, contents: SetContents) -> str:
    """Write arrays, then the manifest, into the folder of the shards; sync all.

    Other files in the folder (left by an interrupted run) are removed.

    Returns:
        The set's digest.

    Raises:
        ManifestError: The contents break the format.
    """
    specs = _write_arrays(folder, contents)
    marks = {marks_name(name): pack_marks(found, specs[f"{name}.index"]) for name, found in contents.marks.items()}
    extras = {**contents.extras, **marks}
    for name, data in extras.items():
        durable.write_file(folder / name, data)
    crash_point("set.arrays_written")
    target, fields = _fields(contents)
    manifest = Manifest(
        kind=contents.kind,
        dataset=contents.dataset,
        part=contents.part,
        variant=contents.variant,
        num_records=len(contents.names),
        blobs=contents.blobs,
        arrays=specs,
        splits={name: len(positions) for name, positions in contents.splits.items()},
        shards=tuple(contents.shards),
        fields=fields,
        default_target=target,
        source=contents.source,
        raw_files=tuple(contents.raw_files),
        bad=contents.bad,
        skipped=contents.skipped,
        metadata=contents.metadata,
    )
    data = manifest.to_bytes()
    parse_manifest(data, os.fspath(folder / MANIFEST_NAME))  # publish only what can be read
    own = {MANIFEST_NAME, *extras, *(shard.name for shard in contents.shards), *map(file_name, specs)}
    for entry in list(os.scandir(folder)):
        if entry.name not in own:
            os.unlink(entry.path)
    durable.write_file(folder / MANIFEST_NAME, data)
    durable.sync_directory(folder)
    crash_point("set.manifest_written")
    return manifest_digest(data)


def _fields(contents: SetContents) -> tuple[str | None, dict[str, FieldSpec]]:
    """Return the default target and the meaning of each field."""
    fields = {name: FieldSpec(_kind_of_blob(spec)) for name, spec in contents.blobs.items()}
    for name, values in contents.arrays.items():
        if NAME_PATTERN.fullmatch(name):
            fields[name] = FieldSpec(FieldKind.FLOAT if values.dtype.kind == "f" else FieldKind.INT)
    fields |= contents.fields
    labels = [name for name in _TARGETS if name in contents.arrays and _is_label(contents.arrays[name])]
    target = contents.default_target or next((name for name in (*labels, *_TARGETS) if name in fields), None)
    if target is not None and contents.classes is not None and _is_label(contents.arrays.get(target)):
        fields[target] = FieldSpec(FieldKind.CLASS, tuple(contents.classes))
    elif contents.classes is not None and fields.get(OBJECT_LABELS) == FieldSpec(FieldKind.INT):
        fields[OBJECT_LABELS] = FieldSpec(FieldKind.CLASS, tuple(contents.classes))
    return target, fields


def _is_label(values: AnyArray | None) -> bool:
    return values is not None and is_label(values.dtype.newbyteorder("<").str, values.shape)


def _kind_of_blob(spec: BlobSpec) -> FieldKind:
    if spec.encoding != "raw":
        return FieldKind(spec.encoding)
    return FieldKind.IMAGE if spec.dtype == "|u1" else FieldKind.FLOAT if spec.dtype[1] == "f" else FieldKind.INT


def _write_arrays(folder: Path, contents: SetContents) -> dict[str, ArraySpec]:
    packed, offsets = pack_names(contents.names)
    arrays: dict[str, AnyArray] = {
        **{f"{name}.index": rows for name, rows in contents.indices.items()},
        **contents.arrays,
        **{f"split-{name}": np.asarray(positions, np.int64) for name, positions in contents.splits.items()},
        "names": packed,
        "names_offsets": offsets,
    }
    return {name: write_array(folder, name, values) for name, values in arrays.items()}


def hashed_files(manifest: Manifest) -> list[HashedFile]:
    """List the files that a manifest names: the small ones first, so that a mistake shows early."""
    arrays = [HashedFile(file_name(name), spec.size_bytes, spec.hash) for name, spec in manifest.arrays.items()]
    shards = [HashedFile(spec.name, spec.size_bytes, spec.hash) for spec in manifest.shards]
    return [*sorted(arrays, key=lambda file: (file.size_bytes, file.name)), *shards]


def own_files(manifest: Manifest) -> set[str]:
    """Return the names of all files that recordzoo writes into a record set, whether they are there or not."""
    arrays, marks = map(file_name, manifest.arrays), map(marks_name, manifest.blobs)
    return {MANIFEST_NAME, *(shard.name for shard in manifest.shards), *arrays, *marks, *BESIDE}


def strangers(folder: Path) -> list[str]:
    """Return the names in a record set's directory that recordzoo did not write; without a manifest, none.

    If the manifest is damaged or cannot be read, the names of shards, arrays and marks count as recordzoo's.
    """
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    if MANIFEST_NAME not in names:
        return []
    try:
        own = own_files(parse_manifest(read_small(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES), str(folder)))
    except OSError:  # includes RecordError
        own = {MANIFEST_NAME, *BESIDE, *filter(_LIKE_OURS.fullmatch, names)}
    return [name for name in names if name not in own]
