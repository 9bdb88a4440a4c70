"""A record set at a URL: read through this machine's cache, each file verified, or value by value; and its check."""

import collections
import contextlib
import functools
import logging
import os
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base import settings
from recordzoo.base.process import Background
from recordzoo.base.settings import command
from recordzoo.errors import CorruptRecordError, ManifestError, RecordError, RemoteError
from recordzoo.net.cache import Cache, InTheWayError, NotCachedError, WrongBytesError, address_name
from recordzoo.net.failures import NOT_FOUND, RANGE_NOT_SATISFIABLE
from recordzoo.net.part import HashedFile
from recordzoo.net.store import Store
from recordzoo.net.url import Url
from recordzoo.records.arrays import ARRAY_ENDING, AnyArray
from recordzoo.records.files import close_evicted, evictable, shard_files
from recordzoo.records.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest, ShardSpec, manifest_digest
from recordzoo.records.shard import Shards, crc32
from recordzoo.records.writer import hashed_files

logger = logging.getLogger("recordzoo")


class RemoteDirectory:
    """The files of one generation of the record set at a URL: later fetches must have the hashes of its manifest.

    Args:
        url: The record set.
        cache_bytes: Maximum size of the cache; None for the setting.
    """

    def __init__(self, url: Url, cache_bytes: int | None = None) -> None:
        limit = settings.cache_bytes() if cache_bytes is None else cache_bytes
        self.path, self.cache, self.store = url, Cache(limit_bytes=limit, evicted=close_evicted), Store(url)
        self.digest = ""
        self._files: dict[str, HashedFile] = {}

    def read_manifest(self, digest: str | None = None) -> bytes:
        """Return the manifest: of a known digest from the cache if possible, else the present one from the server.

        Raises:
            ManifestError: The URL has no manifest.
            RemoteError: It cannot be read.
        """
        known = digest
        if known is None and settings.offline():
            known = self.cache.addresses().get(str(self.path))
        if known and "/" not in known:
            data = self.cache.read(known, MANIFEST_NAME, MAX_MANIFEST_BYTES + 1)
            if data is not None and manifest_digest(data) == known:
                return data
        data = _manifest(self.store)
        self.cache.write(manifest_digest(data), MANIFEST_NAME, data)
        self.cache.write(manifest_digest(data), address_name(str(self.path)), str(self.path).encode())
        return data

    def describe(self, digest: str, manifest: Manifest) -> None:
        """Set the files and their hashes."""
        self.digest = digest
        self._files = {file.name: file for file in hashed_files(manifest)}

    @property
    def size_bytes(self) -> int:
        """The size of all arrays and shards."""
        return sum(file.size_bytes for file in self._files.values())

    def open(self, name: str, size_bytes: int | None = None) -> int:
        """Open a file of the record set; fetch it if it is not in the cache.

        A file that the manifest does not name is fetched, too; nothing is compared, because there is no hash of it.

        Raises:
            CorruptRecordError: Its bytes do not have the hash in the manifest.
            RecordError: The record set was replaced by another one since it was opened.
            RemoteError: It cannot be fetched.
            NotCachedError: It is a shard that the cache cannot hold.
        """
        file = self._files.get(name)
        if file is None:  # the manifest does not name it: it is untrusted, as on disk
            data = self.cache.read(self.digest, name, MAX_MANIFEST_BYTES + 1)
            if data is None:
                data = self.store.read(name, MAX_MANIFEST_BYTES + 1)
                self.cache.write(self.digest, name, data)
            return _unnamed([data])
        is_array = name.endswith(ARRAY_ENDING)
        try:
            return self.cache.fetch(self.store, self.digest, file, is_bounded=not is_array)
        except NotCachedError as err:
            if not is_array:
                raise
            logger.warning("%s is kept in memory: %s", self.path / name, err)
            return _unnamed(self.store.pieces(name, file.size_bytes))
        except WrongBytesError:
            raise self.explained(name, None) from None
        except RemoteError as err:
            raise self.explained(name, err) from None

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        """Return a range of a shard from the server; raise as `open`."""
        try:
            return self.store.read_range(name, begin, end, self._files[name].size_bytes)
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


def _manifest(store: Store) -> bytes:
    """Read the manifest at a URL; raise a `ManifestError` if there is none."""
    data = store.read_if_there(MANIFEST_NAME, MAX_MANIFEST_BYTES + 1)
    if data is None:
        text = f"{store.url / MANIFEST_NAME} does not exist: there is no record set at this address."
        raise ManifestError(text, path=str(store.url), status=NOT_FOUND)
    return data


