"""`RemoteShards`: shards at a URL, whole through the cache, or one ranged read for each value."""

import collections
import contextlib
import functools
import logging
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.arrays import AnyArray
from recordzoo.errors import RecordError
from recordzoo.net.background import Background
from recordzoo.net.cache import InTheWayError, NotCachedError
from recordzoo.records.files import close_evicted, evictable, shard_files
from recordzoo.records.manifest import ShardSpec
from recordzoo.records.remote_directory import RemoteDirectory
from recordzoo.records.shards import Shards

logger = logging.getLogger("recordzoo")

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
        self._limit: int | None = None
        self._hinted: set[int] = set()  # shards that this process reads whole
        self._refused: set[int] = set()  # shards that the cache did not take
        self._singles = collections.Counter[int]()
        self._ahead = _Ahead()
        self._fetchers = Background(_SHARDS_AT_ONCE, "recordzoo-shards")
        self._readers = Background(_VALUES_AT_ONCE, "recordzoo-values")

    @property
    def limit_bytes(self) -> int:
        """Maximum size of the cache in bytes, as of the first use."""
        if self._limit is None:
            self._limit = self._directory.cache.limit()
        return self._limit

    @property
    def fits_cache(self) -> bool:
        """Whether the cache can hold the record set."""
        return self._directory.size_bytes <= self.limit_bytes

    @override
    def read(self, number: int, length: int, offset: int) -> bytes:
        """Return bytes of a shard.

        Raises:
            RecordError: They cannot be fetched.
            OSError: They cannot be read from the cache.
        """
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
    def read_again(self, number: int, length: int, offset: int) -> bytes:
        """Remove the shard from the cache and return the bytes from the server.

        Raises:
            RecordError: The server cannot be read.
        """
        name = self.specs[number].name
        shard_files.close((self._token, number))
        self._directory.drop(name)
        return self._directory.read_range(name, offset, offset + length)

    def changed(self, number: int) -> RecordError:
        """Return the error for a value that is damaged at the server too."""
        return self._directory.explained(self.specs[number].name, None)

    @override
    def hint(self, rows: AnyArray) -> None:
        """Fetch values or their shards in the background."""
        if self.fits_cache:
            self._hinted.update(np.unique(rows["shard"]).tolist())
        self.will_need(rows)
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
        here = [number for number in numbers if self._is_here(number)]
        self._advise_values(rows[np.isin(rows["shard"], here)])
        if self.fits_cache and numbers:
            last = max(numbers)
            if last - min(numbers) <= 1:
                numbers.extend(range(last + 1, min(last + 1 + _SHARDS_AT_ONCE, len(self.specs))))
            for number in numbers:
                if number not in self._refused and not self._is_here(number) and self._own().begin(number):
                    self._fetchers.submit(functools.partial(self._bring, number))

    @override
    def forget(self, rows: AnyArray) -> None:
        """Do as `Shards.forget`, for shards in the cache."""
        here = [number for number in np.unique(rows["shard"]).tolist() if self._is_here(number)]
        super().forget(rows[np.isin(rows["shard"], here)])

    @override
    def _advise(self, number: int, begins: NDArray[np.uint64], ends: NDArray[np.uint64], advice: int) -> None:
        with contextlib.suppress(NotCachedError):  # it was just evicted
            super()._advise(number, begins, ends, advice)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("A reader pickles, its shards do not.")

    @override
    def _open(self, number: int) -> int:
        close_evicted()
        return super()._open(number)

    def _own(self) -> "_Ahead":
        if self._ahead.pid != os.getpid():
            self._ahead = _Ahead()
        return self._ahead

    def _is_here(self, number: int) -> bool:
        """Whether a shard is in the cache."""
        return self._directory.is_here(self.specs[number].name)

    def _is_whole(self, number: int) -> bool:
        """Whether a shard is read whole through the cache."""
        if shard_files.has((self._token, number)):
            return True
        is_wanted = number in self._hinted or self._singles[number] >= SINGLE_VALUES
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
        finally:
            self._own().coming.discard(number)

    def _refuse(self, number: int, err: NotCachedError) -> None:
        """Read the values of a shard past the cache from now on; if the cache is full, those of all shards."""
        if not self._refused:
            logger.warning("%s: values are fetched one by one, because %s.", self._directory.path, err)
        self._refused.update([number] if isinstance(err, InTheWayError) else range(len(self.specs)))


class _Ahead:
    """What this process fetches in the background; a forked child starts with nothing."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.coming: set[int] = set()  # shards
        self._lock = threading.Lock()
        self._values: OrderedDict[_Key, Future[bytes]] = OrderedDict()
        self._num_bytes = 0

    def begin(self, number: int) -> bool:
        """Record that a shard is fetched; False if it is already."""
        with self._lock:
            is_new = number not in self.coming
            self.coming.add(number)
            return is_new

    def put(self, key: _Key, submit: "functools.partial[Future[bytes]]") -> None:
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
