"""Is a file in a store the same as one on the disk? By the checksum that the store has, or by reading it back."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base.hashing import hash_text
from recordzoo.copying.files import PIECE_BYTES
from recordzoo.net.crew import Crew
from recordzoo.net.store import Store, part_bytes

_MD5_BYTES = 16


@dataclass(frozen=True, slots=True)
class Checksums:
    """Of a local file.

    Attributes:
        hash: SHA-256, as the manifest has it.
        etag: The ETag that S3 gives it when `Store.put` sends it: an MD5, or the MD5 of its parts' MD5s. S3 gives
            another one to what it encrypts with keys of KMS.
    """

    hash: str
    etag: str


def checksums(path: Path, crew: Crew) -> Checksums:
    """Read a local file once.

    Raises:
        OSError: It cannot be read.
        StoppedError: The crew is to end.
    """
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
    """Read a file in a store, and return its SHA-256 as the manifest has it.

    Raises:
        RemoteError: It cannot be read.
        StoppedError: The crew is to end.
    """
    state = hashlib.sha256()
    for data in store.pieces(name, size_bytes):
        crew.advance(0)
        state.update(data)
    return hash_text(state)


def _md5(data: bytes = b"") -> "hashlib._Hash":
    return hashlib.md5(data, usedforsecurity=False)