def _unnamed(pieces: Iterable[bytes]) -> int:
    """Return the descriptor of an unnamed file with these bytes."""
    with tempfile.TemporaryFile() as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        return os.dup(file.fileno())


SINGLE_VALUES = 16
"""After so many ranged reads of a shard, the whole shard is fetched, if the cache can hold the set."""

AHEAD_BYTES = 1 << 30
"""Maximum bytes of hinted, unread values; further values are fetched when they are read."""

_SHARDS_AT_ONCE = 2
_VALUES_AT_ONCE = 32

_Key = tuple[int, int, int]  # shard, length, offset


class RemoteShards(Shards):
    """The shards of a record set at a URL.

    If the cache can hold all of them, those of hinted values are fetched whole, in the background and in the order of
    their first use; `read` waits for them. All other values are fetched by one ranged read each, hinted ones in
    parallel.

    Args:
        directory: The record set's files.
        specs: The shards' entries in the manifest.

    Attributes:
        is_warned: Whether the user was warned that the cache cannot hold them.
    """

    is_warned = False

    def __init__(self, directory: RemoteDirectory, specs: Sequence[ShardSpec]) -> None:
        super().__init__(directory, specs)
        self._directory: RemoteDirectory = directory
        evictable.add(self._token)
        weakref.finalize(self, evictable.discard, self._token)
        self._refused: set[int] = set()  # shards that the cache did not take
        self._singles = collections.Counter[int]()  # ranged reads of each shard
        self._ahead = _Ahead()
        self._fetchers = Background(_SHARDS_AT_ONCE, "recordzoo-shards")
        self._readers = Background(_VALUES_AT_ONCE, "recordzoo-values")

    @functools.cached_property
    def limit_bytes(self) -> int:
        """Maximum size of the cache in bytes, as of the first use."""
        return self._directory.cache.limit()

    @property
    def fits_cache(self) -> bool:
        """Whether the cache can hold the record set."""
        return self._directory.size_bytes <= self.limit_bytes

    @override
    def read(self, number: int, length: int, offset: int) -> bytes:
        value = self._own().take((number, length, offset))
        if value is not None:
            return value
        if self._is_whole(number):
            try:
                return super().read(number, length, offset)
            except NotCachedError as err:
                self._refuse(number, err)
        return self._fetch(number, length, offset)

    @override
    def read_all(self, number: int, lengths: Sequence[int], offsets: Sequence[int]) -> list[bytes]:
        return [self.read(number, length, offset) for length, offset in zip(lengths, offsets, strict=True)]

    @override
    def read_again(self, number: int, length: int, offset: int, crc: int) -> bytes:
        """Remove the shard from the cache and return the bytes from the server."""
        name = self.specs[number].name
        shard_files.close((self._token, number))
        self._directory.drop(name)
        data = self._directory.read_range(name, offset, offset + length)
        if crc32(data) != crc or len(data) != length:
            raise self._directory.explained(name, None)
        return data

    @override
    def hint(self, rows: AnyArray) -> None:
        """Fetch values or their shards in the background."""
        self.will_need(rows)
        for number in np.unique(rows["shard"]).tolist():
            self._singles[number] += SINGLE_VALUES  # read whole from now on, if the cache can hold all
        alone = [number for number in np.unique(rows["shard"]).tolist() if not self._is_whole(number)]
        for row in rows[np.isin(rows["shard"], alone)]:
            key = (int(row["shard"]), int(row["length"]), int(row["offset"]))
            if key[2] + key[1] <= self.specs[key[0]].size_bytes:
                self._own().put(key, functools.partial(self._readers.submit, functools.partial(self._fetch, *key)))

    @override
    def will_need(self, rows: AnyArray) -> None:
        """Fetch the shards of values in the order of first use, if the cache can hold all shards.

        Values of one shard, or of two neighbours, are read in order: then the next shards are fetched, too.
        """
        found, first = np.unique(rows["shard"], return_index=True)
        numbers: list[int] = found[np.argsort(first)].tolist()
        super().will_need(rows)
        if self.fits_cache and numbers:
            last = max(numbers)
            if last - min(numbers) <= 1:
                numbers.extend(range(last + 1, min(last + 1 + _SHARDS_AT_ONCE, len(self.specs))))
            coming = self._own().coming
            for number in numbers:
                is_coming = number in coming and not coming[number].done()
                if number not in self._refused and not is_coming and not self._is_here(number):
                    coming[number] = self._fetchers.submit(functools.partial(self._bring, number))

    @override
    def _advise(self, number: int, begins: NDArray[np.uint64], ends: NDArray[np.uint64], advice: int) -> None:
        if self._is_here(number):
            with contextlib.suppress(NotCachedError):  # it was just evicted
                super()._advise(number, begins, ends, advice)

    @override
    def _open(self, number: int) -> int:
        close_evicted()
        return super()._open(number)

    def _own(self) -> "_Ahead":
        if self._ahead.pid != os.getpid():
            self._ahead = _Ahead()
        return self._ahead

    def _is_here(self, number: int) -> bool:
        """Whether a shard can be read from the cache; records its use."""
        spec = self.specs[number]
        fd = self._directory.cache.find(self._directory.digest, spec.name, spec.size_bytes)
        if fd is not None:
            os.close(fd)
        return fd is not None

    def _is_whole(self, number: int) -> bool:
        """Whether a shard is read whole through the cache."""
        if shard_files.has((self._token, number)):
            return True
        is_wanted = self._singles[number] >= SINGLE_VALUES
        return (is_wanted and self.fits_cache and number not in self._refused) or self._is_here(number)

    def _fetch(self, number: int, length: int, offset: int) -> bytes:
        self._singles[number] += 1
        return self._directory.read_range(self.specs[number].name, offset, offset + length)

    def _bring(self, number: int) -> None:
        try:
            os.close(self._open(number))
        except NotCachedError as err:
            self._refuse(number, err)
        except RecordError as err:
            logger.debug("not fetched ahead: %s", err)

    def _refuse(self, number: int, err: NotCachedError) -> None:
        """Read the values of a shard past the cache from now on; if the cache is full, those of all shards."""
        if not self._refused:
            logger.warning("%s: values are fetched one by one, because %s.", self._directory.path, err)
        self._refused.update([number] if isinstance(err, InTheWayError) else range(len(self.specs)))


