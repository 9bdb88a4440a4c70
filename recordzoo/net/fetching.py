"""Fetch a file from a store into the cache: once per machine, resumed, verified before it gets its name."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from recordzoo.base.crash_points import crash_point
from recordzoo.net.cache import NO_ROOM, Cache, NoRoomError
from recordzoo.net.part import HashedFile, Part
from recordzoo.net.store import Store
from recordzoo.system.files import LOCKS_ARE_MANDATORY, open_file, replace

_DELETED_TIMES = 3  # how often a fetch restarts after the cache was deleted


class WrongBytesError(Exception):
    """A file had a wrong hash twice."""


def open_cached(
    cache: Cache, store: Store, digest: str, file: HashedFile, evicted: Callable[[], None] | None = None
) -> int:
    """Open a file in the cache; fetch it if it is missing.

    Args:
        cache: The cache.
        store: The source of the file.
        digest: The record set's digest.
        file: The wanted file.
        evicted: Called after other files were removed to make room, so that the caller closes them. None: remove no
            files; for arrays, which are small.

    Returns:
        A descriptor, which the caller closes.

    Raises:
        NoRoomError: The cache has no room for it.
        WrongBytesError: The fetched bytes had a wrong hash twice.
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
                except (FileNotFoundError, FileExistsError):  # mkdir raises the second if it is deleted then
                    deleted += 1
    raise NoRoomError(f"{cache.folder} is deleted again and again while {file.name} is fetched")


def _fetch(cache: Cache, store: Store, digest: str, file: HashedFile, evicted: Callable[[], None] | None) -> int:
    part, path = cache.claim_part(digest, file.name, file.size_bytes), cache.path(digest, file.name)
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with Part(part) as out:
            is_right = out.complete(store, file, lambda piece: _write(cache, out, piece, evicted))
            if is_right and not LOCKS_ARE_MANDATORY:
                with contextlib.suppress(FileNotFoundError):  # the cache was deleted; the fetched bytes are right
                    replace(part, path)
                return os.dup(out.fileno())
        if is_right:  # Windows does not rename open files
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


def _write(cache: Cache, part: Part, piece: bytes, evicted: Callable[[], None] | None) -> None:
    """Append to a part; if the disk is full, remove the least recently used file."""
    end = part.size_bytes + len(piece)
    while part.size_bytes < end:
        try:
            part.write(piece[part.size_bytes - end :])
        except OSError as err:
            if err.errno not in NO_ROOM or evicted is None:
                raise
            cache.make_room(0, at_least_one=True)
            evicted()
    crash_point("cache.received")


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
