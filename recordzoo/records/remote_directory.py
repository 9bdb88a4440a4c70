"""`RemoteDirectory`: a record set's files at a URL, read through this machine's cache, each verified."""

import contextlib
import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator

from recordzoo.base import settings
from recordzoo.base.hashing import hash_text
from recordzoo.base.program import command
from recordzoo.errors import CorruptRecordError, ManifestError, RecordError, RemoteError
from recordzoo.net.cache import Cache, NotCachedError, WrongBytesError
from recordzoo.net.failures import NOT_FOUND, RANGE_NOT_SATISFIABLE
from recordzoo.net.part import HashedFile
from recordzoo.net.store import Store
from recordzoo.net.url import Url
from recordzoo.records.arrays import file_name
from recordzoo.records.files import close_evicted
from recordzoo.records.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest, manifest_digest

logger = logging.getLogger("recordzoo")

_OPENED = "opened"  # in the cache: the last known record set of a URL, for offline machines and for `cache`
_DIGEST = re.compile(r"[0-9a-f]{64}")


class RemoteDirectory:
    """The files of one generation of the record set at a URL: later fetches must have the hashes of its manifest.

    Args:
        url: The record set.
        cache_bytes: Maximum size of the cache; None for the setting.
    """

    def __init__(self, url: Url, cache_bytes: int | None = None) -> None:
        self.path, self.cache, self.store = url, Cache.default(cache_bytes, close_evicted), Store(url)
        self.digest = ""
        self._arrays: dict[str, HashedFile] = {}
        self._shards: dict[str, HashedFile] = {}

    def read_manifest(self, digest: str | None = None) -> bytes:
        """Return the manifest: of a known digest from the cache if possible, else the present one from the server.

        Raises:
            ManifestError: The URL has no manifest.
            RemoteError: It cannot be read.
        """
        known = digest
        if known is None and settings.offline():
            known = _read_opened(self._cached(_OPENED, self._place) or b"")[1]
        if known and "/" not in known:
            data = self._cached(known, MANIFEST_NAME)
            if data is not None and manifest_digest(data) == known:
                return data
        try:
            data = self.store.read(MANIFEST_NAME, MAX_MANIFEST_BYTES + 1)
        except RemoteError as err:
            if err.status == NOT_FOUND:
                raise ManifestError(
                    f"{self.path / MANIFEST_NAME} does not exist: there is no record set at this address.",
                    path=str(self.path),
                    status=NOT_FOUND,
                ) from None
            raise
        self._keep(manifest_digest(data), MANIFEST_NAME, data)
        opened = {"address": str(self.path), "digest": manifest_digest(data)}
        self._keep(_OPENED, self._place, json.dumps(opened).encode())
        return data

    def describe(self, digest: str, manifest: Manifest) -> None:
        """Set the files and their hashes."""
        self.digest = digest
        for name, spec in manifest.arrays.items():
            self._arrays[file_name(name)] = HashedFile(file_name(name), spec.size_bytes, spec.hash)
        for shard in manifest.shards:
            self._shards[shard.name] = HashedFile(shard.name, shard.size_bytes, shard.hash)

    @property
    def size_bytes(self) -> int:
        """The size of all arrays and shards."""
        return sum(file.size_bytes for file in (*self._arrays.values(), *self._shards.values()))

    def open(self, name: str, size_bytes: int | None = None) -> int:
        """Open a file of the record set; fetch it if it is not in the cache.

        Raises:
            ManifestError: The manifest has no such file.
            CorruptRecordError: Its bytes do not have the hash in the manifest.
            RecordError: The record set was replaced by another one since it was opened.
            RemoteError: It cannot be fetched.
            NotCachedError: It is a shard that the cache cannot hold.
        """
        if name in self._shards:
            return self._fetch(self._shards[name], is_bounded=True)
        if name not in self._arrays:
            return _in_memory(self._extra(name))
        try:
            return self._fetch(self._arrays[name], is_bounded=False)
        except NotCachedError as err:
            logger.warning("%s is kept in memory: %s", self.path / name, err)
            return _in_memory(self._array(self._arrays[name]))

    def is_here(self, name: str) -> bool:
        """Whether a shard can be read from the cache; records its use."""
        fd = self.cache.find(self.digest, name, self._shards[name].size_bytes)
        if fd is not None:
            os.close(fd)
        return fd is not None

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        """Return a range of a shard from the server.

        Raises:
            As `open`.
        """
        try:
            return self.store.read_range(name, begin, end, self._shards[name].size_bytes)
        except RemoteError as err:
            raise self.explained(name, err) from None

    def drop(self, name: str) -> bool:
        """Remove a damaged file from the cache, so that it is fetched again."""
        self.cache.drop(self.digest, name)
        return True

    def explained(self, name: str, err: RemoteError | None) -> RecordError:
        """Return the error for a damaged or unreadable file; it tells whether the record set was replaced.

        Args:
            name: The file.
            err: The failed read; None if the bytes are wrong.
        """
        if err is not None and err.status not in (NOT_FOUND, RANGE_NOT_SATISFIABLE):
            return err
        try:
            now = manifest_digest(self.store.read(MANIFEST_NAME, MAX_MANIFEST_BYTES + 1))
        except RemoteError as gone:
            now = "" if gone.status == NOT_FOUND else self.digest
        if now != self.digest:
            what = "replaced by another record set" if now else "removed"
            return RecordError(
                f"{self.path} was {what} since it was opened. Open the dataset again.", path=str(self.path)
            )
        problem = "is missing or shorter" if err is not None else "is damaged: its bytes are not those of the manifest"
        return CorruptRecordError(
            f"{self.path / name} {problem}. Push the record set again, which sends what is damaged: "
            f"{command('push', 'SET', self.path, '--verify')}",
            path=str(self.path / name),
        )

    def _fetch(self, file: HashedFile, *, is_bounded: bool) -> int:
        try:
            return self.cache.fetch(self.store, self.digest, file, is_bounded=is_bounded)
        except WrongBytesError:
            failure = self.explained(file.name, None)
        except RemoteError as err:
            failure = self.explained(file.name, err)
        raise failure

    def _array(self, file: HashedFile) -> bytes:
        data = b"".join(self.store.pieces(file.name, file.size_bytes))
        if hash_text(hashlib.sha256(data)) != file.hash:
            raise self.explained(file.name, None)
        return data

    def _extra(self, name: str) -> bytes:
        """Return a file that the manifest does not name; it is untrusted, as on disk."""
        absent = f"{name}.absent"
        if (data := self._cached(self.digest, name)) is not None:
            return data
        if self._cached(self.digest, absent) is None:
            try:
                data = self.store.read(name, MAX_MANIFEST_BYTES + 1)
            except RemoteError as err:
                if err.status != NOT_FOUND:
                    raise
                self._keep(self.digest, absent, b"")
            else:
                self._keep(self.digest, name, data)
                return data
        raise ManifestError(f"{self.path / name} is missing.", path=str(self.path / name))

    @property
    def _place(self) -> str:
        return hashlib.sha256(str(self.path).encode()).hexdigest() + ".json"

    def _cached(self, digest: str, name: str) -> bytes | None:
        fd = self.cache.find(digest, name)
        if fd is None:
            return None
        with open(fd, "rb") as file:
            return file.read(MAX_MANIFEST_BYTES + 1)

    def _keep(self, digest: str, name: str, data: bytes) -> None:
        try:
            self.cache.write(digest, name, data)
        except NotCachedError as err:
            logger.debug("not cached: %s", err)


