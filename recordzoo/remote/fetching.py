"""Fetch a file from a store into the cache: once on a machine, resumed, and verified before it gets its name."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from recordzoo.crash_points import crash_point
from recordzoo.remote.cache import NO_ROOM, Cache, NoRoomError
from recordzoo.remote.store import Store
from recordzoo.sources.hashing import hash_text
from recordzoo.system.files import LOCKS_ARE_MANDATORY, open_file, replace

_CHUNK_BYTES = 4 << 20
_DELETED_TIMES = 3  # so often a fetch begins again after somebody deleted the cache


class WrongBytesError(Exception):
    """A file does not have the hash that it should have, twice."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file of a record set.

    Attributes:
        name: Its name.
        size_bytes: Its size.
        hash: Its SHA-256, as the manifest has it.
    """

    name: str
    size_bytes: int
    hash: str


def open_cached(
    cache: Cache, store: Store, digest: str, file: Wanted, evicted: Callable[[], None] | None = None
) -> int:
    """Open a file of the cache; fetch it if it is not there.

    Args:
        cache: The cache.
        store: Where it comes from.
        digest: Of the record set.
        file: What is wanted.
        evicted: Called when others were removed to make room for it, so that they are closed. None: none are removed;
            for arrays, which are small.

    Returns:
        A descriptor, which the caller closes.

    Raises:
        NoRoomError: The cache cannot take it.
        WrongBytesError: What was fetched is something else, twice.
        RemoteError: It cannot be fetched.
    """
    deleted = 0
    while deleted < _DELETED_TIMES:
        found = cache.find(digest, file.name, file.size_bytes)
        if found is not None:
            return found
        with cache.turn(digest, file.name) as is_ours:
            if is_ours:
                if evicted is not None:
                    cache.make_room(file.size_bytes)
                    evicted()
                try:
                    return _fetch(cache, store, digest, file, evicted)
                except (FileNotFoundError, FileExistsError):  # pathlib's mkdir raises the second if it is deleted then
                    deleted += 1
    raise NoRoomError(f"{cache.folder} is deleted again and again while {file.name} is fetched")


def _fetch(cache: Cache, store: Store, digest: str, file: Wanted, evicted: Callable[[], None] | None) -> int:
    part, path = cache.claim_part(digest, file.name, file.size_bytes), cache.path(digest, file.name)
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "ab+", buffering=0) as out:
            is_right = _is_right(cache, store, out, file, evicted)
            if not is_right:  # a part of an earlier attempt, or an old copy in a proxy
                out.truncate(0)
                is_right = _is_right(cache, store, out, file, evicted)
            if is_right and not LOCKS_ARE_MANDATORY:
                with contextlib.suppress(FileNotFoundError):  # somebody deleted the cache; what was fetched is right
                    replace(part, path)
                return os.dup(out.fileno())
        if is_right:  # Windows renames nothing that is open
            replace(part, path)
            return open_file(path)
    except BaseException as err:
        if isinstance(err, NoRoomError) or (isinstance(err, OSError) and err.errno in NO_ROOM):
            _remove(part)
            raise NoRoomError(f"{part.parent} takes no more: {err}") from err
        cache.release_part(part)
        raise
    _remove(part)
    raise WrongBytesError(file.name)


def _is_right(cache: Cache, store: Store, out: BinaryIO, file: Wanted, evicted: Callable[[], None] | None) -> bool:
    """Fetch what is missing of a part; whether all of it has the right hash."""
    found = hashlib.sha256()
    out.seek(0)
    while data := out.read(_CHUNK_BYTES):
        found.update(data)
    have = out.tell()
    if have > file.size_bytes:
        return False
    for piece in store.pieces(file.name, file.size_bytes, have):
        _write(cache, out, piece, evicted)
        found.update(piece)
        crash_point("cache.received")
    return hash_text(found) == file.hash


def _write(cache: Cache, out: BinaryIO, piece: bytes, evicted: Callable[[], None] | None) -> None:
    """Append to a part; where the disk is full, remove what was used least recently."""
    left = memoryview(piece)
    while left:
        try:
            left = left[out.write(left) :]
        except OSError as err:
            if err.errno not in NO_ROOM or evicted is None:
                raise
            cache.make_room(0, at_least_one=True)
            evicted()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
