"""`Shards`: the shard files of a record set, opened when they are first read; on this machine."""

import itertools
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.arrays import AnyArray
from recordzoo.errors import RecordError
from recordzoo.records.files import AnyDirectory, Lease, pread, shard_files
from recordzoo.records.manifest import ShardSpec
from recordzoo.system.files import DONT_NEED, WILL_NEED, advise

_tokens = itertools.count()


class Shards:
    """The shards of a record set, in its directory.

    Args:
        directory: Opens them.
        specs: What the manifest says of them.
    """

    def __init__(self, directory: AnyDirectory, specs: Sequence[ShardSpec]) -> None:
        self._directory, self.specs = directory, specs
        self._token = next(_tokens)
        weakref.finalize(self, shard_files.drop, self._token)

    def read(self, number: int, length: int, offset: int) -> bytes:
        """Return bytes of a shard; fewer only at its end.

        Raises:
            RecordError: It cannot be opened.
            OSError: It cannot be read.
        """
        lease = self._lease(number)
        try:
            return pread(lease.fd, length, offset)
        finally:
            shard_files.release(lease)

    def read_again(self, number: int, length: int, offset: int) -> bytes | None:
        """Return bytes that were damaged from where they came from; None if there is no such place.

        Raises:
            RecordError: They cannot be read there.
        """
        return None

    def hint(self, rows: AnyArray) -> None:
        """Tell the kernel that values will be read soon; a shard that cannot be opened is left to `read`."""
        self._advise_values(rows)

    def will_need(self, rows: AnyArray) -> None:
        """Do what `hint` does, for values that another process of this machine may read."""
        self._advise_values(rows)

    def forget(self, rows: AnyArray) -> None:
        """Tell the kernel that values will not be read again soon; pages that they share with others are kept."""
        if advise is None:
            return
        for number in np.unique(rows["shard"]).tolist():
            here = np.sort(rows[rows["shard"] == number], order="offset")
            begins, ends = here["offset"], here["offset"] + here["length"]
            apart = begins[1:] >= ends[:-1] + self.specs[number].page_size
            first, last = np.append(True, apart), np.append(apart, True)
            self._advise(number, begins[first], ends[last], DONT_NEED)

    def _advise_values(self, rows: AnyArray) -> None:
        if advise is None:
            return
        for number in np.unique(rows["shard"]).tolist():
            here = rows[rows["shard"] == number]
            self._advise(number, here["offset"], here["offset"] + here["length"], WILL_NEED)

    def _advise(self, number: int, begins: NDArray[np.uint64], ends: NDArray[np.uint64], advice: int) -> None:
        """Say one thing of ranges of a shard; one that cannot be opened is left to `read`."""
        try:
            lease = self._lease(number)
        except RecordError:
            return
        size = self.specs[number].size_bytes
        assert advise is not None
        try:
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                if begin <= end <= size:  # a forged offset may have wrapped the end around
                    advise(lease.fd, begin, end - begin, advice)
        finally:
            shard_files.release(lease)

    def _lease(self, number: int) -> Lease:
        return shard_files.acquire((self._token, number), self._open)

    def _open(self, number: int) -> int:
        spec = self.specs[number]
        return self._directory.open(spec.name, spec.size_bytes)
