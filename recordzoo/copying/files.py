"""The files of a record set: listed, fetched into a folder, compared with their hashes and with stored ones."""

import hashlib
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_of, hash_text
from recordzoo.errors import CorruptRecordError, PrepareError
from recordzoo.net.crew import Crew
from recordzoo.net.part import HashedFile, Part, Supply
from recordzoo.net.store import Store, part_bytes
from recordzoo.records.arrays import file_name
from recordzoo.records.files import Directory
from recordzoo.records.made_from import BESIDE, COPIED_FILE, MAX_EXTRA_BYTES
from recordzoo.records.manifest import Manifest
from recordzoo.records.marks import marks_name, read_marks
from recordzoo.records.reader import RecordReader
from recordzoo.system.files import DONT_NEED, advise

PIECE_BYTES = 4 << 20
"""Bytes of a local file read at a time."""

PART = ".part-"
"""Separates a file's name from a random suffix while the file is incomplete."""

_MD5_BYTES = 16


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


@dataclass(frozen=True)
class Fetch:
    """Fetches files into a folder.

    Attributes:
        supply: Gives the files.
        folder: The destination.
        crew: Counts the bytes.
        check: Called from time to time; an exception from it ends the work.
        count: Receives the numbers of bytes fetched.
        damaged: Returns the error for a file with a wrong hash, from its name.
        reads_back: Read each file back from the disk and compare its hash again.
    """

    supply: Supply
    folder: Path
    crew: Crew
    check: Callable[[], None]
    count: Callable[[int], None]
    damaged: Callable[[str], CorruptRecordError]
    reads_back: bool = False

    def file(self, file: HashedFile) -> None:
        """Fetch a file, check it, and give it its name."""
        path = self.folder / file.name
        if path.is_file():  # from an interrupted run
            if has_size(path, file.size_bytes) and hash_of(path) == file.hash:
                self.crew.advance(file.size_bytes)
                return
            durable.remove(path)
        with Part(self._new_part(file)) as part:
            is_right = part.complete(self.supply, file, lambda data: self._write(part, data), self.crew.advance)
            if is_right:
                part.sync()
        if not is_right:
            durable.remove(part.path)
            raise self.damaged(file.name)
        durable.rename(part.path, path)
        self._read_back(path, file.hash)
        crash_point("pull.fetched")

    def _read_back(self, path: Path, expected: str) -> None:
        """If `reads_back`, drop a new file's page cache and hash the file again from disk."""
        if not self.reads_back:
            return
        with open(path, "rb") as file:
            if advise is not None:
                advise(file.fileno(), 0, 0, DONT_NEED)
        if hash_of(path) != expected:
            raise PrepareError(
                f"{path} reads back otherwise than it was written. Check the disk, or choose another.", path=str(path)
            )

    def _new_part(self, file: HashedFile) -> Path:
        """Return a new part file with the bytes that an interrupted run fetched.

        The bytes are copied: a process that only looked dead may still write to the old part.
        """
        part = self.folder / f"{file.name}{PART}{secrets.token_hex(4)}"
        old = sorted(self.folder.glob(f"{file.name}{PART}*"), key=lambda path: path.stat().st_size)
        if old and old[-1].stat().st_size <= file.size_bytes:
            shutil.copyfile(old[-1], part)
        for path in old:
            durable.remove(path)
        return part

    def _write(self, part: Part, data: bytes) -> None:
        self.check()
        part.write(data)
        self.count(len(data))
        crash_point("pull.received")


def has_size(path: Path, size_bytes: int) -> bool:
    """Whether a file of this size exists."""
    try:
        return path.stat().st_size == size_bytes
    except OSError:
        return False


def remove_all_but(folder: Path, names: set[str]) -> None:
    """Remove the files of a folder that have other names."""
    for path in folder.iterdir():
        if path.name not in names:
            durable.remove(path)


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