def cached_addresses(cache: Cache) -> dict[str, str]:
    """Return address, without login -> digest, for the record sets in a cache."""
    found = {address: digest for _, address, digest in _all_opened(cache)}
    return {address: digest for address, digest in found.items() if digest and (cache.folder / digest).is_dir()}


def remove_cached(cache: Cache, digest: str) -> bool:
    """Remove a record set from a cache; return whether all is gone: files that are being fetched stay."""
    is_gone = cache.remove_set(digest)
    for name, _, opened in _all_opened(cache):
        if is_gone and opened == digest:
            cache.drop(_OPENED, name)
    return is_gone


def _all_opened(cache: Cache) -> Iterator[tuple[str, str, str]]:
    """Yield the name, address and digest of each record of an opened URL."""
    for path in sorted((cache.folder / _OPENED).glob("*.json")):
        with contextlib.suppress(OSError):  # removed to make room
            yield (path.name, *_read_opened(path.read_bytes()))


def _read_opened(data: bytes) -> tuple[str, str]:
    """Return an address and the digest of its last known record set; "" if the file is damaged."""
    try:
        found = json.loads(data)
        address, digest = str(found["address"]), str(found["digest"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "", ""
    return (address, digest) if _DIGEST.fullmatch(digest) else ("", "")


def _in_memory(data: bytes) -> int:
    """Return the descriptor of an unnamed file with these bytes."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return os.dup(file.fileno())