class _Ahead:
    """What this process fetches in the background; a forked child starts with nothing."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.coming: dict[int, Future[None]] = {}  # by shard
        self._lock = threading.Lock()
        self._values: OrderedDict[_Key, Future[bytes]] = OrderedDict()
        self._num_bytes = 0

    def put(self, key: _Key, submit: Callable[[], Future[bytes]]) -> None:
        """Fetch a value, unless it comes; forget the oldest ones if there are too many bytes."""
        with self._lock:
            if key not in self._values:
                self._values[key] = submit()
                self._num_bytes += key[1]
            while self._num_bytes > AHEAD_BYTES:
                self._num_bytes -= self._values.popitem(last=False)[0][1]

    def take(self, key: _Key) -> bytes | None:
        """Wait for a value and forget it; None if it was not fetched, or could not be: the caller does that."""
        if not self._values:
            return None
        with self._lock:
            value = self._values.pop(key, None)
            self._num_bytes -= 0 if value is None else key[1]
        try:
            return None if value is None else value.result()
        except RecordError as err:
            logger.debug("not fetched ahead: %s", err)
            return None


class Streamed:
    """The files at a URL for `verify`, which does not use the cache: each `open` fetches a file.

    Raises:
        ManifestError: There is no manifest: it is not a record set.
        RemoteError: The server cannot be reached, or refuses access.
    """

    def __init__(self, url: Url) -> None:
        self.path, self.store = url, Store(url)
        self._manifest = _manifest(self.store)
        self._sizes: dict[str, int | None] = {}  # stays empty if the server cannot list
        with contextlib.suppress(RemoteError):
            self._sizes = {name: entry.size_bytes for name, entry in self.store.entries().items()}

    def listed(self) -> set[str]:
        """Return the names of the existing files, as far as they can be listed."""
        return set(self._sizes)

    def open(self, name: str, size_bytes: int | None = None) -> int:
        """Fetch a file of `size_bytes`, or the manifest, and return its descriptor."""
        if size_bytes is None:
            return _unnamed([self._manifest])
        self._check_size(name, size_bytes)
        return _unnamed(self.store.pieces(name, size_bytes))

    def head(self, name: str, num_bytes: int, size_bytes: int) -> bytes:
        """Return the first bytes of a file of `size_bytes`."""
        self._check_size(name, size_bytes)
        return self.store.read_range(name, 0, num_bytes, size_bytes)

    def _check_size(self, name: str, size_bytes: int) -> None:
        if (found := self._sizes.get(name)) is None:
            found = self.store.size(name)
        if found != size_bytes:
            what = "is missing" if found is None else f"has {found:,} bytes instead of {size_bytes:,}"
            raise CorruptRecordError(f"{self.path / name} {what}.", path=str(self.path / name))
