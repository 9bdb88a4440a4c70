"""`Ahead`: fetch an epoch's next shards from record sets at URLs, as far as they fit in the cache."""

import contextlib
import warnings
from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from recordzoo.base.progress import format_bytes
from recordzoo.families.selection import Selection
from recordzoo.records.reader import RecordReader
from recordzoo.sampling.epoch import CHUNK, Epoch
from recordzoo.sampling.storage import FIELD, leaves_of, locate

if TYPE_CHECKING:
    from recordzoo.records.remote_shards import RemoteShards  # its imports are slow

_STEPS_AT_ONCE = 8  # steps planned per advance, so that no batch waits for the plan of the whole epoch

_MAX_WASTE = 3
"""Maximum number of shard bytes fetched per byte of samples. Above it, the samples are fetched one by one."""

_warned: set[str] = set()


class Ahead:
    """Plans the next reads of one rank in an epoch.

    Args:
        shuffle: As in the sampler; True reads from all shards at any time.
    """

    def __init__(self, dataset: Sized, epoch: Epoch, readers: list[RecordReader], shuffle: object) -> None:
        self._dataset, self._epoch = dataset, epoch
        self._scanned = epoch.first
        self._plans = {reader.digest: _ShardPlan(reader, is_random=shuffle is True) for reader in readers}
        for reader in readers:
            if shuffle is True and self._plans[reader.digest].is_alone:
                _warn(reader)
        self.step = min([CHUNK, *(plan.step for plan in self._plans.values())])

    def advance(self, start: int) -> None:
        """Fetch the shards needed from this rank's place number `start` on."""
        self._scanned = max(self._scanned, start)
        for plan in self._plans.values():
            plan.pass_by(start)
        for _ in range(_STEPS_AT_ONCE):
            if self._scanned >= self._epoch.end or not self._look(start):
                return

    def _look(self, start: int) -> bool:
        """Plan the next places; return whether the cache had room for their shards."""
        end = min(self._scanned + self.step, self._epoch.end)
        located = locate(self._dataset, self._epoch.indices(self._scanned, end))
        if located is None:
            return False
        for number, reader in enumerate(located.readers):
            plan = self._plans.get(reader.digest)
            if plan is None or plan.is_alone:
                continue
            shards = plan.shards_of(located.positions[located.numbers == number])
            if plan.has_room(shards):
                plan.add(shards, self._scanned, end - self._scanned)
            elif self._scanned > start:
                return False
            else:  # the current samples do not fit, whatever was fetched before
                plan.is_alone = True
        self._scanned = end
        return any(not plan.is_alone for plan in self._plans.values())


class _ShardPlan:
    """The shards of one record set needed in the planned part of the epoch."""

    def __init__(self, reader: RecordReader, *, is_random: bool) -> None:
        assert reader.remote is not None
        self._reader, self._remote = reader, reader.remote
        self._sizes = [spec.size_bytes for spec in reader.manifest.shards]
        self._last: dict[int, int] = {}  # shard → the last known place that needs it
        self._budget = self._remote.ahead_bytes
        self._brought = self._covered = 0.0  # bytes of shards, and those of the samples for which they were fetched
        self.is_alone = self._remote.holds != "all" if is_random else self._remote.holds == "none"
        self._mean_bytes = max(1, sum(self._sizes) // max(1, len(reader)))
        if not self.is_alone:
            self._remote.plan(self)
        self.step = max(1, self._budget // self._mean_bytes // 8) if self._remote.holds == "some" else CHUNK

    def shards_of(self, positions: Any) -> list[int]:
        """Return the shards of positions, in the order in which they are first needed."""
        numbers = self._reader.array(f"{FIELD}.index")["shard"][positions]
        found, first = np.unique(numbers[numbers < len(self._sizes)], return_index=True)
        ordered: list[int] = found[np.argsort(first)].tolist()
        return ordered

    def has_room(self, shards: list[int]) -> bool:
        """Whether the cache can hold shards in addition to those needed before them. A single shard always has room."""
        needed = {*self._last, *shards}
        return sum(self._sizes[shard] for shard in needed) <= self._budget or len(needed) <= 1

    def add(self, shards: list[int], place: int, num_samples: int) -> None:
        """Fetch the shards of the next samples; stop fetching whole shards if most of their bytes stay unread."""
        new = [shard for shard in shards if shard not in self._last]
        self._remote.bring(new)
        self._last.update(dict.fromkeys(shards, place))
        self._brought += sum(self._sizes[shard] for shard in new)
        self._covered += num_samples * self._mean_bytes
        is_wasted = self._brought > 2 * self._budget and self._brought > _MAX_WASTE * self._covered
        self.is_alone = is_wasted and self._remote.holds == "some"

    def pass_by(self, start: int) -> None:
        """Forget the shards needed only before a place, and record the use of the others."""
        self._last = {shard: place for shard, place in self._last.items() if place + self.step > start}
        self._remote.touch(self._last)


def ahead_of(dataset: Sized, epoch: Epoch, shuffle: object) -> Ahead | None:
    """Return the `Ahead` of an epoch; None if no record set of the dataset is at a URL."""
    readers = {reader.digest: reader for reader, _ in _remotes(dataset)}
    return Ahead(dataset, epoch, list(readers.values()), shuffle) if readers else None


@contextlib.contextmanager
def keeping_values(dataset: Sized) -> Iterator[None]:
    """Fetch each value of record sets at URLs only once within the block."""
    with contextlib.ExitStack() as stack:
        for _, remote in _remotes(dataset):
            stack.enter_context(remote.keeping_values())
        yield


def planned_sets(dataset: Sized) -> set[str] | None:
    """Return the digests of the record sets at URLs whose shards are fetched ahead; None if none is at a URL."""
    remotes = list(_remotes(dataset))
    return {reader.digest for reader, remote in remotes if remote.is_planned} if remotes else None


def follow_plans(dataset: Sized, planned: set[str]) -> None:
    """Wait for the shards of these record sets from now on: another process fetches them ahead."""
    for reader, remote in _remotes(dataset):
        remote.is_planned_elsewhere = reader.digest in planned


def _remotes(dataset: Sized) -> Iterator[tuple[RecordReader, "RemoteShards"]]:
    """Iterate over the record sets at URLs."""
    for leaf in leaves_of(dataset):
        selection = getattr(leaf, "_selection", None)
        if isinstance(selection, Selection) and FIELD in selection.reader.manifest.blobs:
            reader = selection.reader
            if reader.remote is not None:
                yield reader, reader.remote


def _warn(reader: RecordReader) -> None:
    """Warn once per process and record set that images are fetched one by one."""
    assert reader.remote is not None
    if reader.digest in _warned:
        return
    _warned.add(reader.digest)
    total = sum(spec.size_bytes for spec in reader.manifest.shards)
    warnings.warn(
        f"{reader.path} has {format_bytes(total)}, and the cache may take {format_bytes(reader.remote.limit_bytes)}: "
        f"with shuffle=True each image is a request of its own. Set RECORDZOO_CACHE_BYTES to at least "
        f"{-(-total // 10**9)}e9, or "
        'pass shuffle="block".',
        stacklevel=2,
    )
