"""`write_set`: complete a record set by writing arrays and manifest beside finished shards.

Some files beside the manifest tell the source of the set. They are not part of the format, and the manifest does not
name them: they contain times and places, and every build of a record set must give the same bytes.
"""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import read_small, sync_directory, write_file
from recordzoo.base.process import crash_point
from recordzoo.net.part import HashedFile
from recordzoo.records.arrays import AnyArray, file_name, marks_name, pack_marks, pack_names, write_array
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    NAME_PATTERN,
    OBJECT_LABELS,
    BlobSpec,
    FieldKind,
    FieldSpec,
    Manifest,
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
_NONE: Mapping[str, Any] = MappingProxyType({})


def write_set(
    folder: Path,
    manifest: Manifest,
    names: Sequence[str],
    indices: Mapping[str, AnyArray],
    *,
    arrays: Mapping[str, AnyArray] = _NONE,
    splits: Mapping[str, NDArray[np.int64]] = _NONE,
    classes: Sequence[str] | None = None,
    marks: Mapping[str, NDArray[np.uint8]] = _NONE,
    extras: Mapping[str, bytes] = _NONE,
) -> str:
    """Write arrays, then the manifest, into the folder of the shards; sync all.

    Other files in the folder (left by an interrupted run) are removed.

    Args:
        folder: It holds the shards.
        manifest: What the set holds, without what follows from the other arguments. Its fields are those whose storage
            does not show their meaning. Its default target, if it has none, is "target" or "label", preferably with one
            integer per record.
        names: The records' names in canonical order.
        indices: The index rows (`INDEX_DTYPE`) of each blob field, one per position.
        arrays: Array fields; the first dimension is the position.
        splits: Positions of each split.
        classes: The names of the default target's classes; in the metadata if it has no label per record.
        marks: Marks of each blob field's values, uint8 [N], for `RecordReader.marks`; 0: unknown. They follow from the
            values, so they are not part of the set's identity.
        extras: Files that are not part of the set's identity, by name.

    Returns:
        The set's digest.

    Raises:
        ManifestError: The contents break the format.
    """
    packed, offsets = pack_names(names)
    every: dict[str, AnyArray] = {
        **{f"{name}.index": rows for name, rows in indices.items()},
        **arrays,
        **{f"split-{name}": np.asarray(positions, np.int64) for name, positions in splits.items()},
        "names": packed,
        "names_offsets": offsets,
    }
    specs = {name: write_array(folder, name, values) for name, values in every.items()}
    extras = {**extras, **{marks_name(name): pack_marks(marks[name], specs[f"{name}.index"]) for name in marks}}
    for name, data in extras.items():
        write_file(folder / name, data)
    crash_point("set.arrays_written")
    target, fields = _fields(manifest, arrays, classes)
    is_kept = classes is None or any(spec.names == tuple(classes) for spec in fields.values())
    manifest = dataclasses.replace(
        manifest,
        metadata=manifest.metadata if is_kept else {**manifest.metadata, "classes": list(classes or ())},
        num_records=len(names),
        arrays=specs,
        splits={name: len(positions) for name, positions in splits.items()},
        fields=fields,
        default_target=target,
    )
    data = manifest.to_bytes()
    parse_manifest(data, os.fspath(folder / MANIFEST_NAME))  # publish only what can be read
    own = {MANIFEST_NAME, *extras, *(shard.name for shard in manifest.shards), *map(file_name, specs)}
    for entry in list(os.scandir(folder)):
        if entry.name not in own:
            os.unlink(entry.path)
    write_file(folder / MANIFEST_NAME, data)
    sync_directory(folder)
    crash_point("set.manifest_written")
    return manifest_digest(data)


def _fields(
    manifest: Manifest, arrays: Mapping[str, AnyArray], classes: Sequence[str] | None
) -> tuple[str | None, dict[str, FieldSpec]]:
    """Return the default target and the meaning of each field."""
    fields = {name: FieldSpec(_kind_of_blob(spec)) for name, spec in manifest.blobs.items()}
    for name, values in arrays.items():
        if NAME_PATTERN.fullmatch(name):
            fields[name] = FieldSpec(FieldKind.FLOAT if values.dtype.kind == "f" else FieldKind.INT)
    fields |= manifest.fields
    labels = [name for name in _TARGETS if name in arrays and _is_label(arrays[name])]
    target = manifest.default_target or next((name for name in (*labels, *_TARGETS) if name in fields), None)
    if target is not None and classes is not None and _is_label(arrays.get(target)):
        fields[target] = FieldSpec(FieldKind.CLASS, tuple(classes))
    elif classes is not None and fields.get(OBJECT_LABELS) == FieldSpec(FieldKind.INT):
        fields[OBJECT_LABELS] = FieldSpec(FieldKind.CLASS, tuple(classes))
    return target, fields


def _is_label(values: AnyArray | None) -> bool:
    return values is not None and is_label(values.dtype.newbyteorder("<").str, values.shape)


def _kind_of_blob(spec: BlobSpec) -> FieldKind:
    if spec.encoding != "raw":
        return FieldKind(spec.encoding)
    return FieldKind.IMAGE if spec.dtype == "|u1" else FieldKind.FLOAT if spec.dtype[1] == "f" else FieldKind.INT


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
