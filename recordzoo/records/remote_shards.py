"""`RemoteShards`: shards at a URL, fetched whole into the cache, or value by value if the cache is too small."""

import contextlib
import functools
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from typing_extensions import override

from recordzoo.base import settings
from recordzoo.base.arrays import AnyArray
from recordzoo.errors import RecordError
from recordzoo.net.background import Background
from recordzoo.net.cache import NoRoomError
from recordzoo.records.files import close_evicted, evictable, shard_files
from recordzoo.records.manifest import ShardSpec
from recordzoo.records.remote_directory import RemoteDirectory
from recordzoo.records.shards import Shards
from recordzoo.records.spans import Ahead, Span, near

logger = logging.getLogger("recordzoo")

IN_A_ROW = 16
"""After this many values in a row from one shard, the whole shard is fetched: it is read in storage order."""

_SHARDS_AT_ONCE = 2
_SPANS_AT_ONCE = 32


class ReadPlan(Protocol):
    """A plan of the shards to read next."""

    is_alone: bool
    """Whether it has given up: values are fetched one by one."""


class RemoteShards(Shards):
    """The shards of a record set at a URL.

    If the cache can hold all shards, each is fetched whole on first use. If it can hold some, a shard is fetched whole
    when a plan says so (`bring`) or when it is read in storage order; other values are fetched one by one. If it can
    hold fewer than two, all values are fetched one by one. Values named by `hint` are fetched together, near ones by
    one request.

    Args:
        directory: The record set's files.
        specs: The shards' entries in the manifest.

    Attributes:
        is_planned_elsewhere: Whether another process prefetches whole shards for this one, which waits for them.
    """

    def __init__(self, directory: RemoteDirectory, specs: Sequence[ShardSpec]) -> None:
        super().__init__(directory, specs)
        self._directory: RemoteDirectory = directory
        evictable.add(self._token)
        weakref.finalize(self, evictable.discard, self._token)
        self._sizes = [spec.size_bytes for spec in specs]
        self.is_planned_elsewhere = False
        self._plan: Callable[[], ReadPlan | None] = lambda: None
        self._holds: Literal["", "all", "some", "none"] = ""
        self._limit = 0
        self._ahead = Ahead()
        self._kept: dict[tuple[int, int, int], bytes] | None = None
        self._fetchers = Background(_SHARDS_AT_ONCE, "recordzoo-shards")
        self._readers = Background(_SPANS_AT_ONCE, "recordzoo-values")

    @property
    def holds(self) -> Literal["all", "some", "none"]:
        """Whether the cache can hold all, some or none of the shards; "none" if fewer than two."""
        if not self._holds:
            self._limit = self._directory.cache.limit()
            is_small = 2 * max(self._sizes, default=0) > self._limit
            self._holds = "all" if sum(self._sizes) <= self._limit else "none" if is_small else "some"
        return self._holds

    @property
    def limit_bytes(self) -> int:
        """Maximum size of the cache in bytes."""
        return self._limit if self.holds else 0

    @property
    def ahead_bytes(self) -> int:
        """Bytes of shards that may be prefetched: half of the cache, divided by the ranks on this machine."""
        return self._limit // 2 // settings.ranks_here() if self.holds == "some" else sum(self._sizes)

    @override
    def read(self, number: int, length: int, offset: int) -> bytes:
        """Return bytes of a shard.

        Raises:
            RecordError: They cannot be fetched.
            OSError: They cannot be read from the cache.
        """
        ahead = self._own()
        span = ahead.take((number, offset, length)) if ahead.spans else None
        if span is not None and (data := span.value(offset, length)) is not None:
            return data
        if self._is_whole(number):
            try:
                return super().read(number, length, offset)
            except NoRoomError as err:
                self._no_room(err)
        kept, key = self._kept, (number, offset, length)
        if kept is not None and key in kept:
            return kept[key]
        data = self._directory.read_range(self.specs[number].name, offset, offset + length)
        if kept is not None:
            kept[key] = data
        return data

    @contextlib.contextmanager
    def keeping_values(self) -> Iterator[None]:
        """Keep values that are fetched one by one in memory until the block ends, so that rereading is free."""
        self._kept = {}
        try:
            yield
        finally:
            self._kept = None

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
        self.will_need(rows)
        if self.holds == "all" or self.is_planned:
            return
        alone = [number for number in _in_order(rows["shard"]) if not self._is_whole(number, is_read=False)]
        if alone:
            self._fetch_values(rows[np.isin(rows["shard"], alone)])

    @override
    def will_need(self, rows: AnyArray) -> None:
        """Fetch the shards of values in the order of first use, if the cache can hold all shards."""
        here = [number for number in np.unique(rows["shard"]).tolist() if self._is_here(number)]
        self._advise_values(rows[np.isin(rows["shard"], here)])
        if self.holds == "all":
            self.bring([number for number in _in_order(rows["shard"]) if number not in here])

    @override
    def forget(self, rows: AnyArray) -> None:
        """Do as `Shards.forget`, for shards in the cache."""
        here = [number for number in np.unique(rows["shard"]).tolist() if self._is_here(number)]
        super().forget(rows[np.isin(rows["shard"], here)])

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("A reader pickles, its shards do not.")

    @override
    def _open(self, number: int) -> int:
        close_evicted()
        return super()._open(number)

    def _own(self) -> Ahead:
        if self._ahead.pid != os.getpid():
            self._ahead = Ahead()
        return self._ahead

    def _is_here(self, number: int) -> bool:
        """Whether a shard is in the cache."""
        return self._directory.is_here(self.specs[number].name)

    def _is_whole(self, number: int, *, is_read: bool = True) -> bool:
        """Whether a shard is read whole through the cache."""
        if self.holds == "all" or shard_files.has((self._token, number)):
            return True
        if self._is_here(number):
            return True
        if self.holds == "none":
            return False
        if self.is_planned:
            return True
        ahead = self._own()
        if number in ahead.coming or self._directory.is_coming(self.specs[number].name):
            return True
        if is_read:
            shard, count = ahead.last
            ahead.last = (number, count + 1 if shard == number else 1)
        return ahead.last[0] == number and ahead.last[1] >= IN_A_ROW

    def plan(self, plan: ReadPlan) -> None:
        """Read shards whole while `plan` lives: it calls `bring` for each shard in time."""
        self._plan = weakref.ref(plan)

    @property
    def is_planned(self) -> bool:
        """Whether there is a plan, in this process or in the process that gives it work."""
        plan = self._plan()
        return self.is_planned_elsewhere or (plan is not None and not plan.is_alone)

    def touch(self, numbers: Iterable[int]) -> None:
        """Record the use of shards, so that the cache keeps them longer."""
        for number in numbers:
            self._is_here(number)

    def bring(self, numbers: Sequence[int]) -> None:
        """Fetch shards in the background, in this order, unless they are cached or being fetched."""
        ahead = self._own()
        for number in numbers:
            if self._is_here(number):
                continue
            with ahead.lock:
                if number in ahead.coming:
                    continue
                ahead.coming.add(number)
            self._fetchers.submit(functools.partial(self._bring, ahead, number))

    def _bring(self, ahead: Ahead, number: int) -> None:
        try:
            os.close(self._open(number))
        except NoRoomError as err:
            self._no_room(err)
        except RecordError as err:
            logger.debug("not fetched ahead: %s", err)
        finally:
            ahead.coming.discard(number)

    def _fetch_values(self, rows: AnyArray) -> None:
        """Fetch values in the background, near ones by one request."""
        ahead = self._own()
        rows = np.sort(np.unique(rows), order=("shard", "offset"))
        keys = [
            (int(row["shard"]), int(row["offset"]), int(row["length"]))
            for row in rows
            if int(row["offset"]) + int(row["length"]) <= self.specs[int(row["shard"])].size_bytes
        ]
        for group in near([key for key in keys if key not in ahead.spans]):
            number, begin, _ = group[0]
            end = max(offset + length for _, offset, length in group)
            work = functools.partial(self._directory.read_range, self.specs[number].name, begin, end)
            data = self._readers.submit(work)
            ahead.put(Span(begin, end, data, set(group)))

    def _no_room(self, err: NoRoomError) -> None:
        if self._holds != "none":
            self._holds = "none"
            logger.warning("%s: values are fetched one by one, because %s.", self._directory.path, err)


def _in_order(numbers: AnyArray) -> list[int]:
    """Return each number once, in the order of first occurrence."""
    found, first = np.unique(numbers, return_index=True)
    ordered: list[int] = found[np.argsort(first)].tolist()
    return ordered
