"""Which files a record set consists of when it is copied."""

import hashlib
from pathlib import Path

from recordzoo.base.hashing import hash_text
from recordzoo.net.part import HashedFile
from recordzoo.recipes.beside import BESIDE, COPIED_FILE
from recordzoo.recipes.variants.stored import MAX_EXTRA_BYTES
from recordzoo.records.arrays import file_name
from recordzoo.records.files import Directory
from recordzoo.records.manifest import Manifest
from recordzoo.records.marks import marks_name, read_marks
from recordzoo.records.reader import RecordReader

PIECE_BYTES = 4 << 20
"""How much of a local file is read at a time."""


def named_files(manifest: Manifest) -> list[HashedFile]:
    """List the files that a manifest names: the small ones first, so that a mistake shows early."""
    arrays = [HashedFile(file_name(name), spec.size_bytes, spec.hash) for name, spec in manifest.arrays.items()]
    shards = [HashedFile(spec.name, spec.size_bytes, spec.hash) for spec in manifest.shards]
    return [*sorted(arrays, key=lambda file: (file.size_bytes, file.name)), *shards]


def local_extras(reader: RecordReader) -> list[HashedFile]:
    """List the files beside a manifest that say where the set's raw data is, on this machine, and how it was cut."""
    found = []
    for name in sorted({*BESIDE} - {COPIED_FILE}):
        data = reader.extra(name, MAX_EXTRA_BYTES)
        if data is not None:
            found.append(HashedFile(name, len(data), hash_text(hashlib.sha256(data))))
    return found


def local_marks(path: Path, manifest: Manifest) -> list[HashedFile]:
    """List the undamaged files of marks in a directory, which a manifest does not name."""
    directory, found = Directory(path), []
    for field in manifest.blobs:
        marks = read_marks(directory, field, manifest.arrays[f"{field}.index"])
        if marks is not None:
            data = (path / marks_name(field)).read_bytes()
            found.append(HashedFile(marks_name(field), len(data), hash_text(hashlib.sha256(data))))
    return found
