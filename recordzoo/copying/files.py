"""List the files of a record set to copy, and compare local files with stored ones."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base.hashing import hash_text
from recordzoo.net.crew import Crew
from recordzoo.net.part import HashedFile
from recordzoo.net.store import Store, part_bytes
from recordzoo.records.arrays import file_name
from recordzoo.records.files import Directory
from recordzoo.records.made_from import BESIDE, COPIED_FILE, MAX_EXTRA_BYTES
from recordzoo.records.manifest import Manifest
from recordzoo.records.marks import marks_name, read_marks
from recordzoo.records.reader import RecordReader

PIECE_BYTES = 4 << 20
"""Bytes of a local file read at a time."""


def named_files(manifest: Manifest) -> list[HashedFile]:
    """List the files that a manifest names: the small ones first, so that a mistake shows early."""
    arrays = [HashedFile(file_name(name), spec.size_bytes, spec.hash) for name, spec in manifest.arrays.items()]
    shards = [HashedFile(spec.name, spec.size_bytes, spec.hash) for spec in manifest.shards]
    return [*sorted(arrays, key=lambda file: (file.size_bytes, file.name)), *shards]


def local_extras(reader: RecordReader) -> list[HashedFile]:
    """List the files beside a manifest that describe the set's raw data on this machine and its shard layout."""
    found = []
    for name in sorted({*BESIDE} - {COPIED_FILE}):
        data = reader.extra(name, MAX_EXTRA_BYTES)
        if data is not None:
            found.append(HashedFile(name, len(data), hash_text(hashlib.sha256(data))))
    return found


def local_marks(path: Path, manifest: Manifest) -> list[HashedFile]:
    """List the undamaged mark files in a directory; the manifest does not name them."""
    directory, found = Directory(path), []
    for field in manifest.blobs:
        marks = read_marks(directory, field, manifest.arrays[f"{field}.index"])
        if marks is not None:
            data = (path / marks_name(field)).read_bytes()
            found.append(HashedFile(marks_name(field), len(data), hash_text(hashlib.sha256(data))))
    return found


_MD5_BYTES = 16


@dataclass(frozen=True, slots=True)
class Checksums:
    """Checksums of a local file.

    Attributes:
        hash: SHA-256, in the manifest's format.
        etag: The ETag that S3 computes for `Store.put`: an MD5, or the MD5 of the parts' MD5s. It differs for objects
            encrypted with KMS keys.
    """

    hash: str
    etag: str


def checksums(path: Path, crew: Crew) -> Checksums:
    """Read a local file once."""
    size_bytes = path.stat().st_size
    part = part_bytes(size_bytes)
    is_one = size_bytes < 2 * part  # as s3fs decides
    state, md5, parts = hashlib.sha256(), _md5(), b""
    left = size_bytes if is_one else part
    with open(path, "rb", buffering=0) as file:
        while data := file.read(min(PIECE_BYTES, left or PIECE_BYTES)):
            crew.advance(0)
            state.update(data)
            md5.update(data)
            left -= len(data)
            if not left and not is_one:
                parts, md5, left = parts + md5.digest(), _md5(), part
    if is_one:
        return Checksums(hash_text(state), md5.hexdigest())
    parts += md5.digest() if left < part else b""
    return Checksums(hash_text(state), f"{_md5(parts).hexdigest()}-{len(parts) // _MD5_BYTES}")


def stored_hash(store: Store, name: str, size_bytes: int, crew: Crew) -> str:
    """Read a file in a store and return its SHA-256 in the manifest's format."""
    state = hashlib.sha256()
    for data in store.pieces(name, size_bytes):
        crew.advance(0)
        state.update(data)
    return hash_text(state)


def _md5(data: bytes = b"") -> "hashlib._Hash":
    return hashlib.md5(data, usedforsecurity=False)
